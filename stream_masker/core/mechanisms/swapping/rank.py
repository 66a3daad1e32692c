"""Semantic rank swapping (2019): exchange of values that are near in meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch
from stream_masker.core.distance import Distance, DistanceChoice
from stream_masker.core.distance.units import unit_distances
from stream_masker.core.dtypes import BoolArray, Float64Array, Int32Array, Int64Array, Int64Matrix, UInt64Matrix
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.swapping.base import MIN_SWAP_RECORDS, SwappedColumn, SwapValues, swap_in_ranks
from stream_masker.core.mechanisms.swapping.interval import IntervalLengths, IntervalShares, IntervalSwapping
from stream_masker.core.mechanisms.swapping.kernels import (
    FIRST_REFERENCE_WORD,
    PARTNER_WORD,
    REFERENCE_WORD,
    TIED_PARTNER_WORD,
    SwapUnits,
    swap_nearest,
    uniform_below,
)
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.groups import GROUP_RECORDS
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import ParameterError

INTERVALS = ("dynamic", "fixed")

MAX_UNITS = 8192
"""The largest number of values or records that swap together: time and memory are quadratic in it."""

MAX_ELEMENT_ATTRIBUTES = 16
"""The largest number of elements of an array that are treated as separate attributes."""


class RankSwapping(IntervalSwapping):
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

    A group with more than 8,192 values of an attribute, or records, is split, so that time and memory stay bounded:
    values by their order in the taxonomy, records by their order in the group. Algorithms 2 and 3 take O(n²) for n
    values or records, without the sorting of the paper. Algorithm 1 takes O(n·k + n log n + d²) for d distinct values.
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
        cost="O(n) in a group of n",
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

    def _swap_columns(self, batch: Batch, groups: Sequence[SwapValues]) -> list[SwappedColumn]:
        return self._swap_records(batch, groups) if self._multivariate else super()._swap_columns(batch, groups)

    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        k = self._interval_length(j, len(values))
        if self._fixed:
            return self._fixed_interval_partners(j, values, k)
        return _swap_values(values, k, self._distances[j])

    def _fixed_interval_partners(self, j: int, values: SwapValues, k: int) -> Int64Array:
        """Return the partners by Algorithm 1."""
        distinct, index = np.unique(values.codes, return_inverse=True)
        table = unit_distances(self._distances[j], distinct)
        reference = _draw_most_distant(_distance_sums(table, index), values.words[0, REFERENCE_WORD])
        return swap_in_ranks(table[index[reference]][index], values, k)

    def _swap_records(self, batch: Batch, groups: Sequence[SwapValues]) -> list[SwappedColumn]:
        """Swap by Algorithm 3, and by Algorithm 2 the array elements at places that few records have."""
        k = self._interval_length(0, batch.size)
        for j, values in enumerate(groups):
            self._check_values(j, values, k)
        partners = [np.arange(len(values)) for values in groups]
        with_record = [_swap_with_record(values, k) for values in groups]
        for j, (values, mask) in enumerate(zip(groups, with_record, strict=True)):
            alone = np.flatnonzero(~mask)
            if alone.size:
                partners[j][alone] = alone[_swap_values(values.select(~mask), k, self._distances[j])]
        columns = list(_element_columns(groups, with_record, self._distances))
        for part in _parts(np.arange(columns[0].indices.size if columns else 0), k):
            swaps = swap_units([column.units(part) for column in columns], part, k)
            for column, units in zip(columns, swaps.partners, strict=True):
                present = column.indices[part] >= 0
                own, other = column.indices[part][present], column.indices[part][units[present]]
                partners[column.attribute][own] = other
        return [
            SwappedColumn.from_partners(column.codes, values.indices, found)
            for column, values, found in zip(batch.columns, groups, partners, strict=True)
        ]

    def _check_values(self, j: int, values: SwapValues, k: int) -> None:
        if len(values):
            self._check_records(j, values)
            if len(values) <= k:
                raise self._too_few_values(j, len(values), k)


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """The values of n units in one column.

    * ``codes``: (n,) int32 positions; −1 if a unit has no value.
    * ``words``: (n, 4) uint64, the random words of each value.
    """

    codes: Int32Array
    words: UInt64Matrix
    distance: Distance


class UnitSwaps(NamedTuple):
    """The result of swapping.

    * ``partners``: (c, n) int64, the unit that each unit exchanges its value with; itself if it has no partner.
    * ``references``: (t,) int64, the references in their order.
    """

    partners: Int64Matrix
    references: Int64Array


def swap_units(columns: Sequence[UnitColumn], owners: Int64Array, k: int) -> UnitSwaps:
    """Swap units by Algorithm 3 of 2019; for one column, this is Algorithm 2.

    * ``columns``: the values of each column. Every unit has at least one value.
    * ``owners``: (n,) int64; units of one owner never swap with each other.
    * ``k``: the length of the interval, less than the number of units.
    """
    present = np.stack([column.codes >= 0 for column in columns])
    words = np.stack([column.words for column in columns])
    first_words = words[present.argmax(axis=0), np.arange(owners.size)]
    values, tables = zip(*(_indexed(column) for column in columns), strict=True)
    starts = offsets_from_lengths(np.array([table.size for table in tables]))
    units = SwapUnits(
        values=np.stack(values),
        rows=np.stack([start + len(t) * v for start, t, v in zip(starts[:-1], tables, values, strict=True)]),
        distances=np.concatenate([table.ravel() for table in tables]),
        owners=owners,
        partner_words=np.ascontiguousarray(words[:, :, PARTNER_WORD]),
        tied_partner_words=np.ascontiguousarray(words[:, :, TIED_PARTNER_WORD]),
        reference_words=np.ascontiguousarray(first_words[:, REFERENCE_WORD]),
    )
    sums = np.sum([_distance_sums(table, v) for table, v in zip(tables, values, strict=True)], axis=0)
    reference = _draw_most_distant(sums, first_words[0, FIRST_REFERENCE_WORD])
    partners = np.tile(np.arange(owners.size), (len(columns), 1))
    references = np.empty(owners.size, np.int64)
    count = swap_nearest(units, reference, k, present, partners, references)
    return UnitSwaps(partners, references[:count])


def _indexed(column: UnitColumn) -> tuple[Int64Array, Int32Array]:
    """Return the index of each value among the distinct ones, the last one if it is missing, and their distances."""
    present = column.codes >= 0
    distinct = np.unique(column.codes[present])
    index = np.where(present, np.searchsorted(distinct, column.codes), distinct.size)
    return index, unit_distances(column.distance, distinct)


def _distance_sums(table: Int32Array, index: Int64Array) -> Float64Array:
    """Return (n,) float64: the sum of each value's distances to all values; exact, because all are integers."""
    counts = np.bincount(index, minlength=len(table))
    return np.asarray((table.astype(np.float64) @ counts)[index])


def _draw_most_distant(sums: Float64Array, word: np.uint64) -> int:
    """Return the value or record of the largest sum (2019: equations 5 and 10), or one of several."""
    most_distant = np.flatnonzero(sums == sums.max())
    return int(most_distant[uniform_below(word, most_distant.size)])


def _swap_values(values: SwapValues, k: int, distance: Distance) -> Int64Array:
    """Return (m,) int64: the partners of one attribute's values (2019: Algorithm 2)."""
    partners = np.empty(len(values), np.int64)
    for part in _parts(np.argsort(values.codes, kind="stable"), k):
        column = UnitColumn(values.codes[part], values.words[part], distance)
        partners[part] = part[swap_units([column], values.owners[part], k).partners[0]]
    return partners


def _parts(order: Int64Array, k: int) -> Iterator[Int64Array]:
    """Yield parts of about equal size, of at most ``MAX_UNITS`` if these are more than k, each in ascending order."""
    count = max(1, min(-(-order.size // MAX_UNITS), order.size // (k + 1)))
    return (np.sort(part) for part in np.array_split(order, count) if part.size)


def _element_numbers(values: SwapValues) -> Int64Array:
    """Return (m,) int64: the index of each value among those of its record."""
    return np.arange(len(values)) - np.searchsorted(values.owners, values.owners)


def _swap_with_record(values: SwapValues, k: int) -> BoolArray:
    """Return (m,) bool: the values that swap with their record.

    First elements, second elements and so on, up to the 16th, are treated as separate attributes if more than k records
    have them. Later elements swap alone; if they are too few for that, the last of the separate attributes swaps with
    them.
    """
    numbers = _element_numbers(values)
    limit = min(int(np.count_nonzero(np.bincount(numbers) > k)), MAX_ELEMENT_ATTRIBUTES)
    rest = values.select(numbers >= limit)
    if len(rest) and (len(rest) <= k or rest.records < MIN_SWAP_RECORDS):
        limit -= 1
    return np.asarray(numbers < limit)


@dataclass(frozen=True, slots=True)
class _ElementColumn:
    """One element of an attribute as a column.

    * ``attribute``: the index of the attribute, with these values.
    * ``indices``: (n,) int64, the index of the value of each record; −1 if it has none.
    """

    attribute: int
    values: SwapValues
    distance: Distance
    indices: Int64Array

    def units(self, part: Int64Array) -> UnitColumn:
        """Return the values of some records."""
        indices = self.indices[part]
        codes = np.where(indices >= 0, self.values.codes[indices], np.int32(-1))
        return UnitColumn(codes, self.values.words[indices], self.distance)


def _element_columns(
    groups: Sequence[SwapValues], with_record: Sequence[BoolArray], distances: Sequence[Distance]
) -> Iterator[_ElementColumn]:
    """Yield the columns of the values that swap with their record, over all records that have such values."""
    owners = np.unique(np.concatenate([values.owners[mask] for values, mask in zip(groups, with_record, strict=True)]))
    for j, (values, mask) in enumerate(zip(groups, with_record, strict=True)):
        numbers = np.where(mask, _element_numbers(values), -1)
        for number in range(numbers.max(initial=-1) + 1):
            element = np.flatnonzero(numbers == number)
            indices = np.full(owners.size, -1)
            indices[np.searchsorted(owners, values.owners[element])] = element
            yield _ElementColumn(j, values, distances[j], indices)


def _check_multivariate(given: object, attributes: tuple[str, ...], intervals: str) -> None:
    if isinstance(given, Mapping):
        raise ParameterError("multivariate=True has one interval for all attributes: give a single k or p")
    if len(attributes) < 2:
        raise ParameterError(
            "multivariate=True needs at least two attributes: for one attribute, use multivariate=False"
        )
    if intervals == "fixed":
        raise ParameterError("multivariate=True requires dynamic intervals: remove intervals='fixed'")
