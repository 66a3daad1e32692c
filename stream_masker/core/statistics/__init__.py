"""Exact statistics of nominal attributes, computed from counts (2017: section 4.3).

* ``counts``: how often each value and each pair of values occurs in a window; counts add up.
* ``statistics``: sMean, sVar, sdCov, sdVar, sdCor and Σ (equations 13 to 22), and versioned ``Statistics`` of a window.
* ``summary``: the form of versioned statistics.
* ``packing``: arrays and counts in the form of versioned statistics.
"""

from stream_masker.core.statistics.counts import Counts, SparseCounts, count_batch, merge
from stream_masker.core.statistics.packing import unpack_observed
from stream_masker.core.statistics.statistics import (
    compute_statistics,
    distance_correlation,
    distance_covariance,
    distance_variance,
    nearest_psd,
    semantic_mean,
    semantic_variance,
)
from stream_masker.core.statistics.summary import Statistics

__all__ = [
    "Counts",
    "SparseCounts",
    "Statistics",
    "compute_statistics",
    "count_batch",
    "distance_correlation",
    "distance_covariance",
    "distance_variance",
    "merge",
    "nearest_psd",
    "semantic_mean",
    "semantic_variance",
    "unpack_observed",
]
