"""The units that swap by Algorithms 2 and 3 of 2019, and their unswapped values, as arrays for compiled code.

*Units* swap: records, or the single values of one attribute. Equal units are processed as one *type* with that many
units. Types are numbered by *group*: the first value of one attribute, the pivot.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_masker.core.dtypes import (
    BoolArray,
    Int32Array,
    Int32Matrix,
    Int64Array,
    UInt16Matrix,
    UInt32Matrix,
    UInt64Matrix,
)
from stream_masker.core.kernels.jit import inlined, int64, kernel


class UnitTypes(NamedTuple):
    """R types of units over p attributes, in ascending order of groups.

    * ``counts``: (R,) int64, the units of each type.
    * ``value_starts``: (R·p + 1,) int64; type q has the values ``values[value_starts[q·p + j] : value_starts[q·p + j +
      1]]`` of attribute j.
    * ``values``: int32, indices among the attribute's d distinct values.
    * ``first_values``: (p, R) uint32, each type's first value of each attribute; d for none.
    * ``distances``: int32, the attributes' distance tables in units of 1/``UNIT``, concatenated.
    * ``table_starts``, ``table_widths``: (p,) int64, the offset of each table and the length of its rows. The length is
      d, or d + 1 if a unit has no value, which is at distance ``UNIT`` from every value.
    * ``has_later_values``: whether any unit has several values of an attribute.
    * ``pivot``: the attribute whose first value numbers the groups.
    * ``group_starts``: (G + 1,) int64, the first type of each group.
    * ``pivot_levels``: the levels of the pivot's distances, indices of ``level_units``, (l,) int64.
    * ``bucket_shift``: the number of bits by which a distance is shifted to obtain its bucket.
    """

    counts: Int64Array
    value_starts: Int64Array
    values: Int32Array
    first_values: UInt32Matrix
    distances: Int32Array
    table_starts: Int64Array
    table_widths: Int64Array
    has_later_values: bool
    pivot: int
    group_starts: Int64Array
    pivot_levels: UInt16Matrix | Int32Matrix
    level_units: Int64Array
    bucket_shift: int


class Units(NamedTuple):
    """n units with V values in total.

    * ``type_of``: (n,) int32. ``index_in_type``: (n,) int32, a unit's index among the units of its type.
    * ``type_starts``: (R + 1,) int64, the offset of each type's units, by type.
    * ``list_starts``: (R,) int64, the offset of each type's lists of open values.
    * ``value_starts``: (n + 1,) int64, the offset of each unit's values.
    * ``owner_of``: (n,) int64. ``owner_starts``: owner o has the units owner_starts[o] to owner_starts[o + 1] − 1.
    * ``words``: (V, 4) uint64, the random words of each value.
    """

    type_of: Int32Array
    index_in_type: Int32Array
    type_starts: Int64Array
    list_starts: Int64Array
    value_starts: Int64Array
    owner_of: Int64Array
    owner_starts: Int64Array
    words: UInt64Matrix


class SwapState(NamedTuple):
    """The values that are still unswapped. Kernels update it in place.

    Three sets are kept as lists whose front part is the set, with the index of each entry, so that drawing and removing
    take constant time:

    * ``open_lists``, ``open_index``: (V,) int32; for each value of each type the units of that type. The first
      ``open_counts`` (int64, by ``UnitTypes.values``) of them have this value *open*: unswapped, and not hidden.
    * ``pending``, ``pending_index``: (n,) int32; for each type its units. The first ``pending_counts``, (R,) int64, of
      them are *pending*: they have unswapped values.
    * ``unswapped``: (n,) int32, the number of a unit's unswapped values; negative while one of them is hidden.
    * ``active_types``, ``active_index``: (R,) int32, the types. The first ``active_count[0]`` of them are *active*:
      they have pending units. ``active_first_values``: (p, R) uint32, their first values.
    """

    open_lists: Int32Array
    open_index: Int32Array
    open_counts: Int64Array
    unswapped: Int32Array
    pending: Int32Array
    pending_index: Int32Array
    pending_counts: Int64Array
    active_types: Int32Array
    active_index: Int32Array
    active_first_values: UInt32Matrix
    active_count: Int64Array


class GroupOrder(NamedTuple):
    """The groups in ascending distance from each group, computed when first needed.

    * ``nearest``: (G, G) int32, row g holds the groups by distance from g.
    * ``computed``: (G,) bool, the rows that are filled.
    """

    nearest: Int32Matrix
    computed: BoolArray


class SearchScratch(NamedTuple):
    """Scratch of a search.

    * ``types``: (R,) int32, the types found. ``distances``: (R,) int64, their distances.
    * ``bucket_counts``: int32, the number of units in each bucket of distances.
    """

    types: Int32Array
    distances: Int64Array
    bucket_counts: Int32Array


class NearestUnits(NamedTuple):
    """The k units nearest to a unit, as the types in ``SearchScratch``.

    * ``nearer_end``: the types before this index are nearer than the last of the k units.
    * ``end``: the types from ``nearer_end`` to ``end`` − 1 are as far away as it.
    * ``tied_units``: how many of the k units are as far away as it.
    """

    nearer_end: int
    end: int
    tied_units: int


@inlined
def value_slot(types: UnitTypes, q: int, j: int, t: int) -> int:
    """Return the slot of value t of attribute j among the values of type q; −1 if the type has no such value."""
    p = types.table_starts.size
    at = types.value_starts[q * p + j] + t
    return at - types.value_starts[q * p] if at < types.value_starts[q * p + j + 1] else int64(-1)


@inlined
def open_count(types: UnitTypes, state: SwapState, q: int, j: int, t: int) -> int:
    """Return how many units of type q have value t of attribute j open."""
    slot = value_slot(types, q, j, t)
    return state.open_counts[types.value_starts[q * types.table_starts.size] + slot] if slot >= 0 else int64(0)


@inlined
def swap_entries(
    lists: Int32Array, list_index: Int32Array, start: int, i: int, index: int, to: int, other_index: int
) -> None:
    """Exchange unit i with the unit at entry ``to`` of a list.

    ``start``: the offset of the list; ``index`` and ``other_index``: the indices of both units within their type.
    """
    at = list_index[start + index]
    other = lists[start + to]
    lists[start + at] = other
    list_index[start + other_index] = at
    lists[start + to] = i
    list_index[start + index] = to


@inlined
def remove_open(types: UnitTypes, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Remove a unit's value from the open ones."""
    q = units.type_of[i]
    start = units.list_starts[q] + slot * types.counts[q]
    at = types.value_starts[q * types.table_starts.size] + slot
    state.open_counts[at] -= 1
    last = state.open_counts[at]
    swap_entries(
        state.open_lists,
        state.open_index,
        start,
        i,
        units.index_in_type[i],
        last,
        units.index_in_type[state.open_lists[start + last]],
    )


@inlined
def restore_open(types: UnitTypes, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Add a unit's value to the open ones again."""
    q = units.type_of[i]
    start = units.list_starts[q] + slot * types.counts[q]
    at = types.value_starts[q * types.table_starts.size] + slot
    first = state.open_counts[at]
    swap_entries(
        state.open_lists,
        state.open_index,
        start,
        i,
        units.index_in_type[i],
        first,
        units.index_in_type[state.open_lists[start + first]],
    )
    state.open_counts[at] += 1


@inlined
def is_open(types: UnitTypes, units: Units, state: SwapState, i: int, slot: int) -> bool:
    """Return whether a unit's value is open."""
    q = units.type_of[i]
    list_index = state.open_index[units.list_starts[q] + slot * types.counts[q] + units.index_in_type[i]]
    return list_index < state.open_counts[types.value_starts[q * types.table_starts.size] + slot]


@inlined
def deactivate_type(state: SwapState, q: int) -> None:
    """Remove a type from the active ones."""
    state.active_count[0] -= 1
    last = state.active_count[0]
    at = state.active_index[q]
    other = state.active_types[last]
    state.active_types[at] = other
    state.active_index[other] = at
    for j in range(state.active_first_values.shape[0]):
        state.active_first_values[j, at] = state.active_first_values[j, last]


@inlined
def label_swapped(types: UnitTypes, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Label a value as swapped. A unit without unswapped values is no longer pending.

    A type without pending units is no longer active.
    """
    remove_open(types, units, state, i, slot)
    state.unswapped[i] -= 1
    if state.unswapped[i] == 0:
        q = units.type_of[i]
        state.pending_counts[q] -= 1
        last = state.pending_counts[q]
        other = units.index_in_type[state.pending[units.type_starts[q] + last]]
        swap_entries(state.pending, state.pending_index, units.type_starts[q], i, units.index_in_type[i], last, other)
        if last == 0:
            deactivate_type(state, q)


@inlined
def hide_owner_values(types: UnitTypes, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Hide the open values of the other units of unit i's owner, so that none of them is drawn."""
    for e in range(units.owner_starts[units.owner_of[i]], units.owner_starts[units.owner_of[i] + 1]):
        if e != i and is_open(types, units, state, e, slot):
            remove_open(types, units, state, e, slot)
            state.unswapped[e] = -state.unswapped[e]


@inlined
def restore_owner_values(types: UnitTypes, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Undo ``hide_owner_values``."""
    for e in range(units.owner_starts[units.owner_of[i]], units.owner_starts[units.owner_of[i] + 1]):
        if state.unswapped[e] < 0:
            restore_open(types, units, state, e, slot)
            state.unswapped[e] = -state.unswapped[e]


@kernel
def initialize_state(types: UnitTypes, units: Units, state: SwapState) -> None:
    """Fill the state and ``units.index_in_type`` so that all values are unswapped."""
    p = types.table_starts.size
    for i in range(units.type_of.size):
        q = units.type_of[i]
        index = state.pending_counts[q]
        units.index_in_type[i] = index
        state.pending_counts[q] += 1
        state.pending[units.type_starts[q] + index] = i
        state.pending_index[units.type_starts[q] + index] = index
        own = types.value_starts[q * p]
        slots = types.value_starts[(q + 1) * p] - own
        state.unswapped[i] = slots
        for slot in range(slots):
            at = units.list_starts[q] + slot * types.counts[q] + index
            state.open_lists[at] = i
            state.open_index[at] = index
            state.open_counts[own + slot] += 1
    for q in range(types.counts.size):
        state.active_types[q] = q
        state.active_index[q] = q
        for j in range(p):
            state.active_first_values[j, q] = types.first_values[j, q]
    state.active_count[0] = types.counts.size
