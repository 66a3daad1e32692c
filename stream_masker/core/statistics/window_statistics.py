"""sMean, sdVar, sdCov and sdCor of a window, computed from its counts or updated from the previous window's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from stream_masker.core.distance import Distance
from stream_masker.core.statistics.counts import Counts, same_counts
from stream_masker.core.statistics.covariance import PairTable
from stream_masker.core.statistics.marginal import Marginal
from stream_masker.core.statistics.mean import mean_from_counts
from stream_masker.core.statistics.sliding.covariance import SlidingCovariance, all_depth_based
from stream_masker.core.statistics.sliding.marginal import SlidingVariance
from stream_masker.core.statistics.sliding.mean import SlidingMean

AttributePair = tuple[int, int]


@dataclass(frozen=True)
class WindowStatistics:
    """The statistics of counts in which every attribute has a value. Frozen; some are cached.

    * ``distances``: (p,) in the order of the counts.
    * ``hints``: (p,) positions that may be near the means.
    """

    counts: Counts
    distances: tuple[Distance, ...]
    hints: tuple[int, ...]

    @cached_property
    def marginals(self) -> tuple[Marginal, ...]:
        """The marginal of each attribute."""
        return tuple(map(Marginal, self.counts.values, self.distances))

    def mean(self, j: int) -> int:
        """Return the position of attribute j's sMean."""
        return mean_from_counts(self.counts.values[j], self.distances[j], hint=self.hints[j])

    def variance(self, j: int) -> float:
        """sdVar of attribute j (2017: equation 20), not its sVar (equation 14), over all rows that have it."""
        return math.sqrt(self.marginals[j].variance_squared)

    def pair(self, key: AttributePair) -> tuple[float, float]:
        """sdCov and sdCor of two attributes, over the rows that have both; 0 if there are none."""
        if not len(self.counts.pairs[key].keys):
            return 0.0, 0.0
        i, j = key
        marginals = self.marginals[i], self.marginals[j]
        table = PairTable.of(self.counts.pairs[key], self.distances[i], self.distances[j], marginals)
        return table.covariance, table.correlation


class IncrementalStatistics:
    """The statistics of successive windows, updated by the change between them if that is faster. Mutable.

    Means are identical to those of ``WindowStatistics``. Attributes whose distances depend on depths alone are
    recomputed, so their statistics are identical to the last bit. For all others, the squares of the statistics agree
    to
    1e-12 after any number of windows (``SlidingCovariance``). Memory: a few numbers for each distinct value and pair,
    and up to 4 MB of distances for each attribute of a pair.
    """

    def __init__(self, distances: Sequence[Distance]) -> None:
        """Start without a window; ``distances``: those on the attributes' taxonomies."""
        self._distances = tuple(distances)
        others = [j for j, d in enumerate(distances) if not all_depth_based((d,))]
        self.means = {j: SlidingMean(distances[j]) for j in others}
        self.variances = {j: SlidingVariance(distances[j]) for j in others}
        pairs = combinations(range(len(distances)), 2)
        self.pairs = {(i, j): SlidingCovariance(distances[i], distances[j]) for i, j in pairs if {i, j} & {*others}}

    def update(self, counts: Counts, hints: Sequence[int]) -> WindowStatistics:
        """Return the statistics of the next window, valid until the next call. Arguments: see ``WindowStatistics``."""
        for j, mean in self.means.items():
            mean.slide_to(counts.values[j])
        for key, pair in self.pairs.items():
            pair.slide_to(counts.pairs[key])
        return _IncrementalWindow(counts, self._distances, tuple(hints), self)


@dataclass(frozen=True)
class _IncrementalWindow(WindowStatistics):
    """Statistics read from the incremental state, if it tracks them."""

    incremental: IncrementalStatistics

    def mean(self, j: int) -> int:
        return self.incremental.means[j].mean if j in self.incremental.means else super().mean(j)

    def variance(self, j: int) -> float:
        if j not in self.incremental.variances:
            return super().variance(j)
        values = self.counts.values[j]
        for key, pair in self.incremental.pairs.items():
            if j in key and len(self.counts.pairs[key].keys) and same_counts(pair.marginals[key.index(j)], values):
                return pair.variances[key.index(j)]
        self.incremental.variances[j].slide_to(values)
        return self.incremental.variances[j].variance

    def pair(self, key: AttributePair) -> tuple[float, float]:
        if key not in self.incremental.pairs or not len(self.counts.pairs[key].keys):
            return super().pair(key)
        return self.incremental.pairs[key].covariance, self.incremental.pairs[key].correlation
