"""Semantic rank swapping (2019): exchange of values that are near in meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.swapping.base import SwappedColumn, SwapValues, swap_in_ranks
from stream_masker.core.mechanisms.swapping.interval import IntervalLengths, IntervalShares, IntervalSwapping
from stream_masker.core.mechanisms.swapping.kernels import REFERENCE_WORD, uniform_below
from stream_masker.core.mechanisms.swapping.rank.distance_table import DistanceTable
from stream_masker.core.mechanisms.swapping.rank.records import (
    merge_partners,
    swap_records,
    swap_values_alone,
    swap_with_record,
)
from stream_masker.core.mechanisms.windowed import DistanceChoice
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.groups import GROUP_RECORDS
from stream_masker.core.statistics.observed import unpack_observed
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import ParameterError

DistanceTables: TypeAlias = tuple[DistanceTable, ...]
"""For each attribute, the distances between the observed values."""

INTERVALS = ("dynamic", "fixed")


class RankSwapping(IntervalSwapping[DistanceTables]):
    """Swaps each value with one of the k values that are nearest in meaning (2019: Algorithms 1, 2 and 3).

    * ``intervals="fixed"`` (Algorithm 1): the values of an attribute are ranked once, by their distance from the most
      distant value (equation 5). Each value swaps with one of the next k.
    * ``intervals="dynamic"`` (Algorithm 2): each value swaps with one of the k values nearest to it (equation 6). The
      first reference is the most distant value; the next one is the unswapped value farthest from the last (equation
      7).
    * ``multivariate=True`` (Algorithm 3): the k nearest *records* by mean distance (equations 8 to 11) form the
      interval. Each value of the reference swaps with one of the same attribute in these records, which also preserves
      correlations.

    Where the paper leaves a choice, or cannot be followed literally:

    * The k nearest are taken among all values, including swapped ones (Definition 5), by original values; then one of
      the unswapped ones is drawn. Among values as far away as the last of the k, unswapped ones come first; the paper
      orders tied values arbitrarily. If several values are most distant, one is drawn.
    * A forced swap (``swapping.base.Swapping``) takes place with probability 1/2, always in the paper. The k values
      nearest to a rare one can all be equal, or all but one can be swapped already.
    * A value that was swapped as a partner is not swapped again when its record becomes the reference. A record with
      any unswapped value can become the reference. A value without an unswapped partner stays.
    * k counts equal values, too. A value that more than k records share swaps only with its equals (Table 5 shows the
      same for k = 2), so values more frequent than k stay as they are.
    * In Algorithms 1 and 2, array elements are values of their attribute; elements of one record do not swap. In
      Algorithm 3, first elements are one attribute, second elements another, and so on while more than k records have
      them; later ones swap by Algorithm 2. A missing element is at distance 1 from a value, and at distance 0 from
      another missing one.

    The paper states that the ranks of two swapped values differ by at most k. This holds for Algorithm 1, which has a
    single ranking. By algorithms 2 and 3, the partner is among the k nearest of the reference. The reference can have a
    greater rank among the values nearest to its partner, because the partner can have nearer values.

    Section 3.5 states that Algorithm 3 bounds the re-identification probability by 1/k. This holds for an intruder who
    guesses among the k candidates of a value. Record linkage finds more: on samples of 1,012 to 1,172 real
    discharges, an intruder who links each record to the nearest masked one re-identifies 0.11 to 0.15 of the records
    for k = 10, 0.08 to 0.12 for k = 20 and 0.05 to 0.09 for k = 50 (``core.linkage``). Measure it on your own
    data.

    A group with more than 8,192 distinct values of an attribute is split, so that memory stays bounded: values by their
    order in the taxonomy, records by their order in the group.

    Equal values and equal records are processed together. For n values, d of them distinct, Algorithm 2 takes O(n·d +
    d²) instead of O(n² log n); for r distinct records, Algorithm 3 takes O(n·r + d²). The farthest unit is found in one
    pass over the remaining ones, the nearest units in fewer steps. Algorithm 1 takes O(n·k + n log n + d²).
    """

    name: ClassVar[str] = "rank_swapping"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="exchanges each value with one of the k values of the group that are nearest in meaning",
        use_when="the exact marginals and the meaning must survive, and records can wait for a group",
        source="2019: algorithms 1 to 3",
        attributes="any number of nominal ones; at least two with multivariate",
        taxonomies="any",
        preserves=("meaning", "mean", "dispersion", "marginals", "granularity", "correlation (multivariate)"),
        guarantee="of two swapped values, one is among the k nearest of the other; record linkage finds 0.11 to 0.15 "
        "of real records for k = 10 and 0.08 to 0.12 for k = 20, more than the 1/k that 2019 states for multivariate",
        latency="that of its group of more than k records",
        cost="O(d + d²/n) for d distinct values in a group of n; multivariate: O(r + d²/n) for r distinct records",
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        k: IntervalLengths = None,
        p: IntervalShares = None,
        multivariate: bool = False,
        intervals: str = "dynamic",
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
          (not with ``multivariate``) for each; 10 by default.
        * ``p``: the length in percent of the group's values, in (0, 100); instead of ``k``.
        * ``multivariate``: Algorithm 3, for at least two attributes.
        * ``intervals``: ``dynamic``, or ``fixed`` (Algorithm 1, not with ``multivariate``).
        * ``group_records``: see ``GroupMechanism``.
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        require_one_of("intervals", intervals, INTERVALS)
        require_type("multivariate", multivariate, bool)
        super().__init__(
            taxonomies,
            k=k,
            p=p,
            group_records=group_records,
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

    def _prepare(self, statistics: Statistics) -> DistanceTables:
        return tuple(
            DistanceTable.of(d, np.flatnonzero(unpack_observed(statistics.observed[name], len(d.taxonomy))))
            for name, d in zip(self._attributes, self._distances, strict=True)
        )

    def _swap_columns(self, batch: Batch, groups: Sequence[SwapValues]) -> list[SwappedColumn]:
        return self._swap_records(batch, groups) if self._multivariate else super()._swap_columns(batch, groups)

    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        k = self._interval_length(j, len(values))
        if self._fixed:
            return self._fixed_interval_partners(j, values, k)
        return swap_values_alone(values, k, self._prepared_statistics()[j])

    def _fixed_interval_partners(self, j: int, values: SwapValues, k: int) -> Int64Array:
        """Return the partners by Algorithm 1."""
        distinct, index, counts = np.unique(values.codes, return_inverse=True, return_counts=True)
        distances = self._prepared_statistics()[j].between(distinct)
        sums = distances.level_units.astype(np.float64)[distances.levels] @ counts
        most_distant = np.flatnonzero(sums == sums.max())
        reference = most_distant[uniform_below(values.words[0, REFERENCE_WORD], most_distant.size)]
        return swap_in_ranks(distances.levels[reference][index], values, k)

    def _swap_records(self, batch: Batch, groups: Sequence[SwapValues]) -> list[SwappedColumn]:
        """Swap by Algorithm 3, and by Algorithm 2 the array elements at places that few records have."""
        k = self._interval_length(0, batch.size)
        for j, values in enumerate(groups):
            self._check_values(j, values, k)
        tables = self._prepared_statistics()
        masks = [swap_with_record(values, k) for values in groups]
        with_record = [values.select(mask) for values, mask in zip(groups, masks, strict=True)]
        swapped = []
        for column, values, mask, record_partners, table in zip(
            batch.columns, groups, masks, swap_records(with_record, k, tables), tables, strict=True
        ):
            alone = values.select(~mask)
            alone_partners = swap_values_alone(alone, k, table) if len(alone) else record_partners[:0]
            partners = merge_partners(values, mask, record_partners, alone_partners)
            swapped.append(SwappedColumn.from_partners(column.codes, values.indices, partners))
        return swapped

    def _check_values(self, j: int, values: SwapValues, k: int) -> None:
        if len(values):
            self._check_records(j, values)
            if len(values) <= k:
                raise self._too_few_values(j, len(values), k)


def _check_multivariate(given: object, attributes: tuple[str, ...], intervals: str) -> None:
    if isinstance(given, Mapping):
        raise ParameterError("multivariate=True has one interval for all attributes: give a single k or p")
    if len(attributes) < 2:
        raise ParameterError(
            "multivariate=True needs at least two attributes: for one attribute, use multivariate=False"
        )
    if intervals == "fixed":
        raise ParameterError("multivariate=True requires dynamic intervals: remove intervals='fixed'")
