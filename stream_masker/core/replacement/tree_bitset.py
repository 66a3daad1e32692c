"""The replacement engine for low trees, with words of bits.

Which regions of a value contain candidates is one word of bits; which of them a sign condition admits is another
(``level_bitsets``). The levels next to |ε| are the nearest bits on either side. The candidates of a region are a few
ranges of ranks, so the engine never visits them one by one.

Only for the regions of the least common subsumer of value and reference, if the reference is below it, the words do not
tell whether there are admissible candidates. These regions are divided along the path down to the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.bits import highest_bit, lowest_bit
from stream_masker.core.kernels.draws import index_below, uniform
from stream_masker.core.kernels.jit import for_types, inlined, int64, kernel, part
from stream_masker.core.replacement.level_bitsets import (
    DEPTH,
    DOWN,
    FARTHER,
    IS_CANDIDATE,
    LEVEL_BUCKETS,
    NEARER,
    NO_REGION,
    PATH,
    LevelBitsets,
    LevelTable,
    RankRange,
    TreeValue,
    level_bitsets,
    level_table,
    region_ranks,
    skip_ranges,
    table_span,
)
from stream_masker.core.replacement.rule import (
    NONE_ADMISSIBLE,
    SIGN_DROPPED,
    TRUNCATED,
    Candidates,
    Choice,
    LevelRule,
    RandomWords,
    Replacement,
    ReplacementTask,
    is_beyond,
    takes_upper,
)


class BitsetCondition(NamedTuple):
    """The sign condition of one value: sign is 1 for farther, -1 for nearer, 0 for none.

    meeting_depth: of the least common subsumer of the value and the reference. own_distance: between them. split: the
    regions of which only some candidates may be admissible.
    """

    sign: int
    reference: int
    meeting_depth: int
    own_distance: float
    split: np.uint64


class BitsetTreeReplacer:
    """The ``Replacer`` for trees of height ``MAX_HEIGHT`` or less, for distances that depend on depths alone."""

    def __init__(self, distance: Distance, *, candidates: str, calibrated: bool) -> None:
        """``candidates``: all or leaves; ``calibrated``: the rounding."""
        tau = distance.taxonomy
        self._calibrated = calibrated
        self._bitsets = level_bitsets(distance)
        self._table = level_table(tau, self._bitsets, Candidates.of(tau, candidates).rank)

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replace every value of the task."""
        return Replacement(*self._replace(self._table, self._bitsets, self._calibrated, *task))

    @cached_property
    def _replace(self) -> Callable[..., tuple[Int32Array, Float64Array, UInt8Array]]:
        return for_types(replace_all_by_bitset, self._table, self._bitsets, self._calibrated, *ReplacementTask.none())

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: compiled forms of kernels cannot be."""
        return {name: value for name, value in vars(self).items() if name != "_replace"}


@inlined
def meets_condition(condition: BitsetCondition, distance: float) -> bool:
    """Return whether a candidate at a distance from the reference meets a sign condition whose sign is not 0."""
    return is_beyond(condition.sign, distance, condition.own_distance)


@part
def split_region(
    table: LevelTable,
    bitsets: LevelBitsets,
    value: TreeValue,
    region: int,
    condition: BitsetCondition,
    index: int,
) -> tuple[int, int]:
    """Return (number of admissible ranks, the one with an index) of a region of the least common subsumer of the value
    and a reference below it.

    All candidates that have the same least common subsumer with the reference are equally far from it.
    """
    r, meeting = condition.reference, condition.meeting_depth
    down = bitsets.links[value.depth, region, DOWN]
    deepest = int64(table.rows[r, DEPTH])
    total, rank = int64(0), int64(-1)
    for depth in range(min(deepest, meeting + down), meeting, -1):
        level = down - (depth - meeting)
        first, there = table_span(table, int64(table.rows[r, PATH + depth - 1]), level)
        inner = table_span(table, int64(table.rows[r, PATH + depth]), level - 1)
        there -= inner.size
        if there > 0 and meets_condition(condition, bitsets.lengths[depth, deepest - depth + level]):
            if total <= index < total + there:
                rank = skip_ranges(first, inner, RankRange(int64(0), int64(0)), index - total)
            total += there
    first, there, below_child = region_ranks(table, bitsets, value, region)
    towards_r = table_span(table, int64(table.rows[r, PATH + meeting]), down - 1)
    there -= towards_r.size
    if there > 0 and meets_condition(condition, bitsets.lengths[meeting, deepest - meeting + down]):
        if total <= index < total + there:
            rank = skip_ranges(first, below_child, towards_r, index - total)
        total += there
    return total, rank


@inlined
def admissible_in_region(
    table: LevelTable,
    bitsets: LevelBitsets,
    value: TreeValue,
    region: int,
    condition: BitsetCondition,
    index: int,
) -> tuple[int, int]:
    """Return (number of admissible ranks of an admitted region, the one with an index)."""
    if (condition.split >> np.uint64(region)) & np.uint64(1):
        return split_region(table, bitsets, value, region, condition, index)
    first, there, inner = region_ranks(table, bitsets, value, region)
    rank = first + index
    return there, rank + inner.size if rank >= inner.first else rank


@inlined
def draw_from_regions(
    table: LevelTable,
    bitsets: LevelBitsets,
    value: TreeValue,
    word: np.uint64,
    condition: BitsetCondition,
    tie: np.uint64,
) -> int:
    """Return the rank of an admissible candidate of the regions of a word, drawn uniformly; -1 if there is none."""
    total = int64(0)
    left = word
    while left != NO_REGION:
        total += admissible_in_region(table, bitsets, value, lowest_bit(left), condition, int64(0))[0]
        left &= left - np.uint64(1)
    if total == 0:
        return int64(-1)
    index = index_below(tie, total)
    there, rank = admissible_in_region(table, bitsets, value, lowest_bit(word), condition, index)
    while index >= there:
        index -= there
        word &= word - np.uint64(1)
        there, rank = admissible_in_region(table, bitsets, value, lowest_bit(word), condition, index)
    return rank


@inlined
def is_any_in_regions(
    table: LevelTable, bitsets: LevelBitsets, value: TreeValue, word: np.uint64, condition: BitsetCondition
) -> bool:
    """Return whether the regions of a word contain any admissible candidate."""
    if word & ~condition.split:
        return True
    while word != NO_REGION:
        if admissible_in_region(table, bitsets, value, lowest_bit(word), condition, int64(0))[0] > 0:
            return True
        word &= word - np.uint64(1)
    return False


@inlined
def nearer_regions(bitsets: LevelBitsets, depth: int, target: float) -> int:
    """Return the number of regions of a depth that are nearer than the target."""
    region = bitsets.starts[depth, min(int64(min(target, 1.0) * LEVEL_BUCKETS), LEVEL_BUCKETS - 1)]
    while bitsets.distances[depth, region + 1] < target:
        region += 1
    return region


@inlined
def choose_bitset_level(
    table: LevelTable,
    bitsets: LevelBitsets,
    value: TreeValue,
    word: np.uint64,
    condition: BitsetCondition,
    rule: LevelRule,
    words: RandomWords,
) -> Choice:
    """Return the replacement of a value; flags are ``NONE_ADMISSIBLE`` if no candidate is admissible.

    word: the regions that may contain admissible candidates. It applies the rule of ``core.replacement.rule``. The two
    levels next to the target are assumed to have admissible candidates until the chosen one proves empty; then the next
    level in that direction is considered. This gives the same choice as the rule: levels that are farther apart only
    make the choice that was taken more likely.
    """
    depth = value.depth
    chance = uniform(words.rounding)
    below = (np.uint64(1) << np.uint64(nearer_regions(bitsets, depth, rule.target))) - np.uint64(1)
    while word != NO_REGION:
        far, near = word & ~below, word & below
        region = int64(highest_bit(near)) if near != NO_REGION else int64(-1)
        lo = bitsets.distances[depth, region + 1]
        if far != NO_REGION:
            up = lowest_bit(far)
            hi = bitsets.distances[depth, up + 1]
            forced = not rule.calibrated or (near == NO_REGION and not rule.keeps_value)
            if forced or takes_upper(chance, lo, hi, rule.target):
                level = word & bitsets.equal[depth, up]
                rank = draw_from_regions(table, bitsets, value, level, condition, words.tie)
                if rank >= 0:
                    return Choice(rank, hi, 0)
                word &= ~bitsets.equal[depth, up]
                continue
        if near == NO_REGION:
            is_any = is_any_in_regions(table, bitsets, value, far, condition)
            return Choice(int64(-1), 0.0, 0 if is_any else NONE_ADMISSIBLE)
        level = word & bitsets.equal[depth, region]
        rank = draw_from_regions(table, bitsets, value, level, condition, words.tie)
        if rank >= 0:
            return Choice(rank, lo, 0 if is_any_in_regions(table, bitsets, value, far, condition) else TRUNCATED)
        word &= ~bitsets.equal[depth, region]
    return Choice(int64(-1), 0.0, NONE_ADMISSIBLE)


@inlined
def meeting_depth_of(table: LevelTable, a: int, r: int) -> int:
    """Return the depth of the least common subsumer of two different concepts."""
    depth = 1
    while table.rows[a, PATH + depth] == table.rows[r, PATH + depth]:
        depth += 1
    return depth


@inlined
def replace_by_bitset(
    table: LevelTable,
    bitsets: LevelBitsets,
    a: int,
    r: int,
    noise: float,
    calibrated: bool,
    words: RandomWords,
) -> Choice:
    """Return the replacement of one value. r = a for no sign condition. If nothing meets the condition, it is
    dropped."""
    value = TreeValue(a, int64(table.rows[a, DEPTH]))
    rule = LevelRule(abs(noise), calibrated, table.rows[a, IS_CANDIDATE] != 0)
    held = table.held[a, 0]
    if r != a:
        depth, meeting = int64(table.rows[r, DEPTH]), int64(meeting_depth_of(table, a, r))
        sign, side = (int64(1), FARTHER) if noise > 0.0 else (int64(-1), NEARER)
        own_distance = bitsets.lengths[meeting, value.depth + depth - 2 * meeting]
        split = bitsets.of_ancestor[value.depth, value.depth - meeting] if meeting < depth else NO_REGION
        word = held & bitsets.admitted[side, value.depth, meeting, depth]
        condition = BitsetCondition(sign, r, meeting, own_distance, split)
        choice = choose_bitset_level(table, bitsets, value, word, condition, rule, words)
        if choice.flags != NONE_ADMISSIBLE:
            return choice
    none = BitsetCondition(int64(0), r, int64(0), 0.0, NO_REGION)
    choice = choose_bitset_level(table, bitsets, value, held, none, rule, words)
    flags = TRUNCATED if choice.flags == NONE_ADMISSIBLE else choice.flags | (0 if r == a else SIGN_DROPPED)
    return Choice(choice.candidate, choice.distance, flags)


@kernel
def replace_all_by_bitset(
    table: LevelTable,
    bitsets: LevelBitsets,
    calibrated: bool,
    codes: Int32Array,
    references: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array]:
    """Return (codes, distances, flags) of a ``Replacement`` of k values, given the arrays of its task."""
    masks = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    for n in range(codes.size):
        a = int64(codes[n])
        if a >= 0 and noise[n] != 0.0:
            r = int64(references[n]) if references[n] >= 0 else a
            words = RandomWords(rounding[n], ties[n])
            choice = replace_by_bitset(table, bitsets, a, r, noise[n], calibrated, words)
            distances[n], flags[n] = choice.distance, choice.flags
            if choice.candidate >= 0:
                masks[n] = table.positions[choice.candidate]
    return masks, distances, flags
