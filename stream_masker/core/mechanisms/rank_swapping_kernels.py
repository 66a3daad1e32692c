"""Compiled swaps between nearest records: Algorithms 2 and 3 of 2019 on distinct records.

What swaps are *units*: records, or the single values of one attribute. Equal units are one *kind*, with how many units
there are of it. Kinds lie in *groups* by the first value of one attribute, the pivot. Looking for near kinds goes
through the groups from the nearest on, and stops where the pivot alone is too far; looking for far ones goes from the
farthest on, and stops where even the farthest of the other values could not reach the best.

Units whose value is still unswapped stand in the front part of their kind's list of that value, so that one of them is
drawn, and removed, in constant time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.compiling import inlined, kernel, part
from stream_masker.core.mechanisms.rank_swapping_levels import ONE
from stream_masker.core.mechanisms.swapping_kernels import FIRST_CHOICE, NEXT, SECOND_CHOICE, draw

BEYOND = 1 << 62
"""More than any distance."""


class Kinds(NamedTuple):
    """R distinct records over p attributes.

    counts: (R,) int64 units of each. starts: (R·p + 1,) int64, the values of kind q and attribute j are
    ``values[starts[q·p + j] : starts[q·p + j + 1]]``, int32 indices of the attribute's d distinct values. table: int32,
    all attributes' (d, d) distances in units, from ``bases[j]`` on, of ``widths[j]`` columns. pivot: an attribute.
    group: (R,) int32, by the pivot's first value. members: (R,) int32, kinds by group, those of g from ``firsts[g]`` to
    ``firsts[g + 1]``. ranks: (G, G), the distances of groups as indices of ``units``, (l,) int64. reach: (R,) int64, at
    least as much as the values beside the pivot's first can add to a distance.
    """

    counts: Any
    starts: Any
    values: Any
    table: Any
    bases: Any
    widths: Any
    pivot: Any
    group: Any
    members: Any
    firsts: Any
    ranks: Any
    units: Any
    reach: Any


class Units(NamedTuple):
    """n units: kind, (n,) int32; seat: (n,) int32, their place among those of their kind; firsts: (R + 1,) int64, where
    the units of a kind begin, by kind; blocks: (R,) int64, where its values' lists begin; begins: (n + 1,) int64, where
    a unit's values begin among all V; owned: (n + 1,) int64, the units of owner o are owned[o] to owned[o + 1];
    owner: (n,) int64; words: (V, 4) uint64.
    """

    kind: Any
    seat: Any
    firsts: Any
    blocks: Any
    begins: Any
    owned: Any
    owner: Any
    words: Any


class State(NamedTuple):
    """Which values are unswapped.

    lists, places: (V,) int32, of each value of each kind the units of that kind, the first ``open`` of them unswapped,
    and the place of each in its list; open: int64, by ``Kinds.values``. left: (n,) int32 unswapped values of a unit.
    waiting, seats: (n,) int32, by kind the units with any left, the first ``awake`` of them, and their places; awake:
    (R,) int64. rows, spots: (R,) int32, by group the kinds with any awake, the first ``active`` of them, and their
    places; active: (G,) int64.
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
    active: Any


class Order(NamedTuple):
    """Groups by distance from each group, filled when first asked for: nearest: (G, G) int32; known: (G,) bool;
    farthest: (G,) int64, beyond which none is active."""

    nearest: Any
    known: Any
    farthest: Any


class Scratch(NamedTuple):
    """Kinds found, and their distances; a heap of the least ones, with how many units each stands for."""

    kinds: Any
    distances: Any
    heap: Any
    weights: Any


@inlined
def others(kinds, a, b):  # type: ignore[no-untyped-def]
    """What the values beside the pivot's first add to the distance of two kinds."""
    p = kinds.bases.size
    total = np.int64(0)
    for j in range(p):
        i = kinds.starts[a * p + j]
        k = kinds.starts[b * p + j]
        end_i = kinds.starts[a * p + j + 1]
        end_k = kinds.starts[b * p + j + 1]
        if j == kinds.pivot:
            i += i < end_i
            k += k < end_k
        while i < end_i and k < end_k:
            total += kinds.table[kinds.bases[j] + kinds.widths[j] * kinds.values[i] + kinds.values[k]]
            i += 1
            k += 1
        total += ONE * (end_i - i + end_k - k)
    return total


@kernel
def sort_groups(ranks, g, levels, nearest):  # type: ignore[no-untyped-def]
    """Fills row g of ``nearest`` by the groups in ascending distance from g; equal ones by their number."""
    ends = np.zeros(levels + 1, np.int64)
    for h in range(ranks.shape[0]):
        ends[np.int64(ranks[g, h]) + 1] += 1
    for level in range(levels):
        ends[level + 1] += ends[level]
    for h in range(ranks.shape[0]):
        nearest[g, ends[ranks[g, h]]] = h
        ends[ranks[g, h]] += 1


@inlined
def push(heap, weights, size, distance, weight):  # type: ignore[no-untyped-def]
    """Adds to a heap whose greatest is first."""
    at = size
    while at > 0 and heap[(at - 1) >> 1] < distance:
        heap[at] = heap[(at - 1) >> 1]
        weights[at] = weights[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = distance
    weights[at] = weight


@inlined
def pop(heap, weights, size):  # type: ignore[no-untyped-def]
    """Removes the greatest of a heap of that size."""
    last = heap[size - 1]
    weight = weights[size - 1]
    at = 0
    while True:
        child = 2 * at + 1
        if child + 1 < size - 1 and heap[child + 1] > heap[child]:
            child += 1
        if child >= size - 1 or heap[child] <= last:
            break
        heap[at] = heap[child]
        weights[at] = weights[child]
        at = child
    heap[at] = last
    weights[at] = weight


@part
def near(kinds, order, scratch, q, k):  # type: ignore[no-untyped-def]
    """The kinds of the k units nearest to one of kind q, and all others as far away as the last of them.

    Puts them, and some farther ones, into ``scratch``. Gives how many, the distance of the last, and how many of the k
    units are exactly that far away.
    """
    g = kinds.group[q]
    found = 0
    size = 0
    total = 0
    bound = np.int64(BEYOND)
    for at in range(order.known.size):
        h = order.nearest[g, at]
        base = kinds.units[kinds.ranks[g, h]]
        if base > bound:
            break
        for m in range(kinds.firsts[h], kinds.firsts[h + 1]):
            b = kinds.members[m]
            distance = base + others(kinds, q, b)
            if distance > bound:
                continue
            scratch.kinds[found] = b
            scratch.distances[found] = distance
            found += 1
            weight = kinds.counts[b] - (b == q)
            if weight > 0 and (total < k or distance < bound):
                push(scratch.heap, scratch.weights, size, distance, weight)
                size += 1
                total += weight
                while total - scratch.weights[0] >= k:
                    total -= scratch.weights[0]
                    pop(scratch.heap, scratch.weights, size)
                    size -= 1
                if total >= k:
                    bound = scratch.heap[0]
    inside = 0
    for c in range(found):
        if scratch.distances[c] < bound:
            inside += kinds.counts[scratch.kinds[c]] - (scratch.kinds[c] == q)
    return found, bound, k - inside


@inlined
def openings(kinds, state, q, j, t):  # type: ignore[no-untyped-def]
    """How many units of kind q have their value t of attribute j unswapped."""
    at = kinds.starts[q * kinds.bases.size + j] + t
    return state.open[at] if at < kinds.starts[q * kinds.bases.size + j + 1] else np.int64(0)


@part
def choose(kinds, units, state, scratch, found, bound, spare, j, t, value):  # type: ignore[no-untyped-def]
    """A unit whose value t of attribute j is unswapped, each of the interval as likely; -1 where there is none.

    ``value``: whose random words are used. Of those as far away as ``bound`` only ``spare`` belong to the interval:
    the unswapped first, any as likely.
    """
    inside = np.int64(0)
    tied = np.int64(0)
    for c in range(found):
        if scratch.distances[c] < bound:
            inside += openings(kinds, state, scratch.kinds[c], j, t)
        elif scratch.distances[c] == bound:
            tied += openings(kinds, state, scratch.kinds[c], j, t)
    total = inside + min(spare, tied)
    if total == 0:
        return -1
    left = draw(units.words[value, FIRST_CHOICE], total)
    among_tied = left >= inside
    if among_tied:
        left = draw(units.words[value, SECOND_CHOICE], tied)
    for c in range(found):
        if scratch.distances[c] == bound if among_tied else scratch.distances[c] < bound:
            q = scratch.kinds[c]
            here = openings(kinds, state, q, j, t)
            if left < here:
                slot = kinds.starts[q * kinds.bases.size + j] + t - kinds.starts[q * kinds.bases.size]
                return state.lists[units.blocks[q] + slot * kinds.counts[q] + left]
            left -= here
    return -1


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
def label(kinds, units, state, i, slot):  # type: ignore[no-untyped-def]
    """Labels a value as swapped. A unit without unswapped values waits no more, nor does a kind without such units."""
    close(kinds, units, state, i, slot)
    state.left[i] -= 1
    if state.left[i] == 0:
        q = units.kind[i]
        g = kinds.group[q]
        state.awake[q] -= 1
        last = state.awake[q]
        other = units.seat[state.waiting[units.firsts[q] + last]]
        move(state.waiting, state.seats, units.firsts[q], i, units.seat[i], last, other)
        if last == 0:
            state.active[g] -= 1
            row = kinds.firsts[g] + state.active[g]
            at = state.spots[q]
            state.rows[at] = state.rows[row]
            state.spots[state.rows[row]] = at
            state.rows[row] = q
            state.spots[q] = row


@part
def swap(kinds, units, state, scratch, i, found, bound, spare, partners):  # type: ignore[no-untyped-def]
    """Swaps every unswapped value of unit i with one of its interval; labels it in any case."""
    p = kinds.bases.size
    q = units.kind[i]
    own = kinds.starts[q * p]
    for j in range(p):
        for at in range(kinds.starts[q * p + j], kinds.starts[q * p + j + 1]):
            slot = at - own
            if not is_open(kinds, units, state, i, slot):
                continue
            first = units.owned[units.owner[i]]
            end = units.owned[units.owner[i] + 1]
            label(kinds, units, state, i, slot)
            for e in range(first, end):
                if e != i and is_open(kinds, units, state, e, slot):
                    close(kinds, units, state, e, slot)
                    state.left[e] = -state.left[e]
            t = at - kinds.starts[q * p + j]
            value = units.begins[i] + slot
            partner = choose(kinds, units, state, scratch, found, bound, spare, j, t, value)
            for e in range(first, end):
                if state.left[e] < 0:
                    reopen(kinds, units, state, e, slot)
                    state.left[e] = -state.left[e]
            if partner >= 0:
                b = units.kind[partner]
                slot_b = kinds.starts[b * p + j] + t - kinds.starts[b * p]
                label(kinds, units, state, partner, slot_b)
                other = units.begins[partner] + slot_b
                partners[value] = other
                partners[other] = value


@part
def far(kinds, units, state, order, scratch, q, word):  # type: ignore[no-untyped-def]
    """The unit with unswapped values that is farthest from kind q; of equally far ones any as likely. -1 for none."""
    g = kinds.group[q]
    best = np.int64(-1)
    found = 0
    total = np.int64(0)
    while order.farthest[g] >= 0 and state.active[order.nearest[g, order.farthest[g]]] == 0:
        order.farthest[g] -= 1
    for at in range(order.farthest[g], -1, -1):
        h = order.nearest[g, at]
        base = kinds.units[kinds.ranks[g, h]]
        if base + kinds.reach[q] < best:
            break
        for row in range(kinds.firsts[h], kinds.firsts[h] + state.active[h]):
            b = state.rows[row]
            distance = base + others(kinds, q, b)
            if distance > best:
                best = distance
                found = 0
                total = np.int64(0)
            if distance == best:
                scratch.kinds[found] = b
                found += 1
                total += state.awake[b]
    left = draw(word, total)
    for c in range(found):
        b = scratch.kinds[c]
        if left < state.awake[b]:
            return state.waiting[units.firsts[b] + left]
        left -= state.awake[b]
    return -1


@kernel
def swap_nearest(kinds, units, state, order, scratch, reference, k, partners, turns):  # type: ignore[no-untyped-def]
    """Algorithms 2 and 3 of 2019 from the first reference on.

    ``partners``: (V,) int64, each value's own index, which that of its partner replaces. ``turns``: (n,) int64, filled
    by the references in their order; gives how many there were.
    """
    count = 0
    while reference >= 0:
        q = units.kind[reference]
        g = kinds.group[q]
        if not order.known[g]:
            sort_groups(kinds.ranks, g, kinds.units.size, order.nearest)
            order.known[g] = True
        found, bound, spare = near(kinds, order, scratch, q, k)
        swap(kinds, units, state, scratch, reference, found, bound, spare, partners)
        turns[count] = reference
        count += 1
        reference = far(kinds, units, state, order, scratch, q, units.words[units.begins[reference], NEXT])
    return count


@kernel
def fill_units(kinds, units, state):  # type: ignore[no-untyped-def]
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
    for row in range(kinds.members.size):
        state.rows[row] = kinds.members[row]
        state.spots[kinds.members[row]] = row
        state.active[kinds.group[kinds.members[row]]] += 1
