"""Semantic distance variances, covariance and correlation of a sliding window.

sdCov² consists of sums (see ``covariance``) that are kept for distances X minus a constant shift: the sums of each
attribute's rows, and Σ N_ab (X_A N X_B)_ab of the pair. If a change δ turns N into N', the latter grows by Σ δ_ab (X_A
(N + N') X_B)_ab, which has (changed pairs × distinct values) terms, not all pairs. A small change is applied with
cached distances (``kernels``), a large one with blocks of distances.
"""

from __future__ import annotations

import math

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.statistics.compensated import CompensatedSums
from stream_masker.core.statistics.counts import SparseCounts, combine, difference, marginals
from stream_masker.core.statistics.covariance import PairTable
from stream_masker.core.statistics.marginal import MAX_TREE_HEIGHT
from stream_masker.core.statistics.products import CountTable, table_product_sum
from stream_masker.core.statistics.sliding.kernels import product_of_means, slide_pairs
from stream_masker.core.statistics.sliding.marginal import SlidingMarginal, is_incremental
from stream_masker.errors import StatisticsError

MIN_SMALL_CHANGE = 16
"""A change of up to this many pairs is applied pair by pair, however many pairs the window has."""

MAX_INCREMENTAL_STEPS = 1 << 19
"""A larger change is applied pair by pair if (changed pairs × all pairs) is at most this."""


class SlidingPair:
    """The counts of a pair of attributes, and the sums that sdCov² consists of. Mutable."""

    def __init__(self, counts: SparseCounts, d_a: Distance, d_b: Distance) -> None:
        """Compute the sums from the counts. Raises StatisticsError if there are none."""
        self.counts = counts
        self.first_rows = counts.rows
        self._distances = d_a, d_b
        of_a, of_b = marginals(counts, len(d_b.taxonomy))
        self.a, self.b = SlidingMarginal(of_a, d_a), SlidingMarginal(of_b, d_b)
        table = self._table(counts)
        self._products = CompensatedSums(np.array([table_product_sum(table, table, self.a.shift, self.b.shift)]))

    def slide(self, change: SparseCounts, new: SparseCounts) -> None:
        """Apply a change of the counts; ``new``: the counts after it."""
        limit = max(MIN_SMALL_CHANGE, MAX_INCREMENTAL_STEPS // self.counts.keys.size)
        if change.keys.size > min(limit, self.a.max_rows, self.b.max_rows):
            self._slide_by_blocks(change, new)
        elif not self._slide_by_pairs(change):
            first, second = np.divmod(change.keys, self._concepts)
            self.a.prepare(np.unique(first))
            self.b.prepare(np.unique(second))
            self._slide_by_pairs(change)
        self.counts = new

    @property
    def covariance_squared(self) -> float:
        """sdCov² (2017: equation 18); negative if the distances are not of negative type."""
        if self.a.is_constant or self.b.is_constant:
            return 0.0
        n = self.counts.rows
        sides = self.a.value_sums.slot_of, self.a.means, self.b.value_sums.slot_of, self.b.means
        mixed = product_of_means(self.counts.keys, self.counts.counts, self._concepts, *sides) / n
        products = float(self._products.values[0]) / n**2
        return products + self.a.grand_mean * self.b.grand_mean - 2.0 * float(mixed)

    def _slide_by_pairs(self, change: SparseCounts) -> bool:
        a, b = self.a, self.b
        before, products = self.counts, self._products.sums_and_errors
        return slide_pairs(
            before.keys,
            before.counts,
            change.keys,
            change.counts,
            self._concepts,
            a.size,
            a.value_sums,
            b.size,
            b.value_sums,
            products,
        )

    def _slide_by_blocks(self, change: SparseCounts, new: SparseCounts) -> None:
        outer, inner = self._table(change), self._table(combine([self.counts, new]))
        self._products.add(np.array([table_product_sum(outer, inner, self.a.shift, self.b.shift)]))
        of_a, of_b = marginals(change, self._concepts)
        self.a.slide(of_a)
        self.b.slide(of_b)

    @property
    def _concepts(self) -> int:
        """The number of concepts of B's taxonomy."""
        return len(self._distances[1].taxonomy)

    def _table(self, counts: SparseCounts) -> CountTable:
        return CountTable.of(counts.keys, counts.counts.astype(np.float64), *self._distances)


class SlidingCovariance:
    """sdCov, sdCor and both sdVar (2017: equations 18 to 20) of a pair of attributes in a sliding window. Mutable.

    They cover the rows that have both attributes, and equal a computation from the counts up to rounding, which does
    not accumulate because the sums are compensated. If all distances depend on depths alone, a computation from the
    counts is fast and is done instead.
    """

    def __init__(self, d_a: Distance, d_b: Distance) -> None:
        """Start with an empty window; ``d_a``, ``d_b``: the distances on the attributes' taxonomies."""
        self._distances = d_a, d_b
        self._counts = SparseCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._sliding: SlidingPair | None = None

    def slide(self, change: SparseCounts) -> None:
        """Apply a change of the counts (``counts.difference``), whose keys are those of pairs.

        Raises StatisticsError, and changes nothing, if more is removed than the window holds.
        """
        new = combine([self._counts, change])
        if (new.counts < 0).any():
            raise StatisticsError("the change removes more rows than the window holds")
        if self._sliding is not None:
            self._slide(self._sliding, change, new)
        self._counts = new

    def slide_to(self, counts: SparseCounts) -> None:
        """Slide to the window that has these counts."""
        self.slide(difference(counts, self._counts))

    def _slide(self, sliding: SlidingPair, change: SparseCounts, new: SparseCounts) -> None:
        if is_incremental(change, self._counts, new.rows, sliding.first_rows):
            sliding.slide(change, new)
        else:
            self._sliding = None

    @property
    def marginals(self) -> tuple[SparseCounts, SparseCounts]:
        """The counts of A's and of B's values."""
        if self._sliding is not None:
            return self._sliding.a.counts, self._sliding.b.counts
        return marginals(self._counts, len(self._distances[1].taxonomy))

    @property
    def covariance(self) -> float:
        """sdCov, in [0, 1]. Raises StatisticsError for an empty window, as the other properties do."""
        if all_depth_based(self._distances):
            return PairTable.of(self._counts, *self._distances).covariance
        return math.sqrt(max(0.0, self._current().covariance_squared))

    @property
    def variances(self) -> tuple[float, float]:
        """sdVar of A and of B, in [0, 1]."""
        if all_depth_based(self._distances):
            table = PairTable.of(self._counts, *self._distances)
            return math.sqrt(table.a.variance_squared), math.sqrt(table.b.variance_squared)
        current = self._current()
        return math.sqrt(current.a.variance_squared), math.sqrt(current.b.variance_squared)

    @property
    def correlation(self) -> float:
        """sdCor, in [0, 1]; 0 if an attribute is constant."""
        spread = math.sqrt(math.prod(self.variances))
        return min(1.0, self.covariance / spread) if spread > 0.0 else 0.0

    def _current(self) -> SlidingPair:
        if self._sliding is None:
            self._sliding = SlidingPair(self._counts, *self._distances)
        return self._sliding


def all_depth_based(distances: tuple[Distance, ...]) -> bool:
    """Return whether depths determine all distances: every taxonomy is a tree, and not too high."""
    return all(d.taxonomy.is_tree and d.taxonomy.depth[-1] <= MAX_TREE_HEIGHT for d in distances)
