"""The fit of a transport to a window's counts, and the errors if a target cannot be met."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.mechanisms.transport.disclosure import epsilon_of_record
from stream_masker.core.mechanisms.transport.fit import Fit, costs_of
from stream_masker.core.mechanisms.transport.kernel import Levels, leveled
from stream_masker.core.mechanisms.transport.limits import Caps
from stream_masker.core.mechanisms.transport.scaling.search import (
    EXPONENT_LOGS,
    FACTOR_ERROR,
    Measured,
    OutOfRangeError,
    Solved,
    meet_from_below,
    meet_means,
    move_at_least,
    solve,
)
from stream_masker.core.mechanisms.transport.scaling.solver import MARGINAL_ERROR, Problem, Start, columns_of
from stream_masker.core.mechanisms.transport.scaling.table import Table
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.errors import StatisticsError

MAX_NOISE = 0.995
"""The greatest noise of a given α, as a share of the mean squared distances of independent records.

α·sdVar can exceed what the window's values allow; as for semantic noise, the noise is then truncated.
"""
MAX_POLISHES = 5
"""How often a solution is checked, each time after rounds to a third of the error."""

Met = TypeVar("Met")

Squares = tuple[Float64Matrix, Float64Matrix]
CapPair = tuple[Caps, Caps]


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


def _free(goal: Goal) -> Problem:
    """Return the problem without limits."""
    first, second = goal.table.shape
    return replace(goal.problem, limits=(Caps.none(first), Caps.none(second)))


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
        free = meet_means(_free(goal), goal.squares, goal.wanted, None)[0]
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

    def measure(factor: float, near: tuple[Goal, Solved] | None) -> Measured[tuple[Goal, Solved]]:
        before = near and near[1].start
        if goal.target.kind == "epsilon":
            solved = solve(goal.problem, goal.squares, np.full(2, factor), before)
            value = epsilon_of_record(goal.problem, solved.scaling) if solved.met else np.inf
            return Measured(value, (goal, solved))
        sharp = goal.sharpened(factor)
        solved = solve(sharp.problem, goal.squares, np.ones(2), before)
        return Measured(max(c.vulnerability for c in solved.columns) if solved.met else np.inf, (sharp, solved))

    return meet_level(goal.target, measure)


def meet_level(target: Target, measure: Callable[[float, Met | None], Measured[Met]]) -> Met:
    """Return the solution that meets a vulnerability or an ε; for ``measure`` see ``meet_from_below``.

    Raises StatisticsError, with the range, if the window does not allow it.
    """
    tolerance = FACTOR_ERROR * (target.level if target.kind == "epsilon" else 1.0)
    try:
        return meet_from_below(measure, target.level, tolerance, 1.0)[1]
    except OutOfRangeError as error:
        raise target.out_of_range(error.least, error.greatest) from None


def greatest_noise(law: Float64Array, written: Float64Array, squares: Float64Matrix) -> float:
    """Return the mean squared distance of independent values, times ``MAX_NOISE``; 0 without masks.

    * ``law``, ``written``: (k,) the law of values, and that of masks, up to a factor. ``squares``: (k, k) sd².
    """
    masks = written.sum()
    return MAX_NOISE * float(law @ squares @ written / masks) if masks > 0.0 else 0.0
