"""Data swapping: the baseline of 2019 that compares values by no criterion at all."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stream_masker.core.mechanisms.candidates import Int64
from stream_masker.core.mechanisms.declaration import Declaration
from stream_masker.core.mechanisms.swapping import FEWEST, Swapping, Values
from stream_masker.core.mechanisms.swapping_kernels import PLACE, swap_in_order
from stream_masker.core.statistics.summary import Statistics


class DataSwapping(Swapping[Statistics]):
    """Every value changes places with another of its attribute, any of the group as likely (2019: section 4.2).

    The paper leaves open how values are permuted at random: here they are paired at random, attribute by attribute, as
    in its other methods every value is swapped once. Of an odd number of values one stays.
    """

    name: ClassVar[str] = "data_swapping"
    declaration: ClassVar[Declaration] = Declaration(
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
        return FEWEST

    def _partners(self, j: int, values: Values) -> Int64:
        order = np.argsort(values.words[:, PLACE], kind="stable")
        return np.asarray(swap_in_order(order, values.owners))

    def _prepare(self, statistics: Statistics) -> Statistics:
        return statistics
