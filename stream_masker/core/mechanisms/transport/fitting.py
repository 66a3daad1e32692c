"""The fit of a transport to a window's counts: the search for λ, and the error if a target cannot be met."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int64Array
from stream_masker.core.mechanisms.transport import disclosure
from stream_masker.core.mechanisms.transport.fit import Fit
from stream_masker.core.mechanisms.transport.search import (
    FACTOR_ERROR,
    MAX_SHARPNESS,
    MIN_SHARPNESS,
    TARGET_ERROR,
    Measure,
    meet_means,
    meet_measure,
)
from stream_masker.core.mechanisms.transport.solver import (
    MARGINAL_ERROR,
    ROUGH_ERROR,
    Problem,
    Scaling,
    balance,
    mean_squares,
)
from stream_masker.core.mechanisms.transport.table import Table
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.errors import StatisticsError

MAX_NOISE = 0.95
"""The greatest noise of a given α, as a share of the mean squared distances of independent records.

α·sdVar can exceed what the window's values allow; as for semantic noise, the noise is then truncated.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """What a fit of one or two attributes has to meet.

    * ``names``: the attributes. ``wanted``: (2,) the mean squared distances, NaN without a second attribute.
    * ``target``: the configured target. ``least``: the least count of a tuple that is written.
    """

    names: tuple[str, ...]
    wanted: Float64Array
    target: Target
    least: int


def fit(
    goal: Goal,
    table: Table,
    counts: Int64Array,
    squares: tuple[Float64Matrix, Float64Matrix],
    *,
    extra: Float64Matrix | None = None,
    start: Scaling | None = None,
) -> Fit:
    """Fit a transport. Raises StatisticsError if no tuple may be written or the target cannot be met."""
    problem = problem_of(goal, table, counts, squares, extra=extra)
    scaling = _by_distance(goal, problem, start) if goal.target.by_distance else _by_measure(goal, problem, start)
    return Fit.of(problem, counts, scaling)


def problem_of(
    goal: Goal,
    table: Table,
    counts: Int64Array,
    squares: tuple[Float64Matrix, Float64Matrix],
    *,
    extra: Float64Matrix | None = None,
) -> Problem:
    """Return the problem of a window's counts. Raises StatisticsError if no tuple may be written."""
    problem = Problem(table, counts / counts.sum(), counts >= goal.least, squares, goal.target.power, extra)
    _check_written(goal, problem)
    return problem


def _check_written(goal: Goal, problem: Problem) -> None:
    if np.count_nonzero(problem.written) < 2:
        raise StatisticsError(
            f"fewer than two different values of {' and '.join(goal.names)} occur in at least {goal.least} records of "
            "the window, so nothing could be masked: use a smaller least, or calibrate on more records"
        )


def _by_distance(goal: Goal, problem: Problem, start: Scaling | None) -> Scaling:
    wanted = np.minimum(goal.wanted, _greatest_noise(problem)) if goal.target.kind == "alpha" else goal.wanted
    if problem.extra is not None:
        _check_reach(goal, problem, wanted)
    found = meet_means(problem, wanted, start)
    if found is None and start is not None:
        found = meet_means(problem, wanted, None)
    if found is None and (goal.target.kind == "alpha" or np.isnan(wanted).any()):
        found = _at_least(problem, wanted)
    if found is None:
        raise StatisticsError(_unreachable_distance(goal, problem))
    return found


def _at_least(problem: Problem, wanted: Float64Array) -> Scaling | None:
    """Return the transport with the least noise that moves each attribute by ``wanted`` or more; None if none does.

    Both mean squared distances of a pair cannot be met at once if one attribute nearly determines the other. λ has the
    ratios of 1 / ``wanted``. For a single attribute, the search by ``meet_means`` may fail where the mean squared
    distance hardly depends on λ; this one does not.
    """
    active = ~np.isnan(wanted)
    profile = np.where(active, np.nanmin(wanted) / wanted, 0.0)
    found, low, high = None, np.log(MIN_SHARPNESS), np.log(MAX_SHARPNESS)
    while high - low > TARGET_ERROR:
        point = (low + high) / 2.0
        scaling = balance(problem, np.exp(point) * profile, None, MARGINAL_ERROR)
        if (mean_squares(problem, scaling)[active] >= wanted[active]).all():
            found, low = scaling, point
        else:
            high = point
    return found


def _greatest_noise(problem: Problem) -> Float64Array:
    """Return (2,) the greatest noise of a given α for each attribute (``greatest_noise``)."""
    table, written = problem.table, np.where(problem.written, problem.law, 0.0)
    means = []
    for places, squares in zip((table.rows, table.columns), problem.squares, strict=True):
        before, after = (np.bincount(places, law, len(squares)) for law in (problem.law, written))
        means.append(greatest_noise(before.astype(np.float64), after.astype(np.float64), squares))
    return np.array(means)


def greatest_noise(before: Float64Array, after: Float64Array, squares: Float64Matrix) -> float:
    """Return the mean squared distance of independent values, times ``MAX_NOISE``; 0 without masks.

    * ``before``, ``after``: (k,) the law of values, and that of masks, up to a factor. ``squares``: (k, k) sd².
    """
    masks = after.sum()
    return MAX_NOISE * float(before @ squares @ after / masks) if masks > 0.0 else 0.0


def _check_reach(goal: Goal, problem: Problem, wanted: Float64Array) -> None:
    """Raise StatisticsError if additional exponents allow no λ at which the first attribute moves far enough."""
    greatest = _range_of(problem, wanted, MIN_SHARPNESS)[0]
    if not greatest > wanted[0]:
        raise StatisticsError(
            f"target {goal.target.kind} cannot be met: this window allows an RMSE of {goal.names[0]} of at most "
            f"{np.sqrt(greatest):.3f} (wanted: {np.sqrt(wanted[0]):.3f})"
        )


def _range_of(problem: Problem, wanted: Float64Array, sharpness: float) -> Float64Array:
    """Return (2,) the mean squared distances at one end of λ of all attributes for which ``wanted`` is given."""
    given = np.where(np.isnan(wanted), 0.0, sharpness)
    return mean_squares(problem, balance(problem, given, None, ROUGH_ERROR))


def _unreachable_distance(goal: Goal, problem: Problem) -> str:
    ends = [np.sqrt(_range_of(problem, goal.wanted, end)) for end in (MAX_SHARPNESS, MIN_SHARPNESS)]
    ranges = [
        f"{name} from {ends[0][j]:.3f} to {ends[1][j]:.3f} (wanted: {np.sqrt(goal.wanted[j]):.3f})"
        for j, name in enumerate(goal.names)
    ]
    return f"target {goal.target.kind} cannot be met: this window allows an RMSE of {', '.join(ranges)}"


def measure_of(target: Target) -> Measure:
    """Return the measure that a target of whole records fixes."""
    if target.kind == "epsilon":
        return disclosure.epsilon_of_record
    return _greatest_vulnerability


def _greatest_vulnerability(problem: Problem, scaling: Scaling) -> float:
    return float(disclosure.vulnerabilities(problem, scaling)[: _attributes(problem)].max())


def _attributes(problem: Problem) -> int:
    """Return the number of attributes of a problem; a second one of a single value does not count."""
    return 1 if problem.table.shape[1] == 1 else 2


def _by_measure(goal: Goal, problem: Problem, start: Scaling | None) -> Scaling:
    wanted = goal.target.level
    tolerance = FACTOR_ERROR * (wanted if goal.target.kind == "epsilon" else 1.0)
    profile = np.nan_to_num(1.0 / goal.wanted, nan=0.0)
    found = meet_measure(problem, profile / profile.max(), measure_of(goal.target), wanted, tolerance, start)
    if isinstance(found, Scaling):
        return found
    raise goal.target.out_of_range(*found)
