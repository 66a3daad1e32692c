"""Data swapping, the baseline of 2019 that exchanges random values."""

from __future__ import annotations

import math
from collections import deque
from typing import ClassVar

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.core.mechanisms.base import MethodCard
from stream_masker.core.mechanisms.swapping.base import (
    MIN_SWAP_RECORDS,
    PARTNER_WORD,
    STAY_BIT,
    TIE_WORD,
    Swapping,
    SwapValues,
)
from stream_masker.core.mechanisms.windowed import UNKNOWN_COUNTS
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.risk.records import value_law
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import StatisticsError


class DataSwapping(Swapping):
    """Exchanges every value with another one of its attribute in the group, with equal probability (2019: section 4.2).

    The paper does not specify the random permutation. Here values are paired at random, attribute by attribute, so that
    every value is swapped once, as in the paper's other methods. If the number of values is odd, one of them is not
    swapped.

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
        partners = np.arange(len(values))
        if values.records == MIN_SWAP_RECORDS and values.words[0, PARTNER_WORD] & STAY_BIT:
            return partners
        owners, waiting = values.owners.tolist(), deque[int]()  # of one record: its values do not swap with each other
        for value in np.argsort(values.words[:, TIE_WORD], kind="stable").tolist():
            if waiting and owners[waiting[0]] != owners[value]:
                partner = waiting.popleft()
                partners[value], partners[partner] = partner, value
            else:
                waiting.append(value)
        return partners

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the exact transition probabilities in random groups of ``group_size`` records of the window.

        A value without a partner stays. Otherwise its partner is any other value of the group with equal probability,
        so that it is a draw from the window. The elements of arrays count as values of separate records.
        """
        if counts is None:
            raise StatisticsError(UNKNOWN_COUNTS)
        domain, shares = value_law(counts.values[j])
        outcomes = np.union1d(domain, values)
        stay = _unswapped_share(self.group_size(counts), min(counts.values[j].rows / counts.records, 1.0))
        law = np.zeros(outcomes.size)
        law[np.searchsorted(outcomes, domain)] = shares
        rows = np.tile((1.0 - stay) * law, (values.size, 1))
        rows[np.arange(values.size), np.searchsorted(outcomes, values)] += stay
        return Channel(values, rows, value_classes(outcomes, len(self._distances[j].taxonomy)))


def _unswapped_share(records: int, present: float) -> float:
    """Return the probability that a value of a group of ``records`` has no partner.

    Each other record has a value with probability ``present``. One value of an odd number of them is not swapped, and
    neither of two is with probability 1/2. Groups with a single value are not masked.
    """
    sizes = range(MIN_SWAP_RECORDS, records + 1) if present < 1.0 else [records]
    chances = [_binomial(n - 1, records - 1, present) for n in sizes]
    stays = [0.5 if n == MIN_SWAP_RECORDS else n % 2 / n for n in sizes]
    return sum(chance * stay for chance, stay in zip(chances, stays, strict=True)) / sum(chances)


def _binomial(k: int, n: int, p: float) -> float:
    """Return the probability of k of n, each with probability p in (0, 1]; in logarithms, so that no term overflows."""
    if p == 1.0:
        return float(k == n)
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))
