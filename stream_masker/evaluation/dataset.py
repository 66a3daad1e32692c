"""Data sets to evaluate mechanisms on, and their masking with their own statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stream_masker.core.batch import Batch, Distortion, MaskedBatch
from stream_masker.core.distance import Distance, distance_on, distortion_of
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import Counts, Statistics, compute_statistics, count_batch
from stream_masker.core.statistics.counts import joined
from stream_masker.core.statistics.drift import Utility, utility

SAMPLE_SEED = 2017
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
    def counts(self) -> Counts:
        """The counts of the original records."""
        return self._counts(self.whole)

    @cached_property
    def statistics(self) -> Statistics:
        """The statistics of the original records."""
        return self.statistics_of(self.whole)

    def statistics_of(self, batch: Batch) -> Statistics:
        """Return the statistics of these or of masked records."""
        return compute_statistics(self._counts(batch), self.attributes, self.distances, version=1)

    def calibrated(self, mechanism: Mechanism) -> Mechanism:
        """Return the mechanism with the statistics of the records in force.

        Raises StatisticsError if it cannot use them.
        """
        return mechanism.with_statistics(mechanism.compute(self.counts, version=1), self.counts)

    def mask(self, mechanism: Mechanism) -> MaskedBatch:
        """Mask all records with a calibrated mechanism."""
        start, done = 0, []
        for batch in self.batches:
            offsets = np.arange(start, start + batch.size, dtype=np.int64)
            done.append(mechanism.mask_batch(batch, PositionKeys(self.secret, DATASET_NAME, 0, offsets)))
            start += batch.size
        after = joined([Batch(b.size, m.columns) for b, m in zip(self.batches, done, strict=True)])
        distortions = [sum(column, Distortion()) for column in zip(*(m.distortions for m in done), strict=True)]
        return MaskedBatch(after.columns, tuple(distortions))

    def utility(self, mechanism: Mechanism, masked: MaskedBatch, after: Statistics) -> Utility:
        """Return the utility of masked records by the metrics of 2017, in the distances of the data set.

        ``after``: the statistics of the masked records.
        """
        columns = zip(self.whole.columns, masked.columns, self.distances, masked.distortions, strict=True)
        distortions = [
            replace(own, squared_distance=distortion_of(before.codes, mask.codes, d).squared_distance)
            for before, mask, d, own in columns
        ]
        alpha = getattr(mechanism, "alpha", dict.fromkeys(self.attributes, 0.0))
        return utility(self.statistics, after, distortions, alpha, self.distances)

    def _counts(self, batch: Batch) -> Counts:
        return count_batch(batch, [len(tau) for tau in self.taxonomies.values()])


def sampled(batch: Batch, records: int, group_records: int) -> tuple[Batch, ...]:
    """Return a random sample of the records, always the same, in groups of about equal size of at least
    ``group_records``.

    ``records``: the size of the sample; 0 for all.
    """
    size = min(records or batch.size, batch.size)
    rows = np.sort(np.random.default_rng(SAMPLE_SEED).permutation(batch.size)[:size])
    return tuple(batch.take(part) for part in np.array_split(rows, max(1, size // group_records)))
