"""Exact statistics of nominal attributes, computed from counts (2017: section 4.3).

* ``counts``: how often each value and each pair of values occurs in a window; counts add up. ``SlidingWindow``.
* ``statistics``: sMean, sVar, sdCov, sdVar, sdCor and Σ (equations 13 to 22), and versioned ``Statistics`` of a window.
* ``drift``: how two windows differ, and what masking preserves; ``windows``: the values of two windows.
"""

from stream_masker.core.statistics.counts import Counts as Counts
from stream_masker.core.statistics.counts import count_batch as count_batch
from stream_masker.core.statistics.statistics import Statistics as Statistics
from stream_masker.core.statistics.statistics import compute_statistics as compute_statistics
from stream_masker.core.statistics.statistics import distance_correlation as distance_correlation
from stream_masker.core.statistics.statistics import distance_covariance as distance_covariance
from stream_masker.core.statistics.statistics import distance_variance as distance_variance
from stream_masker.core.statistics.statistics import semantic_mean as semantic_mean
from stream_masker.core.statistics.statistics import semantic_variance as semantic_variance
