"""What swaps by Algorithms 2 and 3 of 2019: units, their distinct kinds, and the distances of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.swapping.kernels import NEXT, draw_partner
from stream_masker.core.mechanisms.swapping.rank.distance_table import UNIT, DistanceTable, ValueDistances
from stream_masker.core.mechanisms.swapping.rank.kernels import swap_nearest
from stream_masker.core.mechanisms.swapping.rank.search import DISTANCE_BUCKETS
from stream_masker.core.mechanisms.swapping.rank.state import Kinds, Order, Scratch, SwapState, Units, fill_state


@dataclass(frozen=True, slots=True)
class UnitValues:
    """One attribute's values, unit by unit. codes: (k,) int32 positions; lengths: (n,) int64, the values of each."""

    codes: Int32Array
    lengths: Int64Array
    words: UInt64Array
    table: DistanceTable


@dataclass(frozen=True, slots=True)
class Swaps:
    """partners: per attribute, (k,) int64, whose value each takes, its own index for none; turns: the references."""

    partners: list[Int64Array]
    turns: Int64Array


@dataclass(frozen=True, slots=True)
class _Attribute:
    """indices: (k,) int32 of the d distinct values; offsets: (n + 1,) int64, where a unit's values begin."""

    indices: Int32Array
    lengths: Int64Array
    offsets: Int64Array
    distances: ValueDistances

    @classmethod
    def of(cls, part: UnitValues) -> _Attribute:
        values, indices = np.unique(part.codes, return_inverse=True)
        distances = part.table.between(values)
        return cls(indices.astype(np.int32), part.lengths, offsets_from_lengths(part.lengths), distances)

    @property
    def size(self) -> int:
        """The number d of distinct values."""
        return len(self.distances.levels)

    @property
    def most(self) -> int:
        """The values of the unit that has most of them."""
        return int(self.lengths.max(initial=0))

    def at(self, place: int) -> tuple[Int64Array, Int32Array]:
        """The units that have a value at that place, and its index."""
        units = np.flatnonzero(self.lengths > place)
        return units, self.indices[self.offsets[units] + place]

    def heads(self) -> NDArray[np.uint32]:
        """(n,): the index of each unit's first value, d for none."""
        result = np.full(self.lengths.size, self.size, np.uint32)
        units, indices = self.at(0)
        result[units] = indices
        return result

    def between(self) -> ValueDistances:
        """The distances of the values and, where a unit has none, last, of none: at distance 1 from a value."""
        if self.lengths.all():
            return self.distances
        units = np.append(self.distances.level_units if self.size else 0, UNIT)
        levels = np.full((self.size + 1, self.size + 1), units.size - 1, self.distances.levels.dtype)
        levels[:-1, :-1] = self.distances.levels
        levels[-1, -1] = 0
        return ValueDistances(levels, units)


def swap_units(parts: Sequence[UnitValues], owners: Int64Array, k: int) -> Swaps:
    """Algorithm 3 of 2019 over units; of one attribute whose units have one value each, Algorithm 2.

    ``owners``: (n,) int64 ascending; units of one owner never swap. ``k``: less than the number of units. Every unit
    has a value at least.
    """
    attributes = [_Attribute.of(part) for part in parts]
    slots = _Slots.of(attributes)
    pivot = int(np.argmax([attribute.size for attribute in attributes]))
    kind, representatives, counts = _kinds(attributes, pivot)
    kinds = _space(attributes, slots, representatives, counts, pivot)
    units = _units(kinds, kind, slots, owners, slots.gathered([part.words for part in parts]))
    state = _state(kinds, units)
    first = _first(attributes, representatives, kind, units.words)
    partners, turns = np.arange(slots.total), np.empty(kind.size, np.int64)
    count = swap_nearest(kinds, units, state, _order(kinds), _scratch(counts.size), first, k, partners, turns)
    return Swaps(slots.scattered(partners), turns[:count])


@dataclass(frozen=True, slots=True)
class _Slots:
    """Where the values of all attributes stand, unit by unit. lengths: (n, p); begins: (n + 1,); places: by attribute,
    (k,) of each of its values."""

    lengths: Int64Array
    begins: Int64Array
    places: list[Int64Array]

    @classmethod
    def of(cls, attributes: Sequence[_Attribute]) -> _Slots:
        lengths = np.stack([attribute.lengths for attribute in attributes], axis=1)
        begins = offsets_from_lengths(lengths.sum(axis=1))
        starts = begins[:-1, None] + np.cumsum(lengths, axis=1) - lengths
        return cls(lengths, begins, [ranges(starts[:, j], lengths[:, j]) for j in range(len(attributes))])

    @property
    def total(self) -> int:
        return int(self.begins[-1])

    def gathered(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """What each attribute's values have, unit by unit."""
        result = np.empty((self.total, *columns[0].shape[1:]), columns[0].dtype)
        for places, column in zip(self.places, columns, strict=True):
            result[places] = column
        return result

    def scattered(self, partners: Int64Array) -> list[Int64Array]:
        """Partners among all values as partners among those of each attribute."""
        own = np.empty(self.total, np.int64)
        for places in self.places:
            own[places] = np.arange(places.size)
        return [own[partners[places]] for places in self.places]


def _kinds(attributes: Sequence[_Attribute], pivot: int) -> tuple[Int32Array, Int64Array, Int64Array]:
    """The kind of each unit, a unit of each kind, and the units of each. Kinds are equal in every value, and ascend by
    the pivot's first."""
    kind = np.zeros(attributes[0].lengths.size, np.int64)
    for attribute in (*attributes[:pivot], *attributes[pivot + 1 :]):
        kind = _compact(kind) * (attribute.size + 1) + attribute.heads()
    for attribute in attributes:
        for place in range(1, attribute.most):
            units, indices = attribute.at(place)
            kind = _compact(kind)
            found = np.unique(kind[units] * attribute.size + indices, return_inverse=True)[1]
            kind[units] = kind.max() + 1 + found
    kind = _compact(kind)
    kind += attributes[pivot].heads().astype(np.int64) * (int(kind.max()) + 1)
    _, representatives, kind, counts = np.unique(kind, return_index=True, return_inverse=True, return_counts=True)
    return kind.astype(np.int32), representatives, counts


def _compact(kind: Int64Array) -> Int64Array:
    """The same distinctions in numbers that can be multiplied with others of 31 bits."""
    return kind if kind.max() < 1 << 31 else np.unique(kind, return_inverse=True)[1]


def _space(
    attributes: Sequence[_Attribute], slots: _Slots, representatives: Int64Array, counts: Int64Array, pivot: int
) -> Kinds:
    values = slots.gathered([attribute.indices for attribute in attributes])
    lengths = slots.lengths[representatives]
    heads = np.stack([attribute.heads()[representatives] for attribute in attributes])
    between = [attribute.between() for attribute in attributes]
    tables = [distances.distances.ravel() for distances in between]
    farthest = UNIT * sum(attribute.most for attribute in attributes)
    return Kinds(
        counts=counts,
        starts=offsets_from_lengths(lengths.ravel()),
        values=values[ranges(slots.begins[representatives], lengths.sum(axis=1))],
        heads=heads,
        table=np.concatenate(tables),
        bases=offsets_from_lengths(np.array([table.size for table in tables]))[:-1],
        widths=np.array([len(distances.levels) for distances in between]),
        tails=any(attribute.most > 1 for attribute in attributes),
        pivot=pivot,
        firsts=offsets_from_lengths(np.bincount(heads[pivot], minlength=len(between[pivot].levels))),
        ranks=between[pivot].levels,
        units=between[pivot].level_units,
        shift=max(0, farthest.bit_length() - DISTANCE_BUCKETS.bit_length() + 1),
    )


def _units(kinds: Kinds, kind: Int32Array, slots: _Slots, owners: Int64Array, words: UInt64Array) -> Units:
    sizes = kinds.counts * np.diff(kinds.starts[:: kinds.bases.size])
    changes = np.flatnonzero(np.diff(owners, prepend=-1))
    return Units(
        kind=kind,
        seat=np.empty(kind.size, np.int32),
        firsts=offsets_from_lengths(kinds.counts),
        blocks=offsets_from_lengths(sizes)[:-1],
        begins=slots.begins,
        owner=np.repeat(np.arange(changes.size), np.diff(changes, append=owners.size)),
        owned=np.append(changes, owners.size),
        words=words,
    )


def _state(kinds: Kinds, units: Units) -> SwapState:
    total, n, r = units.words.shape[0], units.kind.size, kinds.counts.size
    state = SwapState(
        lists=np.empty(total, np.int32),
        places=np.empty(total, np.int32),
        open=np.zeros(kinds.values.size, np.int64),
        left=np.empty(n, np.int32),
        waiting=np.empty(n, np.int32),
        seats=np.empty(n, np.int32),
        awake=np.zeros(r, np.int64),
        rows=np.empty(r, np.int32),
        spots=np.empty(r, np.int32),
        columns=np.empty(kinds.heads.shape, np.uint32),
        active=np.zeros(1, np.int64),
    )
    fill_state(kinds, units, state)
    return state


def _order(kinds: Kinds) -> Order:
    groups = kinds.firsts.size - 1
    return Order(np.empty((groups, groups), np.int32), np.zeros(groups, np.bool_))


def _scratch(size: int) -> Scratch:
    return Scratch(np.empty(size, np.int32), np.empty(size, np.int64), np.zeros(DISTANCE_BUCKETS, np.int32))


def _first(attributes: Sequence[_Attribute], representatives: Int64Array, kind: Int32Array, words: UInt64Array) -> int:
    """The unit whose distances to all units have the greatest sum (2019: equations 5 and 10), of several any."""
    totals = np.zeros(kind.size)
    for attribute in attributes:
        for place in range(attribute.most):
            totals += _distances_at(attribute, place)
    sums = totals[representatives]
    most = np.flatnonzero((sums == sums.max())[kind])
    return int(most[draw_partner(words[0, NEXT], most.size)])


def _distances_at(attribute: _Attribute, place: int) -> Float64Array:
    """(n,): the sum of each unit's distances to all units at that place; whole numbers, which floats hold exactly."""
    units, indices = attribute.at(place)
    counts = np.bincount(indices, minlength=attribute.size)
    values = np.flatnonzero(counts)
    levels = attribute.distances.levels if values.size == counts.size else attribute.distances.levels[values][:, values]
    sums = np.zeros(counts.size)
    sums[values] = attribute.distances.level_units.astype(np.float64)[levels] @ counts[values]
    n = attribute.lengths.size
    result = np.full(n, float(UNIT * units.size))
    result[units] = sums[indices] + float(UNIT * (n - units.size))
    return result
