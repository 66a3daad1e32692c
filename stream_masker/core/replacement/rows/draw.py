"""The choice of a level and the draw of one of its admissible candidates, for candidates with frequencies.

A candidate is drawn from the level by its frequency, and drawn again, up to ``ATTEMPTS`` times, if it does not meet the
sign condition; then one of the admissible candidates is drawn by a pass over them. Both give the same law.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Array,
    UInt8Array,
    UInt64Array,
    UInt64Matrix,
)
from stream_masker.core.kernels.bits import lowest_bit
from stream_masker.core.kernels.draws import index_below, mixed_word
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.replacement.rule import SIGN_DROPPED, Choice, RandomWords, choose_level

SET_WORD_BITS = 64
"""Candidates in one word of a set."""

OWN = -1.0
"""The distance by which the own concept of a row comes before all others."""


class CandidateRows(NamedTuple):
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


class CandidateLevels(NamedTuple):
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
    """Return the levels of k rows: (ends, distances, starts, members, beyond), as in ``CandidateLevels``.

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


ATTEMPTS = 2
"""Draws from a whole level before a pass over its admissible candidates."""


class SignSet(NamedTuple):
    """The candidates that meet the sign condition: those ``beyond`` a level, their complement, all, or none."""

    kind: int
    level: int


ALL, BEYOND, BEFORE, NONE = range(4)
"""Kinds of a ``SignSet``."""


@inlined
def sign_word(levels: CandidateLevels, signs: SignSet, word: int) -> np.uint64:
    """One word of the bits of the candidates that meet the sign condition."""
    bits = ~np.uint64(0)
    if signs.kind == BEYOND:
        bits = levels.beyond[signs.level, word]
    elif signs.kind == BEFORE:
        bits = ~levels.beyond[signs.level, word]
    return bits


@part
def has_admissible(levels: CandidateLevels, signs: SignSet, level: int) -> bool:
    """Return whether a level has a candidate that meets the sign condition."""
    if signs.kind == NONE:
        return False
    for word in range(levels.members.shape[1]):  # noqa: SIM110 - kernels have no any()
        if levels.members[level, word] & sign_word(levels, signs, word):
            return True
    return False


@part
def first_level_from(levels: CandidateLevels, low: int, high: int, target: float, beyond: bool) -> int:
    """Return the first of the levels low … high - 1 that is at least as far as the target (``beyond``: farther), or
    high."""
    low, high = int64(low), int64(high)
    while low < high:
        middle = (low + high) >> 1
        if levels.distances[middle] < target or (beyond and levels.distances[middle] == target):
            low = middle + 1
        else:
            high = middle
    return low


@part
def sign_set(
    rows: CandidateRows, levels: CandidateLevels, reference: int, sign: int, own_distance: float, weak: bool
) -> SignSet:
    """Return the candidates farther from the reference than the value is (sign 1), nearer (-1), or all (0).

    weak: with the candidates that are as far as the value.
    """
    if sign == 0:
        return SignSet(int64(ALL), int64(0))
    first, end = rows.first_level[reference], rows.first_level[reference + 1]
    level = first_level_from(levels, first, end, own_distance, (sign > 0) != weak)
    if level == end:
        return SignSet(int64(NONE if sign > 0 else ALL), int64(0))
    return SignSet(int64(BEYOND if sign > 0 else BEFORE), level)


@part
def draw_by_frequency(
    rows: CandidateRows, levels: CandidateLevels, row: int, level: int, signs: SignSet, tie: np.uint64
) -> int:
    """Draw one of the admissible candidates of a level by their weights.

    Return its index among the candidates.
    """
    start = levels.starts[level]
    end = levels.starts[level + 1] if level + 1 < rows.first_level[row + 1] else int64(rows.positions.size)
    before = rows.cumulative[row, start]
    for _ in range(ATTEMPTS):
        weight = before + index_below(tie, rows.cumulative[row, end] - before)
        low, high = start, end - 1
        while low < high:
            middle = (low + high) >> 1
            if rows.cumulative[row, middle + 1] <= weight:
                low = middle + 1
            else:
                high = middle
        c = int64(rows.order[row, low])
        if (sign_word(levels, signs, c // SET_WORD_BITS) >> np.uint64(c % SET_WORD_BITS)) & np.uint64(1):
            return c
        tie = mixed_word(tie)
    return draw_in_pass(rows, levels, level, signs, tie)


@part
def draw_in_pass(rows: CandidateRows, levels: CandidateLevels, level: int, signs: SignSet, tie: np.uint64) -> int:
    """Draw like ``draw_by_frequency``, but by a pass over the admissible candidates."""
    total = int64(0)
    for word in range(levels.members.shape[1]):
        bits = levels.members[level, word] & sign_word(levels, signs, word)
        while bits:
            total += rows.weights[word * SET_WORD_BITS + lowest_bit(bits)]
            bits &= bits - np.uint64(1)
    rest = index_below(tie, total)
    for word in range(levels.members.shape[1]):
        bits = levels.members[level, word] & sign_word(levels, signs, word)
        while bits:
            c: int = word * SET_WORD_BITS + lowest_bit(bits)
            rest -= rows.weights[c]
            if rest < 0:
                return c
            bits &= bits - np.uint64(1)
    return int64(-1)


@part
def replace_one(
    rows: CandidateRows,
    levels: CandidateLevels,
    a: int,
    signs: SignSet,
    preferred: SignSet,
    calibrated: bool,
    target: float,
    words: RandomWords,
) -> Choice:
    """Return the replacement of the value at position a; the candidate is a position, or -1 to keep the value.

    signs: the admissible candidates. preferred: those of them that are drawn if the level taken has any.
    """
    row = int64(rows.row_of[a])
    keeps_value = rows.index_of[a] >= 0
    first = rows.first_level[row] + (1 if keeps_value else 0)
    end = rows.first_level[row + 1]
    split = first_level_from(levels, first, end, target, False)
    above, below, dropped = split, split - 1, 0
    while above < end and not has_admissible(levels, signs, above):
        above += 1
    while below >= first and not has_admissible(levels, signs, below):
        below -= 1
    if above == end and below < first < end:
        signs, dropped = SignSet(int64(ALL), int64(0)), SIGN_DROPPED
        above, below = split, split - 1
    hi = levels.distances[above] if above < end else np.inf
    lo = levels.distances[below] if below >= first else -1.0
    distance, flags = choose_level(target, lo, hi, keeps_value, calibrated, words.rounding)
    if distance == 0.0:
        return Choice(int64(-1), 0.0, flags | dropped)
    level = above if distance == hi else below
    if has_admissible(levels, preferred, level):
        signs = preferred
    candidate = draw_by_frequency(rows, levels, row, level, signs, words.tie)
    return Choice(int64(rows.positions[candidate]), distance, flags | dropped)


@kernel
def replace_by_rows(
    rows: CandidateRows,
    levels: CandidateLevels,
    calibrated: bool,
    weak: bool,
    own_distances: Float64Array,
    codes: Int32Array,
    references: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array]:
    """Return (codes, distances, flags) of a ``Replacement`` of k values, given the arrays of the ``ReplacementTask``.

    own_distances: (k,) of each value from its reference. The rows of all values and references exist.
    """
    masks = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    for n in range(codes.size):
        a = int64(codes[n])
        if a >= 0 and noise[n] != 0.0:
            r = int64(references[n]) if references[n] >= 0 else a
            sign = int64(0) if r == a else (int64(1) if noise[n] > 0.0 else int64(-1))
            row = int64(rows.row_of[r])
            strict = sign_set(rows, levels, row, sign, own_distances[n], False)
            signs = sign_set(rows, levels, row, sign, own_distances[n], True) if weak else strict
            words = RandomWords(rounding[n], ties[n])
            choice = replace_one(rows, levels, a, signs, strict, calibrated, abs(noise[n]), words)
            distances[n], flags[n] = choice.distance, choice.flags
            if choice.candidate >= 0:
                masks[n] = choice.candidate
    return masks, distances, flags
