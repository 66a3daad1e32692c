"""MDAV: the partition of records into groups of k similar ones (2013: section 3.1; Domingo-Ferrer and Torra 2005).

While at least 3k records are left, two groups are formed: the record farthest from the mean with its k − 1 nearest
records, and the record farthest from that one with its k − 1 nearest. If 2k to 3k − 1 records are left, the one
farthest from the mean and its k − 1 nearest form a group, and the remaining ones form the last group. Fewer than 2k
records form one group.

Where records belong to units, such as patients, all counts are numbers of units. A group is the first record and its
nearest records, until they belong to k units. A group contains all unassigned records of at most k units, so each group
removes at most k units from the remaining ones, and the last group has at least k of them.

Equal records are processed as one *type* with that many members. This changes only the cost, which is O(u·n/k)
distances and O(u·n) comparisons for n records of u types, and O(n·v) for means over v distinct values of an attribute.
Among equally far or near records, the one with the smallest random word is taken. Among equally marginal values, the
mean is the first position, which has the smallest depth. Sums of numbers are exact, so that groups do not depend on
their order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int32Matrix, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import inlined, kernel

MDAV_TIE = 1e-9
"""Totals of distances are tied if they differ by no more than this per record; rounding errors are far smaller."""


class RecordTypes(NamedTuple):
    """u types of n records over p nominal and q numeric attributes.

    * ``codes``: (u, p) int32, indices of the attributes' distinct values.
    * ``numbers``: (u, q) float64, whose sums over any members are exact.
    * ``starts``: (u + 1,) int64; the members of type t are starts[t] … starts[t + 1] − 1.
    * ``words``: (n,) uint64, the random words of the members, ascending within a type.
    * ``tables``: float64; attribute j's distance table has sizes[j]² entries from corners[j] on.
    * ``corners``, ``sizes``, ``firsts``: (p,) int64; attribute j's values are numbered from firsts[j] on.
    * ``weights``: (p,) float64, the weight of each nominal attribute's distance.
    * ``numeric_weights``: (q,) float64, the weight of each numeric attribute's squared difference.
    """

    codes: Int32Matrix
    numbers: Float64Matrix
    starts: Int64Array
    words: UInt64Array
    tables: Float64Array
    corners: Int64Array
    sizes: Int64Array
    firsts: Int64Array
    weights: Float64Array
    numeric_weights: Float64Array


class MdavState(NamedTuple):
    """The members that are not yet assigned to a group, and the groups so far. Kernels update it in place.

    * ``active``: (u,) int64; the first ``active_count[0]`` entries are the types with unassigned members.
    * ``next_member``: (u,) int64, the first unassigned member of each type.
    * ``unassigned_count``, ``group_count``: (1,) int64, the numbers of unassigned members and of groups.
    * ``counts``, ``totals``: for each value, the unassigned members that have it, and the sum of their distances to it.
    * ``sums``: (q,) float64, the sums of the numbers of the unassigned members.
    * ``distance_to``: (u,) float64, the squared distance of each active type to the record last measured from.
    * ``group``: (n,) int32, the group of each member, −1 for none.
    """

    active: Int64Array
    next_member: Int64Array
    active_count: Int64Array
    unassigned_count: Int64Array
    group_count: Int64Array
    counts: Float64Array
    totals: Float64Array
    sums: Float64Array
    distance_to: Float64Array
    group: Int32Array


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
def mdav_partition(types: RecordTypes, units: Int64Array, k: int) -> Int32Array:
    """Return the group of every member, (n,) int32, so that each group has members of at least k units.

    Groups are numbered in the order of their creation. units: (n,) int64, the unit of each member, numbered from 0
    without gaps; at least k.
    """
    state, counted = initial_state(types), initial_units(units)
    while counted.left[0] >= 3 * k:
        group_around(types, state, counted, farthest_from_mean(types, state), k)
        group_around(types, state, counted, farthest_type(types, state), k)
    if counted.left[0] >= 2 * k:
        group_around(types, state, counted, farthest_from_mean(types, state), k)
    group_rest(types, state)
    return state.group


@kernel
def initial_state(types: RecordTypes) -> MdavState:
    """Return a state in which all members are unassigned."""
    u, q = types.numbers.shape
    n = types.words.size
    values = types.sizes.sum()
    state = MdavState(
        np.arange(u),
        types.starts[:-1].copy(),
        np.array([u]),
        np.array([n]),
        np.zeros(1, np.int64),
        np.zeros(values),
        np.zeros(values),
        np.zeros(q),
        np.zeros(u),
        np.full(n, -1, np.int32),
    )
    for t in range(u):
        add_members(types, state, t, types.starts[t + 1] - types.starts[t])
    return state


@kernel
def initial_units(units: Int64Array) -> UnitState:
    """Return a state in which all members are unassigned."""
    count = units.max() + 1
    unassigned = np.zeros(count, np.int64)
    for unit in units:
        unassigned[unit] += 1
    return UnitState(units, unassigned, np.full(count, -1), np.array([count]))


@kernel
def add_members(types: RecordTypes, state: MdavState, t: int, members: int) -> None:
    """Add members of a type to counts, totals and sums; a negative number removes them."""
    for j in range(types.sizes.size):
        first = types.firsts[j]
        row = types.corners[j] + types.codes[t, j] * types.sizes[j]
        state.counts[first + types.codes[t, j]] += members
        for v in range(types.sizes[j]):
            state.totals[first + v] += members * types.tables[row + v]
    for i in range(types.numbers.shape[1]):
        state.sums[i] += members * types.numbers[t, i]


@inlined
def squared_distance(types: RecordTypes, codes: Int32Array | Int64Array, numbers: Float64Array, t: int) -> float:
    """Return δ² between a record and the members of a type (2013: equation 7)."""
    total = 0.0
    for j in range(types.sizes.size):
        row = types.corners[j] + codes[j] * types.sizes[j]
        total += types.weights[j] * types.tables[row + types.codes[t, j]]
    for i in range(types.numbers.shape[1]):
        step = numbers[i] - types.numbers[t, i]
        total += types.numeric_weights[i] * (step * step)
    return total


@kernel
def farthest_from_mean(types: RecordTypes, state: MdavState) -> int:
    """Return the type farthest from the mean of the unassigned records (2013: equation 3, and numeric means)."""
    codes = np.empty(types.sizes.size, np.int64)
    for j in range(codes.size):
        codes[j] = mean_value(types, state, j)
    measure_from(types, state, codes, state.sums / state.unassigned_count[0])
    return farthest_type(types, state)


@kernel
def mean_value(types: RecordTypes, state: MdavState, j: int) -> int:
    """Return the unassigned value of attribute j with the smallest total distance to all of them."""
    first, last = types.firsts[j], types.firsts[j] + types.sizes[j]
    smallest_total = np.inf
    for v in range(first, last):
        if state.counts[v] > 0:
            smallest_total = min(smallest_total, state.totals[v])
    for v in range(first, last):
        if state.counts[v] > 0 and state.totals[v] <= smallest_total + MDAV_TIE * state.unassigned_count[0]:
            return v - first
    return 0


@kernel
def measure_from(types: RecordTypes, state: MdavState, codes: Int32Array | Int64Array, numbers: Float64Array) -> None:
    """Write the squared distances of all active types to a record to ``distance_to``."""
    for a in range(state.active_count[0]):
        t = state.active[a]
        state.distance_to[t] = squared_distance(types, codes, numbers, t)


@kernel
def farthest_type(types: RecordTypes, state: MdavState) -> int:
    """Return the active type that is farthest from the record last measured from."""
    found = state.active[0]
    for a in range(1, state.active_count[0]):
        t = state.active[a]
        if state.distance_to[t] > state.distance_to[found] or (
            state.distance_to[t] == state.distance_to[found]
            and next_word(types, state, t) < next_word(types, state, found)
        ):
            found = t
    return found


@inlined
def next_word(types: RecordTypes, state: MdavState, t: int) -> np.uint64:
    """Return the random word of the type's first unassigned member."""
    return types.words[state.next_member[t]]


@inlined
def is_nearer(types: RecordTypes, state: MdavState, t: int, other: int) -> bool:
    """Return whether a type precedes another one: by distance, then by random word."""
    if state.distance_to[t] != state.distance_to[other]:
        return state.distance_to[t] < state.distance_to[other]
    return bool(next_word(types, state, t) < next_word(types, state, other))


@kernel
def group_around(types: RecordTypes, state: MdavState, counted: UnitState, t: int, k: int) -> None:
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


@kernel
def assign_members(types: RecordTypes, state: MdavState, t: int, members: int) -> None:
    """Assign a type's first unassigned members to the group that is being formed."""
    add_members(types, state, t, -members)
    for _ in range(members):
        state.group[state.next_member[t]] = state.group_count[0]
        state.next_member[t] += 1
    state.unassigned_count[0] -= members


@kernel
def remove_exhausted(types: RecordTypes, state: MdavState) -> None:
    """Remove the types without unassigned members from the active ones."""
    kept = 0
    for a in range(state.active_count[0]):
        t = state.active[a]
        if state.next_member[t] < types.starts[t + 1]:
            state.active[kept] = t
            kept += 1
    state.active_count[0] = kept


@kernel
def group_rest(types: RecordTypes, state: MdavState) -> None:
    """Form a group of all unassigned members."""
    for a in range(state.active_count[0]):
        t = state.active[a]
        assign_members(types, state, t, types.starts[t + 1] - state.next_member[t])
    state.active_count[0] = 0
    state.group_count[0] += 1
