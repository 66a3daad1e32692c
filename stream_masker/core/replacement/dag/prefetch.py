"""Asking the cache for what the next values of a batch need, some values before they are replaced, so that it waits for
many lines at once. Nothing is decided here: what is guessed wrongly is asked for in vain.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.cache_lines import ANCESTOR_LINE
from stream_masker.core.kernels.intrinsics import prefetch
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.random.draws import uniform
from stream_masker.core.replacement.dag.cache import (
    CACHE_COLUMNS,
    EMPTY,
    KEY,
    LISTED,
    START,
    CandidateCache,
    first_level_at,
    home_slot,
    locate,
    query_key,
)
from stream_masker.core.replacement.dag.enumeration import prefetch_member
from stream_masker.core.replacement.dag.index import GraphArrays, MemberLists
from stream_masker.core.replacement.dag.sampling import FEWEST_TRIES, offset_below, tries_of
from stream_masker.core.replacement.dag.scratch import AncestorScratch
from stream_masker.core.replacement.levels import takes_upper

PREFETCH_DISTANCE = 32
"""Values that are asked for together."""


@inlined
def predicted_sign(a: int, r: int, noise: float) -> int:
    """1 for farther, -1 for nearer, 0 for no sign condition."""
    if r < 0 or r == a:
        return int64(0)
    return int64(1) if noise > 0.0 else int64(-1)


@inlined
def predicted_key(graph: GraphArrays, a: int, r: int, noise: float) -> int:
    """The key of the case of a value."""
    sign = predicted_sign(a, r, noise)
    return query_key(graph.depth.size, a, r if sign != 0 else int64(-1), sign)


@part
def prefetch_queries(
    graph: GraphArrays,
    memo: CandidateCache,
    order: Int64Array,
    start: int,
    stop: int,
    codes: Int32Array,
    references: Int32Array,
    noise: Float64Array,
) -> None:
    """What is found by the codes of the values from ``start`` to ``stop`` of the order alone."""
    for at in range(start, min(stop, order.size)):
        n = order[at]
        a, r = int64(codes[n]), int64(references[n])
        if a >= 0:
            prefetch(memo.value_at, a)
            prefetch(memo.flat, CACHE_COLUMNS * home_slot(memo, predicted_key(graph, a, r, noise[n])))
            prefetch_member(graph, a)
            if r >= 0:
                prefetch_member(graph, r)


@part
def prefetch_draws(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    calibrated: bool,
    order: Int64Array,
    start: int,
    stop: int,
    codes: Int32Array,
    references: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> None:
    """What the first draw of these values will probably need, of those that are remembered."""
    ahead = work.ahead
    for at in range(start, stop):
        n = order[at]
        a = int64(codes[n])
        if a >= 0 and memo.value_at[a] > 0:
            prefetch(memo.first_level, int64(memo.value_at[a]))
            key = predicted_key(graph, a, int64(references[n]), noise[n])
            home = home_slot(memo, key)
            if memo.cases[home, KEY] == key:
                prefetch(memo.statuses, memo.cases[home, START])
                prefetch(memo.statuses, memo.cases[home, START] + ANCESTOR_LINE - 1)
    for at in range(start, stop):
        n = order[at]
        a = int64(codes[n])
        ahead[at - start] = -1
        if a >= 0 and memo.value_at[a] > 0:
            key = predicted_key(graph, a, int64(references[n]), noise[n])
            ahead[at - start] = level_to_draw(memo, a, key, calibrated, noise[n], rounding[n])
        if ahead[at - start] >= 0:
            prefetch_members(lists, memo, ahead[at - start], ties[n])
    for at in range(start, stop):
        if ahead[at - start] >= 0:
            prefetch_lines(graph, lists, memo, ahead[at - start], ties[order[at]])


@inlined
def level_to_draw(memo: CandidateCache, a: int, key: int, calibrated: bool, noise: float, rounding: np.uint64) -> int:
    """The level whose members a value will probably look at first; -1 for none, or for a list, which is asked for."""
    value = memo.value_at[a]
    first, stop = memo.first_level[value], memo.first_level[value + 1]
    level, step = predicted_level(memo, first, stop, calibrated, abs(noise), rounding)
    home = home_slot(memo, key)
    if memo.cases[home, KEY] != key:
        return level if level >= first else int64(-1)
    start = memo.cases[home, START] - first
    while first <= level < stop and memo.statuses[start + level] == EMPTY:
        level += step
    if not first <= level < stop:
        return int64(-1)
    status = int64(memo.statuses[start + level])
    if status >= LISTED:
        prefetch(memo.found, status - LISTED)
    return level if status < LISTED else int64(-1)


@inlined
def prefetch_members(lists: MemberLists, memo: CandidateCache, level: int, tie: np.uint64) -> None:
    """The numbers of a level's members: of all of few, of the first ones that are tried of many."""
    if tries_of(memo.sizes[level]) == 0:
        for g in range(memo.first_group[level], memo.first_group[level + 1]):
            prefetch(lists.members, int64(lists.starts[memo.groups[2 * g]]))
    else:
        for turn in range(FEWEST_TRIES):
            prefetch(lists.members, locate(lists, memo, level, offset_below(tie, turn, memo.sizes[level]))[1])


@inlined
def prefetch_lines(graph: GraphArrays, lists: MemberLists, memo: CandidateCache, level: int, tie: np.uint64) -> None:
    """The lines of these members: of all of few, of the first one that is tried of many."""
    if tries_of(memo.sizes[level]) == 0:
        for g in range(memo.first_group[level], memo.first_group[level + 1]):
            for y in range(lists.starts[memo.groups[2 * g]], lists.starts[memo.groups[2 * g] + 1]):
                prefetch_member(graph, lists.members[y])
    else:
        prefetch_member(graph, lists.members[locate(lists, memo, level, offset_below(tie, 0, memo.sizes[level]))[1]])


@inlined
def predicted_level(
    memo: CandidateCache, first: int, stop: int, calibrated: bool, target: float, rounding: np.uint64
) -> tuple[int, int]:
    """(the level that is taken if all have admissible concepts, less than ``first`` for the value itself; 1 or -1, the
    way to go on from there)."""
    up = first_level_at(memo, first, stop, target)
    above = memo.levels[up] if up < stop else np.inf
    lo = memo.levels[up - 1] if up > first else 0.0
    is_up = not calibrated or takes_upper(uniform(rounding), lo, above, target)
    return (up, 1) if is_up and up < stop else (up - 1, -1)
