"""The compiled functions of replacements and of the risk of semantic noise."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

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
from stream_masker.core.kernels.draws import index_below, mixed_word, uniform
from stream_masker.core.kernels.jit import inlined, int32, int64, kernel

IndexMatrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint8 | np.uint16 | np.uint32]]
IndexArray: TypeAlias = NDArray[np.uint8 | np.uint16 | np.uint32]

TRUNCATED = 1
SIGN_DROPPED = 2

STRIDE = 32
"""Places between two entries of ``Orders.sums``."""

SCANNED = 16
"""The share of a row, one in ``SCANNED``, that is visited in order before the whole row is searched in one pass."""

NO_LEVEL = int32(1 << 30)
"""A level beyond all others."""

ATTEMPTS = 2
"""Draws from a whole level before a pass over its admissible classes. Both give the same law."""


class Orders(NamedTuple):
    """Candidate classes as k + e concepts see them, nearest first: k anchors of a table, and e other concepts.

    * ``rows``: (k, c) the level of every class of the table from each anchor. ``others``: (e, c) from the others.
    * ``order``: (k + e, n) the candidate classes by level, those of one level by their first candidate.
    * ``starts``: (k + e, L + 1) int32, the first place in ``order`` of each level; n at the end.
    * ``sums``: (k + e, n // STRIDE + 1) int64, the weight of all places before each ``STRIDE``-th.
    """

    rows: IndexMatrix
    others: IndexMatrix
    order: IndexMatrix
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


class View(NamedTuple):
    """The classes around one value.

    * ``row``: (c,) their levels from the value. ``beside``: (c,) from its reference.
    * ``order``, ``starts``, ``sums``: its rows of ``Orders``.
    """

    row: IndexArray
    beside: IndexArray
    order: IndexArray
    starts: Int32Array
    sums: Int64Array


class Sides(NamedTuple):
    """The sign condition of one value, as levels from its reference.

    * ``low``, ``high``: a class is admissible at the levels ``low`` … ``high - 1`` from the reference.
    * ``first``, ``end``: it is drawn, if the level that is taken has any, at the levels ``first`` … ``end - 1``.
    """

    low: int
    high: int
    first: int
    end: int


@inlined
def sides_of(own: int, sign: int, weak: bool) -> Sides:
    """Return the condition of a value.

    * ``own``: the level of the value from the reference. ``sign``: 1 for farther, -1 for nearer, 0 for none.
    * ``weak``: whether classes as far from the reference as the value are admissible, too.
    """
    low = own + 1 if sign > 0 else int64(0)
    high = own if sign < 0 else int64(NO_LEVEL)
    equal = int64(1) if weak and sign != 0 else int64(0)
    return Sides(low - equal * int64(sign > 0), high + equal * int64(sign < 0), low, high)


@inlined
def level_above(view: View, classes: ClassMembers, sides: Sides, place: int) -> int:
    """Return the least level with an admissible class from a place on, or -1."""
    stop = min(place + view.row.size // SCANNED, int64(view.order.size))
    for p in range(place, stop):
        if sides.low <= int64(view.beside[view.order[p]]) < sides.high:
            return int64(view.row[view.order[p]])
    if stop == view.order.size:
        return int64(-1)
    least, found, low, high = int32(view.row[view.order[stop]]), NO_LEVEL, int32(sides.low), int32(sides.high)
    for j in range(view.row.size):
        level, other = int32(view.row[j]), int32(view.beside[j])
        fits = (level >= least) & (other >= low) & (other < high) & classes.used[j]
        found = min(found, level if fits else NO_LEVEL)
    return int64(found) if found < NO_LEVEL else int64(-1)


@inlined
def level_below(view: View, classes: ClassMembers, sides: Sides, place: int) -> int:
    """Return the greatest level above 0 with an admissible class before a place, or -1."""
    nearest = int64(view.starts[1])
    stop = max(place - view.row.size // SCANNED, nearest)
    for p in range(place - 1, stop - 1, -1):
        if sides.low <= int64(view.beside[view.order[p]]) < sides.high:
            return int64(view.row[view.order[p]])
    if stop <= nearest:
        return int64(-1)
    most, found, low, high = int32(view.row[view.order[stop - 1]]), int32(0), int32(sides.low), int32(sides.high)
    for j in range(view.row.size):
        level, other = int32(view.row[j]), int32(view.beside[j])
        fits = (level <= most) & (other >= low) & (other < high) & classes.used[j]
        found = max(found, level if fits else int32(0))
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
def weight_before(view: View, classes: ClassMembers, place: int) -> int:
    """Return the weight of all places before ``place``."""
    total = int64(view.sums[place // STRIDE])
    for p in range(place // STRIDE * STRIDE, place):
        total += classes.weights[view.order[p]]
    return total


@inlined
def member_of(classes: ClassMembers, j: int, rest: int) -> int:
    """Return the candidate of class j that a rest in 0 … weight - 1 selects."""
    size = classes.starts[j + 1] - classes.starts[j]
    return int64(classes.members[classes.starts[j] + rest % size])


@inlined
def class_by_weight(view: View, classes: ClassMembers, weight: int) -> tuple[int, int]:
    """Return (class, rest): the class at which the sum of the weights in order exceeds ``weight``, and by how much
    ``weight`` exceeds the sum before it."""
    low, high = int64(0), int64(view.sums.size - 1)
    while low < high:
        middle = (low + high + 1) >> 1
        if view.sums[middle] <= weight:
            low = middle
        else:
            high = middle - 1
    rest, place = weight - view.sums[low], low * STRIDE
    while rest >= classes.weights[view.order[place]]:
        rest -= classes.weights[view.order[place]]
        place += 1
    return int64(view.order[place]), rest


@inlined
def draw_candidate(view: View, classes: ClassMembers, sides: Sides, level: int, tie: np.uint64) -> int:
    """Draw an admissible candidate of a level by weight: those that are preferred, if there is one."""
    start, end = int64(view.starts[level]), int64(view.starts[level + 1])
    before = weight_before(view, classes, start)
    total = weight_before(view, classes, end) - before
    for _ in range(ATTEMPTS):
        j, rest = class_by_weight(view, classes, before + index_below(tie, total))
        if sides.first <= int64(view.beside[j]) < sides.end:
            return member_of(classes, j, rest)
        tie = mixed_word(tie)
    preferred, admissible = int64(0), int64(0)
    for p in range(start, end):
        j = int64(view.order[p])
        other = int64(view.beside[j])
        preferred += classes.weights[j] if sides.first <= other < sides.end else int64(0)
        admissible += classes.weights[j] if sides.low <= other < sides.high else int64(0)
    low, high = (sides.first, sides.end) if preferred > 0 else (sides.low, sides.high)
    rest = index_below(tie, preferred if preferred > 0 else admissible)
    for p in range(start, end):
        j = int64(view.order[p])
        if low <= int64(view.beside[j]) < high:
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
    farthest: Int64Array,
    class_of: Int32Array,
    is_candidate: BoolArray,
    calibrated: bool,
    weak: bool,
    indices: Int32Array,
    references: Int32Array,
    own_levels: Int32Array,
    codes: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array, tuple[int, float, float, int, int, int]]:
    """Return the masks, distances and flags of k values, and the sums of ``Distortion`` over those that are present.

    * ``farthest``: (k + e,) the level of the farthest candidate from each concept of ``orders``.
    * ``indices``, ``references``: (k,) the values and their references among the concepts of ``orders``; -1 for none.
    * ``own_levels``: (k,) the level of each value from its reference, or -1 for that of its class; (0,) if all are -1.
    * ``codes``: (k,) positions. ``noise``: (k,) ε. ``rounding``, ``ties``: (k,) random words.
    """
    masks, distances, flags = codes.copy(), np.zeros(codes.size), np.zeros(codes.size, np.uint8)
    present, squares, noises, truncated, unsigned, unchanged = int64(0), 0.0, 0.0, int64(0), int64(0), int64(0)
    for k in range(codes.size):
        if codes[k] < 0:
            continue
        present += 1
        if noise[k] == 0.0:
            unchanged += 1
            continue
        i, r, sign = int64(indices[k]), int64(references[k]), int64(1) if noise[k] > 0.0 else int64(-1)
        if r < 0 or r == i:
            r, sign = i, int64(0)
        row = orders.rows[i] if i < len(orders.rows) else orders.others[i - len(orders.rows)]
        beside = orders.rows[r] if r < len(orders.rows) else orders.others[r - len(orders.rows)]
        view, target = View(row, beside, orders.order[i], orders.starts[i], orders.sums[i]), abs(noise[k])
        own = int64(beside[class_of[codes[k]]])
        if own_levels.size and own_levels[k] >= 0:
            own = int64(own_levels[k])
        split = int64(view.starts[first_level_from(levels, target)])
        sides, above, below, dropped = sides_of(own, sign, weak), int64(-1), int64(-1), 0
        if sign == 0 or sides.low <= farthest[r]:
            above = level_above(view, classes, sides, split)
            if calibrated or above < 0:
                below = level_below(view, classes, sides, split)
        if above < 0 and below < 0:
            sides, dropped = sides_of(int64(0), int64(0), False), SIGN_DROPPED
            above, below = level_above(view, classes, sides, split), level_below(view, classes, sides, split)
        hi = levels[above] if above >= 0 else np.inf
        lo = levels[below] if below >= 0 else -1.0
        distance, flag = choose_distance(target, lo, hi, is_candidate[codes[k]], calibrated, rounding[k])
        distances[k], flags[k] = distance, flag | (dropped if above >= 0 or below >= 0 else 0)
        if distance > 0.0:
            level = above if distance == hi else below
            masks[k] = draw_candidate(view, classes, sides, level, ties[k])
        squares, noises = squares + distance * distance, noises + noise[k] * noise[k]
        truncated, unsigned = truncated + int64(flags[k] & TRUNCATED), unsigned + int64(flags[k] & SIGN_DROPPED != 0)
        unchanged += int64(masks[k] == codes[k])
    return masks, distances, flags, (present, squares, noises, truncated, unsigned, unchanged)
