"""Compiled swaps between nearest units: Algorithms 2 and 3 of 2019, on kinds of equal units."""

from __future__ import annotations

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.swapping.kernels import FIRST_CHOICE, NEXT, SECOND_CHOICE, draw_partner
from stream_masker.core.mechanisms.swapping.rank.search import farthest_unit, nearest_units, sort_groups
from stream_masker.core.mechanisms.swapping.rank.state import (
    Kinds,
    Order,
    Scratch,
    SwapState,
    Units,
    bring_back,
    is_open,
    label,
    openings,
    set_aside,
    unit_slot,
)


@part
def choose_unit(
    kinds: Kinds,
    units: Units,
    state: SwapState,
    scratch: Scratch,
    nearer: int,
    found: int,
    spare: int,
    j: int,
    t: int,
    value: int,
) -> int:
    """A unit whose value t of attribute j is unswapped, each of the interval as likely; -1 where there is none.

    ``value``: whose random words are used. Of the units as far away as the last only ``spare`` belong to the interval:
    the unswapped first, any as likely.
    """
    inside = int64(0)
    for c in range(nearer):
        inside += openings(kinds, state, scratch.kinds[c], j, t)
    tied = int64(0)
    for c in range(nearer, found):
        tied += openings(kinds, state, scratch.kinds[c], j, t)
    total = inside + min(spare, tied)
    if total == 0:
        return -1
    left = draw_partner(units.words[value, FIRST_CHOICE], total)
    start = 0
    if left >= inside:
        left = draw_partner(units.words[value, SECOND_CHOICE], tied)
        start = nearer
    for c in range(start, found):
        q = scratch.kinds[c]
        here = openings(kinds, state, q, j, t)
        if left < here:
            return state.lists[units.blocks[q] + unit_slot(kinds, q, j, t) * kinds.counts[q] + left]
        left -= here
    return -1


@part
def swap(
    kinds: Kinds,
    units: Units,
    state: SwapState,
    scratch: Scratch,
    i: int,
    nearer: int,
    found: int,
    spare: int,
    partners: Int64Array,
) -> None:
    """Swaps every unswapped value of unit i with one of its interval; labels it in any case."""
    p = kinds.bases.size
    q = units.kind[i]
    for j in range(p):
        for t in range(kinds.starts[q * p + j + 1] - kinds.starts[q * p + j]):
            slot = unit_slot(kinds, q, j, t)
            if not is_open(kinds, units, state, i, slot):
                continue
            value = units.begins[i] + slot
            label(kinds, units, state, i, slot)
            set_aside(kinds, units, state, i, slot)
            partner = choose_unit(kinds, units, state, scratch, nearer, found, spare, j, t, value)
            bring_back(kinds, units, state, i, slot)
            if partner >= 0:
                slot = unit_slot(kinds, units.kind[partner], j, t)
                label(kinds, units, state, partner, slot)
                partners[value] = units.begins[partner] + slot
                partners[units.begins[partner] + slot] = value


@kernel
def swap_nearest(
    kinds: Kinds,
    units: Units,
    state: SwapState,
    order: Order,
    scratch: Scratch,
    reference: int,
    k: int,
    partners: Int64Array,
    turns: Int64Array,
) -> int:
    """Algorithms 2 and 3 of 2019 from the first reference on.

    ``partners``: (V,) int64, each value's own index, which that of its partner replaces. ``turns``: (n,) int64, filled
    by the references in their order; gives how many there were.
    """
    count = 0
    while reference >= 0:
        q = units.kind[reference]
        g = kinds.heads[kinds.pivot, q]
        if not order.known[g]:
            sort_groups(kinds.ranks, g, kinds.units.size, order.nearest)
            order.known[g] = True
        nearer, found, spare = nearest_units(kinds, order, scratch, q, k)
        swap(kinds, units, state, scratch, reference, nearer, found, spare, partners)
        turns[count] = reference
        count += 1
        word = units.words[units.begins[reference], NEXT]
        reference = farthest_unit(kinds, units, state, scratch.distances, q, word)
    return count
