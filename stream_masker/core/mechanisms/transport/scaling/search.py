"""The search for the exponents that meet a target.

Mean squared distances fall as the exponents grow. For given means, the exponents are found by Broyden's method on their
logarithms and those of the means. Where limits bind, mean squared distances fall to a least value and rise again; if
the means cannot be met, that value is found by steps.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.kernels.elementary import exponentials, logarithm, logarithms
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
PEAK_PRECISION = 0.1
"""The same where mean squared distances are least, as they hardly change there."""
FIRST_REACH = 0.5
"""The first step in ln of a common exponent."""
MAX_VISITS = 3
"""The search for means ends when it comes to a point this often: limits keep it away, and its steps go in a circle."""


def meet_means(
    problem: Problem, wanted: Float64Array, start: tuple[Float64Array, Start] | None
) -> tuple[Scaling, bool]:
    """Find exponents with E[sd²] = ``wanted``, (n,), and return their solution, and whether it meets them.

    ``start``: the exponents, and the solution, of a similar problem. The nearest solution that has the law is returned
    if none meets the means.
    """
    given, before = (np.ones(2), None) if start is None else start
    point, inverse, tolerance = logarithms(given[: wanted.size]), -np.eye(wanted.size), ROUGH_ERROR
    nearest: tuple[float, Scaling] | None = None
    known: tuple[Float64Array, Float64Array] | None = None
    visits = Counter[bytes]()
    for _ in range(MAX_SEARCHES):
        visits[point.tobytes()] += 1
        if visits[point.tobytes()] == MAX_VISITS:
            break
        new = balance(problem, _exponents(point), tolerance, before)
        nearest = (np.inf, new) if nearest is None else nearest
        if not new.met:
            point = point - MAX_EXPONENT_STEP / 2.0 if known is None else (point + known[0]) / 2.0
            if known is not None and np.abs(point - known[0]).max() < TARGET_ERROR:
                break
            continue
        before = new.start
        misses = logarithms(np.maximum(new.moved, LEAST_SQUARE) / wanted)
        miss = float(np.abs(misses).max())
        nearest = min(nearest, (miss, new), key=lambda each: each[0])
        if miss <= TARGET_ERROR and tolerance == MARGINAL_ERROR:
            return new, new.met
        if miss <= NEAR_ERROR:
            tolerance = MARGINAL_ERROR
        if known is not None and np.abs(point - known[0]).max() > 0.0:
            inverse = _broyden(inverse, point - known[0], misses - known[1])
        known = (point, misses)
        move = np.clip(-(inverse * misses).sum(axis=1), -MAX_EXPONENT_STEP, MAX_EXPONENT_STEP)
        bounded = np.clip(point + move, *EXPONENT_LOGS)
        if np.array_equal(bounded, point) and miss > TARGET_ERROR:
            break
        point = bounded
    assert nearest is not None
    return nearest[1], False


def _exponents(point: Float64Array) -> Float64Array:
    result = np.ones(2)
    result[: point.size] = exponentials(point)
    return result


def _broyden(inverse: Float64Array, moved: Float64Array, change: Float64Array) -> Float64Array:
    """Broyden's update of an inverse Jacobian; none if it would be singular."""
    expected = (inverse * change).sum(axis=1)
    scale = float((moved * expected).sum())
    if abs(scale) < 1e-12 or not np.isfinite(expected).all():
        return inverse
    result: Float64Array = inverse + np.outer(moved - expected, (moved[:, None] * inverse).sum(axis=0)) / scale
    return result


class Trial(NamedTuple):
    """ln of a common exponent, the greatest ratio of a wanted mean squared distance to the one that is reached, and the
    solution; ``enough``: whether all means are reached."""

    log: float
    ratio: float
    solved: Scaling

    @property
    def enough(self) -> bool:
        return self.solved.met and self.ratio <= 1.0


def move_at_least(problem: Problem, wanted: Float64Array, near: Scaling) -> Scaling | None:
    """Return the solution of least noise that moves each attribute by ``wanted``, (n,), or more; None if none does.

    All exponents are one number, which begins at that of ``near``.
    """

    def measure(log: float, start: Start | None, tolerance: float = ROUGH_ERROR) -> Trial:
        bounded = float(np.clip(log, *EXPONENT_LOGS))
        solved = balance(problem, np.full(2, math.exp(bounded)), tolerance, start)
        return Trial(bounded, float((wanted / np.maximum(solved.moved, LEAST_SQUARE)).max()), solved)

    here = measure(logarithms(near.exponents[: wanted.size]).mean(), near.start if near.met else None)
    while not here.enough:
        if here.log == EXPONENT_LOGS[0]:
            return None
        here = measure(here.log - FIRST_REACH, here.solved.start if here.solved.met else None)
    beyond = here
    for step in (-FIRST_REACH, FIRST_REACH):
        beyond = measure(here.log + step, here.solved.start)
        while beyond.enough and beyond.ratio > here.ratio:
            here, beyond = beyond, measure(beyond.log + step, beyond.solved.start)
    here = measure(here.log, here.solved.start, MARGINAL_ERROR)
    while not here.enough and here.log > EXPONENT_LOGS[0]:
        here, beyond = measure(here.log - FIRST_REACH, None, MARGINAL_ERROR), here
    while here.ratio < 1.0 - TARGET_ERROR:
        crossed = beyond.solved.met and beyond.ratio > 1.0
        if beyond.log - here.log <= (COMMON_PRECISION if crossed else PEAK_PRECISION):
            break
        share = logarithm(here.ratio) / logarithm(here.ratio / beyond.ratio) if crossed else 0.5
        log = here.log + min(max(share, 0.1), 0.9) * (beyond.log - here.log)
        middle = measure(log, here.solved.start, MARGINAL_ERROR)
        if middle.enough and middle.ratio >= here.ratio:
            here = middle
        else:
            beyond = middle
    return here.solved if here.enough else None
