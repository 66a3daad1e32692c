"""The compiled functions of replacements and of the risk of semantic noise."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import (
    BoolArray,
    Float64Array,
    Float64Array4D,
    Float64Cube,
    Int32Array,
    Int32Matrix,
    Int64Array,
    Int64Matrix,
    UInt8Array,
    UInt8Cube,
    UInt64Array,
)
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.random.draws import index_below, mixed_word, uniform

TRUNCATED = 1
SIGN_DROPPED = 2

STRIDE = 32
"""Places between two entries of ``Orders.sums``."""

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
    * ``members``: int32 positions; those of class j are ``members[starts[j]:starts[j + 1]]``.
    """

    weights: Int64Array
    starts: Int64Array
    members: Int32Array


class Sight(NamedTuple):
    """How the sign condition is checked for one value.

    * ``reference``: the row of the reference. ``own``: the level of the value from it.
    * ``sign``: 1 for farther, -1 for nearer, 0 for no condition.
    * ``weak``: whether classes as far from the reference as the value are admissible, too.
    """

    reference: int
    own: int
    sign: int
    weak: bool


@inlined
def beyond(sight: Sight, level: int) -> bool:
    """Return whether a class at a level from the reference meets the strict sign condition."""
    if sight.sign == 0:
        return True
    return level > sight.own if sight.sign > 0 else level < sight.own


@inlined
def level_at(orders: Orders, i: int, place: int) -> int:
    """Return the level of the class at a place of row i."""
    return int64(orders.rows[i, orders.order[i, place]])


@inlined
def admissible_place(orders: Orders, i: int, sight: Sight, place: int, end: int, step: int) -> int:
    """Return the first place from ``place`` on, in steps of ±1, whose class is admissible; ``end`` if there is none."""
    while place != end:
        level = int64(orders.rows[sight.reference, orders.order[i, place]])
        if beyond(sight, level) or (sight.weak and level == sight.own):
            break
        place += step
    return place


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
        if beyond(sight, int64(orders.rows[sight.reference, orders.order[i, place]])):
            return candidate
        tie = mixed_word(tie)
    strict, equal = int64(0), int64(0)
    for p in range(start, end):
        j = int64(orders.order[i, p])
        other = int64(orders.rows[sight.reference, j])
        strict += classes.weights[j] if beyond(sight, other) else int64(0)
        equal += classes.weights[j] if other == sight.own else int64(0)
    rest = index_below(tie, strict if strict > 0 else equal)
    for p in range(start, end):
        j = int64(orders.order[i, p])
        other = int64(orders.rows[sight.reference, j])
        if beyond(sight, other) if strict > 0 else other == sight.own:
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
    n = int64(orders.order.shape[1])
    for k in range(codes.size):
        if codes[k] < 0 or noise[k] == 0.0:
            continue
        i, target, sign = int64(indices[k]), abs(noise[k]), int64(1) if noise[k] > 0.0 else int64(-1)
        r = int64(reference_indices[k])
        if r < 0 or r == i:
            r, sign = i, int64(0)
        sight = Sight(r, int64(orders.rows[r, class_of[codes[k]]]), sign, weak and sign != 0)
        first, split = int64(orders.starts[i, 1]), int64(orders.starts[i, first_level_from(levels, target)])
        above = admissible_place(orders, i, sight, split, n, int64(1))
        below = admissible_place(orders, i, sight, split - 1, first - 1, int64(-1))
        dropped = 0
        if above == n and below < first < n:
            sight, dropped = Sight(r, sight.own, int64(0), False), SIGN_DROPPED
            above, below = split, split - 1
        hi = levels[level_at(orders, i, above)] if above < n else np.inf
        lo = levels[level_at(orders, i, below)] if below >= first else -1.0
        distance, flag = choose_distance(target, lo, hi, is_candidate[codes[k]], calibrated, rounding[k])
        distances[k], flags[k] = distance, flag | dropped
        if distance > 0.0:
            place = above if distance == hi else below
            masks[k] = draw_candidate(orders, classes, i, sight, level_at(orders, i, place), ties[k])
    return masks, distances, flags
