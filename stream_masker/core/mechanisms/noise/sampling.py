"""Sampling of correlated noise for nominal attributes (2017: sections 4.4 and 4.5).

ε ~ N(0, α·Σ), or the multivariate Laplace distribution with the same covariance. For correlated noise, Σ is the
semantic distance covariance matrix (2017: equation 22). For uncorrelated noise, it is the diagonal matrix of sVar,
which differs from the sdVar on the diagonal of the former.

A record's present scalars are drawn jointly, and each element of its array from Σ conditional on them. An absent value
is left out: the noise of the others follows their marginal distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import NamedTuple

import numpy as np

from stream_masker.core.batch import Batch, presence_patterns
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import for_types, kernel
from stream_masker.core.random import (
    EXPONENTIALS,
    ROUNDING_WORD,
    TIES,
    VALUES,
    Keys,
    draw_words,
    exponential_roots,
    normals,
    one_record_words,
    record_words,
)

SCALE_NODES = 40
MAX_SCALE = 6.0
"""√W of Laplace noise beyond which it is neglected: e^−36."""


class Distribution(StrEnum):
    """A distribution of noise: √W·Z with Z ~ N(0, σ²). Laplace noise has W ~ Exp(1), normal noise W = 1."""

    NORMAL = "normal"
    LAPLACE = "laplace"

    @property
    def scaled(self) -> bool:
        """Whether W is random."""
        return self is Distribution.LAPLACE

    def roots(self, words: UInt64Array) -> Float64Array:
        """Return (k,) float64: √W from (k,) random words."""
        return exponential_roots(words) if self.scaled else np.ones(len(words))

    def quadrature(self) -> list[tuple[float, float]]:
        """Return values of √W with their weights."""
        if not self.scaled:
            return [(1.0, 1.0)]
        nodes, weights = np.polynomial.legendre.leggauss(SCALE_NODES)
        roots = 0.5 * MAX_SCALE * (nodes + 1.0)
        masses = weights * roots * np.exp(-(roots**2))
        return list(zip(roots.tolist(), (masses / masses.sum()).tolist(), strict=True))


DISTRIBUTIONS = tuple(distribution.value for distribution in Distribution)


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """The symmetric law of ε with standard deviation ``deviation`` > 0.

    A Laplace variate has the rate √2 / σ.
    """

    deviation: float
    distribution: Distribution

    def below(self, distances: Float64Array) -> Float64Array:
        """Return P(|ε| ≤ x) for each distance x ≥ 0."""
        if self.distribution is Distribution.LAPLACE:
            return np.asarray(-np.expm1(-distances * self._rate))
        return np.array([math.erf(x / (self.deviation * math.sqrt(2.0))) for x in distances.tolist()])

    def square_below(self, distances: Float64Array) -> Float64Array:
        """Return E[ε²; |ε| ≤ x] for each distance x ≥ 0."""
        if self.distribution is Distribution.LAPLACE:
            scaled = distances * self._rate
            rest = np.exp(-scaled) * (scaled**2 + 2.0 * scaled + 2.0)
            return np.asarray((2.0 - rest) / self._rate**2)
        scaled = distances / self.deviation
        density = np.sqrt(2.0 / math.pi) * np.exp(-0.5 * scaled**2)
        return np.asarray(self.deviation**2 * (self.below(distances) - scaled * density))

    @property
    def _rate(self) -> float:
        return math.sqrt(2.0) / self.deviation


MIN_PIVOT = 1e-12
"""The smallest pivot, as a share of the attribute's variance, that is not taken for 0.

A smaller one means that the attribute depends linearly on those before it.
"""

KEPT_FACTORS = 64
"""How many combinations of present attributes have their triangular factor kept."""


class RecordWeights(NamedTuple):
    """The weights of the variates of a record's values, scalars first, and a list last.

    * ``order``: (p,) int64, the attributes in this order. ``roots``: (p,) their √α. ``factor``: (p, p) the triangular
      factor of their covariances.
    """

    order: Int64Array
    roots: Float64Array
    factor: Float64Matrix


@kernel
def weighted(variates: Float64Array, offsets: Int64Array, weights: RecordWeights) -> Float64Array:
    """Return (k,) the normal noise of the k values of one record, none absent, with at most one list.

    ``variates``: (k,) standard normal. ``offsets``: (p + 1,) the first value of each attribute, and k.
    """
    noise = np.empty(variates.size)
    for i in range(weights.order.size):
        j, shared = weights.order[i], 0.0
        for scalar in range(i):
            shared += weights.factor[i, scalar] * variates[offsets[weights.order[scalar]]]
        for k in range(offsets[j], offsets[j + 1]):
            noise[k] = weights.roots[i] * (shared + weights.factor[i, i] * variates[k])
    return noise


@cache
def weighted_of_record() -> Callable[..., Float64Array]:
    """Return ``weighted``, compiled."""
    offsets = np.zeros(1, np.int64)
    return for_types(weighted, np.empty(0), offsets, RecordWeights(offsets, np.empty(0), np.empty((0, 0))))


@dataclass(frozen=True, slots=True)
class NominalNoise:
    """The noise of p attributes. Immutable.

    * ``sigma``: (p, p) float64 Σ. At most one array attribute can have covariances other than 0.
    * ``alpha``: (p,) float64, the configured α; a record's own α replaces it.
    * ``correlated``: whether one √W scales all noise of a record; otherwise each value has its own.
    * ``distribution``: the law of W, see ``Distribution``.
    """

    sigma: Float64Array
    alpha: Float64Array
    correlated: bool
    distribution: Distribution
    _factors: dict[tuple[int, ...], Float64Array] = field(default_factory=dict, compare=False, repr=False)
    _weights: dict[tuple[bool, ...], RecordWeights] = field(default_factory=dict, compare=False, repr=False)

    def draw(self, keys: Keys, batch: Batch, words: list[UInt64Array]) -> list[Float64Array]:
        """Draw ε of every value: (k,) float64 for each column. The noise of an absent value is meaningless."""
        variates = [normals(block) for block in words]
        noise = self._correlate(batch, variates)
        scales = self._scales(keys, batch)
        return [scale * alpha * e for scale, alpha, e in zip(scales, self._alpha_roots(batch), noise, strict=True)]

    def _correlate(self, batch: Batch, variates: list[Float64Array]) -> list[Float64Array]:
        result = [np.zeros(len(z)) for z in variates]
        scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        weights = {array: _ElementWeights(np.zeros(batch.size), np.zeros(batch.size)) for array in arrays}
        has_value = np.array([batch.columns[j].codes >= 0 for j in scalars], np.bool_).reshape(len(scalars), batch.size)
        for rows, pattern in presence_patterns(has_value):
            present = [scalars[i] for i in pattern]
            lower = self._factor((*present, *arrays))
            drawn = [variates[j][rows] for j in present]
            for i, j in enumerate(present):
                result[j][rows] = _combine(lower[i, : i + 1], drawn[: i + 1])
            for i, array in enumerate(arrays, start=len(present)):
                weights[array].shared[rows] = _combine(lower[i, : len(present)], drawn)
                weights[array].specific[rows] = lower[i, i]
        for array in arrays:
            lengths = batch.columns[array].lengths
            shared, specific = np.repeat(weights[array].shared, lengths), np.repeat(weights[array].specific, lengths)
            result[array] = shared + specific * variates[array]
        return result

    def draw_one(
        self, keys: Keys, offsets: Int64Array, codes: Int32Array, is_array: tuple[bool, ...]
    ) -> tuple[Float64Array, UInt64Array, UInt64Array]:
        """Return what ``draw`` returns for normal noise of one record with the configured α, all columns together, and
        the words ``ROUNDING_WORD`` and ``TIES`` of its values.

        * ``keys``: of the record. ``is_array``: whether the record has a list of each attribute.
        """
        if is_array not in self._weights:
            order = sorted(range(len(is_array)), key=is_array.__getitem__)
            factor = self._factor(tuple(order))
            self._weights[is_array] = RecordWeights(np.array(order), np.sqrt(self.alpha)[order], factor)
        words = one_record_words(keys, codes, offsets, VALUES)
        noise = weighted_of_record()(normals(words), offsets, self._weights[is_array])
        return noise, words[:, ROUNDING_WORD].copy(), words[:, TIES].copy()

    def _factor(self, attributes: tuple[int, ...]) -> Float64Array:
        """Return L of the covariances of some attributes; the first ``KEPT_FACTORS`` are kept."""
        factor = self._factors.get(attributes)
        if factor is None:
            factor = triangular_factor(self.sigma[np.ix_(attributes, attributes)])
            if len(self._factors) < KEPT_FACTORS:
                self._factors[attributes] = factor
        return factor

    def _alpha_roots(self, batch: Batch) -> Iterator[Float64Array]:
        """Yield √α of every value, by column."""
        for j, column in enumerate(batch.columns):
            alpha = record_alpha(batch, float(self.alpha[j]))
            yield np.sqrt(np.repeat(alpha, column.lengths))

    def _scales(self, keys: Keys, batch: Batch) -> list[Float64Array]:
        """Return √W of every value, by column; 1 for normal noise."""
        if not self.distribution.scaled:
            return [np.ones(1)] * len(batch.columns)
        if not self.correlated:
            return [self.distribution.roots(words[:, 0].copy()) for words in draw_words(keys, batch, EXPONENTIALS)]
        shared = self.distribution.roots(record_words(keys, batch))
        return [
            self._element_scales(keys, batch, j, shared) if column.is_array else shared
            for j, column in enumerate(batch.columns)
        ]

    def _element_scales(self, keys: Keys, batch: Batch, j: int, shared: Float64Array) -> Float64Array:
        """Return √W of the elements of column j: that of the scalars, or their own if all scalars are absent."""
        alone = np.all([column.codes < 0 for column in batch.columns if not column.is_array], axis=0)
        lengths = batch.columns[j].lengths
        drawn = self.distribution.roots(draw_words(keys, batch, EXPONENTIALS)[j][:, 0].copy())
        return np.where(np.repeat(np.broadcast_to(alone, batch.size), lengths), drawn, np.repeat(shared, lengths))


@dataclass(frozen=True, slots=True)
class _ElementWeights:
    """The noise of an array's elements in each record: the shared part, and the weight of their own variate.

    The shared part is determined by the record's scalars.
    """

    shared: Float64Array
    specific: Float64Array


def record_alpha(batch: Batch, configured: float) -> Float64Array:
    """Return (n,) float64: each record's own α, or the configured one."""
    if batch.alpha is None:
        return np.full(batch.size, configured)
    return np.where(np.isnan(batch.alpha), configured, batch.alpha)


def _combine(weights: Float64Array, variates: list[Float64Array]) -> Float64Array | float:
    """Return Σ weights[k]·variates[k], summed term by term so that no bit depends on the size of the batch."""
    total: Float64Array | float = 0.0
    for weight, variate in zip(weights, variates, strict=True):
        total = total + weight * variate
    return total


def triangular_factor(sigma: Float64Array) -> Float64Array:
    """Return the (p, p) lower triangular L with L·Lᵀ = Σ, for a positive semidefinite Σ.

    This is the Cholesky factor, with a column of zeros where a pivot vanishes: the noise of that attribute is a linear
    function of the noise of those before it.
    """
    p = len(sigma)
    lower = np.zeros((p, p))
    for j in range(p):
        rest = [sigma[i, j] - _dot(lower[i, :j], lower[j, :j]) for i in range(j, p)]
        if rest[0] > MIN_PIVOT * sigma[j, j]:
            lower[j:, j] = np.array(rest) / math.sqrt(rest[0])
    return lower


def _dot(a: Float64Array, b: Float64Array) -> float:
    """Return Σ a·b, rounded once.

    Unlike a library's product, it does not depend on the size of the matrix in any bit.
    """
    return math.fsum((a * b).tolist())
