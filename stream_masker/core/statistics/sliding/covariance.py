"""Semantic distance variances, covariance and correlation of a window as it slides.

The sums of which sdCov² consists (see ``covariance``) are kept for distances less a constant shift: those of the rows
of each attribute, Σ N_ab (X_A N X_B)_ab of the pair. Where a change δ makes N' of N, the latter grows by
Σ δ_ab (X_A (N + N') X_B)_ab: by as many terms as there are changed pairs times distinct values, not all pairs. A small
change is taken in by distances that are kept (``sliding_kernels``), a great one by blocks of distances.
"""

from __future__ import annotations

import math

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.statistics.compensated import CompensatedSums
from stream_masker.core.statistics.counts import SparseCounts, combine, difference, marginals
from stream_masker.core.statistics.covariance import PairTable
from stream_masker.core.statistics.marginal import TREE_HEIGHT
from stream_masker.core.statistics.products import CountTable, table_product_sum
from stream_masker.core.statistics.sliding.kernels import product_of_means, slide_pairs
from stream_masker.core.statistics.sliding.marginal import SlidingMarginal, is_small
from stream_masker.errors import StatisticsError

FEW_CHANGES = 16
"""Changed pairs that are quicker taken in one by one than by blocks of distances, however many pairs there are."""

MAX_INCREMENTAL_STEPS = 1 << 19
"""More changed pairs are, too, while they are no more than this, times all pairs."""


class SlidingPair:
    """The counts of a pair of attributes, and the sums that sdCov² consists of. Mutable."""

    def __init__(self, counts: SparseCounts, d_a: Distance, d_b: Distance) -> None:
        """Computed from the counts. Raises StatisticsError for none."""
        self.counts = counts
        self.first_rows = counts.rows
        self._distances = d_a, d_b
        of_a, of_b = marginals(counts, len(d_b.taxonomy))
        self.a, self.b = SlidingMarginal(of_a, d_a), SlidingMarginal(of_b, d_b)
        table = self._table(counts)
        self._products = CompensatedSums(np.array([table_product_sum(table, table, self.a.shift, self.b.shift)]))

    def slide(self, change: SparseCounts, new: SparseCounts) -> None:
        """Takes in what came less what went; ``new``: the counts then."""
        few = max(FEW_CHANGES, MAX_INCREMENTAL_STEPS // self.counts.keys.size)
        if change.keys.size > min(few, self.a.most_rows, self.b.most_rows):
            self._slide_many(change, new)
        elif not self._slide_few(change):
            first, second = np.divmod(change.keys, self._concepts)
            self.a.prepare(np.unique(first))
            self.b.prepare(np.unique(second))
            self._slide_few(change)
        self.counts = new

    @property
    def covariance_squared(self) -> float:
        """sdCov² (2017: equation 18); less than 0 where the distances are not of negative type."""
        if self.a.is_constant or self.b.is_constant:
            return 0.0
        n = self.counts.rows
        sides = self.a.known.place, self.a.means, self.b.known.place, self.b.means
        mixed = product_of_means(self.counts.keys, self.counts.counts, self._concepts, *sides) / n
        products = float(self._products.values[0]) / n**2
        return products + self.a.grand_mean * self.b.grand_mean - 2.0 * float(mixed)

    def _slide_few(self, change: SparseCounts) -> bool:
        a, b = self.a, self.b
        before, parts = self.counts, self._products.parts
        return slide_pairs(
            before.keys,
            before.counts,
            change.keys,
            change.counts,
            self._concepts,
            a.size,
            a.known,
            b.size,
            b.known,
            parts,
        )

    def _slide_many(self, change: SparseCounts, new: SparseCounts) -> None:
        outer, inner = self._table(change), self._table(combine([self.counts, new]))
        self._products.add(np.array([table_product_sum(outer, inner, self.a.shift, self.b.shift)]))
        of_a, of_b = marginals(change, self._concepts)
        self.a.slide(of_a)
        self.b.slide(of_b)

    @property
    def _concepts(self) -> int:
        """How many concepts B's taxonomy has."""
        return len(self._distances[1].taxonomy)

    def _table(self, counts: SparseCounts) -> CountTable:
        return CountTable.of(counts.keys, counts.counts.astype(np.float64), *self._distances)


class SlidingCovariance:
    """sdCov, sdCor and both sdVar (2017: equations 18 to 20) of a pair of attributes, by what came and went. Mutable.

    Over the rows that have both attributes. Equal to a computation from the counts up to rounding, which does not grow:
    the sums are compensated. Where depths tell all distances a computation from the counts is quick, and done instead.
    """

    def __init__(self, d_a: Distance, d_b: Distance) -> None:
        """Of an empty window, and the distances on the attributes' taxonomies."""
        self._distances = d_a, d_b
        self._counts = SparseCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._sliding: SlidingPair | None = None

    def slide(self, change: SparseCounts) -> None:
        """Takes in what came less what went (``counts.difference``); its keys are those of pairs.

        Raises StatisticsError, and changes nothing, when more is to go than is there.
        """
        new = combine([self._counts, change])
        if (new.counts < 0).any():
            raise StatisticsError("more is to leave the window than it holds")
        if self._sliding is not None:
            self._slide(self._sliding, change, new)
        self._counts = new

    def follow(self, counts: SparseCounts) -> None:
        """Slides to the window that has these counts."""
        self.slide(difference(counts, self._counts))

    def _slide(self, sliding: SlidingPair, change: SparseCounts, new: SparseCounts) -> None:
        if is_small(change, self._counts, new.rows, sliding.first_rows):
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
        """sdCov, in [0, 1]. Raises StatisticsError for an empty window, like the others."""
        if by_depths(self._distances):
            return PairTable.of(self._counts, *self._distances).covariance
        return math.sqrt(max(0.0, self._current().covariance_squared))

    @property
    def variances(self) -> tuple[float, float]:
        """sdVar of A and of B, in [0, 1]."""
        if by_depths(self._distances):
            table = PairTable.of(self._counts, *self._distances)
            return math.sqrt(table.a.variance_squared), math.sqrt(table.b.variance_squared)
        current = self._current()
        return math.sqrt(current.a.variance_squared), math.sqrt(current.b.variance_squared)

    @property
    def correlation(self) -> float:
        """sdCor, in [0, 1]; 0 where an attribute is constant."""
        spread = math.sqrt(math.prod(self.variances))
        return min(1.0, self.covariance / spread) if spread > 0.0 else 0.0

    def _current(self) -> SlidingPair:
        if self._sliding is None:
            self._sliding = SlidingPair(self._counts, *self._distances)
        return self._sliding


def by_depths(distances: tuple[Distance, ...]) -> bool:
    """Whether all taxonomies are trees of which depths tell all distances."""
    return all(d.taxonomy.is_tree and d.taxonomy.depth[-1] <= TREE_HEIGHT for d in distances)
