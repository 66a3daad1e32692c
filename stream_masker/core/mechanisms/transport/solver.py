"""The scaling of an entropic optimal transport of a law onto itself.

For tuples s, t of a window let K(s, t) = Π_j exp(−λ_j·sd_j(s_j, t_j)²), and P the law of the window's tuples. There is
one φ > 0 with φ(s)·(Kφ)(s) = P(s). The coupling π(s, t) = φ(s)·K(s, t)·φ(t) has the marginals P and P. Among all
couplings with these marginals and the same mean squared distances, it has the greatest entropy, so the least mutual
information (Cuturi 2013; Peyré and Cuturi 2019: proposition 4.3). Its channel π(s, t) / P(s) is an invariant PRAM
(Gouweleeuw and others 1998).

The fixed point is ln φ ← ln φ + θ·(ln P − ln φ − ln Kφ). In a linearisation, each error shrinks by 1 − θ·(1 + μ) for
the eigenvalues μ of the channel. Those of a positive semidefinite K lie in [0, 1], so θ = 2/3 divides errors by 3 in
each step, and θ = 1/2, which is φ ← √(φ·P / Kφ), by 2. Anderson's method combines steps (Walker and Ni 2011).

A tuple that is too rare to be written has ψ = 0; for the others ψ = φ. The channel is
M(t | s) = K(s, t)·ψ(t) / (Kψ)(s). A rare tuple moves to those that are near, so the law of masked tuples stays close to
P. Without rare tuples it is P.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float32Matrix, Float64Array, Float64Matrix
from stream_masker.core.mechanisms.transport.table import Table

MAX_EXPONENT = 80.0
"""The greatest exponent of a kernel. K stays above 10⁻³⁵, so that nothing underflows and ε stays finite."""
RELAXATION = 2.0 / 3.0
MARGINAL_ERROR = 1e-6
"""The greatest sum of absolute differences between the two marginals of the coupling and P."""
ROUGH_ERROR = 1e-3
"""The same while λ is searched for."""
MAX_BALANCE_STEPS = 300
ANDERSON_MEMORY = 4
"""The number of steps before the current one that Anderson's method combines."""
MAX_SETBACK = 10.0
"""When an error exceeds the least one by this factor, the steps before are forgotten."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A window's law, and the squared distances of its values.

    * ``table``: the tuples of the window. ``law``: (m,) P. ``written``: (m,) whether a tuple may be written.
    * ``squares``: for both attributes (k, k) float64 sd². ``power``: γ of the kernel exp(−λ·sd^γ).
    * ``extra``: (k_A, k_A) float64, exponents that are added to those of A; None for none.
    """

    table: Table
    law: Float64Array
    written: BoolArray
    squares: tuple[Float64Matrix, Float64Matrix]
    power: float
    extra: Float64Matrix | None = None
    _last: dict[tuple[float, ...], tuple[Float64Matrix, Float64Matrix]] = field(default_factory=dict, init=False)

    def kernels(self, sharpness: Float64Array) -> tuple[Float64Matrix, Float64Matrix]:
        """K_A and K_B for λ of both attributes; those of the last λ are kept."""
        key = tuple(sharpness.tolist())
        if key not in self._last:
            first, second = self.squares
            self._last.clear()
            self._last[key] = (gibbs(first, key[0], self.power, self.extra), gibbs(second, key[1], self.power))
        return self._last[key]


def gibbs(squares: Float64Matrix, sharpness: float, power: float, extra: Float64Matrix | None = None) -> Float64Matrix:
    """(k, l) float64: exp(−λ·sd^γ − extra) from sd², with exponents of at most ``MAX_EXPONENT``."""
    exponents = sharpness * (squares if power == 2.0 else squares ** (power / 2.0))
    if extra is not None:
        exponents += extra
    np.minimum(exponents, MAX_EXPONENT, out=exponents)
    np.negative(exponents, out=exponents)
    result: Float64Matrix = np.exp(exponents, out=exponents)
    return result


def gibbs32(
    squares: Float32Matrix, sharpness: float, power: float, extra: Float64Matrix | None = None
) -> Float32Matrix:
    """The same as float32, in a fraction of the time."""
    exponents = squares ** (power / 2.0) if power != 4.0 else squares * squares
    exponents *= sharpness
    if extra is not None:
        exponents += extra.astype(np.float32)
    np.minimum(exponents, MAX_EXPONENT, out=exponents)
    np.negative(exponents, out=exponents)
    result: Float32Matrix = np.exp(exponents, out=exponents)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """A solution for one λ.

    * ``sharpness``: (2,) λ of both attributes. ``phi``: (m,) φ. ``psi``: (m,) ψ. ``totals``: (m,) Kψ.
    * ``error``: the sum of absolute differences between φ·Kφ and P.
    """

    sharpness: Float64Array
    phi: Float64Array
    psi: Float64Array
    totals: Float64Array
    error: float


def balance(problem: Problem, sharpness: Float64Array, start: Float64Array | None, tolerance: float) -> Scaling:
    """Find φ for a given λ; ``start``: (m,) φ of a similar problem, or None."""
    kernels = problem.kernels(sharpness)
    phi, totals, error = _balanced(problem, kernels, start, tolerance)
    psi = np.where(problem.written, phi, 0.0)
    if not problem.written.all():
        (totals,) = problem.table.product(psi, [kernels[0]], kernels[1])
    return Scaling(sharpness, phi, psi, totals, error)


def _balanced(
    problem: Problem, kernels: tuple[Float64Matrix, Float64Matrix], start: Float64Array | None, tolerance: float
) -> tuple[Float64Array, Float64Array, float]:
    """Return φ, Kφ and the error of the best step."""
    x = np.log(np.sqrt(problem.law) if start is None else start)
    accelerator = _Anderson(problem.law)
    best = (np.exp(x), x, np.inf)
    for _ in range(MAX_BALANCE_STEPS):
        phi = np.exp(x)
        (totals,) = problem.table.product(phi, [kernels[0]], kernels[1])
        error = float(np.abs(phi * totals - problem.law).sum())
        if error < best[2]:
            best = (phi, totals, error)
        if best[2] <= tolerance:
            break
        if error > MAX_SETBACK * best[2]:
            accelerator.clear()
        x = accelerator.next(x, RELAXATION * (np.log(problem.law) - x - np.log(totals)))
    return best


class _Anderson:
    """Anderson's acceleration of x ← x + residual(x), with residuals weighted by a law."""

    def __init__(self, weights: Float64Array) -> None:
        self._roots = np.sqrt(weights)
        self.clear()

    def clear(self) -> None:
        """Forget the steps before."""
        self._points: list[Float64Array] = []
        self._residuals: list[Float64Array] = []

    def next(self, x: Float64Array, residual: Float64Array) -> Float64Array:
        """Return the next point."""
        self._points, self._residuals = (
            [*self._points[-ANDERSON_MEMORY:], x],
            [*self._residuals[-ANDERSON_MEMORY:], residual],
        )
        if len(self._points) == 1:
            return x + residual
        points = np.array([x - before for before in self._points[:-1]])
        residuals = np.array([residual - before for before in self._residuals[:-1]])
        mixture = _least_squares((residuals * self._roots).T, residual * self._roots)
        result: Float64Array = x + residual - mixture @ (points + residuals)
        return result


def _least_squares(columns: Float64Array, wanted: Float64Array) -> Float64Array:
    return np.asarray(np.linalg.lstsq(columns, wanted, rcond=1e-10)[0])


def mean_squares(problem: Problem, scaling: Scaling) -> Float64Array:
    """(2,) float64: E[sd²] of both attributes under P and the channel."""
    first, second = problem.kernels(scaling.sharpness)
    weights = problem.law / scaling.totals
    (moved_a,) = problem.table.product(scaling.psi, [first * problem.squares[0]], second)
    (moved_b,) = problem.table.product_by_column(scaling.psi, first, [second * problem.squares[1]])
    return np.array([weights @ moved_a, weights @ moved_b])
