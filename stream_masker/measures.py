"""Measures of masked records for users of the library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from stream_masker.core.batch import Batch, Distortion, MaskedBatch, unchanged_records
from stream_masker.core.distance import distortion_of
from stream_masker.core.mechanisms import Mechanism
from stream_masker.core.mechanisms.encoding import Record
from stream_masker.core.random import PositionKeys
from stream_masker.core.risk.law import SECRET
from stream_masker.core.statistics import Counts, Statistics, compute_statistics, count_batch
from stream_masker.core.statistics.drift import Drift, Utility, drift_between, utility
from stream_masker.errors import ParameterError
from stream_masker.summary import MaskingReport

Records: TypeAlias = Iterable[Record]
"""Records as mappings from attributes to concept ids."""


def measure_utility(mechanism: Mechanism, original: Records, masked: Records) -> Utility:
    """Measure what masking preserves: mean, dispersion, correlation and RMSE (2017: section 5, metrics 1 to 5).

    * ``mechanism``: the mechanism that masked the records; its attributes, distances and noise level are used.
    * ``original``, ``masked``: n ≥ 1 records before and after masking, in the same order.

    ``expected`` says by how much the masks differ from new masks of the same records with the statistics in force, and
    ``verdict`` whether that can be chance: ``none``, ``watch`` or ``act``; None for mechanisms that mask groups.
    ``rmse_target`` is 0, because masked records do not tell the noise that was drawn. Raises ParameterError for
    different numbers of records, UnknownConceptError for a value that is no concept, and StatisticsError if an
    attribute has no value.
    """
    before, after = _encoded(mechanism, original, masked)
    again, counts = None, _counts(mechanism, after)
    if not mechanism.needs_group:
        masks = mechanism.mask_batch(before, PositionKeys(SECRET, "", 0, np.arange(before.size)))
        again = _statistics(mechanism, _counts(mechanism, replace(before, columns=masks.columns)))
    return utility(
        _statistics(mechanism, _counts(mechanism, before)),
        _statistics(mechanism, counts),
        _distortions(mechanism, before, after),
        getattr(mechanism, "alpha", dict.fromkeys(mechanism.attributes, 0.0)),
        mechanism.distances,
        expected=again,
        counts=counts,
    )


def measure_drift(before: Statistics | Mechanism, now: Mechanism) -> Drift:
    """Measure how the records of one calibration differ from those of an earlier one, and whether that is by chance.

    * ``now``: a calibrated mechanism. ``before``: the statistics of an earlier calibration, or a mechanism that has
      them, such as one that has restored a snapshot.

    The result has a ``verdict``: ``none`` if the difference can be chance, ``watch`` if it cannot, ``act`` if it is
    also large (``core.statistics.drift``). ``attributes[name]`` and ``pairs[a, b]`` have the figures, each with its
    null band and a verdict, and the blocks and codes that moved most. There are no pairs if ``now`` has only restored a
    snapshot. Raises StatisticsError for different attributes or taxonomies.
    """
    if not isinstance(now, Mechanism):
        raise ParameterError(f"now is of type {type(now).__name__}: use a calibrated mechanism")
    older = before.statistics if isinstance(before, Mechanism) else before
    if not isinstance(older, Statistics):
        raise ParameterError(f"before is of type {type(before).__name__}: use statistics or a calibrated mechanism")
    return drift_between(older, now.statistics, now.distances, now.counts)


def masking_report(mechanism: Mechanism, original: Records, masked: Records) -> MaskingReport:
    """Return what masking did to records: the risk, what stays as it was, and what is kept.

    The arguments and errors are those of ``measure_utility``; the mechanism must have calibrated itself.
    """
    before, after = _encoded(mechanism, original, masked)
    distortions = _distortions(mechanism, before, after)
    same = unchanged_records(before, MaskedBatch(after.columns, tuple(distortions)))
    return MaskingReport(
        mechanism.name,
        mechanism.risk(),
        {a: d.share(d.unchanged) for a, d in zip(mechanism.attributes, distortions, strict=True)},
        float(same.mean()),
        _statistics(mechanism, _counts(mechanism, before)),
        _statistics(mechanism, _counts(mechanism, after)),
        mechanism.promise,
    )


def _encoded(mechanism: Mechanism, original: Any, masked: Any) -> tuple[Batch, Batch]:
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(f"mechanism is of type {type(mechanism).__name__}: use the mechanism that masked them")
    before, after = mechanism.encode([*original]), mechanism.encode([*masked])
    if before.size != after.size:
        raise ParameterError(f"there are {before.size} original records and {after.size} masked ones: give the same")
    return before, after


def _distortions(mechanism: Mechanism, before: Batch, after: Batch) -> list[Distortion]:
    columns = zip(before.columns, after.columns, mechanism.distances, strict=True)
    return [distortion_of(one.codes, other.codes, d) for one, other, d in columns]


def _counts(mechanism: Mechanism, batch: Batch) -> Counts:
    return count_batch(batch, [len(d.taxonomy) for d in mechanism.distances])


def _statistics(mechanism: Mechanism, counts: Counts) -> Statistics:
    return compute_statistics(counts, mechanism.attributes, mechanism.distances, version=1)
