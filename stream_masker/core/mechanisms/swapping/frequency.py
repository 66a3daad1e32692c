"""Distributional rank swapping, the baseline of 2019 that ranks values by frequency."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.swapping.base import SwapValues, swap_in_ranks
from stream_masker.core.mechanisms.swapping.interval import IntervalSwapping


class DistributionalRankSwapping(IntervalSwapping):
    """Ranks values by their frequency in the group, and swaps each with one of the next k (2019: section 4.2).

    Common values are exchanged with common ones and rare values with rare ones, regardless of their meaning. Values of
    equal frequency have equal rank; random words of the records order them. Forced swaps take place with probability
    1/2.
    """

    name: ClassVar[str] = "distributional_rank_swapping"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="exchanges each value with one of similar frequency in the group",
        use_when="common values must replace common ones and rare values rare ones, or as a baseline",
        source="2019: section 4.2, after Rieger 1991",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("mean", "dispersion", "marginals", "granularity"),
        guarantee="none in a strict sense: a value's frequency rank changes by at most k",
        latency="that of its group of more than k records",
        cost="O(k + log n) in a group of n",
    )

    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        _, index, counts = np.unique(values.codes, return_inverse=True, return_counts=True)
        return swap_in_ranks(counts[index], values, self._interval_length(j, len(values)))
