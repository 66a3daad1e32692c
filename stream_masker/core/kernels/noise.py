"""The compiled functions of the probabilities of semantic noise (``core.mechanisms.noise.law``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    Float64Array,
    Float64Cube,
    Float64Matrix,
    Int32Array,
    Int32Cube,
    Int64Array,
    Int64Matrix,
    UInt8Cube,
)
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.kernels.replacement import IndexMatrix

EQUAL, EVERY = 2, 3
"""Sides of classes: as far from the reference as the value; all. Side 0 is nearer and 1 is farther than the value."""


class Situations(NamedTuple):
    """S values beside their references, and what each may become.

    The noise is in a cell: its sign, and the largest of L ascending distances, the first of which is 0, that |ε|
    exceeds. It leads to one of two distances.

    * ``rows``: (k, c) levels of classes from anchors. ``compact``: the index of each level among the distances.
    * ``grid``: (L,) float64, the distances.
    * ``totals``: (c,) float64, the weight of each class.
    * ``values``, ``references``: (S,) int32, rows; a reference of -1 is none. ``classes``: (S,) those of the values.
    * ``weights``: (S, 2, L) float64, for ε < 0 and ε > 0 the weight of the candidates that are drawn at each distance.
    * ``sides``: (S, 2, L) uint8, the side of these candidates.
    * ``high``, ``low``: (S, 2, L) int32, the distances to which a cell leads; low 0 keeps the value. ``up``: (S, 2, L)
      float64, the probability of the higher one.
    """

    rows: IndexMatrix
    compact: Int32Array
    grid: Float64Array
    totals: Float64Array
    values: Int32Array
    references: Int32Array
    classes: Int32Array
    weights: Float64Cube
    sides: UInt8Cube
    high: Int32Cube
    low: Int32Cube
    up: Float64Cube


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


@inlined
def fill_chances(given: Situations, s: int, j: int, chances: Float64Matrix, cells: Int64Matrix) -> None:
    """Fill (2, L) with P(class j | situation s, cell), at the cells where it can be positive.

    These cells of each sign are next to the distance of the class. ``cells``: (2, 2), the first one and the end.
    """
    level = int64(given.compact[given.rows[given.values[s], j]])
    r = given.references[s] if given.references[s] >= 0 else given.values[s]
    side = side_of(given.rows[r, j], given.rows[r, given.classes[s]])
    for sign in range(2):
        start, end, share = level, level, 1.0
        if level > 0:
            drawn = given.sides[s, sign, level]
            fits = given.totals[j] > 0.0 and given.weights[s, sign, level] > 0.0 and drawn in (side, EVERY)
            share = given.totals[j] / given.weights[s, sign, level] if fits else 0.0
        while share > 0.0 and start > 0 and given.high[s, sign, start - 1] == level:
            start -= 1
            chances[sign, start] = share * given.up[s, sign, start]
        while share > 0.0 and end < chances.shape[1] and given.low[s, sign, end] == level:
            chances[sign, end] = share * (1.0 - given.up[s, sign, end])
            end += 1
        cells[sign, 0], cells[sign, 1] = start, end


@kernel
def pair_likelihoods(
    first: Situations,
    which_first: Int64Array,
    classes_first: Int32Array,
    second: Situations,
    which_second: Int64Array,
    classes_second: Int32Array,
    cells: Float64Cube,
) -> Float64Matrix:
    """Return (n, t) float64: the probability that t pairs of situations become n pairs of classes.

    ``cells``: (2, L, M) the probabilities of the cells of both noises, of equal and of opposite signs.
    """
    result = np.zeros((classes_first.size, which_first.size))
    one, other = np.zeros((2, first.up.shape[2])), np.zeros((2, second.up.shape[2]))
    near, far = np.zeros((2, 2), np.int64), np.zeros((2, 2), np.int64)
    for t in range(which_first.size):
        for n in range(classes_first.size):
            j, k = classes_first[n], classes_second[n]
            if n == 0 or j != classes_first[n - 1]:
                fill_chances(first, which_first[t], j, one, near)
            if n == 0 or k != classes_second[n - 1]:
                fill_chances(second, which_second[t], k, other, far)
            for sign in range(2):
                for i in range(near[sign, 0], near[sign, 1]):
                    both = 0.0
                    for opposite in range(2):
                        drawn = sign ^ opposite
                        for m in range(far[drawn, 0], far[drawn, 1]):
                            both += cells[opposite, i, m] * other[drawn, m]
                    result[n, t] += one[sign, i] * both
    return result
