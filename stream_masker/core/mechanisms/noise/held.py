"""Held moments: the noise keeps the moments of an earlier version while those of the window differ little.

Windows fluctuate, so Σ differs a little in every version, and |ε| crosses a level of distances for some values. Under
one noise key, such a value would get several masks, whose average reveals more than one mask. The moments are therefore
taken from an earlier version, the *held* one, until a variance or covariance differs by more than ``TOLERANCE``. The
variance of the noise then differs from α times that of the window by at most this share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.numeric import NumericStatistics
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

TOLERANCE = 0.1
"""The largest difference of two covariances, relative to the geometric mean of the two variances."""

HELD = "held"
"""The key of the held moments in ``Statistics.model``; missing if the noise uses the version's own moments."""


def held_moments(statistics: Statistics, previous: Statistics | None) -> dict[str, Any]:
    """Return the part of the model that keeps the moments of the previous version's noise; empty if they differ too
    much."""
    if previous is None:
        return {}
    held = noise_statistics(previous)
    return {HELD: _moments(held)} if _are_near(held, statistics) else {}


def noise_statistics(statistics: Statistics) -> Statistics:
    """Return the statistics from which the noise is drawn: those with the held moments. Raises StatisticsError."""
    held = statistics.model.get(HELD)
    if held is None:
        return statistics
    try:
        return _with_moments(statistics, held)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StatisticsError(f"the held moments do not have the expected format ({type(error).__name__})") from None


def _moments(statistics: Statistics) -> dict[str, Any]:
    return {
        "version": statistics.version,
        "variance": dict(statistics.variance),
        "covariance": statistics.covariance.tolist(),
        **({"numeric": statistics.numeric.to_dict()} if statistics.numeric else {}),
    }


def _with_moments(statistics: Statistics, held: Mapping[str, Any]) -> Statistics:
    return replace(
        statistics,
        version=int(held["version"]),
        variance={a: float(held["variance"][a]) for a in statistics.attributes},
        covariance=np.array(held["covariance"], np.float64).reshape(statistics.covariance.shape),
        numeric=NumericStatistics.from_dict(held["numeric"]) if statistics.numeric else None,
    )


def _are_near(held: Statistics, own: Statistics) -> bool:
    variances = np.diag([held.variance[a] for a in own.attributes]), np.diag([own.variance[a] for a in own.attributes])
    pairs = [(held.covariance, own.covariance), variances]
    if held.numeric and own.numeric:
        shift = np.abs(held.numeric.mean - own.numeric.mean) / np.sqrt(np.diag(held.numeric.covariance))
        pairs.append((held.numeric.covariance, own.numeric.covariance))
        if shift.max(initial=0.0) > TOLERANCE:
            return False
    return all(_is_within(before, after) for before, after in pairs)


def _is_within(before: Float64Array, after: Float64Array) -> bool:
    scale = np.sqrt(np.diag(before))
    return bool((np.abs(after - before) <= TOLERANCE * np.outer(scale, scale)).all())
