"""Kernels for the probabilities of semantic noise: what each value becomes, beside each reference, at each noise.

A *situation* is a value a with a reference r, or without one. The candidates are K classes of concepts
(``core.risk.classes``), and L distinct distances are *levels*, ascending; level 0 is distance 0, the value itself. In
a situation, each sign of ε has a list of levels with admissible candidates (``core.replacement.rule``). Noise of this
sign chooses a level by |ε| alone, and a class by its share of the level's weight. Sign 0 is ε < 0, sign 1 is ε > 0.

The *side* of a class beside the reference is the sign whose strict condition it meets, or ``EQUAL``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    Float64Array,
    Float64Cube,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Matrix,
    UInt8Cube,
)
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.replacement.rule import NO_REFERENCE

EQUAL = 2
"""The side of classes that are as far from the reference as the value is."""

EVERY = 3
"""All sides, where no candidate is admissible or the value has no reference."""


class Surroundings(NamedTuple):
    """The classes around each of k anchors: the observed values and references of one attribute.

    * ``distances``: (k, K) float64. ``levels``: (k, K) int32, their indices among the L levels.
    * ``totals``: (K,) float64, the weight of each class as a candidate. Class i is anchor i itself for i < k.
    * ``grid``: (L,) float64, the distance of each level; ``grid[0]`` is 0.
    """

    distances: Float64Matrix
    levels: Int32Matrix
    totals: Float64Array
    grid: Float64Array


class SituationTable(NamedTuple):
    """S situations.

    * ``anchors``: (S,) int32, the anchor of each value. ``references``: (S,) int32, or ``NO_REFERENCE``.
    * ``weights``: (S, 2, L) float64, by sign and level the weight of the candidates that are drawn; 0 if none is.
    * ``sides``: (S, 2, L) uint8, their side: the sign itself, ``EQUAL`` or ``EVERY``.
    """

    anchors: Int32Array
    references: Int32Array
    weights: Float64Cube
    sides: UInt8Cube


@part
def is_drawn(around: Surroundings, table: SituationTable, s: int, sign: int, k: int) -> bool:
    """Return whether class k is among the candidates that are drawn on its level in situation s for a sign."""
    a = table.anchors[s]
    if around.totals[k] <= 0.0 or k == a:
        return False
    side = table.sides[s, sign, around.levels[a, k]]
    if side == EVERY:
        return True
    r = table.references[s]
    return bool(side_of(around, r, around.distances[r, a], k) == side)


@part
def side_of(around: Surroundings, r: int, value_distance: float, k: int) -> int:
    """Return the side of class k beside reference r.

    ``value_distance``: the distance of the value from r.
    """
    other = around.distances[r, k]
    return int64(other > value_distance) + EQUAL * int64(other == value_distance)


@kernel
def fill_situations(around: Surroundings, table: SituationTable, weak: bool) -> None:
    """Fill ``weights`` and ``sides`` from ``anchors`` and ``references``.

    ``weak``: whether candidates as far from the reference as the value are admissible where no other candidate of the
    level is.
    """
    sums = np.zeros((3, around.grid.size))
    for s in range(table.anchors.size):
        a, r = table.anchors[s], table.references[s]
        sums[:] = 0.0
        if r != NO_REFERENCE:
            value_distance = around.distances[r, a]
            for k in range(around.totals.size):
                if k != a:
                    sums[side_of(around, r, value_distance, k), around.levels[a, k]] += around.totals[k]
        for sign in range(2):
            if r != NO_REFERENCE and ((sums[sign] > 0.0).any() or (weak and (sums[EQUAL] > 0.0).any())):
                for level in range(around.grid.size):
                    side = EQUAL if weak and sums[sign, level] <= 0.0 else sign
                    table.sides[s, sign, level] = side
                    table.weights[s, sign, level] = sums[side, level]
                continue
            table.sides[s, sign] = EVERY
            for k in range(around.totals.size):
                if k != a:
                    table.weights[s, sign, around.levels[a, k]] += around.totals[k]


@kernel
def level_chances(
    around: Surroundings,
    table: SituationTable,
    below: Float64Array,
    square_below: Float64Array,
    calibrated: bool,
    chances: Float64Cube,
) -> None:
    """Fill ``chances``, (S, 2, L): the probability of each sign and level; level 0 keeps the value.

    ``below``, ``square_below``: (L,) P(|ε| ≤ x) and E[ε²; |ε| ≤ x] of each level.
    """
    grid = around.grid
    for s in range(table.anchors.size):
        stays = around.totals[table.anchors[s]] > 0.0
        for sign in range(2):
            lo = 0
            for hi in range(1, grid.size):
                if table.weights[s, sign, hi] > 0.0:
                    mass = 0.5 * (below[hi] - below[lo])
                    up = mass
                    if calibrated and (lo > 0 or stays):
                        lo2, hi2 = grid[lo] * grid[lo], grid[hi] * grid[hi]
                        square = 0.5 * (square_below[hi] - square_below[lo])
                        up = min(max((square - lo2 * mass) / (hi2 - lo2), 0.0), mass)
                    chances[s, sign, hi] += up
                    chances[s, sign, lo] += mass - up
                    lo = hi
            chances[s, sign, lo] += 0.5 * (1.0 - below[lo])


@kernel
def add_rows(
    around: Surroundings,
    table: SituationTable,
    chances: Float64Cube,
    targets: Int32Array,
    shares: Float64Array,
    rows: Float64Matrix,
) -> None:
    """Add to row ``targets[s]`` of the (n, K) ``rows`` the probabilities of situation s, times ``shares[s]``."""
    factors = np.zeros((3, around.grid.size))
    for s in range(targets.size):
        a, r, row = table.anchors[s], table.references[s], rows[targets[s]]
        fill_factors(table, chances, s, shares[s], factors)
        row[a] += shares[s] * (chances[s, 0, 0] + chances[s, 1, 0])
        r = a if r == NO_REFERENCE else r
        value_distance = around.distances[r, a]
        for k in range(around.totals.size):
            row[k] += factors[side_of(around, r, value_distance, k), around.levels[a, k]] * around.totals[k]


@part
def fill_factors(table: SituationTable, chances: Float64Cube, s: int, share: float, factors: Float64Matrix) -> None:
    """Fill ``factors``, (3, L): the probability of a class per unit of its weight, by ``side_of`` and level."""
    factors[:] = 0.0
    for sign in range(2):
        for level in range(1, factors.shape[1]):
            weight = table.weights[s, sign, level]
            if weight > 0.0:
                factor = share * chances[s, sign, level] / weight
                if table.sides[s, sign, level] == EVERY:
                    for side in range(3):
                        factors[side, level] += factor
                else:
                    factors[int64(table.sides[s, sign, level]), level] += factor


class Pieces(NamedTuple):
    """The probability of a masked value as a function of ε: up to 6 pieces, on each of which it is c0 + c2·ε².

    * ``bounds``: (6, 3) int64: sign, and the levels between which |ε| lies; L stands for infinity.
    * ``factors``: (6, 2) float64; c0 and c2.
    """

    bounds: Int64Matrix
    factors: Float64Matrix

    @classmethod
    def empty(cls) -> Pieces:
        """Return pieces to be filled."""
        return cls(np.zeros((6, 3), np.int64), np.zeros((6, 2)))


@part
def _put(pieces: Pieces, size: int, sign: int, lo: int, hi: int, c0: float, c2: float) -> int:
    pieces.bounds[size, 0], pieces.bounds[size, 1], pieces.bounds[size, 2] = sign, lo, hi
    pieces.factors[size, 0], pieces.factors[size, 1] = c0, c2
    return size + 1


@part
def find_pieces(around: Surroundings, table: SituationTable, s: int, k: int, calibrated: bool, pieces: Pieces) -> int:
    """Fill the pieces of P(class k | situation s, ε), and return their number."""
    a = table.anchors[s]
    grid = around.grid
    stays = around.totals[a] > 0.0
    size = 0
    for sign in range(2):
        if k != a and not is_drawn(around, table, s, sign, k):
            continue
        level = 0 if k == a else int64(around.levels[a, k])
        weight = 1.0 if k == a else around.totals[k] / table.weights[s, sign, level]
        lo = level - 1
        while lo > 0 and table.weights[s, sign, lo] <= 0.0:
            lo -= 1
        hi = level + 1
        while hi < grid.size and table.weights[s, sign, hi] <= 0.0:
            hi += 1
        level2 = grid[level] * grid[level]
        if level > 0:
            if calibrated and (lo > 0 or stays):
                lo2 = grid[lo] * grid[lo]
                size = _put(pieces, size, sign, lo, level, -weight * lo2 / (level2 - lo2), weight / (level2 - lo2))
            else:
                size = _put(pieces, size, sign, lo, level, weight, 0.0)
        if hi == grid.size:
            size = _put(pieces, size, sign, level, hi, weight, 0.0)
        elif calibrated and (level > 0 or stays):
            hi2 = grid[hi] * grid[hi]
            size = _put(pieces, size, sign, level, hi, weight * hi2 / (hi2 - level2), -weight / (hi2 - level2))
    return size
