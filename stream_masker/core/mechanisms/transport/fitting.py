"""Transports that are fitted to a window's counts, their form in a model, and the errors if a target cannot be met.

A fit is the transport of one attribute, or of a pair of attributes, onto itself. Its model holds the window's tuples
with their counts, the exponents of the kernels, ln ψ as float32, and the factors of its limits. Kernels and φ are
computed again wherever the model is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.dtypes import BoolArray, Float32Matrix, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels.elementary import exponentials, logarithms
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_array
from stream_masker.core.mechanisms.transport.disclosure import epsilon_of_record
from stream_masker.core.mechanisms.transport.kernel import Levels, leveled
from stream_masker.core.mechanisms.transport.limits import Caps
from stream_masker.core.mechanisms.transport.scaling.search import (
    COMMON_PRECISION,
    EXPONENT_LOGS,
    FIRST_REACH,
    Solved,
    meet_means,
    move_at_least,
    solve,
)
from stream_masker.core.mechanisms.transport.scaling.solver import (
    LEAST,
    MARGINAL_ERROR,
    Kernels,
    Problem,
    Scaling,
    Start,
    columns_of,
    denominators,
)
from stream_masker.core.mechanisms.transport.scaling.table import Binding, Table
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.errors import StatisticsError

MAX_POLISHES = 5
"""How often a solution is checked, each time after rounds to a third of the error."""

FACTOR_ERROR = 1e-3
"""The greatest difference from a given vulnerability, and the greatest relative difference from a given ε."""
MAX_LOG_SCALE = 200.0
"""The greatest |ln ψ| that a model may hold."""

Met = TypeVar("Met")

Squares = tuple[Float64Matrix, Float64Matrix]
CapPair = tuple[Caps, Caps]


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted transport of the tuples of one or two attributes.

    * ``table``: the window's tuples. ``counts``: (m,) int64, its rows of each tuple. ``written``: (m,) whether a tuple
      may be written.
    * ``levels``: those of both kernels. ``exponents``: (2,) of the kernels.
    * ``psi``: (m,) ψ, 0 where a tuple is not written. ``binding``: the factors of both attributes.
    * ``changed``: (2,) the share of values of each attribute that change.
    """

    table: Table
    counts: Int64Array
    written: BoolArray
    levels: tuple[Levels, Levels]
    exponents: Float64Array
    psi: Float64Array
    binding: tuple[Binding, Binding]
    changed: Float64Array

    @classmethod
    def of(cls, problem: Problem, counts: Int64Array, levels: tuple[Levels, Levels], scaling: Scaling) -> Fit:
        """Create the fit of a solution, with the numbers that its model holds, and without what changes."""
        psi = np.zeros(scaling.psi.size)
        psi[problem.written] = _rounded(scaling.psi[problem.written])
        given = (problem.table, counts, problem.written, levels, scaling.exponents)
        return cls(*given, psi, scaling.binding, np.zeros(2))

    @property
    def law(self) -> Float64Array:
        """(m,) float64 P: the share of each tuple."""
        result: Float64Array = self.counts / self.counts.sum()
        return result

    def solution(
        self, squares: tuple[Float64Matrix, Float64Matrix], limits: tuple[Caps, Caps]
    ) -> tuple[Problem, Scaling]:
        """Return the problem that the fit solves, and its solution; ``squares``: (k, k) sd² of both attributes."""
        costs = costs_of(self.levels, squares)
        problem = Problem(self.table, self.law, self.written, costs, limits)
        kernels = Kernels.of(problem, self.exponents)
        totals = denominators(problem, kernels, self.psi, self.binding)
        phi = self.law / np.maximum(totals, LEAST)
        return problem, Scaling(self.exponents, kernels, self.psi, phi, self.binding, 0.0)

    def start_for(
        self, target: Float64Array, keys: Int64Array, own_keys: Int64Array, values: tuple[Int64Array, Int64Array]
    ) -> Start:
        """Return ψ and the factors as a start for another window; tuples are identified by keys.

        * ``target``: (n,) the law of masks of the other window. ``keys``, ``own_keys``: (n,) and (m,) those of its
          tuples, and of the fit's, ascending. ``values``: for both attributes the index that each value has there.
        """
        place, held = located(own_keys, keys)
        known = held & (self.psi[place] > 0.0)
        first, second = (b.carried(place, known, v) for b, v in zip(self.binding, values, strict=True))
        return np.where(known, self.psi[place], target), (first, second)

    def to_model(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return {
            **pack_tuples(self.table, self.counts),
            "written": pack_array(np.packbits(self.written)),
            "kernels": [each.to_model() for each in self.levels],
            "exponents": self.exponents.tolist(),
            "changed": self.changed.tolist(),
            "scale": pack_array(logarithms(self.psi[self.written]).astype(np.float32)),
            "factors": [each.to_model() for each in self.binding],
        }

    @classmethod
    def from_model(cls, model: object, shape: tuple[int, int]) -> Fit:
        """Restore what ``to_model`` returns, for a table of that shape. Raises StatisticsError."""
        table, counts = read_tuples(model, shape)
        written = read_written(model, counts.size)
        scale = unpack_array(read_model_field(model, "scale"), np.float32, int(written.sum())).astype(np.float64)
        if not (np.abs(scale) <= MAX_LOG_SCALE).all():
            raise StatisticsError("a scale of the model is not allowed")
        psi = np.zeros(counts.size)
        psi[written] = exponentials(scale)
        exponents, changed = (two_numbers(model, name) for name in ("exponents", "changed"))
        factors, kernels = (_two(model, name) for name in ("factors", "kernels"))
        first, second = (Binding.from_model(f, counts.size, size) for f, size in zip(factors, shape, strict=True))
        levels = tuple(Levels.from_model(each, size) for each, size in zip(kernels, shape, strict=True))
        return cls(table, counts, written, (levels[0], levels[1]), exponents, psi, (first, second), changed)


def costs_of(
    levels: tuple[Levels, Levels], squares: tuple[Float64Matrix, Float64Matrix]
) -> tuple[Float32Matrix, Float32Matrix]:
    """Return the exponents of both kernels; ``squares``: (k, k) sd² of both attributes."""
    return levels[0].costs(squares[0]), levels[1].costs(squares[1])


def _two(model: object, name: str) -> list[object]:
    """Return a model's list with an entry for each of two attributes. Raises StatisticsError."""
    entries = read_model_field(model, name)
    if not isinstance(entries, list) or len(entries) != 2:
        raise StatisticsError(f"the model's {name} are not those of two attributes")
    return entries


def _rounded(psi: Float64Array) -> Float64Array:
    return exponentials(logarithms(psi).astype(np.float32).astype(np.float64))


@dataclass(frozen=True, eq=False)
class Goal:
    """What a fit of one or two attributes has to meet, and for which window.

    * ``names``: the attributes. ``wanted``: (n,) their mean squared distances. ``target``: the configured target.
    * ``limits``, ``fitting``: of both attributes, what no posterior may exceed, and the lower limits for fitting.
    * ``table``, ``counts``, ``written``: the tuples of the window, their rows, and which of them may be written.
    * ``squares``: (k, k) sd² of both attributes. ``levels``: those of their kernels.
    """

    names: tuple[str, ...]
    wanted: Float64Array
    target: Target
    limits: CapPair
    fitting: CapPair
    table: Table
    counts: Int64Array
    written: BoolArray
    squares: Squares
    levels: tuple[Levels, Levels]

    @cached_property
    def problem(self) -> Problem:
        """The problem with the limits for fitting."""
        law = self.counts / self.counts.sum()
        return Problem(self.table, law, self.written, costs_of(self.levels, self.squares), self.fitting)

    def sharpened(self, factor: float) -> Goal:
        """Return the goal with kernels of other λ, which are leveled anew."""
        places = zip((self.table.rows, self.table.columns), self.table.shape, strict=True)
        laws = (np.bincount(which, self.problem.law, size).astype(np.float64) for which, size in places)
        each = zip(self.levels, laws, self.squares, strict=True)
        first, second = (
            levels if len(squares) == 1 else leveled(given, squares, factor * levels.sharpness)
            for levels, given, squares in each
        )
        return replace(self, levels=(first, second))


def fit(goal: Goal, start: tuple[Float64Array, Start] | None) -> Fit:
    """Fit a transport. Raises StatisticsError if the target cannot be met.

    ``start``: the exponents, and the solution, of a similar problem.
    """
    if goal.target.by_distance:
        return checked(goal, _by_distance(goal, start))
    return checked(*_by_measure(goal))


def checked(goal: Goal, solved: Solved) -> Fit:
    """Return the fit of a solution, with more rounds where a posterior exceeds its limit for any masked record.

    Raises StatisticsError if one still does.
    """
    tolerance, problem = MARGINAL_ERROR, goal.problem
    for _ in range(MAX_POLISHES):
        result = Fit.of(problem, goal.counts, goal.levels, solved.scaling)
        published, scaling = result.solution(goal.squares, goal.limits)
        sides = zip((True, False), goal.squares, goal.names, strict=False)
        columns = [columns_of(published, scaling, each, first=first) for first, each, _ in sides]
        if max(float(each.excess.max()) for each in columns) <= 0.0:
            return replace(result, changed=np.array([*(each.changed for each in columns), 0.0])[:2])
        tolerance /= 3.0
        solved = solve(problem, goal.squares, solved.scaling.exponents, solved.start, tolerance)
    raise StatisticsError(_unreachable(goal, solved))


def check_written(name: str, written: BoolArray) -> None:
    """Raise StatisticsError if fewer than two values of an attribute may be written."""
    if np.count_nonzero(written) < 2:
        raise StatisticsError(
            f"{name}: fewer than two different values may be written, because too few records of the window share "
            "them, so nothing could be masked: use a smaller least, or calibrate on more records"
        )


def _by_distance(goal: Goal, start: tuple[Float64Array, Start] | None) -> Solved:
    problem = goal.problem
    solved, met = meet_means(problem, goal.squares, goal.wanted, start)
    if not met and start is not None and not problem.lone:
        solved, met = meet_means(problem, goal.squares, goal.wanted, None)
    if met:
        return solved
    at_least = _at_least(goal, problem, solved) if goal.target.kind == "alpha" or problem.lone else None
    if at_least is None or (goal.target.limited and goal.target.kind != "alpha"):
        raise StatisticsError(_unreachable(goal, at_least or solved))
    return at_least


def _at_least(goal: Goal, problem: Problem, near: Solved) -> Solved | None:
    """Return the transport with the least noise that moves each attribute by ``wanted`` or more; None if none does.

    Values move farther than a given α asks for where the limits force them to, where one attribute of a pair nearly
    determines the other, and where most tuples are too rare to be written: then it is ``near``, the nearest solution.
    """

    solved = move_at_least(problem, goal.squares, goal.wanted, near)
    if solved is not None:
        return solved
    if near.met and (near.moved >= goal.wanted).all():
        return near
    if goal.target.kind != "alpha":
        return None
    farthest = solve(problem, goal.squares, np.full(2, math.exp(EXPONENT_LOGS[0])), None)
    return farthest if farthest.met else None


def _unreachable(goal: Goal, solved: Solved) -> str:
    """Return the message for a target that a window does not allow; ``solved``: the nearest solution."""
    if goal.target.limited and solved.met:
        ratio = float((solved.moved / goal.wanted).max())
        instead = f"RMSE of {np.sqrt(max(ratio, 1.0) * goal.wanted.max()):.3f}"
        limits = [f"certainty={goal.target.certainty:g}"] if goal.target.certainty is not None else []
        limits += [f"sensitive {name}={each.limit:g}" for name, each in goal.target.sensitive.items()]
        first, second = map(Caps.none, goal.table.shape)
        free = meet_means(replace(goal.problem, limits=(first, second)), goal.squares, goal.wanted, None)[0]
        greatest = max(each.certainty for each in free.columns)
        return (
            f"{' and '.join(goal.names)}: {', '.join(limits)} cannot be met at this distance: use an {instead} or "
            f"more, or limits of {np.ceil(100.0 * greatest) / 100.0:g} or more"
        )
    ranges = [
        f"{name} {np.sqrt(moved):.3f} (wanted: {np.sqrt(wanted):.3f})"
        for name, moved, wanted in zip(goal.names, solved.moved, goal.wanted, strict=True)
    ]
    return f"target {goal.target.kind} cannot be met: the nearest RMSE that this window allows is {', '.join(ranges)}"


def _by_measure(goal: Goal) -> tuple[Goal, Solved]:
    """Return a solution that meets a vulnerability or an ε, and its goal.

    For an ε the kernels are raised to a power; for a vulnerability they are leveled anew.
    """

    def measure(factor: float, near: tuple[Goal, Solved] | None) -> tuple[float, tuple[Goal, Solved]]:
        before = near and near[1].start
        if goal.target.kind == "epsilon":
            solved = solve(goal.problem, goal.squares, np.full(2, factor), before)
            value = epsilon_of_record(goal.problem, solved.scaling) if solved.met else np.inf
            return value, (goal, solved)
        sharp = goal.sharpened(factor)
        solved = solve(sharp.problem, goal.squares, np.ones(2), before)
        return max(c.vulnerability for c in solved.columns) if solved.met else np.inf, (sharp, solved)

    return meet_level(goal.target, measure)


def meet_level(target: Target, measure: Callable[[float, Met | None], tuple[float, Met]]) -> Met:
    """Return the solution that meets a vulnerability or an ε: for one exponent of all kernels, found by bisection.

    ``measure``: returns the figure for an exponent, with which it rises, and the solution that has it; it takes the
    solution for another exponent as a start. The figure is at most that of the target, and within ``FACTOR_ERROR`` of
    it if there is such a solution. Raises StatisticsError, with the range, if the window does not allow it.
    """
    wanted, tolerance = target.level, FACTOR_ERROR * (target.level if target.kind == "epsilon" else 1.0)
    point, reach, best = 0.0, FIRST_REACH, None
    low: float | None = None
    high: float | None = None
    while low is None or high is None or high - low > COMMON_PRECISION:
        value, state = measure(math.exp(point), best)
        if value <= wanted:
            best, low = state, point
            if value >= wanted - tolerance:
                break
        else:
            high = point
        if low is not None and high is not None:
            point = (low + high) / 2.0
            continue
        end, other = EXPONENT_LOGS[::-1] if high is None else EXPONENT_LOGS
        if point == end:
            ends = sorted((value, measure(math.exp(other), None)[0]))
            raise StatisticsError(
                f"target {target.kind}={wanted:g} cannot be met: this window allows {ends[0]:.3f} to {ends[1]:.3f}"
            )
        point, reach = float(np.clip(point + (reach if high is None else -reach), *EXPONENT_LOGS)), 2.0 * reach
    assert best is not None
    return best


def pack_tuples(table: Table, counts: Int64Array) -> dict[str, Any]:
    """Return what ``read_tuples`` reads."""
    return counts_to_model("tuples", table.keys, counts)


def read_tuples(model: object, shape: tuple[int, int]) -> tuple[Table, Int64Array]:
    """Return the tuples of a model, for a table of that shape, and their counts. Raises StatisticsError."""
    keys, counts = read_counts(model, "tuples", np.int64, shape[0] * shape[1])
    rows, columns = np.divmod(keys, shape[1])
    return Table.of(rows, columns, shape), counts


def read_written(model: object, tuples: int) -> BoolArray:
    """Return (m,) bool: which tuples of a model may be written. Raises StatisticsError if none may."""
    packed = unpack_array(read_model_field(model, "written"), np.uint8, (tuples + 7) // 8)
    written = np.unpackbits(packed, count=tuples).astype(np.bool_)
    if not written.any():
        raise StatisticsError("no tuple of the model may be written")
    return np.asarray(written)


def two_numbers(model: object, name: str) -> Float64Array:
    """Return (2,) float64 from 0 of a model's field. Raises StatisticsError."""
    try:
        numbers = np.array(read_model_field(model, name), np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape != (2,) or not np.isfinite(numbers).all() or numbers.min() < 0.0:
        raise StatisticsError(f"the model's {name} is not two numbers from 0")
    return numbers


def counts_to_model(name: str, keys: np.ndarray[Any, Any], counts: Int64Array) -> dict[str, Any]:
    """Return what ``read_counts`` reads."""
    return {name: pack_array(np.diff(keys, prepend=keys.dtype.type(0))), "counts": pack_array(counts)}


def read_counts(model: object, name: str, dtype: type[np.integer[Any]], size: int) -> tuple[Any, Int64Array]:
    """Return (n,) the numbers of a model, from 0 to below ``size``, ascending, and their counts.

    Raises StatisticsError.
    """
    keys = np.cumsum(unpack_array(read_model_field(model, name), dtype)).astype(dtype)
    counts = unpack_array(read_model_field(model, "counts"), np.int64, keys.size)
    if not keys.size or keys[0] < 0 or keys[-1] >= size or np.diff(keys).min(initial=1) < 1 or counts.min() < 1:
        raise StatisticsError(f"the model's {name} are not distinct or not allowed, or a count of them is not positive")
    return keys, counts
