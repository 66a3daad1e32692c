"""Semantic distance variances, covariance and correlation of a window as it slides.

The sums of which sdCov² consists (see ``covariance``) are kept for distances less a constant shift: those of the rows
of each attribute, Σ N_ab (X_A N X_B)_ab of the pair. Where a change δ makes N' of N, the latter grows by
Σ δ_ab (X_A (N + N') X_B)_ab: by as many terms as there are changed pairs times distinct values, not all pairs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import Distance
from stream_masker.core.distance.lanes import Targets
from stream_masker.core.statistics.compensated import CompensatedSums
from stream_masker.core.statistics.counts import Ints, SparseCounts, combine, difference, marginals
from stream_masker.core.statistics.covariance import PairTable
from stream_masker.core.statistics.marginal import TREE_HEIGHT, Marginal
from stream_masker.core.statistics.products import Table, product_sum
from stream_masker.errors import StatisticsError

Floats = NDArray[np.float64]

LARGEST_SHARE = 0.5
"""A change of more than this share of the pairs is as dear as a computation from all."""


class SlidingMarginal:
    """One attribute's counts, and the sums of x = sd - shift that sdVar² consists of. Mutable."""

    def __init__(self, counts: SparseCounts, d: Distance) -> None:
        """Computed from the counts; the shift is the mean of all distances then. Raises StatisticsError for none."""
        values = Marginal(counts, d)
        self.counts = counts
        self.shift = values.grand_mean
        self._d = d
        self._sums = CompensatedSums((values.means - self.shift) * values.rows)
        self._squares = CompensatedSums(np.array([values.weights @ values.sums(self.shift)[1]]))

    def slide(self, change: SparseCounts) -> None:
        """Takes in what came less what went."""
        old, new = self.counts, combine([self.counts, change])
        positions, amounts = change.keys.astype(np.int32), change.counts.astype(np.float64)
        changed = self._d.sources(positions)
        both = combine([old, new])
        squares = self._targets(both.keys).sums(changed, both.counts.astype(np.float64), self.shift)[1]
        self._squares.add_products(squares[None, :], amounts)
        index = np.minimum(np.searchsorted(old.keys, new.keys), old.keys.size - 1)
        known = old.keys[index] == new.keys
        self._sums = self._sums.rearranged(index, known)
        newcomers = self._d.sources(new.keys[~known].astype(np.int32))
        sums = np.zeros(new.keys.size)
        sums[known] = self._targets(new.keys[known]).weighted(changed, amounts, self.shift)
        sums[~known] = self._targets(new.keys).sums(newcomers, new.counts.astype(np.float64), self.shift)[0]
        self._sums.add(sums)
        self.counts = new

    @property
    def means(self) -> Floats:
        """(k,): the mean x of each distinct value to the n values."""
        return self._sums.values / self.counts.rows

    @property
    def grand_mean(self) -> float:
        """The mean of all n x n distances, less the shift."""
        return float(self.counts.counts @ self.means) / self.counts.rows

    @property
    def variance_squared(self) -> float:
        """sdVar² (2017: equation 20)."""
        if self.counts.keys.size == 1:
            return 0.0
        n = self.counts.rows
        mixed = float(self.counts.counts @ self.means**2) / n
        return max(0.0, float(self._squares.values[0]) / n**2 + self.grand_mean**2 - 2.0 * mixed)

    def _targets(self, keys: Ints) -> Targets:
        return self._d.targets(keys.astype(np.int32))


class SlidingVariance:
    """sdVar (2017: equation 20) of an attribute, by what came and went. Mutable."""

    def __init__(self, d: Distance) -> None:
        """Of an empty window, and the distance on the attribute's taxonomy."""
        self._d = d
        self._sliding: SlidingMarginal | None = None
        self._first_rows = 0

    def follow(self, counts: SparseCounts) -> None:
        """Slides to the window that has these counts. Raises StatisticsError for an empty one."""
        if self._sliding is not None:
            change = difference(counts, self._sliding.counts)
            if _is_small(change, self._sliding.counts, counts, self._first_rows):
                return self._sliding.slide(change)
        self._sliding, self._first_rows = SlidingMarginal(counts, self._d), counts.rows
        return None

    @property
    def variance(self) -> float:
        """sdVar, in [0, 1]. Raises StatisticsError for an empty window."""
        if self._sliding is None:
            raise StatisticsError("statistics need at least one value")
        return math.sqrt(self._sliding.variance_squared)


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
        self._products = CompensatedSums(np.array([product_sum(table, table, self.a.shift, self.b.shift)]))

    def slide(self, change: SparseCounts, new: SparseCounts) -> None:
        """Takes in what came less what went; ``new``: the counts then."""
        outer, inner = self._table(change), self._table(combine([self.counts, new]))
        self._products.add(np.array([product_sum(outer, inner, self.a.shift, self.b.shift)]))
        of_a, of_b = marginals(change, len(self._distances[1].taxonomy))
        self.a.slide(of_a)
        self.b.slide(of_b)
        self.counts = new

    @property
    def covariance_squared(self) -> float:
        """sdCov² (2017: equation 18); less than 0 where the distances are not of negative type."""
        if min(self.a.counts.keys.size, self.b.counts.keys.size) == 1:
            return 0.0
        n = self.counts.rows
        table = self._table(self.counts)
        means_a, means_b = self.a.means[table.first], self.b.means[table.second]
        mixed = float(self.counts.counts @ (means_a * means_b)) / n
        return float(self._products.values[0]) / n**2 + self.a.grand_mean * self.b.grand_mean - 2.0 * mixed

    def _table(self, counts: SparseCounts) -> Table:
        return Table.of(counts.keys, counts.counts.astype(np.float64), *self._distances)


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
        if _is_small(change, self._counts, new, sliding.first_rows):
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


def _is_small(change: SparseCounts, old: SparseCounts, new: SparseCounts, first_rows: int) -> bool:
    """Whether to slide: not after a great change, nor when so many of the rows at first went that what sums are off
    might count for the others."""
    return 2 * new.rows >= first_rows and change.keys.size <= LARGEST_SHARE * old.keys.size
