"""Data swapping: the baseline of 2019 that compares values by no criterion at all."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.swapping.base import MIN_VALUES, Swapping, SwapValues
from stream_masker.core.mechanisms.swapping.kernels import PLACE_WORD, swap_in_order
from stream_masker.core.statistics.summary import Statistics


class DataSwapping(Swapping[Statistics]):
    """Every value changes places with another of its attribute, any of the group as likely (2019: section 4.2).

    The paper leaves open how values are permuted at random: here they are paired at random, attribute by attribute, as
    in its other methods every value is swapped once. Of an odd number of values one stays.
    """

    name: ClassVar[str] = "data_swapping"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2019: section 4.2, after Dalenius and Reiss 1982",
        attributes="any number of nominal ones",
        taxonomies="any; not used",
        preserves=("mean", "dispersion", "marginals", "granularity"),
        guarantee="none in a strict sense: a record's values come from records of the group at random",
        latency="that of its group of 2 records or more",
        cost="O(log n) in a group of n",
    )

    @property
    def group_minimum(self) -> int:
        return MIN_VALUES

    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        order = np.argsort(values.words[:, PLACE_WORD], kind="stable")
        return np.asarray(swap_in_order(order, values.owners))

    def _prepare(self, statistics: Statistics) -> Statistics:
        return statistics
