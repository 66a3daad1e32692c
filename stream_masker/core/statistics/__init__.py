"""Exact statistics of nominal attributes, computed from counts (2017: section 4.3).

* ``counts``: how often each value and each pair of values occurs in a window; counts add up.
* ``units``: how many different noise keys, such as patients, the rows of a count have.
* ``compute``: counts to versioned ``Statistics`` (``summary``), which is the entry point of this package.
* ``mean``: sMean and sVar (equations 13 and 14).
* ``covariance``: sdCov, sdVar and sdCor (equations 15 to 20). ``marginal`` holds one attribute's side of them.
  It has the nearest positive semidefinite matrix, too, which equation 22 needs.
* ``rollup``: values aggregated at one depth, and the set of concepts that have occurred. Drift is measured on both.
"""

from stream_masker.core.statistics.compute import compute_statistics
from stream_masker.core.statistics.counts import Counts, SparseCounts, count_batch, merge
from stream_masker.core.statistics.covariance import (
    correlation_from_counts,
    covariance_from_counts,
    distance_correlation,
    distance_covariance,
    distance_variance,
    distance_variance_from_counts,
    nearest_psd,
)
from stream_masker.core.statistics.mean import (
    mean_from_counts,
    semantic_mean,
    semantic_variance,
    variance_from_counts,
)
from stream_masker.core.statistics.summary import Statistics

__all__ = [
    "Counts",
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
    "variance_from_counts",
]
