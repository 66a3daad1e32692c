"""Semantic rank swapping (2019): values change places with others that are near in meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.swapping.base import Swapped, SwapValues, swap_in_ranks
from stream_masker.core.mechanisms.swapping.interval import IntervalSwapping, Lengths, Shares
from stream_masker.core.mechanisms.swapping.kernels import NEXT, draw_partner
from stream_masker.core.mechanisms.swapping.rank.distance_table import DistanceTable
from stream_masker.core.mechanisms.swapping.rank.records import (
    joined,
    swap_record_values,
    swap_records,
    swapped_together,
)
from stream_masker.core.mechanisms.windowed import DistanceChoice
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.observed import unpack_mask
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import ParameterError

Tables: TypeAlias = tuple[DistanceTable, ...]
"""By attribute, the levels between the values that have been seen."""

INTERVALS = ("dynamic", "fixed")


class RankSwapping(IntervalSwapping[Tables]):
    """Swaps values with one of the k that are nearest in meaning (2019: Algorithms 1, 2 and 3).

    * ``intervals="fixed"`` (Algorithm 1): an attribute's values are ranked once, by their distance from the most
      distant value (equation 5); each swaps with one of the k that follow it.
    * ``intervals="dynamic"`` (Algorithm 2): each value swaps with one of the k values nearest to it (equation 6). The
      first reference is the most distant value, the next the unswapped value that is farthest from the last (7).
    * ``multivariate=True`` (Algorithm 3): the k nearest *records* by their mean distance (8 to 11); each value of the
      reference swaps with one of the same attribute from these records, which keeps correlations as well.

    Where the paper leaves a choice, or cannot be followed to the letter:

    * The k nearest are taken among all values, swapped ones included (Definition 5), by original values; one of the
      unswapped among them is drawn. Of values that are as far away as the last, the unswapped belong to the interval
      first: the paper puts tied values in any order. Where several are most distant, one is drawn.
    * Values that have been swapped as another's partner are not swapped again when their record becomes the reference;
      a record with any unswapped value can still become it. A value without an unswapped partner stays.
    * k counts values, equal ones too: a value that more than k records share swaps with its equals alone (Table 5 for
      k = 2 shows the same), so a k below the frequency of common values leaves these as they are.
    * Elements of an array are values of their attribute for Algorithms 1 and 2; none swaps within its own record. For
      Algorithm 3 first elements are one attribute, second ones another, and so on while more than k records have them;
      later ones swap by Algorithm 2. What a record lacks is at distance 1 from a value, at 0 from what another lacks.

    Section 3.5 says that Algorithm 3 bounds the probability of re-identification by 1/k. That holds for an intruder who
    guesses among the k candidates of a value; of real discharges, one who links each record to the nearest masked one
    finds fewer than 1/k of them up to a k of about 5, and more beyond (``evaluation.linkage``): 1,172 records, k = 50:
    0.05. Check it on data of your own.

    A group with more than 8,192 distinct values of an attribute swaps in parts, so that memory stays bounded: values by
    their order in the taxonomy, records by their order in the group.

    Equal values, and equal records, collapse. With d distinct values among n, Algorithm 2 takes O(n·d + d²) and not
    O(n² log n), Algorithm 3 with r distinct records O(n·r + d²): a pass over what is left for the farthest, fewer steps
    for the nearest. Algorithm 1 takes O(n·k + n log n + d²).
    """

    name: ClassVar[str] = "rank_swapping"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2019: algorithms 1 to 3",
        attributes="any number of nominal ones; two or more for multivariate",
        taxonomies="any",
        preserves=("meaning", "mean", "dispersion", "marginals", "granularity", "correlation (multivariate)"),
        guarantee="ranks change by k at most; multivariate: re-identification at a chance of 1/k (2019: section 3.5), "
        "to be checked by record linkage, which finds more where k is large",
        latency="that of its group of more than k records",
        cost="O(d + d²/n) for d distinct values in a group of n; multivariate: O(r + d²/n) for r distinct records",
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        k: Lengths = None,
        p: Shares = None,
        multivariate: bool = False,
        intervals: str = "dynamic",
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Everything is checked here: ParameterError says what was given and what is allowed.

        k: length of the swapping interval in records, from 1 to less than ``window``, of all attributes or (not for
        ``multivariate``) of each; by default 10. p: instead of k, in per cent of the group's values, in (0, 100).
        multivariate: Algorithm 3, for two attributes or more. intervals: dynamic or fixed (Algorithm 1, not for
        ``multivariate``). The others: as ``WindowedMechanism``.
        """
        require_one_of("intervals", intervals, INTERVALS)
        require_type("multivariate", multivariate, bool)
        super().__init__(
            taxonomies,
            k=k,
            p=p,
            distance=distance,
            window=window,
            window_age=window_age,
            rollup_depth=rollup_depth,
            seed=seed,
        )
        if multivariate:
            _check_multivariate(k if p is None else p, self._attributes, intervals)
        self._multivariate = multivariate
        self._fixed = intervals == "fixed"

    @property
    def multivariate(self) -> bool:
        """Whether records swap as wholes (Algorithm 3)."""
        return self._multivariate

    def _prepare(self, statistics: Statistics) -> Tables:
        packed = zip(self._attributes, self._distances, strict=True)
        return tuple(
            DistanceTable.of(d, np.flatnonzero(unpack_mask(statistics.seen[a], len(d.taxonomy)))) for a, d in packed
        )

    def _swapped(self, batch: Batch, groups: Sequence[SwapValues]) -> list[Swapped]:
        return self._swapped_records(batch, groups) if self._multivariate else super()._swapped(batch, groups)

    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        k = self._length(j, len(values))
        return self._within_ranks(j, values, k) if self._fixed else swap_record_values(values, k, self._ready()[j])

    def _within_ranks(self, j: int, values: SwapValues, k: int) -> Int64Array:
        """Algorithm 1."""
        distinct, index, counts = np.unique(values.codes, return_inverse=True, return_counts=True)
        levels = self._ready()[j].between(distinct)
        sums = levels.units.astype(np.float64)[levels.ranks] @ counts
        most = np.flatnonzero(sums == sums.max())
        ranks = levels.ranks[most[draw_partner(values.words[0, NEXT], most.size)]]
        return swap_in_ranks(ranks[index], values, k)

    def _swapped_records(self, batch: Batch, groups: Sequence[SwapValues]) -> list[Swapped]:
        """Algorithm 3; Algorithm 2 for elements of arrays at places that few records have."""
        k = self._length(0, batch.size)
        for j, values in enumerate(groups):
            self._check_values(j, values, k)
        wholes = [swapped_together(values, k) for values in groups]
        found = swap_records(
            [values.where(chosen) for values, chosen in zip(groups, wholes, strict=True)], k, self._ready()
        )
        swapped = []
        for column, values, chosen, partners, table in zip(
            batch.columns, groups, wholes, found, self._ready(), strict=True
        ):
            alone = values.where(~chosen)
            others = swap_record_values(alone, k, table) if len(alone) else partners[:0]
            swapped.append(Swapped.by(column.codes, values.places, joined(values, chosen, partners, others)))
        return swapped

    def _check_values(self, j: int, values: SwapValues, k: int) -> None:
        if len(values):
            self._check_records(j, values)
            if len(values) <= k:
                raise self._too_few(j, len(values), k)


def _check_multivariate(given: object, attributes: tuple[str, ...], intervals: str) -> None:
    if isinstance(given, Mapping):
        raise ParameterError("multivariate=True has one interval for all attributes: give one k or p, not several")
    if len(attributes) < 2:
        raise ParameterError("multivariate=True needs two attributes or more: for one, use multivariate=False")
    if intervals == "fixed":
        raise ParameterError("multivariate=True has dynamic intervals: leave intervals='fixed' out")
