"""Noise added to numeric attributes, within their bounds (2017: section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Float64Array, UInt64Array
from stream_masker.core.mechanisms.noise.sampling import Distribution, record_alpha, triangular_factor
from stream_masker.core.numeric import Numeric, NumericStatistics
from stream_masker.core.random import ROUNDING_WORD, Keys, draw_number_words, normals, number_record_words, uniforms
from stream_masker.core.validation import require_one_of
from stream_masker.errors import StatisticsError

NOISE_VARIANTS = ("correlated", "uncorrelated", "kim")

SCALE_WORD = 3
"""The word of a number's own exponential scale, for uncorrelated Laplace noise."""


@dataclass(frozen=True, slots=True)
class NumericNoise:
    """The noise of q numeric attributes X of a record: Z = X + ε (2017: equations 2 and 6). Immutable.

    * ``uncorrelated``: εⱼ ~ N(0, αⱼ·σ²ⱼ) independently (equations 3 to 5). Variances grow by the factor 1 + αⱼ;
      correlations decrease.
    * ``correlated``: ε ~ N(0, Σ_ε) jointly, with Σ_ε = √αᵢ√αⱼ·Σ (equation 7). Means are preserved, and with equal α
      also correlations; covariances grow by the factor 1 + α (equation 8). 2017 calls this Kim's method.
    * ``kim``: the same noise, followed by the linear transformation of Kim (1986), Zⱼ = μⱼ + (Xⱼ − μⱼ + εⱼ)/√(1 + αⱼ).
      It also preserves variances and, with equal α, covariances. The correction for a finite sample of n records
      differs from 1/√(1 + α) by about α/n and is omitted.

    Laplace noise has the same covariance: normal noise times √W, W ~ Exp(1), with one W for all numbers of a record if
    they are correlated. Σ covers the numeric attributes alone: their noise is independent of the nominal noise. Absent
    values stay absent; the noise of the others follows their marginal distribution.

    * ``attributes``: the q numeric attributes.
    * ``mean``: (q,) float64 μ. ``sigma``: (q, q) float64 Σ.
    * ``alpha``: (q,) float64, the configured α; a record's own α replaces it.
    * ``variant``: one of ``NOISE_VARIANTS``. ``distribution``: the law of W, see ``Distribution``.
    """

    attributes: tuple[Numeric, ...]
    mean: Float64Array
    sigma: Float64Array
    alpha: Float64Array
    variant: str
    distribution: Distribution

    @classmethod
    def of(
        cls,
        attributes: tuple[Numeric, ...],
        statistics: NumericStatistics,
        alpha: Float64Array,
        variant: str,
        distribution: Distribution,
    ) -> NumericNoise:
        """Create the noise for the statistics of a window.

        Raises StatisticsError for a constant attribute, because its noise would be 0 and later values would pass
        unmasked, and ParameterError for an unknown variant.
        """
        require_one_of("numeric_noise", variant, NOISE_VARIANTS)
        _check_statistics(statistics)
        sigma = np.diag(np.diag(statistics.covariance)) if variant == "uncorrelated" else statistics.covariance
        return cls(attributes, statistics.mean, sigma, alpha, variant, distribution)

    def mask(self, batch: Batch, keys: Keys) -> Float64Array:
        """Return (n, q) float64: the batch's masked numbers, with the random words of each record."""
        numbers = np.empty((batch.size, 0)) if batch.numeric is None else batch.numeric
        words = draw_number_words(keys, numbers)
        masked = np.empty_like(numbers)
        for j, noise in enumerate(self._noise(numbers, keys, words)):
            alpha = record_alpha(batch, float(self.alpha[j]))
            noisy = self._transformed(j, numbers[:, j] + np.sqrt(alpha) * noise, alpha)
            masked[:, j] = self.attributes[j].fit(noisy, uniforms(words[j][:, ROUNDING_WORD]))
        return masked

    def _noise(self, numbers: Float64Array, keys: Keys, words: list[UInt64Array]) -> Iterator[Float64Array]:
        """Yield the noise of each attribute for α = 1.

        It is summed term by term, so that no bit depends on the size of the batch.
        """
        lower = triangular_factor(self.sigma)
        variates = [normals(block) for block in words]
        scales = self._scales(numbers, keys, words)
        for j, scale in enumerate(scales):
            noise = np.zeros(len(numbers))
            for k in range(j + 1):
                noise += lower[j, k] * variates[k]
            yield noise * scale

    def _scales(self, numbers: Float64Array, keys: Keys, words: list[UInt64Array]) -> list[Float64Array]:
        """Return √W of each attribute's numbers; 1 for normal noise."""
        if not self.distribution.scaled:
            return [np.ones(1)] * len(words)
        if self.variant == "uncorrelated":
            return [self.distribution.roots(block[:, SCALE_WORD].copy()) for block in words]
        return [self.distribution.roots(number_record_words(keys, numbers))] * len(words)

    def _transformed(self, j: int, noisy: Float64Array, alpha: Float64Array) -> Float64Array:
        if self.variant != "kim":
            return noisy
        return np.asarray(self.mean[j] + (noisy - self.mean[j]) / np.sqrt(1.0 + alpha))


def noise_variant(given: str | None, *, correlated: bool) -> str:
    """Return a variant of the noise; None stands for that of the nominal noise. Raises ParameterError."""
    if given is None:
        return "correlated" if correlated else "uncorrelated"
    require_one_of("numeric_noise", given, NOISE_VARIANTS)
    return given


def _check_statistics(statistics: NumericStatistics) -> None:
    variances = np.diag(statistics.covariance)
    if not np.isfinite(statistics.mean).all() or not np.isfinite(statistics.covariance).all():
        raise StatisticsError("a numeric mean or covariance is not finite")
    constant = [name for name, variance in zip(statistics.names, variances, strict=True) if not variance > 0]
    if constant:
        raise StatisticsError(
            f"{', '.join(constant)}: all values are equal, so the noise would be 0 and later values would pass "
            "unmasked; calibrate on records with different values"
        )
