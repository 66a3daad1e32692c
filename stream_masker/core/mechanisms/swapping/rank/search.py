"""Compiled search for the types of units nearest to a unit, and for the unit farthest from it."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Matrix, Int64Array, UInt16Matrix
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.mechanisms.swapping.kernels import draw_below
from stream_masker.core.mechanisms.swapping.rank.distance_table import UNIT
from stream_masker.core.mechanisms.swapping.rank.state import (
    GroupOrder,
    NearestUnits,
    SearchScratch,
    SwapState,
    Units,
    UnitTypes,
)

DISTANCE_BUCKETS = 4096
"""The number of buckets of distances in which the distance of the k-th unit is located."""


@inlined
def table_row(types: UnitTypes, j: int, value: int | np.uint32) -> np.uint64:
    """Return the offset of the distances from an attribute's value."""
    return np.uint64(types.table_starts[j] + types.table_widths[j] * value)


@inlined
def later_values_distance(types: UnitTypes, a: int, b: int) -> int:
    """Return the contribution of second and later values to the distance of two types."""
    p = types.table_starts.size
    total = int64(0)
    for j in range(p):
        i = types.value_starts[a * p + j] + 1
        k = types.value_starts[b * p + j] + 1
        end_i = max(i, types.value_starts[a * p + j + 1])
        end_k = max(k, types.value_starts[b * p + j + 1])
        while i < end_i and k < end_k:
            total += types.distances[table_row(types, j, types.values[i]) + np.uint64(types.values[k])]
            i += 1
            k += 1
        total += UNIT * (end_i - i + end_k - k)
    return total


@kernel
def sort_groups(levels: UInt16Matrix | Int32Matrix, g: int | np.uint32, level_count: int, nearest: Int32Matrix) -> None:
    """Fill row g of ``nearest`` with the groups in ascending distance from g, then in ascending order."""
    ends = np.zeros(level_count + 1, np.int64)
    for h in range(levels.shape[0]):
        ends[int64(levels[g, h]) + 1] += 1
    for level in range(level_count):
        ends[level + 1] += ends[level]
    for h in range(levels.shape[0]):
        nearest[g, ends[levels[g, h]]] = h
        ends[levels[g, h]] += 1


@part
def measure_group(types: UnitTypes, distances: Int64Array, q: int, base: int, start: int, stop: int) -> None:
    """Fill ``distances`` with those from type q to the types of a group; ``base``: the pivot's contribution."""
    size = stop - start
    for i in range(size):
        distances[i] = base
    for j in range(types.table_starts.size):
        if j != types.pivot:
            row = table_row(types, j, types.first_values[j, q])
            for i in range(size):
                distances[i] += types.distances[row + np.uint64(types.first_values[j, start + i])]
    if types.has_later_values:
        for i in range(size):
            distances[i] += later_values_distance(types, q, start + i)


@part
def collect_nearest(
    types: UnitTypes, order: GroupOrder, scratch: SearchScratch, q: int, k: int
) -> tuple[int, int, int]:
    """Write a superset of the types of the k units nearest to a unit of type q to ``scratch``.

    Return the number of these types, the bucket that contains the k-th unit, and the number of units in the buckets
    before.
    """
    g = types.first_values[types.pivot, q]
    found = 0
    highest = int64(0)
    last = int64(DISTANCE_BUCKETS - 1)
    total = int64(0)
    for at in range(order.computed.size):
        h = order.nearest[g, at]
        base = types.level_units[types.pivot_levels[g, h]]
        if base >> types.bucket_shift > last:
            break
        start = types.group_starts[h]
        size = types.group_starts[h + 1] - start
        measure_group(types, scratch.distances[found : found + size], q, base, start, start + size)
        kept = found
        for i in range(found, found + size):
            distance = scratch.distances[i]
            bucket = distance >> types.bucket_shift
            if bucket <= last:
                b = start + i - found
                weight = types.counts[b] - (b == q)
                scratch.types[kept] = b
                scratch.distances[kept] = distance
                kept += 1
                scratch.bucket_counts[bucket] += weight
                total += weight
                highest = max(highest, bucket)
        found = kept
        if total >= k:
            last = min(last, highest)
        while total - scratch.bucket_counts[last] >= k:
            total -= scratch.bucket_counts[last]
            last -= 1
    inside = total - scratch.bucket_counts[last]
    for c in range(found):
        scratch.bucket_counts[scratch.distances[c] >> types.bucket_shift] = 0
    return found, last, inside


@part
def nearest_units(types: UnitTypes, order: GroupOrder, scratch: SearchScratch, q: int, k: int) -> NearestUnits:
    """Write the types of the k units nearest to a unit of type q to ``scratch``.

    All types as far away as the last of these units are included.
    """
    found, last, inside = collect_nearest(types, order, scratch, q, k)
    bound = int64(-1)
    reached = inside
    while reached < k:
        inside = reached
        above = int64(1) << 62
        for c in range(found):
            if bound < scratch.distances[c] < above and scratch.distances[c] >> types.bucket_shift == last:
                above = scratch.distances[c]
        bound = above
        for c in range(found):
            if scratch.distances[c] == bound:
                reached += types.counts[scratch.types[c]] - (scratch.types[c] == q)
    nearer_end = move_to_front(scratch, 0, found, bound - 1)
    end = move_to_front(scratch, nearer_end, found, bound)
    return NearestUnits(nearer_end, end, k - inside)


@inlined
def move_to_front(scratch: SearchScratch, start: int, found: int, limit: int) -> int:
    """Move the types from ``start`` on whose distance is at most ``limit`` to the front, and return where they end."""
    end = start
    for c in range(start, found):
        if scratch.distances[c] <= limit:
            unit_type = scratch.types[c]
            distance = scratch.distances[c]
            scratch.types[c] = scratch.types[end]
            scratch.distances[c] = scratch.distances[end]
            scratch.types[end] = unit_type
            scratch.distances[end] = distance
            end += 1
    return end


@part
def farthest_unit(
    types: UnitTypes, units: Units, state: SwapState, distances: Int64Array, q: int, word: np.uint64
) -> int:
    """Return the pending unit that is farthest from type q; −1 if there is none.

    Among several, one is drawn uniformly.
    """
    size = state.active_count[0]
    row = table_row(types, 0, types.first_values[0, q])
    for i in range(size):
        distances[i] = types.distances[row + np.uint64(state.active_first_values[0, i])]
    for j in range(1, types.table_starts.size):
        row = table_row(types, j, types.first_values[j, q])
        for i in range(size):
            distances[i] += types.distances[row + np.uint64(state.active_first_values[j, i])]
    if types.has_later_values:
        for i in range(size):
            distances[i] += later_values_distance(types, q, state.active_types[i])
    best = int64(-1)
    for i in range(size):
        best = max(best, distances[i])
    total = int64(0)
    for i in range(size):
        if distances[i] == best:
            total += state.pending_counts[state.active_types[i]]
    remaining = draw_below(word, total)
    for i in range(size):
        if distances[i] == best:
            b = state.active_types[i]
            if remaining < state.pending_counts[b]:
                return state.pending[units.type_starts[b] + remaining]
            remaining -= state.pending_counts[b]
    return -1
