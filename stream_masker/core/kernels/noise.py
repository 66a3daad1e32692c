"""The compiled functions of the exact probabilities of semantic noise (``noise_law``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    BoolArray,
    Float64Array,
    Float64Array4D,
    Float64Cube,
    Float64Matrix,
    Int32Array,
    Int64Array,
    Int64Matrix,
    UInt8Cube,
)
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.kernels.replacement import IndexMatrix

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

    rows: IndexMatrix
    compact: Int32Array
    grid: Float64Array
    totals: Float64Array
    values: Int32Array
    references: Int32Array
    classes: Int32Array
    stays: BoolArray
    weights: Float64Cube
    sides: UInt8Cube


@inlined
def side_of(beside: int, own: int) -> int:
    """Return the side of a class at a level from the reference; ``own``: the level of the value from it."""
    return int64(EQUAL) if beside == own else int64(beside > own)


@kernel
def fill_situations(given: Situations, some: Int64Array, weak: bool) -> None:
    """Fill ``weights`` and ``sides``.

    * ``some``: the classes that have candidates.
    * ``weak``: whether candidates as far from the reference as the value are drawn where no other one is.
    """
    sums = np.zeros((3, given.grid.size))
    for s in range(given.values.size):
        i, own = given.values[s], given.classes[s]
        r = given.references[s] if given.references[s] >= 0 else i
        sums[:] = 0.0
        for j in some:
            level = given.compact[given.rows[i, j]]
            sums[side_of(given.rows[r, j], given.rows[r, own]), level] += given.totals[j]
        sums[:, 0] = 0.0
        for sign in range(2):
            signed = False
            for level in range(1, given.grid.size):
                side = int64(EQUAL) if weak and sums[sign, level] <= 0.0 else int64(sign)
                given.sides[s, sign, level], given.weights[s, sign, level] = side, sums[side, level]
                signed |= sums[side, level] > 0.0
            if given.references[s] < 0 or not signed:
                given.sides[s, sign] = EVERY
                for level in range(1, given.grid.size):
                    given.weights[s, sign, level] = sums[0, level] + sums[1, level] + sums[2, level]


@kernel
def add_transitions(
    given: Situations,
    chances: Float64Cube,
    shares: Float64Array,
    targets: Int64Array,
    some: Int64Array,
    rows: Float64Matrix,
) -> None:
    """Add the probabilities of each situation, times its share, to row ``targets[s]`` of (n, K) ``rows``.

    * ``chances``: (S, 2, L) the probability of each sign and distance; distance 0 keeps the value.
    * ``some``: (K,) the classes.
    """
    factors = np.zeros((3, given.grid.size))
    for s in range(given.values.size):
        i, own = given.values[s], given.classes[s]
        r = given.references[s] if given.references[s] >= 0 else i
        factors[:] = 0.0
        for sign in range(2):
            for level in range(1, given.grid.size):
                if given.weights[s, sign, level] > 0.0:
                    factor = shares[s] * chances[s, sign, level] / given.weights[s, sign, level]
                    for side in range(3):
                        if given.sides[s, sign, level] == side or given.sides[s, sign, level] == EVERY:
                            factors[side, level] += factor
        for k in range(some.size):
            j = some[k]
            level = given.compact[given.rows[i, j]]
            side = side_of(given.rows[r, j], given.rows[r, own])
            rows[targets[s], k] += factors[side, level] * given.totals[j]
            if j == own:
                rows[targets[s], k] += shares[s] * (chances[s, 0, 0] + chances[s, 1, 0])


class Pieces(NamedTuple):
    """The probability of a mask as a function of ε: pieces on which it is c0 + c2·ε².

    * ``bounds``: (``MAX_PIECES``, 3) int64: sign, and the grid indices between which |ε| lies; L stands for infinity.
    * ``factors``: (``MAX_PIECES``, 2) float64: c0 and c2.
    """

    bounds: Int64Matrix
    factors: Float64Matrix


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
    r = given.references[s]
    return side == side_of(given.rows[r, j], given.rows[r, given.classes[s]])


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
