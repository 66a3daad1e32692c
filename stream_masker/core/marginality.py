"""Marginality: the sum of distances of a nominal value to all others of its sample, and statistics of it (2013).

The caller chooses the distance; the paper uses ``LogTaxonomic`` (2013: equation 1). Each statistic is computed from
values (concept ids, or positions as an integer array) or from their counts, which determine it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.distance import ConceptsLike, Distance
from stream_masker.core.dtypes import Float64Array, Int32Array
from stream_masker.core.numeric import Moments
from stream_masker.core.statistics.counts import SparseCounts, marginals, pair_counts
from stream_masker.core.statistics.statistics import Marginal, value_counts
from stream_masker.core.table import least_total
from stream_masker.errors import ParameterError, StatisticsError


def marginality(values: ConceptsLike, d: Distance) -> Float64Array:
    """Return (n,) float64: m(xⱼ) = Σ d(xⱼ, xₗ) over the sample without xⱼ itself (2013: equation 2).

    Other occurrences of the same value have distance 0, so frequent values are less marginal. Raises StatisticsError
    for an empty sample, UnknownConceptError for a value outside the taxonomy.
    """
    positions = d.encode(values)
    counts = value_counts(positions, d)
    return marginalities_from_counts(counts, d)[np.searchsorted(counts.keys, positions)]


def marginality_mean(values: ConceptsLike, d: Distance) -> str:
    """Return the id of the least marginal value of the sample (2013: equation 3).

    Ties, which the paper does not resolve: the smallest depth, then the smallest id. Raises like ``marginality``.
    """
    return d.taxonomy.ids[marginality_mean_from_counts(value_counts(values, d), d)]


def marginality_variance(values: ConceptsLike, d: Distance) -> float:
    """Return Σ m(xⱼ) / n over n values (2013: equation 5); it grows with n like marginalities.

    Raises like ``marginality``.
    """
    return marginality_variance_from_counts(value_counts(values, d), d)


def marginality_covariance(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> float:
    """Return Σ √(m(xⱼ)·m(yⱼ)) / n over n pairs of values (2013: equation 6); never negative.

    Raises ParameterError for lists of different lengths, and otherwise like ``marginality``.
    """
    first, second = d_a.encode(a), d_b.encode(b)
    if first.shape != second.shape:
        raise ParameterError(f"a covariance needs pairs of values, not {first.size} and {second.size}")
    return marginality_covariance_from_counts(pair_counts(first, second, len(d_b.taxonomy)), d_a, d_b)


def marginalities_from_counts(counts: SparseCounts, d: Distance) -> Float64Array:
    """Return (k,) float64: the marginality of each distinct value. Raises StatisticsError for an empty sample."""
    return Marginal.of(counts, d).sums


def marginality_mean_from_counts(counts: SparseCounts, d: Distance) -> int:
    """Return the position of the least marginal value."""
    values = Marginal.of(counts, d)
    return least_total(values.positions, values.sums, d.taxonomy)


def marginality_variance_from_counts(counts: SparseCounts, d: Distance) -> float:
    """Var_M from the counts of the values of a sample."""
    return float(counts.counts @ marginalities_from_counts(counts, d)) / counts.rows


def marginality_covariance_from_counts(pair: SparseCounts, d_a: Distance, d_b: Distance) -> float:
    """Covar_M from the counts of the pairs of values of a sample; each marginality is that among these pairs."""
    size = len(d_b.taxonomy)
    first, second = marginals(pair, size)
    a, b = np.divmod(pair.keys, size)
    m_a = marginalities_from_counts(first, d_a)[np.searchsorted(first.keys, a)]
    m_b = marginalities_from_counts(second, d_b)[np.searchsorted(second.keys, b)]
    return float(pair.counts @ np.sqrt(m_a * m_b)) / pair.rows


@dataclass(frozen=True, slots=True, eq=False)
class SDistance:
    """The S-distance between records with nominal and numeric attributes (2013: equation 7).

    δ(x₁, x₂) = √(Σ (S²)ₗ₁₂ / (S²)ₗ): for each attribute l, the variance over the two records divided by the variance
    over the data set. The former is d(x₁, x₂) for a nominal attribute (equation 14), and (x₁ − x₂)²/2 for a numeric one
    (proof of theorem 4: sample variances, 1/(n − 1)). An attribute that is constant in the data set is ignored.

    distances, variances: one per nominal attribute. numeric_variances: one per numeric attribute.

    The variance of n marginalities grows with n, but that of two values does not. So by equation 7 the weight of a
    nominal attribute is about 1/n of that of a numeric one. ``balanced`` divides nominal variances by n, which gives
    all attributes the same weight: it makes them mean distances, as numeric variances are means of (x₁ − x₂)²/2.
    """

    distances: tuple[Distance, ...]
    variances: tuple[float, ...]
    numeric_variances: tuple[float, ...] = ()

    @classmethod
    def of(
        cls,
        columns: Sequence[ConceptsLike],
        distances: Sequence[Distance],
        numbers: Float64Array | None = None,
        *,
        balanced: bool = False,
    ) -> SDistance:
        """Return the S-distance with the variances of a data set: p columns of n values, and (n, q) ``numbers``.

        Raises StatisticsError for fewer than two records, or for columns of different lengths.
        """
        sizes = {len(column) for column in columns} | (set() if numbers is None else {len(numbers)})
        if len(sizes) != 1 or min(sizes) < 2:
            raise StatisticsError("an S-distance needs columns of the same length and at least two records")
        n = sizes.pop() if balanced else 1
        variances = [marginality_variance(a, d) / n for a, d in zip(columns, distances, strict=True)]
        return cls(tuple(distances), tuple(variances), () if numbers is None else _variances(numbers))

    def __call__(self, first: Sequence[str | float], second: Sequence[str | float]) -> float:
        """δ of two records: the concept ids of the nominal attributes, then the numbers of the numeric ones."""
        (a, numbers_a), (b, numbers_b) = self._parts(first), self._parts(second)
        return float(self.pairs(a, b, numbers_a, numbers_b)[0])

    def _parts(self, record: Sequence[str | float]) -> tuple[list[Int32Array], Float64Array]:
        p = len(self.distances)
        codes = [d.taxonomy.encode([str(value)]) for d, value in zip(self.distances, record[:p], strict=True)]
        return codes, np.array([[float(value) for value in record[p:]]])

    def pairs(
        self,
        a: Sequence[Int32Array],
        b: Sequence[Int32Array],
        numbers_a: Float64Array | None = None,
        numbers_b: Float64Array | None = None,
    ) -> Float64Array:
        """Return (n,) float64: δ of n pairs of records, each given as p columns of positions and (n, q) numbers."""
        total = np.zeros(len(a[0]) if a else len(_numbers(numbers_a)))
        for first, second, d, weight in zip(a, b, self.distances, weights(self.variances), strict=True):
            total += weight * d.pairs(first, second)
        if self.numeric_variances:
            halves = (_numbers(numbers_a) - _numbers(numbers_b)) ** 2 / 2.0
            total += halves @ weights(self.numeric_variances)
        return np.sqrt(total)


def weights(variances: Sequence[float]) -> Float64Array:
    """1 / variance; 0 for a constant attribute, which the S-distance ignores."""
    return np.array([1.0 / v if v > 0.0 and math.isfinite(v) else 0.0 for v in variances])


def _variances(numbers: Float64Array) -> tuple[float, ...]:
    return tuple((np.diag(Moments.of(numbers).products) / (len(numbers) - 1)).tolist())


def _numbers(numbers: Float64Array | None) -> Float64Array:
    if numbers is None:
        raise ParameterError("the S-distance of numeric attributes needs their numbers")
    return numbers
