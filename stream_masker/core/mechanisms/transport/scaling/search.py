"""The search for the exponents that meet a target.

Mean squared distances fall as the exponents grow. For given means of a pair, the exponents are found by Broyden's
method on their logarithms and those of the means; the exponent of a lone attribute is bracketed by steps. Where
limits bind, mean squared distances fall to a least value and rise again; if the means cannot be met, that value is
found by the parabola of three points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.mechanisms.transport.scaling.solver import (
    MARGINAL_ERROR,
    ROUGH_ERROR,
    Problem,
    Scaling,
    Start,
    balance,
)

EXPONENT_LOGS = (math.log(1e-4), math.log(1e4))
"""The range of ln of an exponent."""
MAX_SEARCHES = 40
TARGET_ERROR = 2e-3
"""The greatest |ln E − ln target| of a mean squared distance: RMSE within 0.1 %."""
MAX_EXPONENT_STEP = 0.7
NEAR_ERROR = 0.02
"""Solutions are exact from this error on: rough ones would mislead the search."""
LEAST_SQUARE = 1e-30
"""The least mean squared distance whose logarithm is taken: smaller ones may be 0 in single precision."""
COMMON_PRECISION = 1e-3
"""The search for a common exponent ends when ln of both ends of its bracket differ by less."""
FIRST_REACH = 0.5
"""The first step in ln of a common exponent; steps grow until the measure is bracketed."""
PEAK_GAIN = 0.01
"""The search for the greatest value ends where a parabola promises a relative gain of less: it is flat there."""
POINT_DIGITS = 6
"""Points that are equal to so many digits are the same one: steps differ in their last digits between processors."""
STEP_GROWTH = 1.4
"""Steps towards the least mean squared distances grow by this factor."""


def meet_means(
    problem: Problem, wanted: Float64Array, start: tuple[Float64Array, Start] | None
) -> tuple[Scaling, Scaling | None, bool]:
    """Find exponents with E[sd²] = ``wanted``, (n,), and return their solution, and whether it meets them.

    ``start``: the exponents, and the solution, of a similar problem. The nearest solution that has the law is returned
    if none meets the means. The search ends where limits keep all means too large, which grow with the exponents there;
    a solution beyond is returned then. If it comes to a point again, it goes in a circle, and begins again with exact
    solutions.
    """
    given, before = (np.ones(2), None) if start is None else start
    point, inverse, tolerance = np.log(given[: wanted.size]), -np.eye(wanted.size), ROUGH_ERROR
    nearest: tuple[float, Scaling] | None = None
    known: tuple[Float64Array, Float64Array] | None = None
    misses, visited = np.zeros(wanted.size), set[tuple[float, ...]]()
    for _ in range(MAX_SEARCHES):
        near = tuple(np.round(point, POINT_DIGITS).tolist())
        if near in visited:
            if tolerance == MARGINAL_ERROR or (misses > 0.0).all():
                break
            tolerance, known, inverse = MARGINAL_ERROR, None, -np.eye(wanted.size)
            visited.clear()
        visited.add(near)
        new = balance(problem, _exponents(point), tolerance, before)
        nearest = (np.inf, new) if nearest is None else nearest
        if not new.met:
            point = point - MAX_EXPONENT_STEP / 2.0 if known is None else (point + known[0]) / 2.0
            if known is not None and np.abs(point - known[0]).max() < TARGET_ERROR:
                break
            continue
        before = new.start
        misses = np.log(np.maximum(new.moved, LEAST_SQUARE) / wanted)
        miss = float(np.abs(misses).max())
        nearest = min(nearest, (miss, new), key=lambda each: each[0])
        if miss <= TARGET_ERROR and tolerance == MARGINAL_ERROR:
            return new, None, new.met
        if miss <= NEAR_ERROR:
            tolerance = MARGINAL_ERROR
        if known is not None and (misses > np.maximum(known[1], 0.0)).all() and (point > known[0]).all():
            return nearest[1], new, False
        if known is not None and np.abs(point - known[0]).max() > 0.0:
            inverse = _broyden(inverse, point - known[0], misses - known[1])
        known = (point, misses)
        move = np.clip(-(inverse * misses).sum(axis=1), -MAX_EXPONENT_STEP, MAX_EXPONENT_STEP)
        bounded = np.clip(point + move, *EXPONENT_LOGS)
        if np.array_equal(bounded, point) and miss > TARGET_ERROR:
            break
        point = bounded
    assert nearest is not None
    return nearest[1], None, False


def _exponents(point: Float64Array) -> Float64Array:
    result = np.ones(2)
    result[: point.size] = np.exp(point)
    return result


def _broyden(inverse: Float64Array, moved: Float64Array, change: Float64Array) -> Float64Array:
    """Broyden's update of an inverse Jacobian; none if it would be singular."""
    expected = (inverse * change).sum(axis=1)
    scale = float((moved * expected).sum())
    if abs(scale) < 1e-12 or not np.isfinite(expected).all():
        return inverse
    result: Float64Array = inverse + np.outer(moved - expected, (moved[:, None] * inverse).sum(axis=0)) / scale
    return result


class Peak(NamedTuple):
    """A point of a search for a greatest value at most 1: ln of the exponent, the value, and its solution."""

    point: float
    value: float
    solved: Scaling


def move_at_least(
    problem: Problem,
    wanted: Float64Array,
    start: tuple[Float64Array, Start] | None,
    beyond: Scaling | None = None,
) -> Scaling | None:
    """Return the solution of least noise that moves each attribute by ``wanted``, (n,), or more; None if none does.

    All exponents are one number. ``start``: the exponents, and the solution, of a similar problem. ``beyond``: a
    solution of greater exponents that moves values farther.
    """

    def peak(point: float, solved: Scaling) -> Peak:
        moved = np.maximum(solved.moved, LEAST_SQUARE)
        return Peak(point, float((wanted / moved).max()) if solved.met else -np.inf, solved)

    def measure(point: float, start: Start | None, tolerance: float = ROUGH_ERROR) -> Peak:
        return peak(point, balance(problem, np.full(2, math.exp(point)), tolerance, start))

    given, before = (np.ones(2), None) if start is None else start
    first = float(np.clip(np.log(given[: wanted.size]).mean(), *EXPONENT_LOGS))
    behind = None if beyond is None else peak(float(np.log(beyond.exponents).mean()), beyond)
    low, high = _climb(measure, measure(first, before), behind)
    if low is None:
        return None
    exact = measure(low.point, low.solved.start, MARGINAL_ERROR)
    while exact.value == -np.inf or exact.value > 1.0 + TARGET_ERROR:
        if exact.point <= EXPONENT_LOGS[0]:
            return None
        exact = measure(max(exact.point - FIRST_REACH, EXPONENT_LOGS[0]), None, MARGINAL_ERROR)
    while high is not None and exact.value < 1.0 - TARGET_ERROR and high.point - exact.point > COMMON_PRECISION:
        share = 0.5 if high.value == -np.inf else np.log(exact.value) / np.log(exact.value / high.value)
        point = exact.point + float(np.clip(share, 0.1, 0.9)) * (high.point - exact.point)
        new = measure(point, exact.solved.start, MARGINAL_ERROR)
        exact, high = (new, high) if -np.inf < new.value <= 1.0 else (exact, new)
    return exact.solved


def _climb(measure: Callable[[float, Start], Peak], here: Peak, behind: Peak | None) -> tuple[Peak | None, Peak | None]:
    """Return the greatest value at most 1 near a point, and a greater one beyond it; None for what does not exist.

    ``behind``: a lesser value at a greater point, if it is known.
    """
    if behind is not None and not (behind.value < here.value and behind.point > here.point):
        behind = None
    step = -FIRST_REACH if here.value > 1.0 or here.value == -np.inf or behind is not None else FIRST_REACH
    while True:
        point = float(np.clip(here.point + step, *EXPONENT_LOGS))
        if point == here.point:
            return (None if here.value > 1.0 else here), None
        ahead = measure(point, here.solved.start)
        if (ahead.value > 1.0) != (here.value > 1.0):
            return (here, ahead) if step > 0.0 else (ahead, here)
        if ahead.value < here.value <= 1.0:
            if behind is not None:
                return _at_vertex(measure, *sorted((behind, here, ahead), key=lambda each: each.point))
            behind, step = ahead, -step
            continue
        behind, here, step = here, ahead, step * STEP_GROWTH


def _at_vertex(measure: Callable[[float, Start], Peak], left: Peak, top: Peak, right: Peak) -> tuple[Peak, Peak | None]:
    """Return the greatest value between two lesser ones; if it exceeds 1, the greatest one known before, and that.

    It is sought at the vertices of parabolas, until these are hardly greater than the greatest value.
    """
    while True:
        before, after = top.point - left.point, right.point - top.point
        rise, fall = (top.value - left.value) / before, (top.value - right.value) / after
        if not (np.isfinite(rise) and np.isfinite(fall) and rise + fall > 0.0):
            return top, None
        slope, bend = (rise * after - fall * before) / (before + after), (rise + fall) / (before + after)
        if slope**2 / bend / 4.0 < PEAK_GAIN * top.value:
            return top, None
        new = measure(top.point + slope / bend / 2.0, top.solved.start)
        if new.value > 1.0:
            return (top, new) if new.point > top.point else (left, new)
        if new.value <= top.value:
            return top, None
        left, right = (top, right) if new.point > top.point else (left, top)
        top = new
