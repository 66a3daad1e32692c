"""Exact statistics of nominal attributes, computed from counts (2017: section 4.3)."""

from stream_masker.core.statistics.compute import compute_statistics
from stream_masker.core.statistics.counts import Counts, SparseCounts, count_batch, merge, subtract
from stream_masker.core.statistics.covariance import (
    correlation_from_counts,
    covariance_from_counts,
    distance_correlation,
    distance_covariance,
    distance_variance,
    distance_variance_from_counts,
)
from stream_masker.core.statistics.mean import (
    mean_from_counts,
    semantic_mean,
    semantic_variance,
    variance_from_counts,
)
from stream_masker.core.statistics.psd import nearest_psd
from stream_masker.core.statistics.sliding.covariance import SlidingCovariance
from stream_masker.core.statistics.sliding.mean import SlidingMean
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.window_statistics import IncrementalStatistics

__all__ = [
    "Counts",
    "IncrementalStatistics",
    "SlidingCovariance",
    "SlidingMean",
    "SparseCounts",
    "Statistics",
    "compute_statistics",
    "correlation_from_counts",
    "count_batch",
    "covariance_from_counts",
    "distance_correlation",
    "distance_covariance",
    "distance_variance",
    "distance_variance_from_counts",
    "mean_from_counts",
    "merge",
    "nearest_psd",
    "semantic_mean",
    "semantic_variance",
    "subtract",
    "variance_from_counts",
]
