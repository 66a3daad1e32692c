"""The law of |ε| of one attribute's noise: normal, or Laplace with the same variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """The symmetric law of ε with standard deviation ``deviation`` > 0; ``laplace``: Laplace instead of normal.

    √W·Z with W ~ Exp(1) and Z ~ N(0, σ²) is a Laplace variate of rate √2 / σ.
    """

    deviation: float
    laplace: bool

    def below(self, distances: Float64Array) -> Float64Array:
        """Return P(|ε| ≤ x) for each distance x ≥ 0."""
        if self.laplace:
            return np.asarray(-np.expm1(-distances * self._rate))
        return np.array([math.erf(x / (self.deviation * math.sqrt(2.0))) for x in distances.tolist()])

    def square_below(self, distances: Float64Array) -> Float64Array:
        """Return E[ε²; |ε| ≤ x] for each distance x ≥ 0."""
        if self.laplace:
            scaled = distances * self._rate
            rest = np.exp(-scaled) * (scaled**2 + 2.0 * scaled + 2.0)
            return np.asarray((2.0 - rest) / self._rate**2)
        scaled = distances / self.deviation
        density = np.sqrt(2.0 / math.pi) * np.exp(-0.5 * scaled**2)
        return np.asarray(self.deviation**2 * (self.below(distances) - scaled * density))

    @property
    def _rate(self) -> float:
        return math.sqrt(2.0) / self.deviation
