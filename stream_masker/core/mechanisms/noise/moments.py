"""Moments of correlated noise over rectangles of levels, by quadrature.

For two noises (x, y) with correlation ρ, and distances u_i, v_j of the levels: E[|x|^p·|y|^q; |x| ≤ u_i, |y| ≤ v_j] for
p, q in {0, 2}, for equal and for opposite signs. Given x, y is normal, and its part has a closed form; x is integrated
with Gauss–Legendre nodes in steps short against the standard deviation of y given x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Array4D
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.noise.sampling import NoiseLaw

MAX_CORRELATION = 1.0 - 1e-6
"""The greatest correlation of two noises that the quadrature resolves; greater ones are reduced to it."""

REACH = 9.0
"""Standard deviations beyond which normal noise is neglected."""

NODES = 16


@dataclass(frozen=True, slots=True)
class NoisePair:
    """The law of two noises: their own laws, their correlation, and whether one √W scales both noises."""

    first: NoiseLaw
    second: NoiseLaw
    correlation: float
    shared: bool

    def moments(self, u: Float64Array, v: Float64Array) -> Float64Array4D:
        """Return (2, 4, k + 1, l + 1) float64: the moments over the rectangles of distances.

        * ``u``, ``v``: (k,) and (l,) ascending distances from 0 on. The last entries of the result are those of
          infinity.
        * First index: 0 for equal signs, 1 for opposite ones. Second index: (p, q) = (0, 0), (2, 0), (0, 2), (2, 2).
        """
        if self.correlation == 0.0 and not (self.shared and self.first.distribution.scaled):
            return _independent(self.first, self.second, u, v)
        rho = min(max(self.correlation, -MAX_CORRELATION), MAX_CORRELATION)
        result = np.zeros((2, 4, u.size + 1, v.size + 1))
        for scale, weight in self.first.distribution.quadrature():
            deviations = scale * self.first.deviation, scale * self.second.deviation
            add_moments(u, v, *deviations, rho, weight, *_nodes(), result)
        return result


def _independent(first: NoiseLaw, second: NoiseLaw, u: Float64Array, v: Float64Array) -> Float64Array4D:
    a, b = _half_moments(first, u), _half_moments(second, v)
    table = np.array([np.outer(x, y) for y in b for x in a])
    return np.stack([table, table])


def _half_moments(law: NoiseLaw, distances: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return P(0 < ε ≤ x) and E[ε²; 0 < ε ≤ x] of each distance, and of infinity."""
    squares = np.append(law.square_below(distances), law.deviation**2)
    return 0.5 * np.append(law.below(distances), 1.0), 0.5 * squares


def _nodes() -> tuple[Float64Array, Float64Array]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return 0.5 * (nodes + 1.0), 0.5 * weights


@part
def normal_below(z: float) -> float:
    """Return P(Z ≤ z) of a standard normal variate."""
    return 0.5 * math.erfc(-z * math.sqrt(0.5))


@part
def normal_density(z: float) -> float:
    """Return the density of a standard normal variate."""
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


@part
def add_node(
    x: float, mass: float, v: Float64Array, rho: float, second: float, cell: int, result: Float64Array4D
) -> None:
    """Add one node x > 0 of weight ``mass`` to the cell of its level; ``rho·second·x`` is the mean of y given x.

    ``x`` is in units of its standard deviation; ``result`` is in these units, too.
    """
    mean, spread = rho * x * second, math.sqrt(1.0 - rho * rho) * second
    for opposite in range(2):
        center = -mean if opposite else mean
        start = -center / spread
        low, density = normal_below(start), normal_density(start)
        for j in range(v.size + 1):
            z = (v[j] - center) / spread if j < v.size else np.inf
            chance = (normal_below(z) if j < v.size else 1.0) - low
            edge = (center + v[j]) * normal_density(z) if j < v.size else 0.0
            square = (center * center + spread * spread) * chance + spread * (center * density - edge)
            result[opposite, 0, cell, j] += mass * chance
            result[opposite, 1, cell, j] += mass * x * x * chance
            result[opposite, 2, cell, j] += mass * square
            result[opposite, 3, cell, j] += mass * x * x * square


@kernel
def add_moments(
    u: Float64Array,
    v: Float64Array,
    first: float,
    second: float,
    rho: float,
    weight: float,
    nodes: Float64Array,
    weights: Float64Array,
    result: Float64Array4D,
) -> None:
    """Add ``weight`` times the moments of a normal pair to ``result``.

    ``first``, ``second``: the standard deviations. ``nodes``, ``weights``: those of the quadrature on (0, 1).
    """
    cells = np.zeros(result.shape)
    step = max(2.0 * math.sqrt(1.0 - rho * rho) / max(abs(rho), 0.1), 0.002)
    for i in range(u.size):
        low = min(u[i] / first, REACH)
        high = min(u[i + 1] / first, REACH) if i + 1 < u.size else REACH
        pieces = int64(math.ceil((high - low) / min(step, 1.0)))
        for k in range(pieces):
            width = (high - low) / pieces
            for node in range(nodes.size):
                x = low + width * (k + nodes[node])
                add_node(x, width * weights[node] * normal_density(x), v, rho, second, i + 1, cells)
    for opposite in range(2):
        for m in range(4):
            factor = weight * (first * first if m % 2 == 1 else 1.0)
            for j in range(v.size + 1):
                total = 0.0
                for i in range(u.size + 1):
                    total += cells[opposite, m, i, j]
                    result[opposite, m, i, j] += factor * total
