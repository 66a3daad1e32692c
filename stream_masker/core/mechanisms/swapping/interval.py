"""Swaps within intervals of k ranks, or of p percent of the values: the common parts and the baseline of 2019."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from numbers import Real
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import DistanceChoice
from stream_masker.core.dtypes import Int32Array, Int64Array, UInt64Matrix
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.mechanisms.base import MethodCard
from stream_masker.core.mechanisms.options import per_attribute
from stream_masker.core.mechanisms.swapping.base import TIE_WORD, Swapping, SwapValues, draw_partner
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.groups import GROUP_RECORDS
from stream_masker.errors import ParameterError

DEFAULT_K = 10
"""The default length of a swapping interval, in records."""

MIN_LENGTH = 2
"""The smallest length of a swapping interval, in values."""

IntervalLengths: TypeAlias = int | Mapping[str, int] | None
IntervalShares: TypeAlias = float | Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class SwapInterval:
    """The length of one attribute's swapping intervals: ``k``, or ⌊p·n/100⌋ of n values (2019: section 3.3).

    It is at least ``MIN_LENGTH``. With an interval of one value, the values of a group, which swaps keep, decide who
    swaps with whom: every swap would be forced (``base.Swapping``).
    """

    k: int | None = None
    p: float | None = None

    @property
    def min_values(self) -> int:
        """The smallest number n of values that it can be used on, so that ``MIN_LENGTH`` ≤ k < n."""
        if self.k is not None:
            return self.k + 1
        n = max(MIN_LENGTH + 1, ceil(100 * MIN_LENGTH / self._share))
        return n if self.length(n) >= MIN_LENGTH else n + 1

    def length(self, n: int) -> int:
        """Return the length among n values."""
        return self.k if self.k is not None else floor(self._share * n / 100)

    @property
    def _share(self) -> float:
        return self.p or 0.0


class IntervalSwapping(Swapping):
    """Swaps within intervals of k values, or of p percent of the values, for all attributes or for each."""

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        k: IntervalLengths = None,
        p: IntervalShares = None,
        group_records: int = GROUP_RECORDS,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``k``: the length of the swapping interval in records, from 2 to less than ``window``, for all attributes or
          for each; 10 by default.
        * ``p``: the length in percent of the group's values, in (0, 100); instead of ``k``.
        * ``group_records``: see ``GroupMechanism``.
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        super().__init__(
            taxonomies,
            group_records=group_records,
            distance=distance,
            window=window,
            window_age=window_age,
            rollup_depth=rollup_depth,
            seed=seed,
        )
        self._intervals = checked_intervals(k, p, self._attributes, window=window)

    @property
    def group_minimum(self) -> int:
        return max(interval.min_values for interval in self._intervals)

    def _interval_length(self, j: int, size: int) -> int:
        """Return the k of attribute j among ``size`` values or records. Raises ParameterError if there are too few."""
        interval = self._intervals[j]
        if size < interval.min_values:
            raise self._too_few_values(j, size, interval.length(interval.min_values))
        return interval.length(size)

    def _too_few_values(self, j: int, size: int, k: int) -> ParameterError:
        return ParameterError(
            f"the group has {size} values of {self._attributes[j]!r}: "
            f"a swapping interval of {k} needs more than {k} values"
        )


def checked_intervals(
    k: IntervalLengths, p: IntervalShares, attributes: tuple[str, ...], *, window: int
) -> tuple[SwapInterval, ...]:
    """Return each attribute's interval. Raises ParameterError, which names the value given and the values allowed."""
    if k is not None and p is not None:
        raise ParameterError(f"k={k!r} and p={p!r} cannot be combined: give either k (records) or p (percent)")
    if p is not None:
        return tuple(
            SwapInterval(p=_checked_p(name, value)) for name, value in per_attribute("p", p, attributes).items()
        )
    given_lengths = per_attribute("k", DEFAULT_K if k is None else k, attributes)
    return tuple(SwapInterval(k=_checked_k(name, value, window)) for name, value in given_lengths.items())


def _checked_k(name: str, k: object, window: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or not MIN_LENGTH <= k < window:
        raise ParameterError(
            f"k={k!r} of {name!r} is not allowed: use a whole number of records from {MIN_LENGTH} to {window - 1}, "
            f"fewer than the window of {window}"
        )
    return k


def _checked_p(name: str, p: object) -> float:
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 < float(p) < 100:
        raise ParameterError(f"p={p!r} of {name!r} is not allowed: use a percentage in (0, 100)")
    return float(p)


def swap_in_ranks(ranks: NDArray[np.integer], values: SwapValues, k: int) -> Int64Array:
    """Return (n,) int64 partners: each value swaps with one of the next k in ascending rank.

    This is Algorithm 1 of 2019, lines 3 to 12. Random words order equal ranks.
    """
    order = np.lexsort((values.words[:, TIE_WORD], ranks))
    return swap_with_next(order, values.codes, values.owners, values.words, k)


@kernel
def swap_with_next(order: Int64Array, codes: Int32Array, owners: Int64Array, words: UInt64Matrix, k: int) -> Int64Array:
    """Return (n,) int64 partners: each unswapped value of ``order`` swaps with one of the next k."""
    partners, unswapped = np.arange(order.size), np.ones(order.size, np.bool_)
    candidates = np.empty(k, np.int64)
    for rank in range(order.size):
        reference, size = order[rank], 0
        if not unswapped[reference]:
            continue
        unswapped[reference] = False
        for value in order[rank + 1 : rank + 1 + k]:
            if unswapped[value] and owners[value] != owners[reference]:
                candidates[size] = value
                size += 1
        partner = draw_partner(reference, codes, words, candidates, size, 0, 0)
        unswapped[partner] = False
        partners[reference], partners[partner] = partner, reference
    return partners


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
