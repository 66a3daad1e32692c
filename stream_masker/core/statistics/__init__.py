"""Exact statistics of nominal attributes, computed from counts (2017: section 4.3).

* ``counts``: how often each value and each pair of values occurs in a window; counts add up.
* ``units``: how many different noise keys, such as patients, the rows of a count have.
* ``compute``: counts to versioned ``Statistics`` (``summary``), which is the entry point of this package.
* ``mean``: sMean and sVar (equations 13 and 14).
* ``covariance``: sdCov, sdVar and sdCor (equations 15 to 20). ``marginal`` holds one attribute's side of them.
* ``products``: the sums of products of distances that sdCov needs, from blocks of the distance matrix.
* ``psd``: the nearest positive semidefinite matrix (equation 22 needs it).
* ``observed``: the set of concepts that have occurred, as packed bits. ``rollup``: values aggregated at one depth.
  Drift is measured on both.
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
)
from stream_masker.core.statistics.mean import (
    mean_from_counts,
    semantic_mean,
    semantic_variance,
    variance_from_counts,
)
from stream_masker.core.statistics.psd import nearest_psd
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
