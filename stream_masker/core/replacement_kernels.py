"""The compiled functions of replacements and of the risk of semantic noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import (
    BoolArray,
    Float64Array,
    Int32Array,
    Int32Matrix,
    Int64Array,
    Int64Matrix,
    UInt8Array,
    UInt64Array,
)
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.random.draws import index_below, mixed_word, uniform

TRUNCATED = 1
SIGN_DROPPED = 2

STRIDE = 32
"""Places between two entries of ``Orders.sums``."""

SCANNED = 16
"""The share of a row, one in ``SCANNED``, that is visited in order before the whole row is searched in one pass."""

NO_LEVEL = np.int32(1 << 30)
"""A level beyond all others."""

ATTEMPTS = 2
"""Draws from a whole level before a pass over its admissible classes. Both give the same law."""


class Orders(NamedTuple):
    """Candidate classes as k concepts see them, nearest first.

    * ``rows``: (k, c) the level of every class of the table.
    * ``order``: (k, n) the candidate classes by level, those of one level by their first candidate.
    * ``starts``: (k, L + 1) int32, the first place in ``order`` of each level; n at the end.
    * ``sums``: (k, n // STRIDE + 1) int64, the weight of all places before each ``STRIDE``-th.
    """

    rows: NDArray[Any]
    order: NDArray[Any]
    starts: Int32Matrix
    sums: Int64Matrix


class ClassMembers(NamedTuple):
    """The candidates of each of c classes.

    * ``weights``: (c,) int64, the weight of a class in draws; 0 without candidates.
    * ``used``: (c,) bool, whether a class has candidates.
    * ``members``: int32 positions; those of class j are ``members[starts[j]:starts[j + 1]]``.
    """

    weights: Int64Array
    used: BoolArray
    starts: Int64Array
    members: Int32Array


class Sight(NamedTuple):
    """The sign condition of one value, as levels from its reference.

    * ``reference``: the row of the reference.
    * ``low``, ``high``: a class is admissible at the levels ``low`` … ``high - 1`` from the reference.
    * ``first``, ``end``: it is drawn, if the level that is taken has any, at the levels ``first`` … ``end - 1``.
    """

    reference: int
    low: int
    high: int
    first: int
    end: int


@inlined
def sight_of(reference: int, own: int, sign: int, weak: bool) -> Sight:
    """Return the condition of a value.

    * ``own``: the level of the value from the reference. ``sign``: 1 for farther, -1 for nearer, 0 for none.
    * ``weak``: whether classes as far from the reference as the value are admissible, too.
    """
    low = own + 1 if sign > 0 else int64(0)
    high = own if sign < 0 else int64(1 << 32)
    equal = int64(1) if weak and sign != 0 else int64(0)
    return Sight(reference, low - equal * int64(sign > 0), high + equal * int64(sign < 0), low, high)


@inlined
def is_admissible(orders: Orders, i: int, sight: Sight, place: int) -> bool:
    """Return whether the class at a place of row i is admissible."""
    level = int64(orders.rows[sight.reference, orders.order[i, place]])
    return sight.low <= level < sight.high


@inlined
def level_at(orders: Orders, i: int, place: int) -> int:
    """Return the level of the class at a place of row i."""
    return int64(orders.rows[i, orders.order[i, place]])


@inlined
def level_above(orders: Orders, classes: ClassMembers, i: int, sight: Sight, place: int) -> int:
    """Return the least level with an admissible class from a place on, or -1."""
    stop = min(place + orders.rows.shape[1] // SCANNED, int64(orders.order.shape[1]))
    for p in range(place, stop):
        if is_admissible(orders, i, sight, p):
            return level_at(orders, i, p)
    if stop == orders.order.shape[1]:
        return int64(-1)
    row, other = orders.rows[i], orders.rows[sight.reference]
    least, found = np.int32(level_at(orders, i, stop)), NO_LEVEL
    low, high = np.int32(sight.low), np.int32(min(sight.high, NO_LEVEL))
    for j in range(row.size):
        level, beside = np.int32(row[j]), np.int32(other[j])
        fits = (level >= least) & (beside >= low) & (beside < high) & classes.used[j]
        found = min(found, level if fits else NO_LEVEL)
    return int64(found) if found < NO_LEVEL else int64(-1)


@inlined
def level_below(orders: Orders, classes: ClassMembers, i: int, sight: Sight, place: int) -> int:
    """Return the greatest level above 0 with an admissible class before a place, or -1."""
    first = int64(orders.starts[i, 1])
    stop = max(place - orders.rows.shape[1] // SCANNED, first)
    for p in range(place - 1, stop - 1, -1):
        if is_admissible(orders, i, sight, p):
            return level_at(orders, i, p)
    if stop == first:
        return int64(-1)
    row, other = orders.rows[i], orders.rows[sight.reference]
    most, found = np.int32(level_at(orders, i, stop - 1)), np.int32(0)
    low, high = np.int32(sight.low), np.int32(min(sight.high, NO_LEVEL))
    for j in range(row.size):
        level, beside = np.int32(row[j]), np.int32(other[j])
        fits = (level <= most) & (beside >= low) & (beside < high) & classes.used[j]
        found = max(found, level if fits else np.int32(0))
    return int64(found) if found > 0 else int64(-1)


@inlined
def first_level_from(levels: Float64Array, target: float) -> int:
    """Return the first level at a distance of at least ``target``."""
    low, high = int64(0), int64(levels.size)
    while low < high:
        middle = (low + high) >> 1
        if levels[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def weight_before(orders: Orders, classes: ClassMembers, i: int, place: int) -> int:
    """Return the weight of all places before ``place``."""
    total = int64(orders.sums[i, place // STRIDE])
    for p in range(place // STRIDE * STRIDE, place):
        total += classes.weights[orders.order[i, p]]
    return total


@inlined
def member_of(classes: ClassMembers, j: int, rest: int) -> int:
    """Return the candidate of class j that a rest in 0 … weight - 1 selects."""
    size = classes.starts[j + 1] - classes.starts[j]
    return int64(classes.members[classes.starts[j] + rest % size])


@inlined
def member_by_weight(orders: Orders, classes: ClassMembers, i: int, weight: int) -> tuple[int, int]:
    """Return (place, candidate): where the sum of the weights in row i exceeds ``weight``."""
    low, high = int64(0), int64(orders.sums.shape[1] - 1)
    while low < high:
        middle = (low + high + 1) >> 1
        if orders.sums[i, middle] <= weight:
            low = middle
        else:
            high = middle - 1
    rest, place = weight - orders.sums[i, low], low * STRIDE
    while rest >= classes.weights[orders.order[i, place]]:
        rest -= classes.weights[orders.order[i, place]]
        place += 1
    return place, member_of(classes, int64(orders.order[i, place]), rest)


@inlined
def draw_candidate(orders: Orders, classes: ClassMembers, i: int, sight: Sight, level: int, tie: np.uint64) -> int:
    """Draw an admissible candidate of a level by weight: those that meet the strict condition, if there is one."""
    start, end = int64(orders.starts[i, level]), int64(orders.starts[i, level + 1])
    low, high = weight_before(orders, classes, i, start), weight_before(orders, classes, i, end)
    for _ in range(ATTEMPTS):
        place, candidate = member_by_weight(orders, classes, i, low + index_below(tie, high - low))
        if sight.first <= int64(orders.rows[sight.reference, orders.order[i, place]]) < sight.end:
            return candidate
        tie = mixed_word(tie)
    preferred, other = int64(0), int64(0)
    for p in range(start, end):
        j = int64(orders.order[i, p])
        beside = int64(orders.rows[sight.reference, j])
        preferred += classes.weights[j] if sight.first <= beside < sight.end else int64(0)
        other += classes.weights[j] if sight.low <= beside < sight.high else int64(0)
    first, last = (sight.first, sight.end) if preferred > 0 else (sight.low, sight.high)
    rest = index_below(tie, preferred if preferred > 0 else other)
    for p in range(start, end):
        j = int64(orders.order[i, p])
        if first <= int64(orders.rows[sight.reference, j]) < last:
            if rest < classes.weights[j]:
                return member_of(classes, j, rest)
            rest -= classes.weights[j]
    return int64(-1)


@inlined
def choose_distance(
    target: float, below: float, above: float, stays: bool, calibrated: bool, word: np.uint64
) -> tuple[float, int]:
    """Return (distance, flags) of the level to take; distance 0 keeps the value.

    ``below``: the greatest admissible distance < target, or -1. ``above``: the least one ≥ target, or inf. ``stays``:
    whether the value itself is a candidate.
    """
    if above == np.inf:
        return max(below, 0.0), TRUNCATED
    if not calibrated or (below < 0.0 and not stays):
        return above, 0
    lo = max(below, 0.0)
    chance = (target * target - lo * lo) / (above * above - lo * lo)
    return (above if uniform(word) < chance else lo), 0


@kernel
def replace_values(
    orders: Orders,
    classes: ClassMembers,
    levels: Float64Array,
    class_of: Int32Array,
    is_candidate: BoolArray,
    calibrated: bool,
    weak: bool,
    indices: Int32Array,
    reference_indices: Int32Array,
    codes: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array]:
    """Return the masks, distances and flags of k values.

    * ``indices``, ``reference_indices``: (k,) rows of the values and of their references, -1 for none.
    * ``codes``: (k,) positions. ``noise``: (k,) ε. ``rounding``, ``ties``: (k,) random words.
    """
    masks, distances, flags = codes.copy(), np.zeros(codes.size), np.zeros(codes.size, np.uint8)
    for k in range(codes.size):
        if codes[k] < 0 or noise[k] == 0.0:
            continue
        i, target, sign = int64(indices[k]), abs(noise[k]), int64(1) if noise[k] > 0.0 else int64(-1)
        r = int64(reference_indices[k])
        if r < 0 or r == i:
            r, sign = i, int64(0)
        split = int64(orders.starts[i, first_level_from(levels, target)])
        sight, dropped = sight_of(r, int64(orders.rows[r, class_of[codes[k]]]), sign, weak), 0
        above = level_above(orders, classes, i, sight, split)
        below = level_below(orders, classes, i, sight, split) if calibrated or above < 0 else int64(-1)
        if above < 0 and below < 0:
            sight, dropped = sight_of(r, int64(0), int64(0), False), SIGN_DROPPED
            above = level_above(orders, classes, i, sight, split)
            below = level_below(orders, classes, i, sight, split)
        hi = levels[above] if above >= 0 else np.inf
        lo = levels[below] if below >= 0 else -1.0
        distance, flag = choose_distance(target, lo, hi, is_candidate[codes[k]], calibrated, rounding[k])
        distances[k], flags[k] = distance, flag | (dropped if hi < np.inf or lo > 0.0 else 0)
        if distance > 0.0:
            level = above if distance == hi else below
            masks[k] = draw_candidate(orders, classes, i, sight, level, ties[k])
    return masks, distances, flags
