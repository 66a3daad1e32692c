"""Semantic distance covariance, variance and correlation (2017: equations 15 to 20), exact, from counts.

Let N be the counts of the pairs of distinct values, D_A and D_B their distance matrices, ΔA and ΔB the double-centred
ones, and n the number of rows. Then sdCov² = (1/n²) Σ N ∘ (ΔA N ΔB) = S1 + S2 − 2·S3, with

* S1 = (1/n²) Σ N ∘ (D_A N D_B),
* S2 = the product of the grand means of D_A and D_B,
* S3 = (1/n) Σ N_ab r_a r_b, where r are the row means.

A constant added to all distances cancels out. The distances are therefore shifted by their grand mean, so that S2
vanishes and S1 and S3 are small. Distances are computed in blocks of bounded size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_masker.core.distance import ConceptsLike, Distance, require_distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.kernels.sums import sum_of_products
from stream_masker.core.statistics.counts import SparseCounts, marginals, pair_counts, same_counts
from stream_masker.core.statistics.marginal import MAX_HELD_CELLS, Marginal
from stream_masker.core.statistics.mean import value_counts
from stream_masker.errors import ParameterError


def distance_covariance(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> float:
    """sdCov(A, B) = (1/n)·√ΣΣ δA_ij·δB_ij, in [0, 1] (2017: equation 18).

    ``a`` and ``b`` are n concept ids or positions each, row by row. Wu–Palmer need not be of negative type, so the sum
    can be slightly negative; it is then clamped to 0. Raises ParameterError if the lengths differ, StatisticsError if
    there are no rows, and UnknownConceptError for a value outside its taxonomy.
    """
    return covariance_from_counts(_pair(a, d_a, b, d_b), d_a, d_b)


def distance_variance(a: ConceptsLike, d_a: Distance) -> float:
    """sdVar(A) = sdCov(A, A), in [0, 1]; 0 if and only if all values are equal (2017: equation 20).

    Raises StatisticsError if there are no values, and UnknownConceptError for a value outside the taxonomy.
    """
    return distance_variance_from_counts(value_counts(a, d_a), d_a)


def distance_correlation(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> float:
    """sdCor(A, B) = sdCov / √(sdVar(A)·sdVar(B)), in [0, 1]; 0 if an attribute is constant (2017: equation 19).

    Raises as ``distance_covariance``.
    """
    return correlation_from_counts(_pair(a, d_a, b, d_b), d_a, d_b)


def covariance_from_counts(pair: SparseCounts, d_a: Distance, d_b: Distance) -> float:
    """sdCov from the counts of the pairs (keys: see ``SparseCounts``)."""
    return PairTable.of(pair, d_a, d_b).covariance


def distance_variance_from_counts(counts: SparseCounts, d: Distance) -> float:
    """sdVar from the counts of an attribute's values."""
    return float(np.sqrt(Marginal(counts, d).variance_squared))


def correlation_from_counts(pair: SparseCounts, d_a: Distance, d_b: Distance) -> float:
    """sdCor from the counts of the pairs, with the variances of the same rows."""
    return PairTable.of(pair, d_a, d_b).correlation


@dataclass(frozen=True, eq=False)
class PairTable:
    """The sparse contingency table of a pair of attributes, with its marginals. Frozen; derived values are cached."""

    a: Marginal
    b: Marginal
    table: CountTable

    @classmethod
    def of(
        cls, pair: SparseCounts, d_a: Distance, d_b: Distance, reusable: tuple[Marginal, Marginal] | None = None
    ) -> PairTable:
        """Build the table from a pair's counts; ``reusable``: marginals, used if they cover exactly these rows."""
        of_a, of_b = marginals(pair, len(d_b.taxonomy))
        a, b = reusable or (None, None)
        table = CountTable.of(pair, len(d_b.taxonomy))
        return cls(_reuse(a, of_a, d_a), _reuse(b, of_b, d_b), table)

    @property
    def rows(self) -> float:
        """The number n of rows that have both attributes."""
        return self.a.rows

    @property
    def covariance(self) -> float:
        """sdCov, in [0, 1]."""
        return float(np.sqrt(max(0.0, self._covariance_squared)))

    @property
    def correlation(self) -> float:
        """sdCor, in [0, 1]; 0 if an attribute is constant."""
        spread = (self.a.variance_squared * self.b.variance_squared) ** 0.25
        return min(1.0, self.covariance / spread) if spread > 0.0 else 0.0

    @cached_property
    def _covariance_squared(self) -> float:
        """sdCov² from S1·n² of distances that are shifted by their grand means, so that S2 vanishes."""
        if len(self.a.positions) == 1 or len(self.b.positions) == 1:
            return 0.0
        products = table_product_sum(self.table, self.a, self.b)
        offsets_a = (self.a.means - self.a.grand_mean)[self.table.first]
        offsets_b = (self.b.means - self.b.grand_mean)[self.table.second]
        mixed = np.dot(self.table.counts.astype(np.float64), offsets_a * offsets_b) / self.rows
        return products / self.rows**2 - 2.0 * mixed


def _pair(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> SparseCounts:
    require_distance("d_a", d_a)
    require_distance("d_b", d_b)
    first, second = d_a.encode(a), d_b.encode(b)
    if len(first) != len(second):
        raise ParameterError(f"both attributes need the same number of rows, not {len(first)} and {len(second)}")
    return pair_counts(first, second, len(d_b.taxonomy))


def _reuse(reusable: Marginal | None, counts: SparseCounts, d: Distance) -> Marginal:
    if reusable is not None and same_counts(reusable.counts, counts):
        return reusable
    return Marginal(counts, d)


@kernel
def multiply_by_counts(
    distances: Float64Matrix, first: Int64Array, second: Int64Array, counts: Float64Array, columns: int
) -> Float64Matrix:
    """Return (columns, r) float64: row b is Σ_a N_ab · ``distances[a]``. ``distances``: (k, r).

    ``first``, ``second``, ``counts``: (p,), the entries of N.
    """
    result = np.zeros((columns, distances.shape[1]), np.float64)
    for p in range(first.size):
        row, other, count = result[second[p]], distances[first[p]], counts[p]
        for i in range(row.size):
            row[i] += count * other[i]
    return result


@kernel
def sum_row_products(
    rows: Float64Matrix, columns: Float64Matrix, first: Int64Array, second: Int64Array, counts: Float64Array
) -> float:
    """Return Σ N_ab · (row a of ``rows``)·(row b of ``columns``); ``first``, ``second``, ``counts``: (p,), the
    entries of N."""
    total = 0.0
    for p in range(first.size):
        total += counts[p] * sum_of_products(rows[first[p]], columns[second[p]])
    return total


@dataclass(frozen=True, eq=False)
class CountTable:
    """A sparse table N of the values of A by the values of B. Frozen.

    * ``first``, ``second``: (p,) int64, the row (ascending) and column of each entry, as indices of distinct values.
    * ``counts``: (p,) float64, of any sign.
    """

    first: Int64Array
    second: Int64Array
    counts: Float64Array

    @classmethod
    def of(cls, pair: SparseCounts, size_b: int) -> CountTable:
        """Build the table from the counts of pairs; ``size_b``: the number of concepts of B's taxonomy."""
        a, b = np.divmod(pair.keys, size_b)
        first, second = (np.unique(keys, return_inverse=True)[1] for keys in (a, b))
        return cls(first, second, pair.counts.astype(np.float64))


def table_product_sum(table: CountTable, a: Marginal, b: Marginal) -> float:
    """Return Σ N ∘ (X_A N X_B), with X the distances minus their grand mean; ``a``, ``b``: the values of N.

    It is S1·n² of sdCov². It takes O(p·(k_a + k_b)) for k distinct values and p pairs.
    """
    step = max(1, MAX_HELD_CELLS // max(a.positions.size, b.positions.size))
    totals: list[float] = []
    for start in range(0, a.positions.size, step):
        inside = slice(*np.searchsorted(table.first, (start, start + step)))
        distances = a.distances_to(start, start + step) - a.grand_mean
        products = multiply_by_counts(distances, table.first, table.second, table.counts, b.positions.size)
        rows, first, second = np.ascontiguousarray(products.T), table.first[inside] - start, table.second[inside]
        for column in range(0, b.positions.size, step):
            distances = np.ascontiguousarray(b.distances_to(column, column + step).T) - b.grand_mean
            here = np.flatnonzero((second >= column) & (second < column + step))
            entries = first[here], second[here] - column, table.counts[inside][here]
            totals.append(sum_row_products(rows, distances, *entries))
    return math.fsum(totals)


EIGENVALUE_ROUNDING = 1e-12
"""Negative eigenvalues down to this, relative to the largest one, are rounding errors and need no projection."""

MIN_EIGENVALUE_SHARE = -1e-9
"""The most negative eigenvalue, relative to the largest one, that rounding can leave in a positive semidefinite
matrix.
"""


def nearest_psd(matrix: Float64Array) -> tuple[Float64Array, float]:
    """Return the nearest positive semidefinite matrix to a symmetric (p, p) one, and the Frobenius norm of the change.

    Setting negative eigenvalues to 0 minimizes the Frobenius norm of the change (Higham 1988: theorem 2.1). Σ (2017:
    equation 22) can need it for three attributes or more, because the elementwise root of a positive semidefinite
    matrix need not be positive semidefinite; and for two, if their variances and covariance cover different rows. A
    matrix that needs no change is returned as it is, with norm 0.
    """
    if not matrix.size:
        return matrix, 0.0
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= -EIGENVALUE_ROUNDING * max(values[-1], 0.0):
        return matrix, 0.0
    product = (vectors * np.maximum(values, 0.0)) @ vectors.T
    nearest = (product + product.T) / 2.0
    return nearest, float(np.linalg.norm(nearest - matrix))


def is_positive_semidefinite(matrix: Float64Array) -> bool:
    """Return whether a matrix is symmetric and positive semidefinite, up to rounding."""
    if not matrix.size:
        return True
    if not np.array_equal(matrix, matrix.T):
        return False
    values = np.linalg.eigvalsh(matrix)
    return bool(values[0] >= MIN_EIGENVALUE_SHARE * max(float(values[-1]), 0.0))
