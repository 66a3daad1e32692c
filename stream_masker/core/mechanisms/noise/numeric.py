"""Noise of numeric attributes (2017: section 3): added to values, within their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Float64Array, UInt64Array
from stream_masker.core.mechanisms.noise.sampling import exponential_roots, factor, normals, record_alpha
from stream_masker.core.numeric import Numeric, NumericStatistics
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import NORMAL, ROUNDING_WORD, WordLayout
from stream_masker.core.validation import require_one_of
from stream_masker.errors import StatisticsError

NOISE_VARIANTS = ("correlated", "uncorrelated", "kim")

NUMBERS = WordLayout(width=4, first=1 << 61, streams=0)
"""Four words of every number: ``NORMAL``, ``ROUNDING_WORD``, ``SCALE``."""

SCALE = 3
"""The word of a Laplace variate's exponential scale; where one scales all of a record's, it is the first number's."""


@dataclass(frozen=True, slots=True)
class NumericNoise:
    """The noise of q numeric attributes X of a record: Z = X + ε (2017: equations 2 and 6).

    * ``uncorrelated``: εⱼ ~ N(0, αⱼ·σ²ⱼ), one by one (equations 3 to 5): variances grow by 1 + αⱼ, correlations fall.
    * ``correlated``: ε ~ N(0, Σ_ε) jointly, Σ_ε = √αᵢ√αⱼ·Σ (equation 7): means and, of equal α, correlations are kept,
      covariances grow by 1 + α (equation 8). 2017 calls this Kim's method.
    * ``kim``: the same noise, and then the linear transformation of Kim (1986), Zⱼ = μⱼ + (Xⱼ − μⱼ + εⱼ)/√(1 + αⱼ),
      which keeps variances (and, of equal α, covariances) as well. Factors corrected for a finite sample of n records
      differ from 1/√(1 + α) by about α/n, and are not used.

    Laplace noise has the same covariance: a normal one times √W, W ~ Exp(1), one W for all numbers of a record where
    they are correlated. Σ is that of the numeric attributes alone: noise of numbers is independent of nominal noise.
    Absent values stay; the others' noise is that of the distribution of the values which are there.

    sigma: (q, q) covariances; mean: (q,) μ; alpha: (q,) configured α, which a record's own replaces.
    """

    kinds: tuple[Numeric, ...]
    mean: Float64Array
    sigma: Float64Array
    alpha: Float64Array
    variant: str
    laplace: bool

    @classmethod
    def of(
        cls,
        kinds: tuple[Numeric, ...],
        statistics: NumericStatistics,
        alpha: Float64Array,
        variant: str,
        *,
        laplace: bool,
    ) -> NumericNoise:
        """By the statistics of a window. Raises StatisticsError for a constant attribute: its noise would be 0, and
        later values would pass unmasked; ParameterError for another variant."""
        require_one_of("numeric_noise", variant, NOISE_VARIANTS)
        _check(statistics)
        sigma = np.diag(np.diag(statistics.covariance)) if variant == "uncorrelated" else statistics.covariance
        return cls(kinds, statistics.mean, sigma, alpha, variant, laplace)

    def mask(self, batch: Batch, keys: Keys) -> Float64Array:
        """(n, q) float64: the batch's numbers masked, by the random words of each record."""
        numbers = np.empty((batch.size, 0)) if batch.numeric is None else batch.numeric
        words = list(number_words(keys, len(self.kinds)))
        masked = np.empty_like(numbers)
        for j, noise in enumerate(self._noise(batch, words)):
            alpha = record_alpha(batch, float(self.alpha[j]))
            noisy = self._transformed(j, numbers[:, j] + np.sqrt(alpha) * noise, alpha)
            masked[:, j] = self.kinds[j].fit(noisy, uniforms(words[j][:, ROUNDING_WORD]))
        return masked

    def _noise(self, batch: Batch, words: list[UInt64Array]) -> Iterator[Float64Array]:
        """The noise of each attribute for α = 1; term by term, so that no bit depends on the size of the batch."""
        lower = factor(self.sigma)
        variates = [normals(block[:, NORMAL].copy()) for block in words]
        for j in range(len(variates)):
            noise = np.zeros(batch.size)
            for k in range(j + 1):
                noise += lower[j, k] * variates[k]
            yield noise * self._scale(j, words)

    def _scale(self, j: int, words: list[UInt64Array]) -> Float64Array | float:
        if not self.laplace:
            return 1.0
        return np.asarray(exponential_roots(words[j if self.variant == "uncorrelated" else 0][:, SCALE].copy()))

    def _transformed(self, j: int, noisy: Float64Array, alpha: Float64Array) -> Float64Array:
        if self.variant != "kim":
            return noisy
        return np.asarray(self.mean[j] + (noisy - self.mean[j]) / np.sqrt(1.0 + alpha))


def uniforms(words: UInt64Array) -> Float64Array:
    """(k,) float64 in [0, 1): the 53 high bits of random words."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def number_words(keys: Keys, q: int) -> Iterator[UInt64Array]:
    """The words of each attribute's numbers, (n, 4) each."""
    lanes = {lane: keys.words(lane) for lane in sorted({NUMBERS.lane(j) for j in range(q)})}
    for j in range(q):
        yield NUMBERS.of(lanes[NUMBERS.lane(j)], j)


def _check(statistics: NumericStatistics) -> None:
    variances = np.diag(statistics.covariance)
    if not np.isfinite(statistics.mean).all() or not np.isfinite(statistics.covariance).all():
        raise StatisticsError("a numeric mean or covariance is no number")
    constant = [name for name, variance in zip(statistics.names, variances, strict=True) if not variance > 0]
    if constant:
        raise StatisticsError(
            f"{', '.join(constant)}: every value is the same, so that noise would be 0 and later values would pass "
            "unmasked; statistics need records that differ"
        )
