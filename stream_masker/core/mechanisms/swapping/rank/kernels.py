"""The compiled main loop of Algorithms 2 and 3 of 2019."""

from __future__ import annotations

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.swapping.kernels import (
    PARTNER_WORD,
    REFERENCE_WORD,
    STAY_BIT,
    TIED_PARTNER_WORD,
    draw_below,
)
from stream_masker.core.mechanisms.swapping.rank.search import farthest_unit, nearest_units, sort_groups
from stream_masker.core.mechanisms.swapping.rank.state import (
    GroupOrder,
    NearestUnits,
    SearchScratch,
    SwapState,
    Units,
    UnitTypes,
    hide_owner_values,
    is_open,
    label_swapped,
    open_count,
    restore_owner_values,
    value_slot,
)


@part
def is_forced(
    types: UnitTypes, state: SwapState, scratch: SearchScratch, interval: NearestUnits, j: int, t: int, own: int
) -> bool:
    """Return whether all open values t of attribute j of an interval are equal, and differ from ``own``."""
    only = int64(own)
    for c in range(interval.end):
        q = scratch.types[c]
        if open_count(types, state, q, j, t) > 0:
            other = int64(types.values[types.value_starts[q * types.table_starts.size + j] + t])
            if other == own or only not in (own, other):
                return False
            only = other
    return only != own


@part
def draw_unit(
    types: UnitTypes,
    units: Units,
    state: SwapState,
    scratch: SearchScratch,
    interval: NearestUnits,
    j: int,
    t: int,
    value: int,
    own: int,
) -> int:
    """Return a unit of the interval whose value t of attribute j is open, drawn uniformly; −1 if there is none.

    ``value``: the value whose random words are used. ``own``: the reference's own value. If its swap is forced, −1 is
    returned with probability 1/2. Among the units as far away as the last one, only ``tied_units``
    belong to the interval; those with an open value come first, and are drawn uniformly.
    """
    if units.words[value, PARTNER_WORD] & STAY_BIT and is_forced(types, state, scratch, interval, j, t, own):
        return -1
    inside = int64(0)
    for c in range(interval.nearer_end):
        inside += open_count(types, state, scratch.types[c], j, t)
    tied = int64(0)
    for c in range(interval.nearer_end, interval.end):
        tied += open_count(types, state, scratch.types[c], j, t)
    total = inside + min(interval.tied_units, tied)
    if total == 0:
        return -1
    remaining = draw_below(units.words[value, PARTNER_WORD], total)
    start = 0
    if remaining >= inside:
        remaining = draw_below(units.words[value, TIED_PARTNER_WORD], tied)
        start = interval.nearer_end
    for c in range(start, interval.end):
        q = scratch.types[c]
        available = open_count(types, state, q, j, t)
        if remaining < available:
            return state.open_lists[units.list_starts[q] + value_slot(types, q, j, t) * types.counts[q] + remaining]
        remaining -= available
    return -1


@part
def swap_unit(
    types: UnitTypes,
    units: Units,
    state: SwapState,
    scratch: SearchScratch,
    i: int,
    interval: NearestUnits,
    partners: Int64Array,
) -> None:
    """Swap every unswapped value of unit i with one of its interval, and label it even if it has no partner."""
    p = types.table_starts.size
    q = units.type_of[i]
    for j in range(p):
        for t in range(types.value_starts[q * p + j + 1] - types.value_starts[q * p + j]):
            slot = value_slot(types, q, j, t)
            if not is_open(types, units, state, i, slot):
                continue
            value = units.value_starts[i] + slot
            label_swapped(types, units, state, i, slot)
            hide_owner_values(types, units, state, i, slot)
            own = int64(types.values[types.value_starts[q * p + j] + t])
            partner = draw_unit(types, units, state, scratch, interval, j, t, value, own)
            restore_owner_values(types, units, state, i, slot)
            if partner >= 0:
                slot = value_slot(types, units.type_of[partner], j, t)
                label_swapped(types, units, state, partner, slot)
                partners[value] = units.value_starts[partner] + slot
                partners[units.value_starts[partner] + slot] = value


@kernel
def swap_nearest(
    types: UnitTypes,
    units: Units,
    state: SwapState,
    order: GroupOrder,
    scratch: SearchScratch,
    reference: int,
    k: int,
    partners: Int64Array,
    turns: Int64Array,
) -> int:
    """Run Algorithms 2 and 3 of 2019 from the first reference on, and return the number of references.

    * ``partners``: (V,) int64, initially each value's own index; replaced by that of its partner.
    * ``turns``: (n,) int64, filled with the references in their order.
    """
    count = 0
    while reference >= 0:
        q = units.type_of[reference]
        g = types.first_values[types.pivot, q]
        if not order.computed[g]:
            sort_groups(types.pivot_levels, g, types.level_units.size, order.nearest)
            order.computed[g] = True
        interval = nearest_units(types, order, scratch, q, k)
        swap_unit(types, units, state, scratch, reference, interval, partners)
        turns[count] = reference
        count += 1
        word = units.words[units.value_starts[reference], REFERENCE_WORD]
        reference = farthest_unit(types, units, state, scratch.distances, q, word)
    return count
