"""The fit of a field to a distance, and the error if it cannot be met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.mechanisms.transport.field.links import Start
from stream_masker.core.mechanisms.transport.field.solver import (
    LEAST,
    FieldProblem,
    Solution,
    meet_squares,
    solve,
    squares_of,
)
from stream_masker.core.mechanisms.transport.fitting import MAX_NOISE, greatest_noise
from stream_masker.core.mechanisms.transport.search import MAX_SHARPNESS, MIN_SHARPNESS
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.errors import StatisticsError

FieldStart: TypeAlias = tuple[Start | Solution, Float64Array]
"""The solution of a similar problem, and λ to start with."""

LEAST_NOISE_PRECISION = 0.02
"""The search for a common factor of λ ends when both ends of its bracket differ by less than this share."""


def check_written(problem: FieldProblem, names: Sequence[str]) -> None:
    """Raise StatisticsError if a link has fewer than two pairs that may be written; ``names``: by node."""
    for node in range(1, len(names)):
        if not problem.links.enough_written(node, problem.least):
            pair = f"{names[problem.links.parents[node]]} and {names[node]}"
            raise StatisticsError(
                f"fewer than two different values of {pair} occur in at least {problem.least} records of the window, "
                "so nothing could be masked: use a smaller least, or calibrate on more records"
            )


def meet_distance(
    problem: FieldProblem,
    names: Sequence[str],
    target: Target,
    wanted: Float64Array,
    start: FieldStart | None,
) -> Solution:
    """Find the field with the mean squared distances of a target. Raises StatisticsError if there is none.

    * ``names``, ``wanted``: by node. ``start``: that of a similar problem, or None.

    Absent values, and links to them, allow less noise than the laws of single attributes do; an α then is that noise.
    If all distances of an α cannot be met at once, because one attribute nearly determines another one, attributes move
    by them or more.
    """
    if target.kind == "alpha":
        wanted = np.minimum(wanted, _greatest_noise(problem))
    found = None if start is None else meet_squares(problem, wanted, *start)
    if found is None:
        found = meet_squares(problem, wanted, None, 1.0 / wanted)
    if found is None and target.kind == "alpha":
        wanted = np.minimum(wanted, MAX_NOISE * _greatest_squares(problem))
        found = meet_squares(problem, wanted, None, 1.0 / wanted) or _at_least(problem, wanted)
    if found is None:
        raise StatisticsError(_unreachable(problem, names, target, wanted))
    return found


def _greatest_noise(problem: FieldProblem) -> Float64Array:
    """Return (q,) the greatest noise of a given α for each attribute (``fitting.greatest_noise``)."""
    links, found = problem.links, []
    for node, squares in enumerate(problem.squares):
        law, written = links.law(max(node, 1)), links.written(max(node, 1), problem.least)
        before, after = (links.value_sums(node, each) for each in (law, np.where(written, law, 0.0)))
        found.append(greatest_noise(before / before.sum(), after, squares.astype(np.float64)))
    return np.array(found)


def _greatest_squares(problem: FieldProblem) -> Float64Array:
    """Return (q,) the mean squared distances of the greatest noise of all attributes together, at least ``LEAST``.

    Additional exponents do not count, so that they are reduced where they allow less (``tree.groups``).
    """
    q = len(problem.squares)
    free = replace(problem, extra=(None,) * q)
    return np.maximum(squares_of(free, solve(free, None, np.full(q, MIN_SHARPNESS))), LEAST / MAX_NOISE)


def _at_least(problem: FieldProblem, wanted: Float64Array) -> Solution:
    """Return the field with the least noise that moves each attribute by ``wanted`` or more; that with the greatest
    noise if none does, because ``wanted`` is within the tolerance of the laws.

    λ has the ratios of 1 / ``wanted``.
    """
    profile = wanted.min() / wanted
    low, high = np.log(MIN_SHARPNESS), np.log(MAX_SHARPNESS)
    found = solve(problem, None, np.full(wanted.size, MIN_SHARPNESS))
    last: Solution | None = None
    while high - low > LEAST_NOISE_PRECISION:
        point = (low + high) / 2.0
        last = solve(problem, last, np.exp(point) * profile)
        if (np.maximum(squares_of(problem, last), LEAST) >= wanted).all():
            found, low = last, point
        else:
            high = point
    return found


def _unreachable(problem: FieldProblem, names: Sequence[str], target: Target, wanted: Float64Array) -> str:
    ends = [
        np.sqrt(squares_of(problem, solve(problem, None, np.full(len(names), end))))
        for end in (MAX_SHARPNESS, MIN_SHARPNESS)
    ]
    ranges = [
        f"{name} from {ends[0][node]:.3f} to {ends[1][node]:.3f} (wanted: {np.sqrt(wanted[node]):.3f})"
        for node, name in enumerate(names)
    ]
    return f"target {target.kind} cannot be met: this window allows an RMSE of {', '.join(ranges)}"
