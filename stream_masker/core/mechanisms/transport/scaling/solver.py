"""The scaling of a transport of a law onto itself, with limits to what a mask tells (docs/derivations.md: Transport).

For tuples s, t of a window's law P, the coupling is π(s, t) = φ(s)·K(s, t)·r(s, t)·ψ(t), with K the product of the
kernels of both attributes and r the factors of the limits. Its marginals are P (Sinkhorn's iteration; Cuturi 2013). The
channel is M(t | s) = π(s, t) / P(s), an invariant PRAM (Gouweleeuw and others 1998).
A tuple that is too rare to be written has ψ = 0. Its share of the law of masks is that of tuples near it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import BoolArray, Float32Matrix, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels.elementary import exponentials, inner_product, least_squares, logarithms
from stream_masker.core.mechanisms.transport.kernel import Levels, kernel_of, leveled
from stream_masker.core.mechanisms.transport.kinds import NO_KINDS, Kinds
from stream_masker.core.mechanisms.transport.limits import Caps
from stream_masker.core.mechanisms.transport.scaling.columns import (
    Columns,
    Side,
    add_factors,
    bound,
    fill_figures,
    mean_squares,
    sum_again,
)
from stream_masker.core.mechanisms.transport.scaling.table import Binding, Table

MARGINAL_ERROR = 1e-4
"""The greatest sum of absolute differences between the law of masks and P."""
ROUGH_ERROR = 1e-2
"""The greatest such sum while the exponents are searched for."""
MAX_ROUNDS = 300
ANDERSON_MEMORY = 5
"""The number of rounds before the current one that Anderson's method combines."""
MAX_SETBACK, MAX_STALL = 2.0, 10
"""The previous rounds are discarded when an error exceeds the least one by this factor, or so many did not lower it."""
MAX_LOG_STEP = 1.0
"""The greatest change of ln φ in a round."""
LEAST = 1e-300

NO_SUMS = np.empty((0, 0), np.float32)

Start: TypeAlias = tuple[Float64Array, tuple[Binding, Binding]]
"""ψ and the factors of both attributes."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A window's law of one or two attributes, their kernels, and their limits.

    * ``table``: the tuples of the window; of one attribute, with a second one of a single value. ``counts``: (m,)
      int64, its rows of each tuple. ``written``: (m,) whether a tuple may be written.
    * ``squares``: (k, k) sd² of both attributes. ``levels``: those of their kernels.
    * ``limits``: of both attributes. ``fitting``: lower ones, which a solution is fitted to.
    """

    table: Table
    counts: Int64Array
    written: BoolArray
    squares: tuple[Float64Matrix, Float64Matrix]
    levels: tuple[Levels, Levels]
    limits: tuple[Caps, Caps]
    fitting: tuple[Caps, Caps]

    @cached_property
    def law(self) -> Float64Array:
        """(m,) P."""
        return np.asarray(self.counts / self.counts.sum())

    @cached_property
    def costs(self) -> tuple[Float32Matrix, ...]:
        """For both attributes (k, k) float32, the exponents of K of a value (row) and a mask (column)."""
        return tuple(levels.costs(squares) for levels, squares in zip(self.levels, self.squares, strict=True))

    @cached_property
    def target(self) -> Float64Array:
        """(m,) the law of masks: P of the tuples that are written, with the share of each rare tuple at those that are
        near it, by the kernels."""
        kept = np.where(self.written, self.law, 0.0)
        if self.written.all():
            return kept
        kernels, rows = Kernels(self, np.ones(2)), self.table.by_row
        near = rows.product(kernels.first, rows.sums(kept, kernels.second_masks))
        lacking = rows.sums((self.law - kept) / np.maximum(near, LEAST), kernels.second)
        moved = rows.product(kernels.first_masks, lacking)
        target = kept * (1.0 + moved)
        return np.asarray(target / target.sum())

    @property
    def lone(self) -> bool:
        """Whether there is a single attribute."""
        return self.table.shape[1] == 1

    def sharpened(self, factor: float) -> Problem:
        """Return the problem with kernels of other λ, which are leveled anew."""
        places = zip((self.table.rows, self.table.columns), self.table.shape, strict=True)
        laws = (np.bincount(which, self.law, size).astype(np.float64) for which, size in places)
        first, second = (
            levels if len(squares) == 1 else leveled(law, squares, factor * levels.sharpness)
            for levels, law, squares in zip(self.levels, laws, self.squares, strict=True)
        )
        return replace(self, levels=(first, second))


@dataclass(frozen=True, eq=False)
class Kernels:
    """The kernels of a problem with given exponents, (2,): K_A and K_B of a value (row) and a mask (column)."""

    problem: Problem
    exponents: Float64Array

    @cached_property
    def first(self) -> Float32Matrix:
        return kernel_of(self.problem.costs[0], float(self.exponents[0]))

    @cached_property
    def second(self) -> Float32Matrix:
        return kernel_of(self.problem.costs[1], float(self.exponents[1]))

    @cached_property
    def first_masks(self) -> Float32Matrix:
        """K_A of a mask (row) and a value (column)."""
        return np.ascontiguousarray(self.first.T)

    @cached_property
    def second_masks(self) -> Float32Matrix:
        """K_B of a mask (row) and a value (column)."""
        return np.ascontiguousarray(self.second.T)


@dataclass(eq=False)
class Scaling:
    """A solution for given exponents. φ·D = P holds exactly.

    ``psi``: (m,) ψ, 0 where a tuple is not written. ``binding``: the factors of both attributes. ``met``: whether the
    law of masks is the target's.
    """

    kernels: Kernels
    psi: Float64Array
    binding: tuple[Binding, Binding]
    met: bool = True

    @property
    def problem(self) -> Problem:
        return self.kernels.problem

    @property
    def exponents(self) -> Float64Array:
        return self.kernels.exponents

    @property
    def start(self) -> Start:
        return self.psi, self.binding

    @cached_property
    def phi(self) -> Float64Array:
        """(m,) φ = P / D."""
        return np.asarray(self.problem.law / np.maximum(denominators(self.kernels, self.psi, self.binding), LEAST))

    @cached_property
    def columns(self) -> tuple[Columns, ...]:
        """What the masks of each attribute tell."""
        return tuple(columns_of(self, first=first) for first in ((True,) if self.problem.lone else (True, False)))

    @cached_property
    def moved(self) -> Float64Array:
        """(n,) E[sd²] of each attribute."""
        moved = []
        for j in range(1 if self.problem.lone else 2):
            side, factors = seen_from(self.kernels, self.phi, first=j == 0), (self.binding[j], self.binding[1 - j])
            shares, squares = mean_squares(side, *factors, self.psi, self.problem.squares[j])
            moved.append(inner_product(shares / max(float(shares.sum()), LEAST), squares))
        return np.array(moved)


def balance(problem: Problem, exponents: Float64Array, tolerance: float, start: Start | None = None) -> Scaling:
    """Find φ, ψ and r for given exponents; ``start``: ψ and the factors of a similar problem, or None.

    A round computes ψ and r from φ, by which the masks have their law, and φ from these. It is a function of φ, which
    Anderson's method accelerates. What the rows lack bounds the error of the law of masks after the round.
    """
    kernels, none = Kernels(problem, exponents), Binding.none(problem.law.size)
    psi, binding = (problem.target, (none, none)) if start is None else start
    x = logarithms(Scaling(kernels, psi, binding).phi)
    accelerator = Anderson(problem.law)
    best, least, since = None, np.inf, 0
    for _ in range(MAX_ROUNDS):
        totals, binding = _bound(kernels, exponentials(x), binding)
        psi = np.where(problem.written, problem.target / np.maximum(totals, LEAST), 0.0)
        new = Scaling(kernels, psi, binding, met=False)
        residual = logarithms(new.phi) - x
        error = float((problem.law * np.abs(exponentials(-residual) - 1.0)).sum())
        if not np.isfinite(error):
            break
        since += 1
        if error < least:
            best, least, since = new, error, 0
        if error <= tolerance:
            new.met = True
            break
        if error > MAX_SETBACK * least or since == MAX_STALL:
            accelerator.clear()
            since = 0
        proposed = accelerator.next(x, residual)
        x = np.clip(proposed, x - MAX_LOG_STEP, x + MAX_LOG_STEP)
    return best or new


def denominators(kernels: Kernels, psi: Float64Array, binding: tuple[Binding, Binding]) -> Float64Array:
    """Return (m,) float64: D(s) = Σ_t K·r·ψ of all tuples."""
    table = kernels.problem.table
    sums = table.by_row.sums(psi, kernels.second_masks)
    result = table.by_row.product(kernels.first, sums)
    if binding[0].values.size or binding[1].values.size:
        whole = result.copy()
        first, second = (seen_from(kernels, psi, first=one, sums=False) for one in (True, False))
        add_factors(first, binding[0], binding[1], psi, True, result)
        add_factors(second, binding[1], binding[0], psi, False, result)
        bound_by = (binding[0].by_value(table.shape[0]), binding[1].by_value(table.shape[1]))
        masks, written = (kernels.first, kernels.second), np.flatnonzero(psi)
        lines = offsets_from_lengths(np.bincount(table.rows[written], minlength=table.shape[0]))
        first = first._replace(sums=sums, my_lines=lines, my_entries=written)
        sum_again(first, masks, binding[0], binding[1], bound_by, whole, result)
    return result


def seen_from(kernels: Kernels, phi: Float64Array, *, first: bool, sums: bool = True) -> Side:
    """Return the pair as seen from the first attribute, or from the second one; ``sums``: whether it has sums."""
    table, masks = kernels.problem.table, (kernels.first_masks, kernels.second_masks)
    rows = (table.rows, table.by_row.offsets, np.arange(table.rows.size))
    columns = (table.columns, table.by_column.offsets, table.order)
    if first:
        given = table.by_row.sums(phi, kernels.second) if sums else NO_SUMS
        return Side(*rows, *columns, masks[0], given, masks[1], phi)
    given = table.by_column.sums(phi[table.order], kernels.first) if sums else NO_SUMS
    return Side(*columns, *rows, masks[1], given, masks[0], phi)


def _bound(
    kernels: Kernels, phi: Float64Array, binding: tuple[Binding, Binding]
) -> tuple[Float64Array, tuple[Binding, Binding]]:
    """Return (m,) U(t) with the limits of both attributes, and their factors; ``binding``: those of a similar φ."""
    problem, (first, second) = kernels.problem, binding
    totals, first = bound(seen_from(kernels, phi, first=True), second, problem.written, problem.fitting[0])
    if problem.fitting[1].any and not problem.lone:
        totals, second = bound(seen_from(kernels, phi, first=False), first, problem.written, problem.fitting[1])
    return totals, (first, second)


def columns_of(scaling: Scaling, *, first: bool, joint: bool = False, kinds: Kinds = NO_KINDS) -> Columns:
    """Compute what the masks of the first attribute, or of the second one, tell.

    ``joint``: whether to compute P(a, a*). ``kinds``: those of its values.
    """
    j = 0 if first else 1
    side, problem = seen_from(scaling.kernels, scaling.phi, first=first), scaling.problem
    figures = Columns.empty(scaling.psi.size, len(problem.squares[j]) if joint else 0, kinds)
    mine, others = scaling.binding[j], scaling.binding[1 - j]
    fill_figures(side, mine, others, problem.limits[j], scaling.psi, kinds.table, figures)
    whole = max(float(figures.shares.sum()), LEAST)
    return figures._replace(shares=figures.shares / whole, joint=np.ascontiguousarray(figures.joint.T) / whole)


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
        self._points = [*self._points[-ANDERSON_MEMORY:], x]
        self._residuals = [*self._residuals[-ANDERSON_MEMORY:], residual]
        if len(self._points) == 1:
            return x + residual
        points = np.array([x - before for before in self._points[:-1]])
        residuals = np.array([residual - before for before in self._residuals[:-1]])
        mixture = least_squares(residuals * self._roots, residual * self._roots)
        result = x + residual
        for share, step in zip(mixture.tolist(), points + residuals, strict=True):
            result -= share * step
        return result
