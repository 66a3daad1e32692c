"""Rows: the candidates around one concept, by distance, and their levels as sets of bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Array,
    UInt64Matrix,
)
from stream_masker.core.kernels.jit import int64, kernel

SET_WORD_BITS = 64
"""Candidates in one word of a set."""

OWN = -1.0
"""The distance by which the own concept of a row comes before all others."""


class ObservedRows(NamedTuple):
    """The rows as kernels read them, for m candidates, and w words of 64 bits.

    row_of, index_of: of each position of the taxonomy: its row, and its index among the candidates; or -1.
    order: (rows, m) the candidates by distance, nearest first; the row's own concept, if it is one, before all others.
    cumulative: (rows, m + 1) the sums of the weights of the first k candidates in this order.
    first_level: (rows + 1,) the first level of each row; its levels end where those of the next row begin.
    """

    row_of: Int32Array
    index_of: Int32Array
    positions: Int32Array
    weights: Int64Array
    order: Int32Matrix
    cumulative: Int32Matrix
    first_level: Int64Array


class ObservedLevels(NamedTuple):
    """The levels of all rows.

    distances: (levels,) ascending within a row. starts: (levels,) the index of the first candidate in ``order``.
    members: (levels, w) the candidates of a level. beyond: (levels, w) those of the level and of the later ones.
    """

    distances: Float64Array
    starts: Int64Array
    members: UInt64Matrix
    beyond: UInt64Matrix


@kernel
def make_levels(
    distances: Float64Matrix, order: Int32Matrix
) -> tuple[Int64Array, Float64Array, Int64Array, UInt64Matrix, UInt64Matrix]:
    """Return the levels of k rows: (ends, distances, starts, members, beyond), as in ``ObservedLevels``.

    distances, order: (k, m) the candidates of each row, nearest first. ends: (k,) the levels of the rows up to each.
    """
    k, m = distances.shape
    ends = np.zeros(k, np.int64)
    total = int64(0)
    for row in range(k):
        for i in range(m):
            if i == 0 or distances[row, i] != distances[row, i - 1]:
                total += 1
        ends[row] = total
    words = (m + SET_WORD_BITS - 1) // SET_WORD_BITS
    levels, starts = np.empty(total), np.empty(total, np.int64)
    members, beyond = np.zeros((total, words), np.uint64), np.zeros((total, words), np.uint64)
    at = int64(-1)
    for row in range(k):
        for i in range(m):
            if i == 0 or distances[row, i] != distances[row, i - 1]:
                at += 1
                levels[at] = max(distances[row, i], 0.0)
                starts[at] = i
            c = order[row, i]
            members[at, c // SET_WORD_BITS] |= np.uint64(1) << np.uint64(c % SET_WORD_BITS)
        for word in range(words):
            bits = np.uint64(0)
            for level in range(at, ends[row - 1] - 1 if row > 0 else -1, -1):
                bits |= members[level, word]
                beyond[level, word] = bits
    return ends, levels, starts, members, beyond
