"""Compiled search for the kinds of units that are nearest to one, and for the unit that is farthest."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Matrix, Int64Array, UInt16Matrix
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.mechanisms.swapping.kernels import draw_partner
from stream_masker.core.mechanisms.swapping.rank.distance_table import UNIT
from stream_masker.core.mechanisms.swapping.rank.state import Kinds, Order, Scratch, SwapState, Units

DISTANCE_BUCKETS = 4096
"""Into which distances are sorted to find the k-th."""


@inlined
def row_of(kinds: Kinds, j: int, head: int) -> np.uint64:
    """Where the distances from an attribute's value begin."""
    return np.uint64(kinds.bases[j] + kinds.widths[j] * head)


@inlined
def tail(kinds: Kinds, a: int, b: int) -> int:
    """What second and later values add to the distance of two kinds."""
    p = kinds.bases.size
    total = int64(0)
    for j in range(p):
        i = kinds.starts[a * p + j] + 1
        k = kinds.starts[b * p + j] + 1
        end_i = max(i, kinds.starts[a * p + j + 1])
        end_k = max(k, kinds.starts[b * p + j + 1])
        while i < end_i and k < end_k:
            total += kinds.table[row_of(kinds, j, kinds.values[i]) + np.uint64(kinds.values[k])]
            i += 1
            k += 1
        total += UNIT * (end_i - i + end_k - k)
    return total


@kernel
def sort_groups(ranks: UInt16Matrix | Int32Matrix, g: int, levels: int, nearest: Int32Matrix) -> None:
    """Fills row g of ``nearest`` by the groups in ascending distance from g; equal ones by their number."""
    ends = np.zeros(levels + 1, np.int64)
    for h in range(ranks.shape[0]):
        ends[int64(ranks[g, h]) + 1] += 1
    for level in range(levels):
        ends[level + 1] += ends[level]
    for h in range(ranks.shape[0]):
        nearest[g, ends[ranks[g, h]]] = h
        ends[ranks[g, h]] += 1


@part
def measure(kinds: Kinds, distances: Int64Array, q: int, base: int, start: int, stop: int) -> None:
    """Fills ``distances`` by those of kind q to the kinds of a group; the pivot's first values give ``base``."""
    size = stop - start
    for i in range(size):
        distances[i] = base
    for j in range(kinds.bases.size):
        if j != kinds.pivot:
            row = row_of(kinds, j, kinds.heads[j, q])
            for i in range(size):
                distances[i] += kinds.table[row + np.uint64(kinds.heads[j, start + i])]
    if kinds.tails:
        for i in range(size):
            distances[i] += tail(kinds, q, start + i)


@part
def gather_nearest(kinds: Kinds, order: Order, scratch: Scratch, q: int, k: int) -> tuple[int, int, int]:
    """Puts the kinds of the k units nearest to one of kind q into ``scratch``, and others with them.

    Gives how many kinds, the bucket in which the k-th unit is, and how many units are in the buckets before.
    """
    g = kinds.heads[kinds.pivot, q]
    found = 0
    highest = int64(0)
    last = int64(DISTANCE_BUCKETS - 1)
    total = int64(0)
    for at in range(order.known.size):
        h = order.nearest[g, at]
        base = kinds.units[kinds.ranks[g, h]]
        if base >> kinds.shift > last:
            break
        start = kinds.firsts[h]
        size = kinds.firsts[h + 1] - start
        measure(kinds, scratch.distances[found : found + size], q, base, start, start + size)
        kept = found
        for i in range(found, found + size):
            distance = scratch.distances[i]
            bucket = distance >> kinds.shift
            if bucket <= last:
                b = start + i - found
                weight = kinds.counts[b] - (b == q)
                scratch.kinds[kept] = b
                scratch.distances[kept] = distance
                kept += 1
                scratch.buckets[bucket] += weight
                total += weight
                highest = max(highest, bucket)
        found = kept
        if total >= k:
            last = min(last, highest)
        while total - scratch.buckets[last] >= k:
            total -= scratch.buckets[last]
            last -= 1
    inside = total - scratch.buckets[last]
    for c in range(found):
        scratch.buckets[scratch.distances[c] >> kinds.shift] = 0
    return found, last, inside


@part
def nearest_units(kinds: Kinds, order: Order, scratch: Scratch, q: int, k: int) -> tuple[int, int, int]:
    """Puts the kinds of the k units nearest to one of kind q into ``scratch``, and all others as far as the last unit.

    Gives how many are nearer than the last, how many there are in all, and how many of the k units are as far as it.
    """
    found, last, inside = gather_nearest(kinds, order, scratch, q, k)
    bound = int64(-1)
    reached = inside
    while reached < k:
        inside = reached
        above = int64(1) << 62
        for c in range(found):
            if bound < scratch.distances[c] < above and scratch.distances[c] >> kinds.shift == last:
                above = scratch.distances[c]
        bound = above
        for c in range(found):
            if scratch.distances[c] == bound:
                reached += kinds.counts[scratch.kinds[c]] - (scratch.kinds[c] == q)
    nearer = bring(scratch, 0, found, bound - 1)
    return nearer, bring(scratch, nearer, found, bound), k - inside


@inlined
def bring(scratch: Scratch, start: int, found: int, most: int) -> int:
    """Brings the kinds found from ``start`` on up to the distance ``most`` to the front; gives where they end."""
    end = start
    for c in range(start, found):
        if scratch.distances[c] <= most:
            kind = scratch.kinds[c]
            distance = scratch.distances[c]
            scratch.kinds[c] = scratch.kinds[end]
            scratch.distances[c] = scratch.distances[end]
            scratch.kinds[end] = kind
            scratch.distances[end] = distance
            end += 1
    return end


@part
def farthest_unit(kinds: Kinds, units: Units, state: SwapState, distances: Int64Array, q: int, word: np.uint64) -> int:
    """The unit with unswapped values that is farthest from kind q; of equally far ones any as likely. -1 for none."""
    size = state.active[0]
    row = row_of(kinds, 0, kinds.heads[0, q])
    for i in range(size):
        distances[i] = kinds.table[row + np.uint64(state.columns[0, i])]
    for j in range(1, kinds.bases.size):
        row = row_of(kinds, j, kinds.heads[j, q])
        for i in range(size):
            distances[i] += kinds.table[row + np.uint64(state.columns[j, i])]
    if kinds.tails:
        for i in range(size):
            distances[i] += tail(kinds, q, state.rows[i])
    best = int64(-1)
    for i in range(size):
        best = max(best, distances[i])
    total = int64(0)
    for i in range(size):
        if distances[i] == best:
            total += state.awake[state.rows[i]]
    left = draw_partner(word, total)
    for i in range(size):
        if distances[i] == best:
            b = state.rows[i]
            if left < state.awake[b]:
                return state.waiting[units.firsts[b] + left]
            left -= state.awake[b]
    return -1
