"""Semantic rank swapping (2019): exchange of values that are near in meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.distance import Distance, DistanceChoice, unit_distances
from stream_masker.core.dtypes import (
    BoolArray,
    Float64Array,
    Int32Array,
    Int32Matrix,
    Int64Array,
    Int64Matrix,
    UInt64Cube,
    UInt64Matrix,
)
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.mechanisms.base import MethodCard
from stream_masker.core.mechanisms.swapping.base import (
    MIN_SWAP_RECORDS,
    REFERENCE_WORD,
    TIE_WORD,
    SwapValues,
    draw_below,
    draw_partner,
)
from stream_masker.core.mechanisms.swapping.interval import (
    IntervalLengths,
    IntervalShares,
    IntervalSwapping,
    swap_in_ranks,
)
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.groups import GROUP_RECORDS
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import ParameterError

INTERVALS = ("dynamic", "fixed")

FIRST_REFERENCE_WORD = TIE_WORD
"""The word that draws the first reference by algorithms 2 and 3, which have no ties in ranks."""

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

    def _group_partners(self, groups: Sequence[SwapValues], size: int) -> list[Int64Array]:
        if self._multivariate and size:
            return self._record_partners(groups, size)
        return super()._group_partners(groups, size)

    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        k = self._interval_length(j, len(values))
        if self._fixed:
            return self._fixed_interval_partners(j, values, k)
        return _swap_values(values, k, self._distances[j])

    def _fixed_interval_partners(self, j: int, values: SwapValues, k: int) -> Int64Array:
        """Return the partners by Algorithm 1."""
        rows = _DistanceRows.of(values.codes, self._distances[j])
        reference = draw_greatest(rows.sums(), np.ones(len(values), np.bool_), values.words[0, REFERENCE_WORD])
        return swap_in_ranks(rows.row(reference), values, k)

    def _record_partners(self, groups: Sequence[SwapValues], size: int) -> list[Int64Array]:
        """Return the partners by Algorithm 3, and by Algorithm 2 those of array elements that few records have."""
        k = self._interval_length(0, size)
        partners, elements = [], []
        for j, values in enumerate(groups):
            if 0 < len(values) <= k:
                raise self._too_few_values(j, len(values), k)
            numbers = np.arange(len(values)) - np.searchsorted(values.owners, values.owners)
            limit = _separate_elements(values, numbers, k)
            partners.append(np.arange(len(values)))
            alone = np.flatnonzero(numbers >= limit)
            partners[j][alone] = alone[_swap_values(values.select(alone), k, self._distances[j])]
            elements += [(j, np.flatnonzero(numbers == number)) for number in range(limit)]
        indices = np.full((len(elements), size), -1)
        for row, (j, members) in zip(indices, elements, strict=True):
            row[groups[j].owners[members]] = members
        for records in _parts(np.flatnonzero((indices >= 0).any(axis=0)), k):
            columns = [
                UnitColumn(
                    np.where(row >= 0, groups[j].codes[row], np.int32(-1)), groups[j].words[row], self._distances[j]
                )
                for (j, _), row in zip(elements, indices[:, records], strict=True)
            ]
            swapped = swap_units(columns, records, k).partners
            for (j, _), row, units in zip(elements, indices[:, records], swapped, strict=True):
                present = row >= 0
                partners[j][row[present]] = row[units[present]]
        return partners


class UnitColumn(NamedTuple):
    """The values of n units, which are records or single values, in one column.

    * ``codes``: (n,) int32 positions; −1 if a unit has no value.
    * ``words``: (n, 4) uint64, the random words of each value.
    """

    codes: Int32Array
    words: UInt64Matrix
    distance: Distance


class UnitSwaps(NamedTuple):
    """The result of swapping.

    * ``partners``: (c, n) int64, the unit that each unit exchanges its value with; itself if it has no partner.
    * ``references``: (turns,) int64, the references in their order.
    """

    partners: Int64Matrix
    references: Int64Array


def swap_units(columns: Sequence[UnitColumn], owners: Int64Array, k: int) -> UnitSwaps:
    """Swap units by Algorithm 3 of 2019, lines 5 to 12; for one column, this is Algorithm 2, lines 3 to 8.

    * ``columns``: the values of each column. Every unit has at least one value.
    * ``owners``: (n,) int64; units of one owner never swap with each other.
    * ``k``: the length of the interval, less than the number of units.
    """
    codes, words = np.stack([column.codes for column in columns]), np.stack([column.words for column in columns])
    own_words = words[(codes >= 0).argmax(axis=0), np.arange(owners.size)]
    measures = [_DistanceRows.of(column.codes, column.distance) for column in columns]
    sums = sum((measure.sums() for measure in measures), start=np.zeros(owners.size))
    reference = draw_greatest(sums, np.ones(owners.size, np.bool_), own_words[0, FIRST_REFERENCE_WORD])
    starts = offsets_from_lengths(np.array([measure.table.size for measure in measures]))[:-1]
    rows = np.stack([measure.rows for measure in measures])
    first_cells = starts[:, None] + rows * np.array([[len(measure.table)] for measure in measures])
    table = np.concatenate([measure.table.ravel() for measure in measures])
    return UnitSwaps(*swap_in_turns(codes, words, own_words, owners, k, table, first_cells, rows, reference))


@kernel
def swap_in_turns(
    codes: Int32Matrix,
    words: UInt64Cube,
    own_words: UInt64Matrix,
    owners: Int64Array,
    k: int,
    table: Int32Array,
    first_cells: Int64Matrix,
    rows: Int64Matrix,
    reference: int,
) -> tuple[Int64Matrix, Int64Array]:
    """Return the partners and the references in their order, from the first one.

    ``own_words``: those of each unit. The distance of units a and b in column j is
    ``table[first_cells[j, a] + rows[j, b]]``.
    """
    partners, unswapped = np.empty(codes.shape, np.int64), codes >= 0
    partners[:] = np.arange(owners.size)
    references, turns = np.empty(owners.size, np.int64), 0
    distances, candidates = np.empty(owners.size), np.empty(owners.size, np.int64)
    left = np.empty(owners.size, np.bool_)
    while reference >= 0:
        references[turns] = reference
        turns += 1
        distances[:] = 0.0
        for j in range(codes.shape[0]):
            for i in range(owners.size):
                distances[i] += table[first_cells[j, reference] + rows[j, i]]
        distances[reference] = -1.0
        last = np.partition(distances, k)[k]
        places = k + 1 - int(np.count_nonzero(distances < last))
        left[:] = False
        for j in range(codes.shape[0]):
            if unswapped[j, reference]:
                unswapped[j, reference] = False
                nearest = size = 0
                for at_end in (False, True):
                    nearest = size
                    for i in range(owners.size):
                        is_open = unswapped[j, i] and owners[i] != owners[reference]
                        if is_open and (distances[i] == last if at_end else distances[i] < last):
                            candidates[size] = i
                            size += 1
                partner = draw_partner(reference, codes[j], words[j], candidates, nearest, size - nearest, places)
                unswapped[j, partner] = False
                partners[j, reference], partners[j, partner] = partner, reference
            left |= unswapped[j]
        reference = draw_greatest(distances, left, own_words[reference, REFERENCE_WORD])
    return partners, references[:turns]


@kernel
def draw_greatest(scores: Float64Array, among: BoolArray, word: np.uint64) -> int:
    """Return the index of the greatest score among some, or one of several (2019: equations 5, 7, 10, 12).

    −1 among none.
    """
    greatest, number = -np.inf, 0
    for i in range(scores.size):
        if among[i] and scores[i] >= greatest:
            number = 1 if scores[i] > greatest else number + 1
            greatest = scores[i]
    drawn = draw_below(word, number)
    for i in range(scores.size):
        if among[i] and scores[i] == greatest:
            if drawn == 0:
                return i
            drawn -= 1
    return -1


class _DistanceRows(NamedTuple):
    """The distances between the values of n units, in units of 1/``UNIT``.

    * ``table``: (d + 1, d + 1) int32, between the d distinct values; the last one is a missing value.
    * ``rows``: (n,) int64, the row of each value in the table.
    """

    table: Int32Matrix
    rows: Int64Array

    @classmethod
    def of(cls, codes: Int32Array, distance: Distance) -> _DistanceRows:
        """Return the distances between codes; a negative one is a missing value."""
        distinct = np.unique(codes[codes >= 0])
        rows = np.where(codes >= 0, np.searchsorted(distinct, codes), distinct.size)
        return cls(unit_distances(distance, distinct), rows)

    def sums(self) -> Float64Array:
        """Return (n,) float64: the sum of each value's distances to all values; exact, because all are integers."""
        counts = np.bincount(self.rows, minlength=len(self.table))
        return np.asarray((self.table.astype(np.float64) @ counts)[self.rows])

    def row(self, reference: int) -> Int32Array:
        """Return (n,) int32: the distances from the value of one unit."""
        return np.asarray(self.table[self.rows[reference]][self.rows])


def _swap_values(values: SwapValues, k: int, distance: Distance) -> Int64Array:
    """Return (m,) int64: the partners of one attribute's values (2019: Algorithm 2)."""
    partners = np.empty(len(values), np.int64)
    for units in _parts(np.argsort(values.codes, kind="stable"), k):
        column = UnitColumn(values.codes[units], values.words[units], distance)
        partners[units] = units[swap_units([column], values.owners[units], k).partners[0]]
    return partners


def _parts(order: Int64Array, k: int) -> Iterator[Int64Array]:
    """Yield parts of about equal size, of at most ``MAX_UNITS`` if these are more than k, each in ascending order."""
    count = max(1, min(-(-order.size // MAX_UNITS), order.size // (k + 1)))
    return (np.sort(part) for part in np.array_split(order, count) if part.size)


def _separate_elements(values: SwapValues, numbers: Int64Array, k: int) -> int:
    """Return how many elements, from the first one, are treated as separate attributes.

    These are the elements that more than k records have, at most ``MAX_ELEMENT_ATTRIBUTES``. Later elements swap alone;
    if they are too few for that, the last of the separate attributes swaps with them.

    ``numbers``: (m,) int64, the index of each value among those of its record.
    """
    limit = min(int(np.count_nonzero(np.bincount(numbers) > k)), MAX_ELEMENT_ATTRIBUTES)
    rest = values.select(numbers >= limit)
    return limit - bool(len(rest) and (len(rest) <= k or rest.records < MIN_SWAP_RECORDS))


def _check_multivariate(given: object, attributes: tuple[str, ...], intervals: str) -> None:
    if isinstance(given, Mapping):
        raise ParameterError("multivariate=True has one interval for all attributes: give a single k or p")
    if len(attributes) < 2:
        raise ParameterError(
            "multivariate=True needs at least two attributes: for one attribute, use multivariate=False"
        )
    if intervals == "fixed":
        raise ParameterError("multivariate=True requires dynamic intervals: remove intervals='fixed'")
