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


REACH = 9.0
"""Standard deviations beyond which normal noise is neglected."""

MAX_PIECES = 6
"""The most pieces of the probability of a mask as a function of ε."""

EQUAL, EVERY = 2, 3
"""Sides of classes: as far from the reference as the value; all. Side 0 is nearer and 1 is farther than the value."""


class Situations(NamedTuple):
    """S values beside their references, and what each may become.

    * ``rows``: (k, c) levels of classes from anchors. ``compact``: the index of each level in ``grid``.
    * ``grid``: (L,) float64, the distances that occur, ascending; the first is 0.
    * ``totals``: (c,) float64, the weight of each class.
    * ``values``, ``references``: (S,) int32, rows; a reference of -1 is none. ``classes``: (S,) those of the values.
    * ``stays``: (S,) whether the value itself is a candidate.
    * ``weights``: (S, 2, L) float64, for ε < 0 and ε > 0 the weight of the candidates that are drawn at each distance.
    * ``sides``: (S, 2, L) uint8, the side of these candidates.
    """

    rows: NDArray[Any]
    compact: Int32Array
    grid: Float64Array
    totals: Float64Array
    values: Int32Array
    references: Int32Array
    classes: Int32Array
    stays: BoolArray
    weights: Float64Cube
    sides: UInt8Cube


class Pieces(NamedTuple):
    """The probability of a mask as a function of ε: pieces on which it is c0 + c2·ε².

    * ``bounds``: (``MAX_PIECES``, 3) int64: sign, and the grid indices between which |ε| lies; L stands for infinity.
    * ``factors``: (``MAX_PIECES``, 2) float64: c0 and c2.
    """

    bounds: Int64Matrix
    factors: NDArray[Any]


@inlined
def put_piece(pieces: Pieces, size: int, sign: int, low: int, high: int, c0: float, c2: float) -> int:
    """Add a piece, and return the number of pieces."""
    pieces.bounds[size, 0], pieces.bounds[size, 1], pieces.bounds[size, 2] = sign, low, high
    pieces.factors[size, 0], pieces.factors[size, 1] = c0, c2
    return size + 1


@inlined
def is_drawn(given: Situations, s: int, sign: int, j: int, level: int) -> bool:
    """Return whether class j, at a level from the value, is among the candidates that are drawn there."""
    if given.totals[j] <= 0.0 or given.weights[s, sign, level] <= 0.0:
        return False
    side = int64(given.sides[s, sign, level])
    if side == EVERY:
        return True
    beside = given.rows[given.references[s], j]
    own = given.rows[given.references[s], given.classes[s]]
    return side == (int64(EQUAL) if beside == own else int64(beside > own))


@inlined
def find_pieces(given: Situations, s: int, j: int, calibrated: bool, pieces: Pieces) -> int:
    """Fill the pieces of P(class j | situation s, ε), and return their number."""
    level, size = int64(given.compact[given.rows[given.values[s], j]]), int64(0)
    end, at = int64(given.grid.size), given.grid[level] ** 2
    for sign in range(2):
        if level > 0 and not is_drawn(given, s, sign, j, level):
            continue
        share = given.totals[j] / given.weights[s, sign, level] if level > 0 else 1.0
        low, high = level - 1, level + 1
        while low > 0 and given.weights[s, sign, low] <= 0.0:
            low -= 1
        while high < end and given.weights[s, sign, high] <= 0.0:
            high += 1
        if level > 0:
            if calibrated and (low > 0 or given.stays[s]):
                below = given.grid[low] ** 2
                width = at - below
                size = put_piece(pieces, size, sign, low, level, -share * below / width, share / width)
            else:
                size = put_piece(pieces, size, sign, low, level, share, 0.0)
        if high == end:
            size = put_piece(pieces, size, sign, level, high, share, 0.0)
        elif calibrated and (level > 0 or given.stays[s]):
            above = given.grid[high] ** 2
            size = put_piece(pieces, size, sign, level, high, share * above / (above - at), -share / (above - at))
    return size


@kernel
def pair_likelihoods(
    first: Situations,
    which_first: Int64Array,
    j: int,
    second: Situations,
    which_second: Int64Array,
    k: int,
    moments: Float64Array4D,
    calibrated: bool,
) -> Float64Array:
    """Return (t,) float64: the probability that t pairs of situations become classes j and k.

    ``moments``: those of both noises over rectangles of distances, as ``add_normal_moments`` adds them up.
    """
    result = np.zeros(which_first.size)
    one = Pieces(np.zeros((MAX_PIECES, 3), np.int64), np.zeros((MAX_PIECES, 2)))
    other = Pieces(np.zeros((MAX_PIECES, 3), np.int64), np.zeros((MAX_PIECES, 2)))
    for t in range(result.size):
        size = find_pieces(first, which_first[t], j, calibrated, one)
        if size == 0:
            continue
        for b in range(find_pieces(second, which_second[t], k, calibrated, other)):
            left, right = other.bounds[b, 1], other.bounds[b, 2]
            for a in range(size):
                low, high = one.bounds[a, 1], one.bounds[a, 2]
                table = moments[0 if one.bounds[a, 0] == other.bounds[b, 0] else 1]
                for m in range(4):
                    factor = one.factors[a, m % 2] * other.factors[b, m // 2]
                    if factor != 0.0:
                        upper = table[m, high, right] - table[m, low, right]
                        result[t] += factor * (upper - table[m, high, left] + table[m, low, left])
        result[t] = max(result[t], 0.0)
    return result


@inlined
def normal_below(z: float) -> float:
    """Return P(Z ≤ z) of a standard normal variate."""
    return 0.5 * math.erfc(-z * math.sqrt(0.5))


@inlined
def normal_density(z: float) -> float:
    """Return the density of a standard normal variate."""
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


@inlined
def add_node(x: float, mass: float, v: Float64Array, rho: float, second: float, i: int, cells: Float64Array4D) -> None:
    """Add one node x > 0 of the first noise, in its standard deviations, with its weight, to the cells of level i."""
    spread = math.sqrt(1.0 - rho * rho) * second
    for opposite in range(2):
        center = (-rho if opposite else rho) * x * second
        low, density = normal_below(-center / spread), normal_density(-center / spread)
        for j in range(v.size + 1):
            z = (v[j] - center) / spread if j < v.size else np.inf
            chance = (normal_below(z) if j < v.size else 1.0) - low
            edge = (center + v[j]) * normal_density(z) if j < v.size else 0.0
            square = (center * center + spread * spread) * chance + spread * (center * density - edge)
            cells[opposite, 0, i, j] += mass * chance
            cells[opposite, 1, i, j] += mass * x * x * chance
            cells[opposite, 2, i, j] += mass * square
            cells[opposite, 3, i, j] += mass * x * x * square


@kernel
def add_normal_moments(
    u: Float64Array,
    v: Float64Array,
    first: float,
    second: float,
    rho: float,
    weight: float,
    nodes: Float64Array,
    weights: Float64Array,
    result: Float64Array4D,
) -> None:
    """Add ``weight`` times the moments of a normal pair of correlation ρ to ``result`` (``NoisePair.moments``).

    Given the first noise, the second one is normal, and its part has a closed form. The first one is integrated with
    Gauss–Legendre ``nodes`` and ``weights`` on (0, 1), in steps that are short against the deviation of the second.

    ``u``, ``v``: ascending distances. ``first``, ``second``: the standard deviations.
    """
    cells = np.zeros(result.shape)
    step = min(max(2.0 * math.sqrt(1.0 - rho * rho) / max(abs(rho), 0.1), 0.002), 1.0)
    for i in range(u.size):
        low = min(u[i] / first, REACH)
        high = min(u[i + 1] / first, REACH) if i + 1 < u.size else REACH
        pieces = int64(math.ceil((high - low) / step))
        for k in range(pieces):
            width = (high - low) / pieces
            for node in range(nodes.size):
                x = low + width * (k + nodes[node])
                add_node(x, width * weights[node] * normal_density(x), v, rho, second, i + 1, cells)
    for opposite in range(2):
        for m in range(4):
            factor = weight * (first * first if m % 2 == 1 else 1.0)
            for j in range(v.size + 1):
                total = 0.0
                for i in range(u.size + 1):
                    total += cells[opposite, m, i, j]
                    result[opposite, m, i, j] += factor * total
