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

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float32Matrix, Float64Array, Float64Matrix
from stream_masker.core.mechanisms.transport import products
from stream_masker.core.mechanisms.transport.products import FloatMatrix
from stream_masker.core.mechanisms.transport.table import Table

MAX_EXPONENT = 80.0
"""The greatest exponent of a kernel. K stays above 10⁻³⁵, so that nothing underflows and ε stays finite."""
GIBBS_ROWS = 32
"""The number of rows of a kernel that are computed at once."""
RELAXATION = 2.0 / 3.0
SINGLE_ERROR = 1e-6
"""The least error that products in single precision reach."""
MARGINAL_ERROR = SINGLE_ERROR
"""The greatest sum of absolute differences between the two marginals of the coupling and P."""
ROUGH_ERROR = 1e-3
"""The greatest such sum while λ is searched for."""
MAX_BALANCE_STEPS = 300
ANDERSON_MEMORY = 4
"""The number of steps before the current one that Anderson's method combines."""
MAX_SETBACK = 10.0
"""When an error exceeds the least one by this factor, the previous steps are discarded."""


Matrix = TypeVar("Matrix", Float64Matrix, Float32Matrix)


def gibbs(squares: Matrix, sharpness: float, power: float, extra: Float64Matrix | None = None) -> Matrix:
    """Return (k, l): exp(−λ·sd^γ − extra) from sd², in its precision, with exponents of at most ``MAX_EXPONENT``.

    It is computed for some rows at a time, which stay in the cache of the processor.
    """
    result: Matrix = np.empty_like(squares)
    for top in range(0, len(squares), GIBBS_ROWS):
        given, exponents = squares[top : top + GIBBS_ROWS], result[top : top + GIBBS_ROWS]
        np.multiply(given, given if power == 4.0 else given ** (power / 2.0 - 1.0), out=exponents)
        exponents *= -sharpness
        if extra is not None:
            exponents -= extra[top : top + GIBBS_ROWS].astype(exponents.dtype)
        np.maximum(exponents, -MAX_EXPONENT, out=exponents)
        np.exp(exponents, out=exponents)
    return result


class Kernels(Generic[Matrix]):
    """K_A and K_B for any λ, in single or in double precision; those of the last λ are kept.

    ``squares``, ``power``, ``extra``: see ``Problem``.
    """

    squares: tuple[Matrix, Matrix]

    def __init__(self, squares: tuple[Matrix, Matrix], power: float, extra: Float64Matrix | None) -> None:
        self.squares = squares
        self._power = power
        self._extra = extra
        self._last: tuple[tuple[float, ...], Matrix, Matrix] | None = None

    def of(self, sharpness: Float64Array) -> tuple[Matrix, Matrix]:
        """Return K_A and K_B for λ of both attributes."""
        a, b = sharpness.tolist()
        if self._last is None or self._last[0] != (a, b):
            first, second = self.squares
            self._last = ((a, b), gibbs(first, a, self._power, self._extra), gibbs(second, b, self._power))
        return self._last[1:]


@dataclass(frozen=True, eq=False)
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

    @cached_property
    def double(self) -> Kernels[Float64Matrix]:
        """The kernels as float64."""
        return Kernels(self.squares, self.power, self.extra)

    @cached_property
    def single(self) -> Kernels[Float32Matrix]:
        """The kernels as float32."""
        first, second = self.squares
        return Kernels((first.astype(np.float32), second.astype(np.float32)), self.power, self.extra)

    def kernels(self, sharpness: Float64Array) -> tuple[Float64Matrix, Float64Matrix]:
        """K_A and K_B as float64, for λ of both attributes."""
        return self.double.of(sharpness)


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """A solution for one λ.

    * ``sharpness``: (2,) λ of both attributes. ``phi``: (m,) φ. ``psi``: (m,) ψ. ``totals``: (m,) Kψ.
    * ``error``: the sum of absolute differences between φ·Kφ and P.
    * ``single``: whether it was found in single precision.
    """

    sharpness: Float64Array
    phi: Float64Array
    psi: Float64Array
    totals: Float64Array
    error: float
    single: bool = False


def balance(problem: Problem, sharpness: Float64Array, start: Float64Array | None, tolerance: float) -> Scaling:
    """Find φ for a given λ; ``start``: (m,) φ of a similar problem, or None.

    Products are computed in single precision unless the tolerance is below ``SINGLE_ERROR``.
    """
    single = tolerance >= SINGLE_ERROR
    phi, totals, error = _balanced(problem, sharpness, start, tolerance, single=single)
    psi = np.where(problem.written, phi, 0.0)
    if not problem.written.all():
        totals = _totals(problem, sharpness, psi, single=single)
    return Scaling(sharpness, phi, psi, totals, error, single)


def _totals(problem: Problem, sharpness: Float64Array, weights: Float64Array, *, single: bool) -> Float64Array:
    """Return (m,) float64: K times the weights."""
    kernels = problem.single.of(sharpness) if single else problem.double.of(sharpness)
    return problem.table.by_row.product(weights, *kernels)


def _balanced(
    problem: Problem, sharpness: Float64Array, start: Float64Array | None, tolerance: float, *, single: bool
) -> tuple[Float64Array, Float64Array, float]:
    """Return φ, Kφ and the error of the best step."""
    x = np.log(np.sqrt(problem.law) if start is None else start)
    accelerator = Anderson(problem.law)
    best = (np.exp(x), x, np.inf)
    for _ in range(MAX_BALANCE_STEPS):
        phi = np.exp(x)
        totals = _totals(problem, sharpness, phi, single=single)
        error = float(np.abs(phi * totals - problem.law).sum())
        if error < best[2]:
            best = (phi, totals, error)
        if best[2] <= tolerance:
            break
        if error > MAX_SETBACK * best[2]:
            accelerator.clear()
        x = accelerator.next(x, RELAXATION * (np.log(problem.law) - x - np.log(totals)))
    return best


class Anderson:
    """Anderson's acceleration of x ← x + residual(x), with residuals weighted by a law."""

    def __init__(self, weights: Float64Array) -> None:
        self._roots = np.sqrt(weights)
        self.clear()

    def clear(self) -> None:
        """Discard the previous steps."""
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
    """Return (2,) float64: E[sd²] of both attributes under P and the channel, in the precision of the scaling."""
    kernels: Kernels[Float32Matrix] | Kernels[Float64Matrix] = problem.single if scaling.single else problem.double
    (first, second), (squares_a, squares_b) = kernels.of(scaling.sharpness), kernels.squares
    rows, weights = problem.table.by_row, problem.law / scaling.totals
    if problem.table.shape[1] == 1:
        return np.array([weights @ _moved_alone(problem.table, scaling.psi, first, squares_a), 0.0])
    moved_a = rows.product(scaling.psi, np.multiply(first, squares_a), second)
    moved_b = rows.product(scaling.psi, first, np.multiply(second, squares_b))
    return np.array([weights @ moved_a, weights @ moved_b])


def _moved_alone(table: Table, psi: Float64Array, kernel: FloatMatrix, squares: FloatMatrix) -> Float64Array:
    """Return (m,) float64: the entries of K∘sd² times ψ for one attribute, some rows of the product at a time."""
    column = np.zeros(table.shape[0], kernel.dtype)
    column[table.rows] = psi
    tops = range(0, table.shape[0], GIBBS_ROWS)
    moved = [(kernel[t : t + GIBBS_ROWS] * squares[t : t + GIBBS_ROWS]) @ column for t in tops]
    return np.asarray(np.concatenate(moved)[table.rows], np.float64)


def changed_shares(problem: Problem, scaling: Scaling) -> Float64Array:
    """Return (2,) float64: the share of values of each attribute that change, P(a* ≠ a) and P(b* ≠ b)."""
    first, second = problem.single.of(scaling.sharpness)
    table, weights = problem.table, problem.law / scaling.totals
    rows, columns, order = table.by_row, table.by_column, table.order
    kept_first = products.row_forms(rows.offsets, rows.columns, weights, scaling.psi, second)
    kept_second = products.row_forms(columns.offsets, columns.columns, weights[order], scaling.psi[order], first)
    return np.clip([1.0 - kept_first, 1.0 - kept_second], 0.0, 1.0)
