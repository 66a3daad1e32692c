"""The semantic mean and variance of a sliding window."""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array
from stream_masker.core.statistics.compensated import CompensatedSums
from stream_masker.core.statistics.counts import SparseCounts, difference
from stream_masker.core.statistics.mean import MEAN_TIE, choose_mean
from stream_masker.core.statistics.mean_search import MeanSearch
from stream_masker.errors import StatisticsError

WATCH_MARGIN = 0.005
"""Concepts are watched if their total exceeds the smallest one by at most this share of the rows."""

MAX_WATCHED = 256
"""The most concepts that are watched, unless more are tied."""

WATCH_BLOCK = 4096
"""The number of values whose distances to the watched concepts are computed at a time, after a search."""


class SlidingMean:
    """sMean and sVar (2017: equations 13 and 14), updated by what entered and left the window. Mutable.

    A search (``mean_search``) finds the concepts of the smallest totals, and a lower bound on all other totals. From
    then on only the totals of these watched concepts are updated. A removed row lowers any other total by at most 1.
    While the bound, minus the number of removed rows, exceeds the smallest watched total, no other concept can be the
    mean; otherwise the search runs again. The mean is therefore always identical to a computation from all counts.
    """

    def __init__(self, d: Distance) -> None:
        """Start with an empty window; ``d``: the distance on the attribute's taxonomy."""
        self._d = d
        self._counts = np.zeros(len(d.taxonomy), np.int64)
        self._rows = 0
        self._removed = 0.0
        self._lower_bound = -np.inf
        self._watch(np.zeros(1, np.int32), -np.inf)

    def slide(self, change: SparseCounts) -> None:
        """Apply a change of the counts (``counts.difference``), whose keys are positions.

        Raises StatisticsError, and changes nothing, if more is removed than the window holds.
        """
        if (self._counts[change.keys] + change.counts < 0).any():
            raise StatisticsError("the change removes more rows than the window holds")
        self._counts[change.keys] += change.counts
        self._rows += int(change.counts.sum())
        self._removed = -float(np.minimum(change.counts, 0).sum())
        self._lower_bound = self._lower_bound - self._removed if self._slides_slowly else -np.inf
        self._searched = False
        if self._slides_slowly:
            self._add(change.keys.astype(np.int32), change.counts.astype(np.float64))

    def slide_to(self, counts: SparseCounts) -> None:
        """Slide to the window that has these counts."""
        keys = np.flatnonzero(self._counts)
        self.slide(difference(counts, SparseCounts(keys, self._counts[keys])))

    @property
    def _slides_slowly(self) -> bool:
        """Whether the window slides slowly enough for the result of a search to serve several slides."""
        return self._removed < WATCH_MARGIN * self._rows

    @property
    def mean(self) -> int:
        """The position of sMean. Raises StatisticsError for an empty window."""
        if not self._rows:
            raise StatisticsError("statistics need at least one value")
        if not self._searched and not self._smallest_total * (1.0 + 2.0 * MEAN_TIE) < self._lower_bound:
            self._search()
        return choose_mean(self._watched, np.maximum(self._totals.values, 0.0), self._d)

    @property
    def variance(self) -> float:
        """sVar, in [0, 1]. Raises as ``mean``."""
        mean = self.mean
        return max(0.0, float(self._squares.values[self._watched == mean][0])) / self._rows

    @property
    def _smallest_total(self) -> float:
        return float(self._totals.values.min())

    def _search(self) -> None:
        values = np.flatnonzero(self._counts).astype(np.int32)
        weights = self._counts[values].astype(np.float64)
        hint = int(self._watched[self._totals.values.argmin()])
        search = MeanSearch(self._d, values, weights)
        margin = WATCH_MARGIN * self._rows
        minimal = search.near_minimal(margin, hint=hint) if self._slides_slowly else search.minimal(hint=hint)
        order = np.argsort(minimal.totals, kind="stable")
        ties = int(np.count_nonzero(minimal.totals <= minimal.totals.min() * (1.0 + 2.0 * MEAN_TIE)))
        watched, others = np.split(order, [max(ties, MAX_WATCHED if self._slides_slowly else 0)])
        others_bound = float(minimal.totals[others].min(initial=np.inf))
        self._watch(minimal.concepts[watched], min(minimal.lower_bound, others_bound))
        for start in range(0, values.size, WATCH_BLOCK):
            self._add(values[start : start + WATCH_BLOCK], weights[start : start + WATCH_BLOCK])
        self._searched = True

    def _watch(self, concepts: Int32Array, lower_bound: float) -> None:
        """Watch these concepts, with sums of 0; the totals of all other concepts are at least ``lower_bound``."""
        self._watched = concepts
        self._totals = CompensatedSums(np.zeros(concepts.size))
        self._squares = CompensatedSums(np.zeros(concepts.size))
        self._lower_bound = lower_bound
        self._searched = False

    def _add(self, positions: Int32Array, amounts: Float64Array) -> None:
        """Add weighted values to the sums of the watched concepts."""
        distances = self._d.between(self._watched, positions)
        self._totals.add_products(distances, amounts)
        self._squares.add_products(distances**2, amounts)
