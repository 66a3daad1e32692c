"""MDAV with groups of k different units, such as persons, each with one or more records.

It forms groups as ``mdav`` does, but all counts are numbers of units instead of records. A group is the first record
and its nearest records, until they belong to k units. A group contains all unassigned records of at most k units, so
each group removes at most k units from the remaining ones, and the last group has at least k of them. If every record
is a unit of its own, the groups are those of ``mdav``. The cost is O(u·n) distances and comparisons.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.core.kernels.jit import kernel
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
