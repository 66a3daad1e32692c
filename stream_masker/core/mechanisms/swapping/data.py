"""Data swapping, the baseline of 2019 that exchanges random values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.swapping.base import MIN_SWAP_RECORDS, Swapping, SwapValues
from stream_masker.core.mechanisms.swapping.kernels import PARTNER_WORD, TIE_WORD, swap_in_order
from stream_masker.core.statistics.summary import Statistics

STAY_BIT = np.uint64(63)
"""The bit of a random word that decides whether the only two records keep their values."""


class DataSwapping(Swapping[Statistics]):
    """Exchanges every value with another one of its attribute in the group, with equal probability (2019: section 4.2).

    The paper does not specify the random permutation. Here values are paired at random, attribute by attribute, so that
    every value is swapped once, as in the paper's other methods. One of an odd number of values stays.

    If only two records of the group have values, a swap would always exchange them, and an intruder could undo it. They
    are exchanged with probability 1/2.
    """

    name: ClassVar[str] = "data_swapping"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="exchanges each value with a random one of the same attribute in the group",
        use_when="only the marginals matter, or as a baseline",
        source="2019: section 4.2, after Dalenius and Reiss 1982",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("mean", "dispersion", "marginals", "granularity"),
        guarantee="none in a strict sense: a record's values come from random records of the group",
        latency="that of its group of at least 2 records",
        cost="O(log n) in a group of n",
    )

    @property
    def group_minimum(self) -> int:
        return MIN_SWAP_RECORDS

    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        if values.records == MIN_SWAP_RECORDS and values.words[0, PARTNER_WORD] >> STAY_BIT:
            return np.arange(len(values))
        order = np.argsort(values.words[:, TIE_WORD], kind="stable")
        return np.asarray(swap_in_order(order, values.owners))

    def _prepare(self, statistics: Statistics) -> Statistics:
        return statistics
