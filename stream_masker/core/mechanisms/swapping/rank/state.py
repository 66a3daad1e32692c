"""What swaps by Algorithms 2 and 3 of 2019, in arrays for compiled code, and which of it is still unswapped.

*Units* swap: records, or the single values of one attribute. Equal units are one *kind*. Kinds are numbered in *groups*
by the first value of one attribute, the pivot.

Units whose value is still unswapped stand in the front part of their kind's list of that value, so that one of them is
drawn, and removed, in constant time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.kernels.jit import inlined, kernel


class Kinds(NamedTuple):
    """R distinct records over p attributes, in ascending order of groups.

    counts: (R,) int64 units of each. starts: (R·p + 1,) int64, the values of kind q and attribute j are
    ``values[starts[q·p + j] : starts[q·p + j + 1]]``, int32 indices of the attribute's d distinct values. heads: (p, R)
    uint32, the first of them, d for none. table: int32, each attribute's distances in units, a square from ``bases[j]``
    on, ``widths[j]`` a row: d, or d + 1 where a unit has none, which is at ``ONE`` from a value. tails: whether any
    array has several values. pivot: an attribute. firsts: (its width + 1,) int64, where the kinds of each group begin.
    ranks: its distances as indices of ``units``, (l,) int64. shift: bits that take a distance to its bucket.
    """

    counts: Any
    starts: Any
    values: Any
    heads: Any
    table: Any
    bases: Any
    widths: Any
    tails: Any
    pivot: Any
    firsts: Any
    ranks: Any
    units: Any
    shift: Any


class Units(NamedTuple):
    """n units with V values in all.

    kind: (n,) int32. seat: (n,) int32, a unit's place among those of its kind. firsts: (R + 1,) int64, where the units
    of a kind begin, by kind. blocks: (R,) int64, where the lists of its values begin. begins: (n + 1,) int64, where a
    unit's values begin. owner: (n,) int64; owned: the units of owner o are owned[o] to owned[o + 1]. words: (V, 4)
    uint64.
    """

    kind: Any
    seat: Any
    firsts: Any
    blocks: Any
    begins: Any
    owner: Any
    owned: Any
    words: Any


class SwapState(NamedTuple):
    """Which values are unswapped.

    lists, places: (V,) int32, for each value of each kind the units of that kind, the first ``open`` of them unswapped,
    and the place of each in its list; open: int64, by ``Kinds.values``. left: (n,) int32 unswapped values of a unit.
    waiting, seats: (n,) int32, by kind the units with any left, the first ``awake`` of them, and their places; awake:
    (R,) int64. rows: (R,) int32, the kinds with any awake, the first ``active[0]`` of them; spots: (R,) int32, their
    places; columns: (p, R) uint32, their heads.
    """

    lists: Any
    places: Any
    open: Any
    left: Any
    waiting: Any
    seats: Any
    awake: Any
    rows: Any
    spots: Any
    columns: Any
    active: Any


class Order(NamedTuple):
    """Groups by distance from each group, filled when first asked for: nearest: (G, G) int32; known: (G,) bool."""

    nearest: Any
    known: Any


class Scratch(NamedTuple):
    """Kinds found, (R,) int32, and their distances, (R,) int64; units by bucket of their distance."""

    kinds: Any
    distances: Any
    buckets: Any


@inlined
def unit_slot(kinds, q, j, t):  # type: ignore[no-untyped-def]
    """Which of kind q's values is value t of attribute j; -1 where it has none."""
    p = kinds.bases.size
    at = kinds.starts[q * p + j] + t
    return at - kinds.starts[q * p] if at < kinds.starts[q * p + j + 1] else np.int64(-1)


@inlined
def openings(kinds, state, q, j, t):  # type: ignore[no-untyped-def]
    """How many units of kind q have their value t of attribute j unswapped."""
    slot = unit_slot(kinds, q, j, t)
    return state.open[kinds.starts[q * kinds.bases.size] + slot] if slot >= 0 else np.int64(0)


@inlined
def move(lists, places, start, i, seat, to, other_seat):  # type: ignore[no-untyped-def]
    """Lets unit i and the one at place ``to`` of its list change places; a list and its places begin at ``start``."""
    at = places[start + seat]
    other = lists[start + to]
    lists[start + at] = other
    places[start + other_seat] = at
    lists[start + to] = i
    places[start + seat] = to


@inlined
def close(kinds, units, state, i, slot):  # type: ignore[no-untyped-def]
    """Takes a unit's value out of the unswapped ones of its kind."""
    q = units.kind[i]
    start = units.blocks[q] + slot * kinds.counts[q]
    at = kinds.starts[q * kinds.bases.size] + slot
    state.open[at] -= 1
    last = state.open[at]
    move(state.lists, state.places, start, i, units.seat[i], last, units.seat[state.lists[start + last]])


@inlined
def reopen(kinds, units, state, i, slot):  # type: ignore[no-untyped-def]
    """Puts a value that was taken out back among the unswapped ones."""
    q = units.kind[i]
    start = units.blocks[q] + slot * kinds.counts[q]
    at = kinds.starts[q * kinds.bases.size] + slot
    first = state.open[at]
    move(state.lists, state.places, start, i, units.seat[i], first, units.seat[state.lists[start + first]])
    state.open[at] += 1


@inlined
def is_open(kinds, units, state, i, slot):  # type: ignore[no-untyped-def]
    """Whether a unit's value is unswapped, and not taken out."""
    q = units.kind[i]
    place = state.places[units.blocks[q] + slot * kinds.counts[q] + units.seat[i]]
    return place < state.open[kinds.starts[q * kinds.bases.size] + slot]


@inlined
def retire(state, q):  # type: ignore[no-untyped-def]
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
def label(kinds, units, state, i, slot):  # type: ignore[no-untyped-def]
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
def set_aside(kinds, units, state, i, slot):  # type: ignore[no-untyped-def]
    """Takes the unswapped values of unit i's owner out, so that none of them is chosen."""
    for e in range(units.owned[units.owner[i]], units.owned[units.owner[i] + 1]):
        if e != i and is_open(kinds, units, state, e, slot):
            close(kinds, units, state, e, slot)
            state.left[e] = -state.left[e]


@inlined
def bring_back(kinds, units, state, i, slot):  # type: ignore[no-untyped-def]
    """Undoes ``set_aside``."""
    for e in range(units.owned[units.owner[i]], units.owned[units.owner[i] + 1]):
        if state.left[e] < 0:
            reopen(kinds, units, state, e, slot)
            state.left[e] = -state.left[e]


@kernel
def fill_state(kinds, units, state):  # type: ignore[no-untyped-def]
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
