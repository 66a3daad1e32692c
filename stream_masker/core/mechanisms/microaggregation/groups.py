"""Comparable records, their distances, and their groups.

Where records belong to units, groups are formed as ``mdav`` does, but all counts are numbers of units. A group is then
the first record and its nearest records, until they belong to k units. A group contains all unassigned records of at
most k units, so each group removes at most k units from the remaining ones, and the last group has at least k of them.
If every record is a unit of its own, the groups are those of ``mdav``. The cost is O(u·n) distances and comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.mechanisms.microaggregation import mdav
from stream_masker.core.mechanisms.microaggregation.centroids import group_members
from stream_masker.core.mechanisms.microaggregation.mdav import (
    MdavState,
    RecordTypes,
    assign_members,
    farthest_from_mean,
    farthest_type,
    group_rest,
    initial_state,
    is_nearer,
    measure_from,
    remove_exhausted,
)


class UnitState(NamedTuple):
    """The units of n members. Kernels update it in place.

    * ``units``: (n,) int64, the unit of each member, from 0 to v − 1.
    * ``unassigned``: (v,) int64, the number of unassigned members of each unit.
    * ``last_group``: (v,) int64, the last group with a member of each unit, −1 for none.
    * ``left``: (1,) int64, the number of units with unassigned members.
    """

    units: Int64Array
    unassigned: Int64Array
    last_group: Int64Array
    left: Int64Array


@kernel
def mdav_unit_partition(types: RecordTypes, units: Int64Array, k: int) -> Int32Array:
    """Return the group of every member, (n,) int32, so that each group has members of at least k units.

    units: (n,) int64, the unit of each member, numbered from 0 without gaps; at least k.
    """
    state, counted = initial_state(types, k), initial_units(units)
    while counted.left[0] >= 3 * k:
        group_units_around(types, state, counted, farthest_from_mean(types, state), k)
        group_units_around(types, state, counted, farthest_type(types, state), k)
    if counted.left[0] >= 2 * k:
        group_units_around(types, state, counted, farthest_from_mean(types, state), k)
    group_rest(types, state)
    return state.group


@kernel
def initial_units(units: Int64Array) -> UnitState:
    """Return a state in which all members are unassigned."""
    count = units.max() + 1
    unassigned = np.zeros(count, np.int64)
    for unit in units:
        unassigned[unit] += 1
    return UnitState(units, unassigned, np.full(count, -1), np.array([count]))


@kernel
def group_units_around(types: RecordTypes, state: MdavState, counted: UnitState, t: int, k: int) -> None:
    """Form a group of a type's first member and its nearest members, equal ones first, until they belong to k units."""
    measure_from(types, state, types.codes[t], types.numbers[t])
    state.distance_to[t] = -1.0
    missing = k
    while missing:
        nearest = nearest_type(types, state)
        missing -= assign_unit(state, counted, counted.units[state.next_member[nearest]])
        assign_members(types, state, nearest, 1)
    remove_exhausted(types, state)
    state.group_count[0] += 1


@kernel
def nearest_type(types: RecordTypes, state: MdavState) -> int:
    """Return the nearest type that has unassigned members."""
    found = -1
    for a in range(state.active_count[0]):
        t = state.active[a]
        if state.next_member[t] < types.starts[t + 1] and (found < 0 or is_nearer(types, state, t, found)):
            found = t
    return found


@kernel
def assign_unit(state: MdavState, counted: UnitState, unit: int) -> int:
    """Count one more member of a unit as assigned. Return 1 if the group being formed has no other member of the
    unit."""
    counted.unassigned[unit] -= 1
    if counted.unassigned[unit] == 0:
        counted.left[0] -= 1
    if counted.last_group[unit] == state.group_count[0]:
        return 0
    counted.last_group[unit] = state.group_count[0]
    return 1


@dataclass(frozen=True)
class NominalValues:
    """The values of one nominal attribute in n records. Frozen; derived values are cached.

    * ``codes``: (n,) int32 positions, none absent.
    * ``semantic``: whether to use the distance of concepts; otherwise it is 0 for equal values and 1 for others.
    """

    codes: Int32Array
    d: Distance
    semantic: bool

    @cached_property
    def distinct(self) -> Int32Array:
        """(v,) int32: the distinct positions, ascending."""
        return self._unique[0]

    @cached_property
    def indices(self) -> Int32Array:
        """(n,) int32: the index of each record's value among the distinct ones."""
        return self._unique[1]

    def distances(self) -> Float64Array:
        """Return (v, v) float64: the distances between the distinct values."""
        if self.semantic:
            return self.d.matrix(self.distinct)
        return 1.0 - np.eye(len(self.distinct))

    @cached_property
    def _unique(self) -> tuple[Int32Array, Int32Array]:
        distinct, indices = np.unique(self.codes, return_inverse=True)
        return distinct, indices.reshape(-1).astype(np.int32)


@dataclass(frozen=True)
class ComparableRecords:
    """n records with values of the same attributes. Frozen; derived values are cached.

    * ``values``, ``weights``: of p nominal attributes. ``numbers``: (n, q) float64 and ``numeric_weights``: (q,) of the
      numeric ones. A weight multiplies the variance over two records (2013: equation 7).
    * ``words``: (n,) uint64 random words, which break ties between equally near or far records.
    * ``units``: (n,) int64, the unit of each record; None if each is a unit of its own.
    """

    values: Sequence[NominalValues]
    weights: Float64Array
    numbers: Float64Array
    numeric_weights: Float64Array
    words: UInt64Array
    units: Int64Array | None = None

    @property
    def unit_count(self) -> int:
        """The number of different units."""
        return len(self.words) if self.units is None else len(np.unique(self.units))

    @cached_property
    def sizes(self) -> Int64Array:
        """(p,) int64: the number v of distinct values of each nominal attribute."""
        return np.array([len(value.distinct) for value in self.values], np.int64)

    @cached_property
    def tables(self) -> Float64Array:
        """The distance tables of all attributes, concatenated: 8·Σv² bytes, which dominate the memory."""
        tables = np.empty(int((self.sizes**2).sum()))
        for value, start, size in zip(self.values, _starts(self.sizes**2)[:-1], self.sizes, strict=True):
            tables[start : start + size * size] = value.distances().reshape(-1)
        return tables

    def table(self, i: int) -> Float64Array:
        """Return (v, v) float64: the distances between the distinct values of attribute i, as a view of ``tables``."""
        start, size = _starts(self.sizes**2)[i], self.sizes[i]
        return self.tables[start : start + size * size].reshape(size, size)

    def groups(self, k: int) -> tuple[Int64Array, Int64Array]:
        """Return the records by group of at least k units, computed by MDAV, and each group's offset among them.

        If each record is a unit of its own, groups have k to 2k − 1 records.
        """
        order, types = self._types()
        group = np.empty(len(order), np.int32)
        if self.units is None:
            group[order] = mdav.mdav_partition(types, k)
        else:
            units = np.unique(self.units, return_inverse=True)[1].reshape(-1)
            group[order] = mdav_unit_partition(types, units[order], k)
        return group_members(group)

    def _types(self) -> tuple[Int64Array, mdav.RecordTypes]:
        """Return the records ordered by type and word, and their types."""
        numbers = with_exact_sums(self.numbers)
        rows = np.column_stack([value.indices.astype(np.float64) for value in self.values] + list(numbers.T))
        _, firsts, which, counts = np.unique(
            rows + 0.0, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.lexsort((self.words, which.reshape(-1)))
        return order, mdav.RecordTypes(
            codes=_stack([value.indices[firsts] for value in self.values], len(firsts)),
            numbers=np.ascontiguousarray(numbers[firsts]),
            starts=_starts(counts),
            words=np.ascontiguousarray(self.words[order]),
            tables=self.tables,
            corners=_starts(self.sizes**2)[:-1],
            sizes=self.sizes,
            firsts=_starts(self.sizes)[:-1],
            weights=np.ascontiguousarray(self.weights),
            numeric_weights=self.numeric_weights / 2.0,
        )


def presence_patterns(batch: Batch) -> Iterator[tuple[Int64Array, list[int], list[int]]]:
    """Yield the records by pattern of present scalars and numbers: their indices, and the columns of both."""
    scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
    numbers = np.empty((batch.size, 0)) if batch.numeric is None else batch.numeric
    present_mask = np.column_stack(
        [np.ones(batch.size, np.bool_), *(batch.columns[j].codes >= 0 for j in scalars), ~np.isnan(numbers)]
    )
    distinct_patterns, which = np.unique(present_mask, axis=0, return_inverse=True)
    for i, pattern in enumerate(distinct_patterns):
        present = pattern[1 : 1 + len(scalars)]
        columns = [j for j, here in zip(scalars, present, strict=True) if here]
        yield np.flatnonzero(which.reshape(-1) == i), columns, np.flatnonzero(pattern[1 + len(scalars) :]).tolist()


def with_exact_sums(numbers: Float64Array) -> Float64Array:
    """Return n rows of numbers, rounded so that all sums of rows are exact, in any order.

    Each column is rounded to multiples of a power of two: the n-th part of the precision of its largest number.
    """
    largest = np.abs(numbers).max(axis=0, initial=0.0)
    exponents = np.frexp(largest)[1] + len(numbers).bit_length() - 53
    return np.asarray(np.ldexp(np.rint(np.ldexp(numbers, -exponents)), exponents))


def _stack(columns: Sequence[Int32Array], size: int) -> Int32Array:
    return np.ascontiguousarray(np.column_stack([np.empty((size, 0), np.int32), *columns]).astype(np.int32))


def _starts(sizes: Int64Array) -> Int64Array:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
