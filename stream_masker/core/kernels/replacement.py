"""The compiled draw of replacements (``core.replacement``)."""

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


class Orders(NamedTuple):
    """Candidate classes as k concepts see them, nearest first.

    * ``rows``: (k, c) the level of every class of the table from each concept.
    * ``order``: (k, n) the candidate classes by level, those of one level by their first candidate.
    * ``starts``: (k, L + 1) int32, the first place in ``order`` of each level; n at the end.
    * ``sums``: (k, n // STRIDE + 1) int64, the weight of all places before each ``STRIDE``-th.
    """

    rows: IndexMatrix
    order: IndexMatrix
    starts: Int32Matrix
    sums: Int64Matrix


class ClassMembers(NamedTuple):
    """The candidates of each of c classes.

    * ``weights``: (c,) int64, the weight of a class in draws. ``used``: (c,) bool, whether it has candidates.
    * ``members``: int32 positions; those of class j are ``members[starts[j]:starts[j + 1]]``.
    """

    weights: Int64Array
    used: BoolArray
    starts: Int64Array
    members: Int32Array


class View(NamedTuple):
    """The classes around one value, with the levels that meet the condition of its sign.

    * ``row``: (c,) their levels from the value. ``beside``: (c,) from its reference.
    * ``order``, ``starts``, ``sums``: its rows of ``Orders``.
    * ``low``, ``high``: a class is admissible at the levels ``low`` … ``high - 1`` from the reference.
    * ``first``, ``end``: it is drawn, if the level that is taken has any, at the levels ``first`` … ``end - 1``.
    """

    row: IndexArray
    beside: IndexArray
    order: IndexArray
    starts: Int32Array
    sums: Int64Array
    low: int
    high: int
    first: int
    end: int


@inlined
def level_above(view: View, used: BoolArray, place: int) -> int:
    """Return the least level with an admissible class from a place of the order on, or -1."""
    stop = min(place + view.row.size // SCANNED, int64(view.order.size))
    for p in range(place, stop):
        if view.low <= int64(view.beside[view.order[p]]) < view.high:
            return int64(view.row[view.order[p]])
    if stop == view.order.size:
        return int64(-1)
    least, found, low, high = int32(view.row[view.order[stop]]), NO_LEVEL, int32(view.low), int32(view.high)
    for j in range(view.row.size):
        level, other = int32(view.row[j]), int32(view.beside[j])
        fits = (level >= least) & (other >= low) & (other < high) & used[j]
        found = min(found, level if fits else NO_LEVEL)
    return int64(found) if found < NO_LEVEL else int64(-1)


@inlined
def level_below(view: View, used: BoolArray, place: int) -> int:
    """Return the greatest level above 0 with an admissible class before a place of the order, or -1."""
    nearest = int64(view.starts[1])
    stop = max(place - view.row.size // SCANNED, nearest)
    for p in range(place - 1, stop - 1, -1):
        if view.low <= int64(view.beside[view.order[p]]) < view.high:
            return int64(view.row[view.order[p]])
    if stop <= nearest:
        return int64(-1)
    most, found, low, high = int32(view.row[view.order[stop - 1]]), int32(0), int32(view.low), int32(view.high)
    for j in range(view.row.size):
        level, other = int32(view.row[j]), int32(view.beside[j])
        fits = (level <= most) & (other >= low) & (other < high) & used[j]
        found = max(found, level if fits else int32(0))
    return int64(found) if found > 0 else int64(-1)


@inlined
def weight_before(view: View, weights: Int64Array, place: int) -> int:
    """Return the weight of all places of the order before one."""
    total = int64(view.sums[place // STRIDE])
    for p in range(place // STRIDE * STRIDE, place):
        total += weights[view.order[p]]
    return total


@inlined
def class_at(view: View, weights: Int64Array, weight: int) -> tuple[int, int]:
    """Return the class at which the sum of the weights in order exceeds ``weight``, and what is left of it there."""
    low = int64(np.searchsorted(view.sums, weight, side="right")) - 1
    rest, place = weight - view.sums[low], low * STRIDE
    while rest >= weights[view.order[place]]:
        rest -= weights[view.order[place]]
        place += 1
    return int64(view.order[place]), rest


@inlined
def draw_candidate(view: View, classes: ClassMembers, level: int, tie: np.uint64) -> int:
    """Draw an admissible candidate of a level by weight: those that are preferred, if there is one.

    The first draw is from the whole level; only if it is not preferred, the level is visited class by class.
    """
    weights, start, end = classes.weights, int64(view.starts[level]), int64(view.starts[level + 1])
    before = weight_before(view, weights, start)
    j, rest = class_at(view, weights, before + index_below(tie, weight_before(view, weights, end) - before))
    if not view.first <= int64(view.beside[j]) < view.end:
        preferred, admissible = int64(0), int64(0)
        for p in range(start, end):
            j = int64(view.order[p])
            other = int64(view.beside[j])
            preferred += weights[j] if view.first <= other < view.end else int64(0)
            admissible += weights[j] if view.low <= other < view.high else int64(0)
        low, high = (view.first, view.end) if preferred > 0 else (view.low, view.high)
        rest = index_below(mixed_word(tie), preferred if preferred > 0 else admissible)
        for p in range(start, end):
            j = int64(view.order[p])
            if low <= int64(view.beside[j]) < high:
                if rest < weights[j]:
                    break
                rest -= weights[j]
    size = classes.starts[j + 1] - classes.starts[j]
    return int64(classes.members[classes.starts[j] + rest % size])


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
) -> tuple[Int32Array, Float64Array, UInt8Array, Float64Array]:
    """Return the masks, distances and flags of n values, and the (6,) sums of ``Distortion``, in the order of its
    fields, over those that are present.

    * ``farthest``: (k,) the level of the farthest candidate from each concept of ``orders``.
    * ``weak``: whether classes as far from the reference as the value are admissible, too.
    * ``indices``, ``references``: (n,) the values and their references among the concepts of ``orders``; -1 for none.
    * ``own_levels``: (n,) the level of each value from its reference, or -1 for that of its class.
    * ``codes``: (n,) positions. ``noise``: (n,) ε. ``rounding``, ``ties``: (n,) random words.
    """
    masks, distances, flags, sums = codes.copy(), np.zeros(codes.size), np.zeros(codes.size, np.uint8), np.zeros(6)
    for k in range(codes.size):
        if codes[k] < 0:
            continue
        sums[0] += 1.0
        if noise[k] == 0.0:
            sums[5] += 1.0
            continue
        i, r, farther, nearer = int64(indices[k]), int64(references[k]), noise[k] > 0.0, noise[k] < 0.0
        if r < 0 or r == i:
            r, farther, nearer = i, False, False
        row, beside, target = orders.rows[i], orders.rows[r], abs(noise[k])
        own = int64(own_levels[k]) if own_levels[k] >= 0 else int64(beside[class_of[codes[k]]])
        first, end = own + 1 if farther else int64(0), own if nearer else int64(NO_LEVEL)
        low, high = first - int64(weak and farther), end + int64(weak and nearer)
        view = View(row, beside, orders.order[i], orders.starts[i], orders.sums[i], low, high, first, end)
        split, above, below = int64(view.starts[np.searchsorted(levels, target)]), int64(-1), int64(-1)
        if not (farther or nearer) or low <= farthest[r]:
            above = level_above(view, classes.used, split)
            if calibrated or above < 0:
                below = level_below(view, classes.used, split)
        if above < 0 and below < 0:
            free = int64(NO_LEVEL)
            view = View(row, beside, view.order, view.starts, view.sums, int64(0), free, int64(0), free)
            above, below = level_above(view, classes.used, split), level_below(view, classes.used, split)
            flags[k] = SIGN_DROPPED if above >= 0 or below >= 0 else 0
        hi = levels[above] if above >= 0 else np.inf
        lo = levels[below] if below >= 0 else -1.0
        distance, flag = choose_distance(target, lo, hi, is_candidate[codes[k]], calibrated, rounding[k])
        distances[k], flags[k] = distance, flags[k] | flag
        if distance > 0.0:
            masks[k] = draw_candidate(view, classes, above if distance == hi else below, ties[k])
        sums[1] += distance * distance
        sums[2] += target * target
        sums[3] += int64(flags[k] & TRUNCATED != 0)
        sums[4] += int64(flags[k] & SIGN_DROPPED != 0)
        sums[5] += int64(masks[k] == codes[k])
    return masks, distances, flags, sums
