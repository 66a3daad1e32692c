"""What swaps by Algorithms 2 and 3 of 2019, in arrays for compiled code, and which of it is still unswapped.

*Units* swap: records, or the single values of one attribute. Equal units are one *kind*. Kinds are numbered in *groups*
by the first value of one attribute, the pivot.

Units whose value is still unswapped stand in the front part of their kind's list of that value, so that one of them is
drawn, and removed, in constant time.
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


class Kinds(NamedTuple):
    """R distinct records over p attributes, in ascending order of groups.

    counts: (R,) int64 units of each. starts: (R·p + 1,) int64, the values of kind q and attribute j are
    ``values[starts[q·p + j] : starts[q·p + j + 1]]``, int32 indices of the attribute's d distinct values. heads: (p, R)
    uint32, the first of them, d for none. table: int32, each attribute's distances in units, a square from ``bases[j]``
    on, ``widths[j]`` a row: d, or d + 1 where a unit has none, which is at ``ONE`` from a value. tails: whether any
    array has several values. pivot: an attribute. firsts: (its width + 1,) int64, where the kinds of each group begin.
    ranks: its distances as indices of ``units``, (l,) int64. shift: bits that take a distance to its bucket.
    """

    counts: Int64Array
    starts: Int64Array
    values: Int32Array
    heads: UInt32Matrix
    table: Int32Array
    bases: Int64Array
    widths: Int64Array
    tails: bool
    pivot: int
    firsts: Int64Array
    ranks: UInt16Matrix | Int32Matrix
    units: Int64Array
    shift: int


class Units(NamedTuple):
    """n units with V values in all.

    kind: (n,) int32. seat: (n,) int32, a unit's place among those of its kind. firsts: (R + 1,) int64, where the units
    of a kind begin, by kind. blocks: (R,) int64, where the lists of its values begin. begins: (n + 1,) int64, where a
    unit's values begin. owner: (n,) int64; owned: the units of owner o are owned[o] to owned[o + 1]. words: (V, 4)
    uint64.
    """

    kind: Int32Array
    seat: Int32Array
    firsts: Int64Array
    blocks: Int64Array
    begins: Int64Array
    owner: Int64Array
    owned: Int64Array
    words: UInt64Matrix


class SwapState(NamedTuple):
    """Which values are unswapped.

    lists, places: (V,) int32, for each value of each kind the units of that kind, the first ``open`` of them unswapped,
    and the place of each in its list; open: int64, by ``Kinds.values``. left: (n,) int32 unswapped values of a unit.
    waiting, seats: (n,) int32, by kind the units with any left, the first ``awake`` of them, and their places; awake:
    (R,) int64. rows: (R,) int32, the kinds with any awake, the first ``active[0]`` of them; spots: (R,) int32, their
    places; columns: (p, R) uint32, their heads.
    """

    lists: Int32Array
    places: Int32Array
    open: Int64Array
    left: Int32Array
    waiting: Int32Array
    seats: Int32Array
    awake: Int64Array
    rows: Int32Array
    spots: Int32Array
    columns: UInt32Matrix
    active: Int64Array


class Order(NamedTuple):
    """Groups by distance from each group, filled when first asked for: nearest: (G, G) int32; known: (G,) bool."""

    nearest: Int32Matrix
    known: BoolArray


class Scratch(NamedTuple):
    """Kinds found, (R,) int32, and their distances, (R,) int64; units by bucket of their distance."""

    kinds: Int32Array
    distances: Int64Array
    buckets: Int32Array


@inlined
def unit_slot(kinds: Kinds, q: int, j: int, t: int) -> int:
    """Which of kind q's values is value t of attribute j; -1 where it has none."""
    p = kinds.bases.size
    at = kinds.starts[q * p + j] + t
    return at - kinds.starts[q * p] if at < kinds.starts[q * p + j + 1] else int64(-1)


@inlined
def openings(kinds: Kinds, state: SwapState, q: int, j: int, t: int) -> int:
    """How many units of kind q have their value t of attribute j unswapped."""
    slot = unit_slot(kinds, q, j, t)
    return state.open[kinds.starts[q * kinds.bases.size] + slot] if slot >= 0 else int64(0)


@inlined
def move(lists: Int32Array, places: Int32Array, start: int, i: int, seat: int, to: int, other_seat: int) -> None:
    """Lets unit i and the one at place ``to`` of its list change places; a list and its places begin at ``start``."""
    at = places[start + seat]
    other = lists[start + to]
    lists[start + at] = other
    places[start + other_seat] = at
    lists[start + to] = i
    places[start + seat] = to


@inlined
def close(kinds: Kinds, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Takes a unit's value out of the unswapped ones of its kind."""
    q = units.kind[i]
    start = units.blocks[q] + slot * kinds.counts[q]
    at = kinds.starts[q * kinds.bases.size] + slot
    state.open[at] -= 1
    last = state.open[at]
    move(state.lists, state.places, start, i, units.seat[i], last, units.seat[state.lists[start + last]])


@inlined
def reopen(kinds: Kinds, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Puts a value that was taken out back among the unswapped ones."""
    q = units.kind[i]
    start = units.blocks[q] + slot * kinds.counts[q]
    at = kinds.starts[q * kinds.bases.size] + slot
    first = state.open[at]
    move(state.lists, state.places, start, i, units.seat[i], first, units.seat[state.lists[start + first]])
    state.open[at] += 1


@inlined
def is_open(kinds: Kinds, units: Units, state: SwapState, i: int, slot: int) -> bool:
    """Whether a unit's value is unswapped, and not taken out."""
    q = units.kind[i]
    place = state.places[units.blocks[q] + slot * kinds.counts[q] + units.seat[i]]
    return place < state.open[kinds.starts[q * kinds.bases.size] + slot]


@inlined
def retire(state: SwapState, q: int) -> None:
    """Takes a kind out of those with units awake."""
    state.active[0] -= 1
    last = state.active[0]
    at = state.spots[q]
    other = state.rows[last]
    state.rows[at] = other
    state.spots[other] = at
    for j in range(state.columns.shape[0]):
        state.columns[j, at] = state.columns[j, last]


@inlined
def label(kinds: Kinds, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Labels a value as swapped. A unit without unswapped values waits no more, nor does a kind without such units."""
    close(kinds, units, state, i, slot)
    state.left[i] -= 1
    if state.left[i] == 0:
        q = units.kind[i]
        state.awake[q] -= 1
        last = state.awake[q]
        other = units.seat[state.waiting[units.firsts[q] + last]]
        move(state.waiting, state.seats, units.firsts[q], i, units.seat[i], last, other)
        if last == 0:
            retire(state, q)


@inlined
def set_aside(kinds: Kinds, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Takes the unswapped values of unit i's owner out, so that none of them is chosen."""
    for e in range(units.owned[units.owner[i]], units.owned[units.owner[i] + 1]):
        if e != i and is_open(kinds, units, state, e, slot):
            close(kinds, units, state, e, slot)
            state.left[e] = -state.left[e]


@inlined
def bring_back(kinds: Kinds, units: Units, state: SwapState, i: int, slot: int) -> None:
    """Undoes ``set_aside``."""
    for e in range(units.owned[units.owner[i]], units.owned[units.owner[i] + 1]):
        if state.left[e] < 0:
            reopen(kinds, units, state, e, slot)
            state.left[e] = -state.left[e]


@kernel
def fill_state(kinds: Kinds, units: Units, state: SwapState) -> None:
    """Fills places of units and lists: everything is unswapped. ``units.firsts`` and ``units.blocks`` are there."""
    p = kinds.bases.size
    for i in range(units.kind.size):
        q = units.kind[i]
        seat = state.awake[q]
        units.seat[i] = seat
        state.awake[q] += 1
        state.waiting[units.firsts[q] + seat] = i
        state.seats[units.firsts[q] + seat] = seat
        own = kinds.starts[q * p]
        slots = kinds.starts[(q + 1) * p] - own
        state.left[i] = slots
        for slot in range(slots):
            at = units.blocks[q] + slot * kinds.counts[q] + seat
            state.lists[at] = i
            state.places[at] = seat
            state.open[own + slot] += 1
    for q in range(kinds.counts.size):
        state.rows[q] = q
        state.spots[q] = q
        for j in range(p):
            state.columns[j, q] = kinds.heads[j, q]
    state.active[0] = kinds.counts.size
