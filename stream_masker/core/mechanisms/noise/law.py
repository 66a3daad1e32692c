"""The distributions of noise: how each is drawn, and the law of |ε| of one attribute's noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from stream_masker.core.dtypes import Float64Array, UInt64Array
from stream_masker.core.random.draws import exponential_roots

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
