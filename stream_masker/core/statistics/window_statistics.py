"""sMean, sdVar, sdCov and sdCor of a window: computed anew from its counts, or from those of the window before."""

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
from stream_masker.core.statistics.sliding.covariance import SlidingCovariance, by_depths
from stream_masker.core.statistics.sliding.marginal import SlidingVariance
from stream_masker.core.statistics.sliding.mean import SlidingMean

AttributePair = tuple[int, int]


@dataclass(frozen=True)
class WindowStatistics:
    """The figures of counts in which every attribute has a value, computed from them alone. Frozen; some are kept.

    ``distances``: (p,) in the order of the counts; ``near``: (p,) positions that may be near the means.
    """

    counts: Counts
    distances: tuple[Distance, ...]
    near: tuple[int, ...]

    @cached_property
    def marginals(self) -> tuple[Marginal, ...]:
        """The values of each attribute."""
        return tuple(map(Marginal, self.counts.values, self.distances))

    def mean(self, j: int) -> int:
        """The position of attribute j's sMean."""
        return mean_from_counts(self.counts.values[j], self.distances[j], near=self.near[j])

    def variance(self, j: int) -> float:
        """sdVar of attribute j, over all rows that have it."""
        return math.sqrt(self.marginals[j].variance_squared)

    def pair(self, key: AttributePair) -> tuple[float, float]:
        """sdCov and sdCor of two attributes, over the rows that have both; 0 where there are none."""
        if not len(self.counts.pairs[key].keys):
            return 0.0, 0.0
        i, j = key
        marginals = self.marginals[i], self.marginals[j]
        table = PairTable.of(self.counts.pairs[key], self.distances[i], self.distances[j], marginals)
        return table.covariance, table.correlation


class IncrementalStatistics:
    """Figures of one window after another, where that is quicker by what came and went. Mutable.

    Means are those that ``WindowStatistics`` finds. So are the other figures of attributes with trees that depths tell
    all of,
    to the last bit, for they are computed anew; of other attributes the squares of these figures agree to 1e-12,
    however many windows there were (``SlidingCovariance``). Memory: some numbers for each distinct value and pair, and
    up to 4 MB of distances for each attribute of a pair.
    """

    def __init__(self, distances: Sequence[Distance]) -> None:
        """Of no window yet, and the distances on the attributes' taxonomies."""
        self._distances = tuple(distances)
        others = [j for j, d in enumerate(distances) if not by_depths((d,))]
        self.means = {j: SlidingMean(distances[j]) for j in others}
        self.variances = {j: SlidingVariance(distances[j]) for j in others}
        pairs = combinations(range(len(distances)), 2)
        self.pairs = {(i, j): SlidingCovariance(distances[i], distances[j]) for i, j in pairs if {i, j} & {*others}}

    def figures(self, counts: Counts, near: Sequence[int]) -> WindowStatistics:
        """The figures of the next window; valid until this is called again. Arguments: see ``WindowStatistics``."""
        for j, mean in self.means.items():
            mean.follow(counts.values[j])
        for key, pair in self.pairs.items():
            pair.follow(counts.pairs[key])
        return _Followed(counts, self._distances, tuple(near), self)


@dataclass(frozen=True)
class _Followed(WindowStatistics):
    """Figures that are taken from what followed the window, if anything did."""

    following: IncrementalStatistics

    def mean(self, j: int) -> int:
        return self.following.means[j].mean if j in self.following.means else super().mean(j)

    def variance(self, j: int) -> float:
        if j not in self.following.variances:
            return super().variance(j)
        values = self.counts.values[j]
        for key, pair in self.following.pairs.items():
            if j in key and len(self.counts.pairs[key].keys) and same_counts(pair.marginals[key.index(j)], values):
                return pair.variances[key.index(j)]
        self.following.variances[j].follow(values)
        return self.following.variances[j].variance

    def pair(self, key: AttributePair) -> tuple[float, float]:
        if key not in self.following.pairs or not len(self.counts.pairs[key].keys):
            return super().pair(key)
        return self.following.pairs[key].covariance, self.following.pairs[key].correlation
