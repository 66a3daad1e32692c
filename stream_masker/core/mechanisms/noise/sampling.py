"""Noise of records: ε ~ N(0, α·Σ), or the multivariate Laplace distribution of the same covariance (2017: 4.4, 4.5).

Correlated noise has the semantic distance covariance matrix for Σ (2017: equation 22), uncorrelated noise a diagonal
of **sVar**, which is another number than the sdVar on the diagonal of the former.

A record's present scalars are drawn jointly, and each element of its array from Σ conditional on them. So is a record
with an absent value: its noise is that of the distribution of the values which are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Float64Array, Int64Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.random.draws import uniform
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import EXPONENTIALS, NORMAL, draw_words, record_words

DISTRIBUTIONS = ("normal", "laplace")

SMALLEST_PIVOT = 1e-12
"""Of an attribute's variance: a pivot at or below this share of it is a linear dependence on those before it."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of p attributes. sigma: (p, p) Σ; alpha: (p,) configured α.

    correlated: one exponential variate scales all of a record's Laplace noise; else each value has its own. At most
    one array may have covariances other than 0.
    """

    sigma: Float64Array
    alpha: Float64Array
    correlated: bool
    laplace: bool

    def draw(self, keys: Keys, batch: Batch, words: list[UInt64Array]) -> list[Float64Array]:
        """ε of every value, by column: (k,) float64 each; meaningless where the value is absent."""
        variates = [normals(block[:, NORMAL].copy()) for block in words]
        noise = self._correlate(batch, variates)
        scales = self._laplace_scales(keys, batch)
        return [scale * alpha * e for scale, alpha, e in zip(scales, self._alpha_roots(batch), noise, strict=True)]

    def _correlate(self, batch: Batch, variates: list[Float64Array]) -> list[Float64Array]:
        result = [np.zeros(len(z)) for z in variates]
        scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        weights = {q: _Weights(np.zeros(batch.size), np.zeros(batch.size)) for q in arrays}
        for rows, present in _patterns(batch, scalars):
            lower = factor(self.sigma[np.ix_([*present, *arrays], [*present, *arrays])])
            drawn = [variates[j][rows] for j in present]
            for i, j in enumerate(present):
                result[j][rows] = _combine(lower[i, : i + 1], drawn[: i + 1])
            for i, q in enumerate(arrays, start=len(present)):
                weights[q].shared[rows] = _combine(lower[i, : len(present)], drawn)
                weights[q].own[rows] = lower[i, i]
        for q in arrays:
            lengths = lengths_of(batch, q)
            result[q] = np.repeat(weights[q].shared, lengths) + np.repeat(weights[q].own, lengths) * variates[q]
        return result

    def _alpha_roots(self, batch: Batch) -> Iterator[Float64Array]:
        """√α of every value, by column."""
        for j, column in enumerate(batch.columns):
            alpha = record_alpha(batch, float(self.alpha[j]))
            yield np.sqrt(alpha if not column.is_array else np.repeat(alpha, lengths_of(batch, j)))

    def _laplace_scales(self, keys: Keys, batch: Batch) -> list[Float64Array]:
        """√W of every value, W ~ Exp(1), by column; 1 for normal noise."""
        if not self.laplace:
            return [np.ones(1)] * len(batch.columns)
        if not self.correlated:
            return [exponential_roots(words[:, 0].copy()) for words in draw_words(keys, batch, EXPONENTIALS)]
        shared = exponential_roots(record_words(keys).copy())
        return [
            np.repeat(shared, lengths_of(batch, j)) if column.is_array else shared
            for j, column in enumerate(batch.columns)
        ]


@dataclass(frozen=True, slots=True)
class _Weights:
    """An array's elements in each record: what they share given its scalars, and the weight of their own variate."""

    shared: Float64Array
    own: Float64Array


def lengths_of(batch: Batch, j: int) -> NDArray[np.int64]:
    """(n,) int64: the values that each record has in column j; 1 of a scalar, absent or not."""
    offsets = batch.columns[j].offsets
    return np.ones(batch.size, np.int64) if offsets is None else np.diff(offsets)


def record_alpha(batch: Batch, configured: float) -> Float64Array:
    """(n,) float64: each record's own α, or the configured one."""
    if batch.alpha is None:
        return np.full(batch.size, configured)
    return np.where(np.isnan(batch.alpha), configured, batch.alpha)


def _patterns(batch: Batch, scalars: list[int]) -> Iterator[tuple[Int64Array | slice, list[int]]]:
    """The records by which of their scalars are present."""
    there = np.array([batch.columns[j].codes >= 0 for j in scalars], np.bool_).reshape(len(scalars), batch.size)
    if there.all():
        yield slice(None), scalars
        return
    patterns, which = np.unique(there, axis=1, return_inverse=True)
    for i, pattern in enumerate(patterns.T):
        yield (
            np.flatnonzero(which.reshape(-1) == i),
            [j for j, present in zip(scalars, pattern, strict=True) if present],
        )


def _combine(weights: Float64Array, variates: list[Float64Array]) -> Float64Array | float:
    """Σ weights[k]·variates[k], term by term, so that no bit depends on the size of the batch."""
    total: Float64Array | float = 0.0
    for weight, variate in zip(weights, variates, strict=True):
        total = total + weight * variate
    return total


def factor(sigma: Float64Array) -> Float64Array:
    """(p, p) lower triangular L with L·Lᵀ = Σ, of a positive semidefinite Σ: Cholesky, with a column of zeros where a
    pivot vanishes (that attribute's noise is a linear function of those before it)."""
    p = len(sigma)
    lower = np.zeros((p, p))
    for j in range(p):
        rest = [sigma[i, j] - _dot(lower[i, :j], lower[j, :j]) for i in range(j, p)]
        if rest[0] > SMALLEST_PIVOT * sigma[j, j]:
            lower[j:, j] = np.array(rest) / math.sqrt(rest[0])
    return lower


def _dot(a: Float64Array, b: Float64Array) -> float:
    """Σ a·b, rounded once: no bit of it depends on the size of the matrix, as in a library's product it may."""
    return math.fsum((a * b).tolist())


@kernel
def normals(words: UInt64Matrix) -> Float64Array:
    """(k,) float64 standard normal variates of (k, 2) words: Box and Muller's first one."""
    result = np.empty(len(words), np.float64)
    for i in range(len(words)):
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform(words[i, 0])))
        result[i] = radius * math.cos(2.0 * math.pi * uniform(words[i, 1]))
    return result


@kernel
def exponential_roots(words: UInt64Array) -> Float64Array:
    """(k,) float64 √W of (k,) words, W ~ Exp(1)."""
    result = np.empty(len(words), np.float64)
    for i in range(len(words)):
        result[i] = math.sqrt(-math.log(1.0 - uniform(words[i])))
    return result
