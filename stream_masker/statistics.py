"""Statistics of nominal values, and the utility of masked ones."""

from __future__ import annotations

from stream_masker.core.statistics import (
    Statistics,
    distance_correlation,
    distance_covariance,
    distance_variance,
    semantic_mean,
    semantic_variance,
)
from stream_masker.core.statistics.utility import Utility

__all__ = [
    "Statistics",
    "Utility",
    "distance_correlation",
    "distance_covariance",
    "distance_variance",
    "semantic_mean",
    "semantic_variance",
]
