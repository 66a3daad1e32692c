"""Transports that are fitted to a window's counts, their form in a model, and the errors if a target cannot be met.

A fit is the transport of one attribute, or of a pair of attributes, onto itself. Its model holds the window's tuples
with their counts, the exponents of the kernels, ln ψ as float32, and the factors of its limits. Kernels and φ are
computed again wherever the model is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.mechanisms.transition.serialization import (
    pack_array,
    read_array,
    read_model_field,
    unpack_array,
)
from stream_masker.core.mechanisms.transport.disclosure import epsilon_of_record
from stream_masker.core.mechanisms.transport.kernel import Levels
from stream_masker.core.mechanisms.transport.limits import Caps
from stream_masker.core.mechanisms.transport.scaling.search import (
    COMMON_PRECISION,
    EXPONENT_LOGS,
    TARGET_ERROR,
    meet_means,
    move_at_least,
)
from stream_masker.core.mechanisms.transport.scaling.solver import (
    MARGINAL_ERROR,
    Kernels,
    Problem,
    Scaling,
    Start,
    balance,
)
from stream_masker.core.mechanisms.transport.scaling.table import Binding, Table
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.errors import StatisticsError

MAX_REPAIRS = 12
"""How often masks that would tell too much are no longer written, or rounds to a third of the error follow."""
MAX_LEFT_OUT = 1e-3
"""The greatest share of masks that are no longer written at a time for this reason."""
PUBLISHED_ERROR = 2.0 * MARGINAL_ERROR
"""The greatest sum of absolute differences between the law of masks of a model and its law."""

FACTOR_ERROR = 1e-3
"""The greatest difference from a given vulnerability, and the greatest relative difference from a given ε."""
MAX_LOG_SCALE = 200.0
"""The greatest |ln ψ| that a model may hold."""

Met = TypeVar("Met")


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """What a fit of one or two attributes has to meet.

    ``names``: the attributes. ``wanted``: (n,) their mean squared distances. ``target``: the configured target.
    """

    names: tuple[str, ...]
    wanted: Float64Array
    target: Target
    problem: Problem


def fit(goal: Goal, start: tuple[Float64Array, Start] | None) -> Scaling:
    """Fit a transport. Raises StatisticsError if the target cannot be met.

    ``start``: the exponents, and the solution, of a similar problem.
    """
    return checked(goal, _by_distance(goal, start) if goal.target.by_distance else _by_measure(goal))


def checked(goal: Goal, solved: Scaling) -> Scaling:
    """Return a solution as published, in which no posterior exceeds its limit for any masked record.

    Rare masks whose posteriors do are no longer written; otherwise rounds to a lower error follow. Raises
    StatisticsError if one still does.
    """
    tolerance = MARGINAL_ERROR
    for _ in range(MAX_REPAIRS):
        result = published(solved)
        failing = np.logical_or.reduce([each.excess > 0.0 for each in result.columns])
        inexact = float(np.abs(result.columns[0].shares - result.problem.target).sum()) > PUBLISHED_ERROR
        if not failing.any() and not inexact:
            return result
        problem, psi = solved.problem, solved.psi
        if inexact or problem.law[failing].sum() > MAX_LEFT_OUT:
            tolerance /= 3.0
        else:
            problem, psi = replace(problem, written=problem.written & ~failing), np.where(failing, 0.0, psi)
        solved = balance(problem, solved.exponents, tolerance, (psi, solved.binding))
    raise StatisticsError(_unreachable(goal, solved))


def published(solved: Scaling) -> Scaling:
    """Return a solution with the numbers that its model holds."""
    psi, written = np.zeros(solved.psi.size), solved.problem.written
    psi[written] = np.exp(np.log(solved.psi[written]).astype(np.float32).astype(np.float64))
    return Scaling(solved.kernels, psi, solved.binding)


def fit_to_model(solved: Scaling) -> dict[str, Any]:
    """Return the JSON-serialisable form of a solution."""
    problem = solved.problem
    return {
        **pack_tuples(problem.table, problem.counts),
        "written": pack_array(np.packbits(problem.written)),
        "kernels": [each.to_model() for each in problem.levels],
        "exponents": solved.exponents.tolist(),
        "scale": pack_array(np.log(solved.psi[problem.written]).astype(np.float32)),
        "factors": [each.to_model() for each in solved.binding],
    }


def read_fit(model: object, squares: tuple[Float64Matrix, Float64Matrix], limits: tuple[Caps, Caps]) -> Scaling:
    """Restore what ``fit_to_model`` returns; ``squares``: (k, k) sd² of both attributes. Raises StatisticsError."""
    shape = (len(squares[0]), len(squares[1]))
    table, counts = read_tuples(model, shape)
    written = read_written(model, counts.size)
    scale = read_array(model, "scale", np.float32, int(written.sum()), low=-MAX_LOG_SCALE, high=MAX_LOG_SCALE)
    psi = np.zeros(counts.size)
    psi[written] = np.exp(scale.astype(np.float64))
    exponents, (factors, kernels) = _exponents(model), (_two(model, name) for name in ("factors", "kernels"))
    first, second = (Binding.from_model(f, counts.size, size) for f, size in zip(factors, shape, strict=True))
    levels = [Levels.from_model(each, size) for each, size in zip(kernels, shape, strict=True)]
    problem = Problem(table, counts, written, squares, (levels[0], levels[1]), limits, limits)
    return Scaling(Kernels(problem, exponents), psi, (first, second))


def _two(model: object, name: str) -> list[object]:
    """Return a model's list with an entry for each of two attributes. Raises StatisticsError."""
    entries = read_model_field(model, name)
    if not isinstance(entries, list) or len(entries) != 2:
        raise StatisticsError(f"the model's {name} are not those of two attributes")
    return entries


def _exponents(model: object) -> Float64Array:
    """Return (2,) the exponents of a model's kernels. Raises StatisticsError."""
    numbers = _two(model, "exponents")
    if not all(isinstance(each, float) and 0.0 <= each < np.inf for each in numbers):
        raise StatisticsError("the model's exponents are not two numbers from 0")
    return np.array(numbers, np.float64)


def check_written(name: str, written: BoolArray) -> None:
    """Raise StatisticsError if fewer than two values of an attribute may be written."""
    if np.count_nonzero(written) < 2:
        raise StatisticsError(
            f"{name}: fewer than two different values may be written, because too few records of the window share "
            "them, so nothing could be masked: calibrate on more records, or use a smaller least"
        )


def _by_distance(goal: Goal, start: tuple[Float64Array, Start] | None) -> Scaling:
    """Return a solution that moves each attribute by ``wanted``, or, for an α, by this or more.

    Values move farther than a given α asks for where the limits force them to, where one attribute of a pair nearly
    determines the other, and where most tuples are too rare to be written.
    """
    problem, wanted, of_alpha = goal.problem, goal.wanted, goal.target.kind == "alpha"
    near, beyond = None, None
    if not problem.lone:
        near, beyond, met = meet_means(problem, wanted, start)
        if not met and start is not None and not (near.met and (near.moved > wanted).all()):
            near, beyond, met = meet_means(problem, wanted, None)
        if met:
            return near
        start = near.exponents, near.start
    solved = move_at_least(problem, wanted, start, beyond) if of_alpha or problem.lone else None
    if solved is None:
        if near is None or (of_alpha and not (near.met and (near.moved >= wanted).all())):
            near = balance(problem, np.full(2, math.exp(EXPONENT_LOGS[0])), MARGINAL_ERROR)
        if not of_alpha or not near.met:
            raise StatisticsError(_unreachable(goal, near))
        return near
    if goal.target.limited and not of_alpha and (solved.moved > wanted * (1.0 + TARGET_ERROR)).any():
        raise StatisticsError(_unreachable(goal, solved))
    return solved


def _unreachable(goal: Goal, solved: Scaling) -> str:
    """Return the message for a target that a window does not allow; ``solved``: the nearest solution."""
    if goal.target.limited and solved.met:
        ratio = float((solved.moved / goal.wanted).max())
        instead = f"RMSE of {np.sqrt(max(ratio, 1.0) * goal.wanted.max()):.3f}"
        limits = [f"certainty={goal.target.certainty:g}"] if goal.target.certainty is not None else []
        limits += [f"sensitive {name}={each.limit:g}" for name, each in goal.target.sensitive.items()]
        first, second = map(Caps.none, goal.problem.table.shape)
        free = meet_means(replace(goal.problem, fitting=(first, second)), goal.wanted, None)[0]
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


def solve_for(goal: Goal, factor: float, start: Start | None = None) -> Scaling:
    """Return the transport whose λ has a factor: for an ε the kernels are raised to a power, otherwise they are leveled
    anew."""
    if goal.target.kind == "epsilon":
        return balance(goal.problem, np.full(2, factor), MARGINAL_ERROR, start)
    return balance(goal.problem.sharpened(factor), np.ones(2), MARGINAL_ERROR, start)


def _by_measure(goal: Goal) -> Scaling:
    """Return a solution that meets a vulnerability or an ε."""

    def measure(factor: float, near: Scaling | None) -> tuple[float, Scaling]:
        solved = solve_for(goal, factor, None if near is None else near.start)
        if not solved.met:
            return np.inf, solved
        if goal.target.kind == "epsilon":
            return epsilon_of_record(solved), solved
        return max(c.vulnerability for c in solved.columns), solved

    return meet_level(goal.target, measure)


def meet_level(target: Target, measure: Callable[[float, Met | None], tuple[float, Met]]) -> Met:
    """Return the solution that meets a vulnerability or an ε: for one exponent of all kernels, found by bisection.

    ``measure``: returns the figure for an exponent, with which it rises, and the solution that has it; it takes the
    solution for another exponent as a start. The figure is at most that of the target, and within ``FACTOR_ERROR`` of
    it if there is such a solution. Raises StatisticsError, with the range, if the window does not allow it.
    """
    wanted, tolerance = target.level, FACTOR_ERROR * (target.level if target.kind == "epsilon" else 1.0)
    (low, high), best, exceeded = EXPONENT_LOGS, None, False
    while high - low > COMMON_PRECISION:
        point = (low + high) / 2.0
        value, state = measure(math.exp(point), best)
        if value > wanted:
            high, exceeded = point, True
            continue
        best, low = state, point
        if value >= wanted - tolerance:
            return best
    if best is None or not exceeded:
        ends = sorted(measure(math.exp(end), None)[0] for end in EXPONENT_LOGS)
        raise StatisticsError(
            f"target {target.kind}={wanted:g} cannot be met: this window allows {ends[0]:.3f} to {ends[1]:.3f}"
        )
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
