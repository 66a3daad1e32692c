"""Distributional rank swapping: the baseline of 2019 that compares values by how frequent they are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.swapping.base import SwapValues, swap_in_ranks
from stream_masker.core.mechanisms.swapping.interval import IntervalSwapping
from stream_masker.core.statistics.summary import Statistics


class DistributionalRankSwapping(IntervalSwapping[Statistics]):
    """Ranks values by their frequency in the group, and swaps each with one of the k that follow (2019: section 4.2).

    So common values take the place of common ones, rare ones that of rare ones, whatever they mean. Values that are
    equally frequent are one and the same number to this method: they are ranked in any order, by the records' keys.
    """

    name: ClassVar[str] = "distributional_rank_swapping"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2019: section 4.2, after Rieger 1991",
        attributes="any number of nominal ones",
        taxonomies="any; not used",
        preserves=("mean", "dispersion", "marginals", "granularity"),
        guarantee="none in a strict sense: a value's rank by frequency changes by k at most",
        latency="that of its group of more than k records",
        cost="O(k + log n) in a group of n",
    )

    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        _, index, counts = np.unique(values.codes, return_inverse=True, return_counts=True)
        return swap_in_ranks(counts[index], values, self._length(j, len(values)))

    def _prepare(self, statistics: Statistics) -> Statistics:
        return statistics
