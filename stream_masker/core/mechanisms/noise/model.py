"""The noise that semantic noise draws, as the statistics of a window determine it.

Σ differs a little in every version, so that |ε| crosses a level of distances for some values. Such a value would get
several masks under one noise key, and their average reveals more than one mask does. The model of an earlier version is
therefore *held*, that is, kept in use, until a variance, a covariance or the frequencies of an attribute differ by more
than ``TOLERANCE``. The variance of the noise then differs from α times that of the window by at most this share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from stream_masker.core.arrays import Float64Array, Int32Array, Int64Array, UInt64Array, slices
from stream_masker.core.batch import Batch, presence_patterns
from stream_masker.core.mechanisms.noise.law import Distribution
from stream_masker.core.random import EXPONENTIALS, Keys, draw_words, key_words, normals
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.packing import pack_counts, unpack_counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

TOLERANCE = 0.1
"""The largest difference of two covariances, relative to the geometric mean of the two variances, and the largest total
variation distance of frequencies, for which the model of the earlier version is held."""

MAX_NOVEL = 0.01
"""The largest share of values that are no anchors for which the model is held."""

MIN_PIVOT = 1e-12
"""The smallest pivot, as a share of the attribute's variance, that is not taken for 0.

A smaller one means that the attribute depends linearly on those before it.
"""

MOST_FACTORS = 256
"""The number of triangular factors that are kept: one for each combination of attributes that a record has."""

ONE = np.ones(1)


@dataclass(frozen=True)
class NoiseSampler:
    """The noise of p attributes: ε ~ N(0, α·Σ), or the multivariate Laplace distribution with the same covariance.

    * ``sigma``: (p, p) float64 Σ; for uncorrelated noise the diagonal matrix of sVar, which differs from the sdVar on
      the diagonal of 2017's equation 22. At most one array attribute can have covariances other than 0.
    * ``alpha``: (p,) float64, α of each attribute.
    * ``correlated``: whether one √W scales all noise of a record; otherwise each value has its own.
    """

    sigma: Float64Array
    alpha: Float64Array
    correlated: bool
    distribution: Distribution

    def draw(self, keys: Keys, batch: Batch, words: Sequence[UInt64Array]) -> list[Float64Array]:
        """Draw ε of every value: (k,) float64 for each column. The noise of an absent value is meaningless.

        An absent scalar is left out: the noise of the others follows their marginal distribution.
        """
        variates = slices(normals(np.concatenate(words)), map(len, words))
        scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        shared, specific = np.zeros((2, len(variates), batch.size))
        has_value = np.array([batch.columns[j].codes >= 0 for j in scalars], np.bool_).reshape(len(scalars), batch.size)
        for rows, pattern in presence_patterns(has_value):
            present = [scalars[i] for i in pattern]
            lower, drawn = self._factor((*present, *arrays)), [variates[j][rows] for j in present]
            for i, j in enumerate((*present, *arrays)):
                others = slice(min(i + 1, len(present)))
                shared[j, rows], specific[j, rows] = _combine(lower[i, others], drawn[others]), lower[i, i]
        noise = list(shared)
        for j in arrays:
            lengths = batch.columns[j].lengths
            noise[j] = np.repeat(shared[j], lengths) + np.repeat(specific[j], lengths) * variates[j]
        scales = zip(self._scales(keys, batch), self.alpha, strict=True)
        return [scale * np.sqrt(alpha) * each for (scale, alpha), each in zip(scales, noise, strict=True)]

    @cached_property
    def _factor(self) -> Callable[[tuple[int, ...]], Float64Array]:
        """The triangular factor of some attributes' covariances; the last ones are kept."""
        return lru_cache(MOST_FACTORS)(lambda some: triangular_factor(self.sigma[np.ix_(some, some)]))

    def _scales(self, keys: Keys, batch: Batch) -> list[Float64Array]:
        """Return √W of every value, by column; 1 for normal noise. Records of one key share it if ``correlated``."""
        if not self.distribution.scaled:
            return [ONE] * len(batch.columns)
        if self.correlated:
            shared = self.distribution.roots(key_words(keys))
            return [np.repeat(shared, column.lengths) for column in batch.columns]
        return [self.distribution.roots(words[:, 0].copy()) for words in draw_words(keys, batch, EXPONENTIALS)]


def _combine(weights: Float64Array, variates: Sequence[Float64Array]) -> Float64Array | float:
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
    lower = np.zeros_like(sigma)
    for j in range(len(sigma)):
        rest = [sigma[i, j] - math.fsum((lower[i, :j] * lower[j, :j]).tolist()) for i in range(j, len(sigma))]
        if rest[0] > MIN_PIVOT * sigma[j, j]:
            lower[j:, j] = np.array(rest) / math.sqrt(rest[0])
    return lower


@dataclass(frozen=True, slots=True, eq=False)
class NoiseModel:
    """What masks are drawn from: the moments and frequencies of the window of a version, this one or an earlier one.

    * ``variances``: (p,) sVar. ``covariance``: (p, p) Σ.
    * ``frequencies``: for each attribute its values, ascending positions, and the frequency of each.
    """

    version: int
    variances: Float64Array
    covariance: Float64Array
    frequencies: tuple[tuple[Int32Array, Int64Array], ...]

    @classmethod
    def of(cls, counts: Counts, statistics: Statistics) -> NoiseModel:
        """Return the model of a window."""
        variances = np.array([statistics.variance[name] for name in statistics.attributes])
        columns = tuple((column.keys.astype(np.int32), column.counts) for column in counts.values)
        return cls(statistics.version, variances, statistics.covariance, columns)

    @classmethod
    def read(cls, data: Mapping[str, Any], names: Sequence[str]) -> NoiseModel:
        """Restore what ``to_dict`` returns; ``names``: of the attributes.

        Raises StatisticsError for anything else, and for an attribute without variance.
        """
        p = len(names)
        try:
            variances = np.array(data["variance"], np.float64).reshape(p)
            covariance = np.array(data["covariance"], np.float64).reshape(p, p)
            columns = tuple(unpack_counts(data["frequencies"][name]) for name in names)
            model = cls(int(data["version"]), variances, covariance, columns)
        except (KeyError, TypeError, ValueError) as error:
            raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
        least = np.minimum(np.diag(covariance), variances)
        if constant := [name for name, variance in zip(names, least, strict=True) if not variance > 0]:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so the noise would be 0 and later values would pass "
                "unmasked; calibrate on records with different values"
            )
        return model

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return a JSON-serialisable form; ``names``: of the attributes."""
        columns = zip(names, self.frequencies, strict=True)
        return {
            "version": self.version,
            "variance": self.variances.tolist(),
            "covariance": self.covariance.tolist(),
            "frequencies": {name: pack_counts(values, counts) for name, (values, counts) in columns},
        }

    def is_near(self, new: NoiseModel, *, drawn_by_frequency: bool) -> bool:
        """Return whether masks of a later window may be drawn from this model; ``drawn_by_frequency``: whether the
        frequencies are those by which masks are drawn, or only say which concepts are anchors."""
        pairs = (self.covariance, new.covariance), (np.diag(self.variances), np.diag(new.variances))
        for before, after in pairs:
            scale = np.sqrt(np.diag(before))
            if not (np.abs(after - before) <= TOLERANCE * np.outer(scale, scale)).all():
                return False
        return all(
            _moved(*before, *after, drawn_by_frequency) <= (TOLERANCE if drawn_by_frequency else MAX_NOVEL)
            for before, after in zip(self.frequencies, new.frequencies, strict=True)
        )


def _moved(a: Int32Array, counts_a: Int64Array, b: Int32Array, counts_b: Int64Array, by_frequency: bool) -> float:
    """Return the total variation distance of two laws of concepts, or the share of b's values that a lacks."""
    if not by_frequency:
        return float(counts_b[~np.isin(b, a)].sum() / counts_b.sum())
    size = int(max(a[-1], b[-1])) + 1
    first = np.bincount(a, counts_a / counts_a.sum(), size)
    return float(np.abs(first - np.bincount(b, counts_b / counts_b.sum(), size)).sum()) / 2
