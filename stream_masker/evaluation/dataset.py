"""Data sets to evaluate mechanisms on, their masking with their own statistics, and what masking loses of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stream_masker.core.batch import Batch, Distortion, MaskedBatch
from stream_masker.core.distance import Distance, distance_on, distortion_of
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import Counts, Statistics, compute_statistics, count_batch, merge
from stream_masker.core.statistics.utility import Utility, utility
from stream_masker.core.window import joined

EVALUATION_SEED = 2017
"""The seed of samples: it is not secret, because a sample masks nothing."""

DATASET_NAME = "evaluation"
"""Replaces the topic in the keys of records."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Records to evaluate mechanisms on.

    * ``batches``: the records in groups, which mechanisms that need groups mask one by one.
    * ``taxonomies``: the attributes, in the order of the columns.
    * ``secret``: the secret of the masks.
    * ``distance``: the name of the semantic distance that the measures use.
    * ``available``: the number of records of the source, of which these are a random sample; None if they are all.
    * ``left_out``: the number of events of the source that cannot be masked as configured.
    """

    batches: tuple[Batch, ...]
    taxonomies: Mapping[str, Taxonomy]
    secret: bytes
    distance: str = "wu_palmer"
    available: int | None = None
    left_out: int = 0

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(self.taxonomies)

    @cached_property
    def distances(self) -> tuple[Distance, ...]:
        """The semantic distance of each attribute."""
        return tuple(distance_on(tau, self.distance) for tau in self.taxonomies.values())

    @cached_property
    def whole(self) -> Batch:
        """All records as one batch."""
        return joined(self.batches)

    @cached_property
    def channel_cells(self) -> int:
        """The number of transition probabilities from the values in use to all concepts, of the largest attribute."""
        columns = zip(self.whole.columns, self.taxonomies.values(), strict=True)
        return max((np.unique(column.codes).size * len(tau) for column, tau in columns), default=0)

    @cached_property
    def statistics(self) -> Statistics:
        """The statistics of the original records."""
        return self.statistics_of(self.whole)

    def statistics_of(self, batch: Batch) -> Statistics:
        """Return the statistics of these or of masked records."""
        return compute_statistics(self._counts([batch]), self.attributes, self.distances, version=1)

    def calibrated(self, mechanism: Mechanism) -> Mechanism:
        """Return the mechanism with the statistics of the records in force.

        Raises StatisticsError if it cannot use them.
        """
        counts = self._counts(self.batches)
        if [d.name for d in mechanism.distances] == [d.name for d in self.distances]:
            return mechanism.with_statistics(mechanism.completed(self.statistics, counts), counts)
        return mechanism.with_statistics(mechanism.compute(counts, version=1), counts)

    def mask(self, mechanism: Mechanism, secret: bytes | None = None) -> MaskedBatch:
        """Mask all records with a calibrated mechanism, under the data set's secret or another one."""
        starts = np.cumsum([0, *(batch.size for batch in self.batches)]).tolist()
        keys = [
            keys_of(self.secret if secret is None else secret, start, batch.size)
            for batch, start in zip(self.batches, starts, strict=False)
        ]
        done = [mechanism.mask_batch(batch, of_batch) for batch, of_batch in zip(self.batches, keys, strict=True)]
        after = joined([Batch(b.size, m.columns) for b, m in zip(self.batches, done, strict=True)])
        distortions = [sum(column, Distortion()) for column in zip(*(m.distortions for m in done), strict=True)]
        return MaskedBatch(after.columns, tuple(distortions))

    def _counts(self, batches: Iterable[Batch]) -> Counts:
        return merge(count_batch(batch, [len(tau) for tau in self.taxonomies.values()]) for batch in batches)


def sampled(batch: Batch, records: int, group_records: int) -> tuple[Batch, ...]:
    """Return a random sample of the records, always the same, in groups of about equal size of at least
    ``group_records``.

    ``records``: the size of the sample; 0 for all.
    """
    size = min(records or batch.size, batch.size)
    rows = np.sort(np.random.default_rng(EVALUATION_SEED).permutation(batch.size)[:size])
    return tuple(batch.take(part) for part in np.array_split(rows, max(1, size // group_records)))


def keys_of(secret: bytes, start: int, size: int) -> PositionKeys:
    """Return the keys of ``size`` records of the data set, from record ``start`` on."""
    return PositionKeys(secret, DATASET_NAME, 0, np.arange(start, start + size, dtype=np.int64))


def utility_of(mechanism: Mechanism, data: DataSet, masked: MaskedBatch, after: Statistics | None = None) -> Utility:
    """Return the utility of masked records by the metrics of 2017. ``after``: their statistics, if they are known."""
    if after is None:
        after = data.statistics_of(Batch(data.whole.size, masked.columns))
    alpha = getattr(mechanism, "alpha", dict.fromkeys(data.attributes, 0.0))
    errors = zip(masked.distortions, semantic_errors(data.whole, masked, data.distances), strict=True)
    distortions = [replace(of_mechanism, squared_distance=error) for of_mechanism, error in errors]
    return utility(data.statistics, after, distortions, alpha, data.distances)


def semantic_errors(original: Batch, masked: MaskedBatch, distances: Sequence[Distance]) -> list[float]:
    """Return Σ sd(a, a*)² of each attribute."""
    columns = zip(original.columns, masked.columns, distances, strict=True)
    return [distortion_of(before.codes, after.codes, d).squared_distance for before, after, d in columns]
