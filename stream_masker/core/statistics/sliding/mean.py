"""The semantic mean and variance of a window as it slides, exact at every place."""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array
from stream_masker.core.statistics.compensated import CompensatedSums
from stream_masker.core.statistics.counts import SparseCounts, difference
from stream_masker.core.statistics.mean import MEAN_TIE, choose_mean
from stream_masker.core.statistics.mean_search import MeanSearch
from stream_masker.errors import StatisticsError

RESERVE = 0.005
"""How far beyond the least total those concepts reach that are watched, as a share of the rows."""

MOST_WATCHED = 256

WATCH_BLOCK = 4096
"""Values whose distances to the watched concepts are held at a time, after a search."""


class SlidingMean:
    """sMean and sVar (2017: equations 13 and 14) from what came and what went. Mutable.

    A search (``search``) finds the concepts of the least totals and a bound on all other totals. From then on only the
    watched concepts' totals are kept, by what changed. What went may have lessened any other total, by at most 1 for
    each row: as long as the bound, less that, is beyond the least of the watched, no other concept can be the mean. If
    not, it searches again. So the mean is that of a computation from the counts alone at any time.
    """

    def __init__(self, d: Distance) -> None:
        """Of an empty window, and the distance on the attribute's taxonomy."""
        self._d = d
        self._counts = np.zeros(len(d.taxonomy), np.int64)
        self._rows = 0
        self._went = 0.0
        self._floor = -np.inf
        self._watch(np.zeros(1, np.int32), -np.inf)

    def slide(self, change: SparseCounts) -> None:
        """Takes in what came less what went (``counts.difference``); its keys are positions.

        Raises StatisticsError, and changes nothing, when more is to go than is there.
        """
        if (self._counts[change.keys] + change.counts < 0).any():
            raise StatisticsError("more is to leave the window than it holds")
        self._counts[change.keys] += change.counts
        self._rows += int(change.counts.sum())
        self._went = -float(np.minimum(change.counts, 0).sum())
        self._floor = self._floor - self._went if self._slow else -np.inf
        self._searched = False
        if self._slow:
            self._add(change.keys.astype(np.int32), change.counts.astype(np.float64))

    def follow(self, counts: SparseCounts) -> None:
        """Slides to the window that has these counts."""
        keys = np.flatnonzero(self._counts)
        self.slide(difference(counts, SparseCounts(keys, self._counts[keys])))

    @property
    def _slow(self) -> bool:
        """Whether the window slides so slowly that what a search finds is good for more than one slide."""
        return self._went < RESERVE * self._rows

    @property
    def mean(self) -> int:
        """The position of sMean. Raises StatisticsError for an empty window."""
        if not self._rows:
            raise StatisticsError("statistics need at least one value")
        if not self._searched and not self._least * (1.0 + 2.0 * MEAN_TIE) < self._floor:
            self._search()
        return choose_mean(self._watched, np.maximum(self._totals.values, 0.0), self._d)

    @property
    def variance(self) -> float:
        """sVar, in [0, 1]. Raises as ``mean``."""
        mean = self.mean
        return max(0.0, float(self._squares.values[self._watched == mean][0])) / self._rows

    @property
    def _least(self) -> float:
        return float(self._totals.values.min())

    def _search(self) -> None:
        values = np.flatnonzero(self._counts).astype(np.int32)
        weights = self._counts[values].astype(np.float64)
        near = int(self._watched[self._totals.values.argmin()])
        search = MeanSearch(self._d, values, weights)
        found = search.nearly_least(RESERVE * self._rows, near=near) if self._slow else search.least(near=near)
        order = np.argsort(found.totals, kind="stable")
        ties = int(np.count_nonzero(found.totals <= found.totals.min() * (1.0 + 2.0 * MEAN_TIE)))
        kept, others = np.split(order, [max(ties, MOST_WATCHED if self._slow else 0)])
        self._watch(found.concepts[kept], min(found.floor, float(found.totals[others].min(initial=np.inf))))
        for start in range(0, values.size, WATCH_BLOCK):
            self._add(values[start : start + WATCH_BLOCK], weights[start : start + WATCH_BLOCK])
        self._searched = True

    def _watch(self, concepts: Int32Array, floor: float) -> None:
        """Watches concepts, their sums 0; all other concepts' totals are at least ``floor``."""
        self._watched = concepts
        self._totals = CompensatedSums(np.zeros(concepts.size))
        self._squares = CompensatedSums(np.zeros(concepts.size))
        self._floor = floor
        self._searched = False

    def _add(self, positions: Int32Array, amounts: Float64Array) -> None:
        """Adds weighted values to the sums of the watched concepts."""
        distances = self._d.between(self._watched, positions)
        self._totals.add_products(distances, amounts)
        self._squares.add_products(distances**2, amounts)
