"""Semantic distance covariance, variance and correlation (2017: equations 15 to 20), exact and from counts.

With N the counts of the pairs of distinct values, ΔA and ΔB their double-centred distance matrices and n rows,
sdCov² = (1/n²) Σ N ∘ (ΔA N ΔB) = S1 + S2 - 2·S3: S1 = (1/n²) Σ N ∘ (D_A N D_B), S2 the product of the grand means,
S3 = (1/n) Σ N_ab r_a r_b of the row means. A constant added to all distances changes none of it, so distances may be
shifted by their grand mean, which makes S2 vanish and S1 and S3 small. In trees S1 telescopes over common ancestors
(``tree_sums``); elsewhere distances come in blocks of bounded size (``products``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import ConceptsLike, Distance
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.statistics import tree_sums
from stream_masker.core.statistics.counts import SparseCounts, marginals, pair_counts, same_counts
from stream_masker.core.statistics.marginal import Marginal
from stream_masker.core.statistics.mean import value_counts
from stream_masker.core.statistics.products import CountTable, table_product_sum
from stream_masker.errors import ParameterError


def distance_covariance(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> float:
    """sdCov(A, B) = (1/n)·√ΣΣ δA_ij·δB_ij, in [0, 1] (2017: equation 18).

    ``a``, ``b``: n concept ids or positions, row by row. Wu–Palmer need not be of negative type, so the sum may come
    out slightly negative: it is then taken as 0. Raises ParameterError for different lengths, StatisticsError for no
    rows, UnknownConceptError for a value outside its taxonomy.
    """
    return covariance_from_counts(_pair(a, d_a, b, d_b), d_a, d_b)


def distance_variance(a: ConceptsLike, d_a: Distance) -> float:
    """sdVar(A) = sdCov(A, A), in [0, 1]; 0 if and only if all values are equal (2017: equation 20)."""
    return distance_variance_from_counts(value_counts(a, d_a), d_a)


def distance_correlation(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> float:
    """sdCor(A, B) = sdCov / √(sdVar(A)·sdVar(B)), in [0, 1]; 0 where an attribute is constant (2017: equation 19)."""
    return correlation_from_counts(_pair(a, d_a, b, d_b), d_a, d_b)


def covariance_from_counts(pair: SparseCounts, d_a: Distance, d_b: Distance) -> float:
    """sdCov from the counts of the pairs (keys: position in A * concepts of B's taxonomy + position in B)."""
    return PairTable.of(pair, d_a, d_b).covariance


def distance_variance_from_counts(counts: SparseCounts, d: Distance) -> float:
    """sdVar from the counts of an attribute's values."""
    return float(np.sqrt(Marginal(counts, d).variance_squared))


def correlation_from_counts(pair: SparseCounts, d_a: Distance, d_b: Distance) -> float:
    """sdCor from the counts of the pairs, with the variances of these same rows."""
    return PairTable.of(pair, d_a, d_b).correlation


@dataclass(frozen=True, eq=False)
class PairTable:
    """The sparse table of counts of a pair of attributes, with the marginals of its rows and columns."""

    a: Marginal
    b: Marginal
    table: CountTable

    @classmethod
    def of(
        cls, pair: SparseCounts, d_a: Distance, d_b: Distance, known: tuple[Marginal, Marginal] | None = None
    ) -> PairTable:
        """The table of a pair's counts; ``known``: marginals to reuse where they are of just these rows."""
        of_a, of_b = marginals(pair, len(d_b.taxonomy))
        a, b = known or (None, None)
        table = CountTable.of(pair.keys, pair.counts.astype(np.float64), d_a, d_b)
        return cls(_reuse(a, of_a, d_a), _reuse(b, of_b, d_b), table)

    @property
    def rows(self) -> float:
        """n, the rows that have both attributes."""
        return self.a.rows

    @property
    def covariance(self) -> float:
        """sdCov, in [0, 1]."""
        return float(np.sqrt(max(0.0, self._covariance_squared())))

    @property
    def correlation(self) -> float:
        """sdCor, in [0, 1]."""
        spread = (self.a.variance_squared * self.b.variance_squared) ** 0.25
        return min(1.0, self.covariance / spread) if spread > 0.0 else 0.0

    def _covariance_squared(self) -> float:
        if len(self.a.positions) == 1 or len(self.b.positions) == 1:
            return 0.0
        return self.by_depths() if self.a.by_depths and self.b.by_depths else self.by_blocks()

    def by_depths(self) -> float:
        """sdCov² where both taxonomies are trees: O(pairs·H_A·H_B), no distance matrix at all."""
        return self._centred(self._products_by_depths())

    def by_blocks(self) -> float:
        """sdCov² for any distances: O(pairs·distinct values), in blocks of bounded size."""
        return self._centred(table_product_sum(self.table, self.table, self.a.grand_mean, self.b.grand_mean))

    def _centred(self, products: float) -> float:
        """sdCov² from S1·n² of distances that are shifted by their grand means, so that S2 vanishes."""
        offsets_a = (self.a.means - self.a.grand_mean)[self.table.first]
        offsets_b = (self.b.means - self.b.grand_mean)[self.table.second]
        mixed = float(self.table.counts @ (offsets_a * offsets_b)) / self.rows
        return products / self.rows**2 - 2.0 * mixed

    def _products_by_depths(self) -> float:
        """S1·n² of the shifted distances: for each depth of A, rows grouped by their ancestor there."""
        table = self.table
        paths_a, paths_b = _paths(self.a), _paths(self.b)
        terms_a, terms_b = _terms(self.a), _terms(self.b)
        rank = np.empty(len(paths_b), dtype=np.int64)
        rank[np.lexsort(paths_b.T[::-1])] = np.arange(len(paths_b))
        depth_a = self.a.d.taxonomy.depth[self.a.positions][table.first]
        depth_b = self.b.d.taxonomy.depth[self.b.positions][table.second]
        total = 0.0
        for level, terms in enumerate(terms_a):
            groups = paths_a[table.first, level].astype(np.int64)
            order = np.argsort(groups * len(rank) + rank[table.second])
            order = order[np.count_nonzero(groups < 0) :]
            paths = paths_b[table.second[order]]
            total += tree_sums.tree_product_sum(
                groups[order], depth_a[order], depth_b[order], paths, table.counts[order], terms, terms_b
            )
        return total


def _pair(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> SparseCounts:
    first, second = d_a.encode(a), d_b.encode(b)
    if len(first) != len(second):
        raise ParameterError(f"both attributes need the same number of rows, not {len(first)} and {len(second)}")
    return pair_counts(first, second, len(d_b.taxonomy))


def _reuse(known: Marginal | None, counts: SparseCounts, d: Distance) -> Marginal:
    if known is not None and same_counts(known.counts, counts):
        return known
    return Marginal(counts, d)


def _paths(values: Marginal) -> NDArray[np.int32]:
    tau = values.d.taxonomy
    return np.asarray(tree_sums.paths_from_root(values.positions, tau.tree.parent, tau.depth, values.height))


def _terms(values: Marginal) -> Float64Array:
    return np.asarray(tree_sums.level_terms(values.d.kind, values.height, values.grand_mean))
