"""Replacements in a tree of few levels, by words of bits instead of steps from ancestor to ancestor.

The same rule, the same regions and the same draws as in ``tree_replacement``, whose steps find out for each value
anew what is here looked up: which of a value's rungs (``rungs``) hold candidates, as a word of bits, and which of them
a sign condition leaves, as another. The levels next to |ε| are then the nearest bits on either side of it.

Only over the ancestor that is the least common subsumer of a value and its reference, when the reference lies below
it, do words of bits not tell which rungs hold admissible candidates; there, ways down from the reference's other
ancestors are looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int32Matrix, UInt8Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels.intrinsics import highest_bit, lowest_bit, prefetch
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.draws import index_below, uniform
from stream_masker.core.replacement.level_bitsets import (
    DOWN,
    FARTHER,
    LEVEL_BUCKETS,
    NEARER,
    UP,
    LevelBitsets,
    level_bitsets,
)
from stream_masker.core.replacement.levels import NONE_ADMISSIBLE, is_beyond, takes_upper
from stream_masker.core.replacement.rule import SIGN_DROPPED, TRUNCATED, Candidates, Replacement, ReplacementTask
from stream_masker.core.replacement.tree import passing

DEPTH, STAYS, PATH = 2, 3, 4
"""Columns of ``LevelTable.rows``; ``PATH`` + d is that of the ancestor at depth d + 1."""

BITSET_ROW = 16
"""Columns of a row: a cache line."""

PREFETCH_VALUES = 8
"""A row is asked for while the values this many places before it are replaced."""

NO_LEVEL = np.uint64(0)


class LevelTable(NamedTuple):
    """The tree for the kernels.

    rows: (m + 1, 16) int32, a concept's two halves of a word of bits (its rungs that hold candidates), its depth,
    whether it is a candidate itself, its ancestors from the root down to itself, and m, which has no candidates.
    held: (m + 1, 8) uint64, the same memory; its first column is the word. lines: the same, one row after another.
    spans: ((m + 1) · (h + 1), 2) int32: of each concept, the candidates k - 1 levels below it, by the first one's rank
    and their number. positions: of candidates. levels: h.
    """

    rows: Int32Matrix
    held: UInt64Matrix
    lines: Int32Array
    spans: Int32Matrix
    positions: Int32Array
    levels: int


class BitsetTreeReplacer:
    """The ``Replacer`` of trees of height ``HIGHEST`` or less, for distances that depend on depths alone."""

    def __init__(self, distance: Distance, *, candidates: str, calibrated: bool) -> None:
        """``candidates``: all or leaves; ``calibrated``: the rounding."""
        self._calibrated = calibrated
        self._rungs = level_bitsets(distance)
        self._ladders = _ladders(distance.taxonomy, Candidates.of(distance.taxonomy, candidates))
        write_held(self._ladders, self._rungs)

    def replace(self, task: ReplacementTask) -> Replacement:
        rows = (task.codes, task.references, task.noise, task.rounding, task.ties)
        return Replacement(*replace_all_by_bitset(self._ladders, self._rungs, self._calibrated, *rows))


def _ladders(tau: Taxonomy, eligible: Candidates) -> LevelTable:
    m, height = len(tau), int(tau.depth.max())
    rows = np.zeros((m + 1, BITSET_ROW), np.int32)
    rows[:-1, DEPTH], rows[:-1, STAYS] = tau.depth, np.diff(eligible.rank)
    write_paths(rows, tau.tree.parent)
    spans = _spans(tau, eligible, height + 1)
    return LevelTable(rows, rows.view(np.uint64), rows.reshape(-1), spans, eligible.positions, height)


def _spans(tau: Taxonomy, eligible: Candidates, width: int) -> Int32Array:
    """((m + 1) · width, 2) int32, see ``LevelTable``."""
    m, table = len(tau), tau.tree
    heights = np.diff(table.level_offsets)
    owner = np.repeat(np.arange(m, dtype=np.int64), heights)
    places = owner * width + 1 + np.arange(owner.size) - table.level_offsets[owner]
    low, high = eligible.rank[table.level_lo], eligible.rank[table.level_hi]
    spans = np.zeros(((m + 1) * width, 2), np.int32)
    spans[places, 0], spans[places, 1] = low, high - low
    return spans


@kernel
def write_paths(rows: Int32Matrix, parent: Int32Array) -> None:
    """Fills in every concept's ancestors; a parent's row is complete before its children's."""
    m = parent.size
    for c in range(m):
        end = PATH + rows[c, DEPTH]
        if c > 0:
            for column in range(PATH, end - 1):
                rows[c, column] = rows[parent[c], column]
        rows[c, end - 1], rows[c, end] = c, m
    rows[m, PATH] = m


@kernel
def write_held(ladders: LevelTable, rungs: LevelBitsets) -> None:
    """Fills in which of every concept's rungs hold candidates."""
    for a in range(ladders.held.shape[0] - 1):
        depth = int64(ladders.rows[a, DEPTH])
        word = NO_LEVEL
        rung = 0
        while rungs.distances[depth, rung + 1] < np.inf:
            if region(ladders, rungs, (a, depth), rung)[1] > 0:
                word |= np.uint64(1) << np.uint64(rung)
            rung += 1
        ladders.held[a, 0] = word


@inlined
def region_span(ladders: LevelTable, s: int, level: int) -> tuple[int, int]:
    """The candidates ``level`` ≥ -1 levels below s: the rank of the first and their number."""
    place = s * (ladders.levels + 1) + level + 1
    return int64(ladders.spans[place, 0]), int64(ladders.spans[place, 1])


@inlined
def region(
    ladders: LevelTable, rungs: LevelBitsets, value: tuple[int, int], rung: int
) -> tuple[int, int, tuple[int, int]]:
    """The candidates on a rung of a value (a, depth): the rank of the first, their number, and the range of ranks
    (first, size) that is to be passed over, since it lies below the child on the way to the value."""
    a, depth = value
    up, down = rungs.links[depth, rung, UP], rungs.links[depth, rung, DOWN]
    column = PATH + depth - 1 - up
    first, size = region_span(ladders, int64(ladders.rows[a, column]), down)
    inner = region_span(ladders, int64(ladders.rows[a, column + 1]), down - 1)
    return first, size - inner[1], inner


@part
def split_region(
    ladders: LevelTable,
    rungs: LevelBitsets,
    value: tuple[int, int],
    rung: int,
    case: tuple[int, int, int, float],
    index: int,
) -> tuple[int, int]:
    """(the number of admissible candidates on a rung over the subsumer of the value and a reference below it, the rank
    of the index-th): of each subsumer of candidate and reference, from the reference upwards, either all or none."""
    sign, r, meeting, own = case
    down = rungs.links[value[1], rung, DOWN]
    deepest = int64(ladders.rows[r, DEPTH])
    total, found = int64(0), int64(-1)
    for depth in range(min(deepest, meeting + down), meeting, -1):
        level = down - (depth - meeting)
        first, there = region_span(ladders, int64(ladders.rows[r, PATH + depth - 1]), level)
        inner = region_span(ladders, int64(ladders.rows[r, PATH + depth]), level - 1)
        there -= inner[1]
        if there > 0 and is_beyond(sign, rungs.lengths[depth, deepest - depth + level], own):
            if total <= index < total + there:
                found = passing(first, inner, (int64(0), int64(0)), index - total)
            total += there
    first, there, nearer = region(ladders, rungs, value, rung)
    beside = region_span(ladders, int64(ladders.rows[r, PATH + meeting]), down - 1)
    there -= beside[1]
    if there > 0 and is_beyond(sign, rungs.lengths[meeting, deepest - meeting + down], own):
        if total <= index < total + there:
            found = passing(first, nearer, beside, index - total)
        total += there
    return total, found


@inlined
def on_level(
    ladders: LevelTable,
    rungs: LevelBitsets,
    value: tuple[int, int],
    rung: int,
    case: tuple[tuple[int, int, int, float], np.uint64],
    index: int,
) -> tuple[int, int]:
    """(the number of admissible candidates on a rung, the rank of the index-th)."""
    if (case[1] >> np.uint64(rung)) & np.uint64(1):
        return split_region(ladders, rungs, value, rung, case[0], index)
    first, there, inner = region(ladders, rungs, value, rung)
    rank = first + index
    return there, rank + inner[1] if rank >= inner[0] else rank


@inlined
def draw_on_level(
    ladders: LevelTable,
    rungs: LevelBitsets,
    value: tuple[int, int],
    word: np.uint64,
    case: tuple[tuple[int, int, int, float], np.uint64],
    tie: np.uint64,
) -> int:
    """The rank of one of the admissible candidates on some rungs, uniformly; -1 if there is none."""
    total = int64(0)
    left = word
    while left != NO_LEVEL:
        total += on_level(ladders, rungs, value, lowest_bit(left), case, int64(0))[0]
        left &= left - np.uint64(1)
    if total == 0:
        return int64(-1)
    index = index_below(tie, total)
    there, found = on_level(ladders, rungs, value, lowest_bit(word), case, index)
    while index >= there:
        index -= there
        word &= word - np.uint64(1)
        there, found = on_level(ladders, rungs, value, lowest_bit(word), case, index)
    return found


@inlined
def is_any_on_level(
    ladders: LevelTable,
    rungs: LevelBitsets,
    value: tuple[int, int],
    word: np.uint64,
    case: tuple[tuple[int, int, int, float], np.uint64],
) -> bool:
    """Whether any of some rungs has an admissible candidate."""
    if word & ~case[1]:
        return True
    while word != NO_LEVEL:
        if on_level(ladders, rungs, value, lowest_bit(word), case, int64(0))[0] > 0:
            return True
        word &= word - np.uint64(1)
    return False


@inlined
def nearer_levels(rungs: LevelBitsets, depth: int, target: float) -> int:
    """How many of a depth's rungs are nearer than the target."""
    rung = rungs.starts[depth, min(int64(min(target, 1.0) * LEVEL_BUCKETS), LEVEL_BUCKETS - 1)]
    while rungs.distances[depth, rung + 1] < target:
        rung += 1
    return rung


@inlined
def choose_bitset_level(
    ladders: LevelTable,
    rungs: LevelBitsets,
    value: tuple[int, int],
    word: np.uint64,
    case: tuple[tuple[int, int, int, float], np.uint64],
    rule: tuple[float, bool, bool],
    words: tuple[np.uint64, np.uint64],
) -> tuple[int, float, int]:
    """(rank of a* or -1 for the value itself, its distance, flags), or flags ``NONE_ADMISSIBLE``.

    word: the rungs that can have admissible candidates. They are supposed to until the level that is chosen proves not
    to. This is the rule of ``candidates``: levels farther apart only make the choice that was taken more likely.
    """
    target, calibrated, stays = rule
    depth = value[1]
    chance = uniform(words[0])
    below = (np.uint64(1) << np.uint64(nearer_levels(rungs, depth, target))) - np.uint64(1)
    while word != NO_LEVEL:
        far, near = word & ~below, word & below
        rung = int64(highest_bit(near)) if near != NO_LEVEL else int64(-1)
        lo = rungs.distances[depth, rung + 1]
        if far != NO_LEVEL:
            up = lowest_bit(far)
            hi = rungs.distances[depth, up + 1]
            forced = not calibrated or (near == NO_LEVEL and not stays)
            if forced or takes_upper(chance, lo, hi, target):
                found = draw_on_level(ladders, rungs, value, word & rungs.equal[depth, up], case, words[1])
                if found >= 0:
                    return found, hi, 0
                word &= ~rungs.equal[depth, up]
                continue
        if near == NO_LEVEL:
            return int64(-1), 0.0, 0 if is_any_on_level(ladders, rungs, value, far, case) else NONE_ADMISSIBLE
        found = draw_on_level(ladders, rungs, value, word & rungs.equal[depth, rung], case, words[1])
        if found >= 0:
            return found, lo, 0 if is_any_on_level(ladders, rungs, value, far, case) else TRUNCATED
        word &= ~rungs.equal[depth, rung]
    return int64(-1), 0.0, NONE_ADMISSIBLE


@inlined
def meeting_depth(ladders: LevelTable, a: int, r: int) -> int:
    """The depth of the least common subsumer of two concepts that differ."""
    depth = 1
    while ladders.rows[a, PATH + depth] == ladders.rows[r, PATH + depth]:
        depth += 1
    return depth


@inlined
def replace_by_bitset(
    ladders: LevelTable,
    rungs: LevelBitsets,
    a: int,
    r: int,
    noise: float,
    calibrated: bool,
    words: tuple[np.uint64, np.uint64],
) -> tuple[int, float, int]:
    """(rank of a* or -1 for a itself, sd(a, a*), flags) of one value; r = a for no sign condition."""
    value = (a, int64(ladders.rows[a, DEPTH]))
    rule = (abs(noise), calibrated, ladders.rows[a, STAYS] != 0)
    held = ladders.held[a, 0]
    unsigned = ((int64(0), r, int64(0), 0.0), NO_LEVEL)
    if r != a:
        depth, meeting = int64(ladders.rows[r, DEPTH]), meeting_depth(ladders, a, r)
        sign, side = (int64(1), FARTHER) if noise > 0.0 else (int64(-1), NEARER)
        own = rungs.lengths[meeting, value[1] + depth - 2 * meeting]
        unsure = rungs.over[value[1], value[1] - meeting] if meeting < depth else NO_LEVEL
        word = held & rungs.beyond[side, value[1], meeting, depth]
        case = ((sign, r, meeting, own), unsure)
        found, distance, flags = choose_bitset_level(ladders, rungs, value, word, case, rule, words)
        if flags != NONE_ADMISSIBLE:
            return found, distance, flags
    found, distance, flags = choose_bitset_level(ladders, rungs, value, held, unsigned, rule, words)
    if flags == NONE_ADMISSIBLE:
        return found, distance, TRUNCATED
    return found, distance, flags if r == a else flags | SIGN_DROPPED


@kernel
def replace_all_by_bitset(
    ladders: LevelTable,
    rungs: LevelBitsets,
    calibrated: bool,
    codes: Int32Array,
    references: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array]:
    """Replaces k values: their new positions, distances and flags."""
    chosen = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    for n in range(codes.size):
        if n + PREFETCH_VALUES < codes.size:
            prefetch(ladders.lines, BITSET_ROW * int64(max(codes[n + PREFETCH_VALUES], 0)))
            prefetch(ladders.lines, BITSET_ROW * int64(max(references[n + PREFETCH_VALUES], 0)))
        a = int64(codes[n])
        if a >= 0 and noise[n] != 0.0:
            r = int64(references[n]) if references[n] >= 0 else a
            words = (rounding[n], ties[n])
            found, distances[n], flags[n] = replace_by_bitset(ladders, rungs, a, r, noise[n], calibrated, words)
            if found >= 0:
                chosen[n] = ladders.positions[found]
    return chosen, distances, flags
