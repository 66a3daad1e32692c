"""Algorithms 2 and 3 of 2019 over units: records, or the single values of one attribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.swapping.kernels import FIRST_REFERENCE_WORD, uniform_below
from stream_masker.core.mechanisms.swapping.rank.distance_table import UNIT, DistanceTable, ValueDistances
from stream_masker.core.mechanisms.swapping.rank.kernels import swap_nearest
from stream_masker.core.mechanisms.swapping.rank.search import DISTANCE_BUCKETS
from stream_masker.core.mechanisms.swapping.rank.state import (
    GroupOrder,
    SearchScratch,
    SwapState,
    Units,
    UnitTypes,
    initialize_state,
)


@dataclass(frozen=True, slots=True)
class UnitValues:
    """One attribute's values, unit by unit.

    * ``codes``: (k,) int32 positions.
    * ``lengths``: (n,) int64, the number of values of each unit.
    * ``words``: (k, 4) uint64, the random words of each value.
    * ``table``: the distances between values.
    """

    codes: Int32Array
    lengths: Int64Array
    words: UInt64Array
    table: DistanceTable


@dataclass(frozen=True, slots=True)
class UnitSwaps:
    """The result of swapping.

    * ``partners``: for each attribute (k,) int64, the value that each value takes; its own index if it has no partner.
    * ``turns``: (t,) int64, the references in their order.
    """

    partners: list[Int64Array]
    turns: Int64Array


@dataclass(frozen=True, slots=True)
class _AttributeValues:
    """One attribute's values as indices of distinct values.

    * ``indices``: (k,) int32, indices among the d distinct values.
    * ``lengths``: (n,) int64, the number of values of each unit. ``offsets``: (n + 1,) int64, their offsets.
    * ``distances``: the distances between the distinct values.
    """

    indices: Int32Array
    lengths: Int64Array
    offsets: Int64Array
    distances: ValueDistances

    @classmethod
    def of(cls, values: UnitValues) -> _AttributeValues:
        distinct, indices = np.unique(values.codes, return_inverse=True)
        distances = values.table.between(distinct)
        return cls(indices.astype(np.int32), values.lengths, offsets_from_lengths(values.lengths), distances)

    @property
    def size(self) -> int:
        """The number d of distinct values."""
        return len(self.distances.levels)

    @property
    def max_length(self) -> int:
        """The largest number of values of a unit."""
        return int(self.lengths.max(initial=0))

    def at(self, element: int) -> tuple[Int64Array, Int32Array]:
        """Return the units that have that element, and the index of each one's value."""
        units = np.flatnonzero(self.lengths > element)
        return units, self.indices[self.offsets[units] + element]

    def first_values(self) -> NDArray[np.uint32]:
        """Return (n,) uint32: the index of each unit's first value; d for none."""
        result = np.full(self.lengths.size, self.size, np.uint32)
        units, indices = self.at(0)
        result[units] = indices
        return result

    def distances_with_missing(self) -> ValueDistances:
        """Return the distances, with a last row and column for a missing value if a unit has none.

        A missing value is at distance 1 from every value.
        """
        if self.lengths.all():
            return self.distances
        units = np.append(self.distances.level_units if self.size else 0, UNIT)
        levels = np.full((self.size + 1, self.size + 1), units.size - 1, self.distances.levels.dtype)
        levels[:-1, :-1] = self.distances.levels
        levels[-1, -1] = 0
        return ValueDistances(levels, units)


def swap_units(columns: Sequence[UnitValues], owners: Int64Array, k: int) -> UnitSwaps:
    """Swap units by Algorithm 3 of 2019; for one attribute with one value per unit, this is Algorithm 2.

    * ``columns``: the values of each attribute. Every unit has at least one value.
    * ``owners``: (n,) int64 ascending; units of one owner never swap with each other.
    * ``k``: the length of the interval, less than the number of units.
    """
    attributes = [_AttributeValues.of(values) for values in columns]
    layout = _UnitLayout.of(attributes)
    pivot = int(np.argmax([attribute.size for attribute in attributes]))
    type_of, representatives, counts = _find_types(attributes, pivot)
    types = _make_types(attributes, layout, representatives, counts, pivot)
    units = _make_units(types, type_of, layout, owners, layout.gather([values.words for values in columns]))
    state = _make_state(types, units)
    reference = _first_reference(attributes, representatives, type_of, units.words)
    partners, turns = np.arange(layout.size), np.empty(type_of.size, np.int64)
    scratch = _make_scratch(counts.size)
    turn_count = swap_nearest(types, units, state, _make_order(types), scratch, reference, k, partners, turns)
    return UnitSwaps(layout.scatter(partners), turns[:turn_count])


@dataclass(frozen=True, slots=True)
class _UnitLayout:
    """The order of the values of all attributes, unit by unit.

    * ``lengths``: (n, p) int64, the number of values of each unit and attribute.
    * ``offsets``: (n + 1,) int64, the offset of each unit's values.
    * ``indices``: for each attribute (k,) int64, the index of each of its values in this order.
    """

    lengths: Int64Array
    offsets: Int64Array
    indices: list[Int64Array]

    @classmethod
    def of(cls, attributes: Sequence[_AttributeValues]) -> _UnitLayout:
        lengths = np.stack([attribute.lengths for attribute in attributes], axis=1)
        offsets = offsets_from_lengths(lengths.sum(axis=1))
        starts = offsets[:-1, None] + np.cumsum(lengths, axis=1) - lengths
        return cls(lengths, offsets, [ranges(starts[:, j], lengths[:, j]) for j in range(len(attributes))])

    @property
    def size(self) -> int:
        """The number of values of all attributes."""
        return int(self.offsets[-1])

    def gather(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the data of all attributes' values, unit by unit."""
        result = np.empty((self.size, *columns[0].shape[1:]), columns[0].dtype)
        for indices, column in zip(self.indices, columns, strict=True):
            result[indices] = column
        return result

    def scatter(self, partners: Int64Array) -> list[Int64Array]:
        """Convert partners among all values to partners among the values of each attribute."""
        own = np.empty(self.size, np.int64)
        for indices in self.indices:
            own[indices] = np.arange(indices.size)
        return [own[partners[indices]] for indices in self.indices]


def _find_types(attributes: Sequence[_AttributeValues], pivot: int) -> tuple[Int32Array, Int64Array, Int64Array]:
    """Return the type of each unit, a unit of each type, and the number of units of each type.

    The units of a type are equal in every value. Types are in ascending order of the pivot's first value.
    """
    label = np.zeros(attributes[0].lengths.size, np.int64)
    for attribute in (*attributes[:pivot], *attributes[pivot + 1 :]):
        label = _compact(label) * (attribute.size + 1) + attribute.first_values()
    for attribute in attributes:
        for element in range(1, attribute.max_length):
            units, indices = attribute.at(element)
            label = _compact(label)
            numbers = np.unique(label[units] * attribute.size + indices, return_inverse=True)[1]
            label[units] = label.max() + 1 + numbers
    label = _compact(label)
    label += attributes[pivot].first_values().astype(np.int64) * (int(label.max()) + 1)
    _, representatives, type_of, counts = np.unique(label, return_index=True, return_inverse=True, return_counts=True)
    return type_of.astype(np.int32), representatives, counts


def _compact(label: Int64Array) -> Int64Array:
    """Return labels that distinguish the same units, small enough to be multiplied by a number of 31 bits."""
    return label if label.max() < 1 << 31 else np.unique(label, return_inverse=True)[1]


def _make_types(
    attributes: Sequence[_AttributeValues],
    layout: _UnitLayout,
    representatives: Int64Array,
    counts: Int64Array,
    pivot: int,
) -> UnitTypes:
    values = layout.gather([attribute.indices for attribute in attributes])
    lengths = layout.lengths[representatives]
    first_values = np.stack([attribute.first_values()[representatives] for attribute in attributes])
    distances = [attribute.distances_with_missing() for attribute in attributes]
    tables = [between.distances.ravel() for between in distances]
    largest_distance = UNIT * sum(attribute.max_length for attribute in attributes)
    return UnitTypes(
        counts=counts,
        value_starts=offsets_from_lengths(lengths.ravel()),
        values=values[ranges(layout.offsets[representatives], lengths.sum(axis=1))],
        first_values=first_values,
        distances=np.concatenate(tables),
        table_starts=offsets_from_lengths(np.array([table.size for table in tables]))[:-1],
        table_widths=np.array([len(between.levels) for between in distances]),
        has_later_values=any(attribute.max_length > 1 for attribute in attributes),
        pivot=pivot,
        group_starts=offsets_from_lengths(np.bincount(first_values[pivot], minlength=len(distances[pivot].levels))),
        pivot_levels=distances[pivot].levels,
        level_units=distances[pivot].level_units,
        bucket_shift=max(0, largest_distance.bit_length() - DISTANCE_BUCKETS.bit_length() + 1),
    )


def _make_units(
    types: UnitTypes, type_of: Int32Array, layout: _UnitLayout, owners: Int64Array, words: UInt64Array
) -> Units:
    sizes = types.counts * np.diff(types.value_starts[:: types.table_starts.size])
    owner_starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return Units(
        type_of=type_of,
        index_in_type=np.empty(type_of.size, np.int32),
        type_starts=offsets_from_lengths(types.counts),
        list_starts=offsets_from_lengths(sizes)[:-1],
        value_starts=layout.offsets,
        owner_of=np.repeat(np.arange(owner_starts.size), np.diff(owner_starts, append=owners.size)),
        owner_starts=np.append(owner_starts, owners.size),
        words=words,
    )


def _make_state(types: UnitTypes, units: Units) -> SwapState:
    size, n, r = units.words.shape[0], units.type_of.size, types.counts.size
    state = SwapState(
        open_lists=np.empty(size, np.int32),
        open_index=np.empty(size, np.int32),
        open_counts=np.zeros(types.values.size, np.int64),
        unswapped=np.empty(n, np.int32),
        pending=np.empty(n, np.int32),
        pending_index=np.empty(n, np.int32),
        pending_counts=np.zeros(r, np.int64),
        active_types=np.empty(r, np.int32),
        active_index=np.empty(r, np.int32),
        active_first_values=np.empty(types.first_values.shape, np.uint32),
        active_count=np.zeros(1, np.int64),
    )
    initialize_state(types, units, state)
    return state


def _make_order(types: UnitTypes) -> GroupOrder:
    groups = types.group_starts.size - 1
    return GroupOrder(np.empty((groups, groups), np.int32), np.zeros(groups, np.bool_))


def _make_scratch(size: int) -> SearchScratch:
    return SearchScratch(np.empty(size, np.int32), np.empty(size, np.int64), np.zeros(DISTANCE_BUCKETS, np.int32))


def _first_reference(
    attributes: Sequence[_AttributeValues], representatives: Int64Array, type_of: Int32Array, words: UInt64Array
) -> int:
    """Return the unit with the largest sum of distances to all units (2019: equations 5 and 10), or one of several."""
    totals = np.zeros(type_of.size)
    for attribute in attributes:
        for element in range(attribute.max_length):
            totals += _distance_sums(attribute, element)
    sums = totals[representatives]
    most_distant = np.flatnonzero((sums == sums.max())[type_of])
    return int(most_distant[uniform_below(words[0, FIRST_REFERENCE_WORD], most_distant.size)])


def _distance_sums(attribute: _AttributeValues, element: int) -> Float64Array:
    """Return (n,) float64: the sum of each unit's distances to all units in one element; exact, because all are
    integers."""
    units, indices = attribute.at(element)
    counts = np.bincount(indices, minlength=attribute.size)
    values = np.flatnonzero(counts)
    levels = attribute.distances.levels if values.size == counts.size else attribute.distances.levels[values][:, values]
    sums = np.zeros(counts.size)
    sums[values] = attribute.distances.level_units.astype(np.float64)[levels] @ counts[values]
    n = attribute.lengths.size
    result = np.full(n, float(UNIT * units.size))
    result[units] = sums[indices] + float(UNIT * (n - units.size))
    return result
