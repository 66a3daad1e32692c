"""The search for the sharpness λ that meets a target.

Mean squared distances fall as λ grows, and vulnerability and ε rise. For given means, λ is found by Broyden's method on
the logarithms of λ and of the mean squared distances. For a given vulnerability or ε, all λ_j have one common factor,
which is found by bisection and regula falsi.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.mechanisms.transport.solver import (
    MARGINAL_ERROR,
    ROUGH_ERROR,
    Problem,
    Scaling,
    balance,
    mean_squares,
)

MAX_SHARPNESS = 1e6
MIN_SHARPNESS = 1e-3
MAX_SEARCHES = 40
TARGET_ERROR = 2e-3
"""The greatest |ln E − ln target| of a mean squared distance: RMSE within 0.1 %."""
MAX_LOG_STEP = 1.5
LEAST_SQUARE = 1e-30
"""The least mean squared distance whose logarithm is taken: smaller ones may be 0 in single precision."""
FACTOR_ERROR = 1e-3
"""The greatest difference from a given vulnerability, and the greatest relative difference from a given ε."""


def meet_means(problem: Problem, wanted: Float64Array, start: Scaling | None) -> Scaling | None:
    """Find λ with E[sd²] = ``wanted``, (2,), NaN for an attribute whose λ is 0; None if there is none.

    ``start``: the solution of a similar problem.
    """
    active = np.flatnonzero(~np.isnan(wanted))
    point = np.log(1.0 / wanted[active] if start is None else start.sharpness[active])
    phi, inverse = None if start is None else start.phi, -np.eye(active.size)
    tolerance = ROUGH_ERROR if start is None else MARGINAL_ERROR
    before: tuple[Float64Array, Float64Array] | None = None
    for _ in range(MAX_SEARCHES):
        scaling = balance(problem, _spread(active, np.exp(point)), phi, tolerance)
        misses = np.log(np.maximum(mean_squares(problem, scaling)[active], LEAST_SQUARE) / wanted[active])
        if np.abs(misses).max(initial=0.0) <= TARGET_ERROR:
            if tolerance == MARGINAL_ERROR:
                return scaling
            tolerance = MARGINAL_ERROR
            phi = scaling.phi
            continue
        phi, tolerance = scaling.phi, ROUGH_ERROR
        if before is not None:
            inverse = _broyden(inverse, point - before[0], misses - before[1])
        before = (point, misses)
        move = np.clip(-inverse @ misses, -MAX_LOG_STEP, MAX_LOG_STEP)
        bounded = np.clip(point + move, np.log(MIN_SHARPNESS), np.log(MAX_SHARPNESS))
        if np.array_equal(bounded, point):
            return None
        point = bounded
    return None


def _spread(active: np.ndarray, values: Float64Array) -> Float64Array:
    sharpness = np.zeros(2)
    sharpness[active] = values
    return sharpness


def _broyden(inverse: Float64Array, step: Float64Array, change: Float64Array) -> Float64Array:
    """Broyden's update of an inverse Jacobian; none if it would be singular."""
    found = inverse @ change
    scale = float(step @ found)
    if abs(scale) < 1e-12 or not np.isfinite(found).all():
        return inverse
    result: Float64Array = inverse + np.outer(step - found, step @ inverse) / scale
    return result


SLOPES = (0.05, 5.0)
"""The range of slopes of a scaled measure in ln of the factor, in ``meet_from_below``."""
MAX_JUMP = 2.5
"""The greatest step of ln of the factor."""
COMMON_FACTOR_PRECISION = 1e-5
"""The search for a factor ends when ln of both ends of its bracket differ by less."""

Measure = Callable[[Problem, Scaling], float]
"""A measure that rises with λ, such as the vulnerability."""


def meet_measure(
    problem: Problem, profile: Float64Array, measure: Measure, wanted: float, tolerance: float, start: Scaling | None
) -> Scaling | tuple[float, float]:
    """Find a factor c such that the measure of λ = c·profile is within ``tolerance`` of ``wanted``.

    * ``profile``: (2,) the ratios of λ of both attributes; their greatest is 1.

    Return the range of the measure if it does not contain ``wanted``.
    """
    low, high = np.log(MIN_SHARPNESS), np.log(MAX_SHARPNESS)
    phi = None if start is None else start.phi
    point = np.log(10.0) if start is None else float(np.log(start.sharpness.max()))
    for _ in range(MAX_SEARCHES):
        scaling = balance(problem, np.exp(point) * profile, phi, ROUGH_ERROR)
        phi = scaling.phi
        if abs(measure(problem, scaling) - wanted) <= tolerance:
            scaling = balance(problem, scaling.sharpness, phi, MARGINAL_ERROR)
            found = measure(problem, scaling)
            if abs(found - wanted) <= tolerance:
                return scaling
        else:
            found = measure(problem, scaling)
        low, high = (low, point) if found > wanted else (point, high)
        if high - low < 1e-9:
            break
        point = (low + high) / 2.0
    ends = [
        balance(problem, np.exp(end) * profile, None, ROUGH_ERROR)
        for end in (np.log(MIN_SHARPNESS), np.log(MAX_SHARPNESS))
    ]
    return measure(problem, ends[0]), measure(problem, ends[1])


def meet_from_below(
    measure: Callable[[float], float],
    scale: Callable[[float], float],
    wanted: float,
    shortfall: float,
    start: float,
    bounds: tuple[float, float] = (MIN_SHARPNESS, MAX_SHARPNESS),
) -> tuple[float, float] | None:
    """Find a factor whose measure is at most ``wanted``, and at least ``wanted`` − ``shortfall`` if there is one.

    The next factor is found by a secant through the last two points, or by bisection where that leaves the bracket.

    * ``measure``: rises with the factor, but may jump. ``scale``: makes it about linear in ln of the factor.
    * ``start``: the first factor. ``bounds``: the least factor and the greatest one.

    Returns the factor and its measure; None if the measure exceeds ``wanted`` even for the least factor.
    """
    low, high = np.log(bounds[0]), np.log(bounds[1])
    floor, ceiling = low, high
    point, slope = float(np.clip(np.log(start), low, high)), 1.0
    aim = scale(wanted - shortfall / 2.0)
    found: tuple[float, float] | None = None
    previous: tuple[float, float] | None = None
    for _ in range(MAX_SEARCHES):
        value = measure(float(np.exp(point)))
        if value > wanted:
            high = point
        else:
            low, found = point, (float(np.exp(point)), value)
        ended = point == (floor if value > wanted else ceiling)
        if ended or wanted - shortfall <= value <= wanted or high - low < COMMON_FACTOR_PRECISION:
            break
        here = (point, scale(value))
        if previous is not None and here[0] != previous[0]:
            slope = float(np.clip((here[1] - previous[1]) / (here[0] - previous[0]), *SLOPES))
        previous = here
        proposal = float(np.clip(point + np.clip((aim - here[1]) / slope, -MAX_JUMP, MAX_JUMP), floor, ceiling))
        inside = low < proposal < high or (proposal == floor == low) or (proposal == ceiling == high)
        point = proposal if inside else (low + high) / 2.0
    return found
