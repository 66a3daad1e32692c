"""Drawing from a level of a case, exactly uniformly, without looking at all of it.

A level has a known number of members, of which some are admissible. Members are tried at random, each as likely as any
other, until one is admissible. If a number of tries, which depends on the members' number alone, does not find one, all
admissible ones are listed (``dag_listing``), and one of them is taken at random. So a draw is a function of the case,
the level and the record's random word. What was listed is remembered: the next draw tells from the list what its tries
would find, so that it gives the same with memory and without.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Array
from stream_masker.core.kernels.cache_lines import ROW_WORDS
from stream_masker.core.kernels.intrinsics import prefetch
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.random.draws import index_below
from stream_masker.core.replacement.dag.cache import (
    BALL,
    EMPTY,
    LISTED,
    START,
    THERE,
    UNKNOWN,
    CandidateCache,
    is_enumerated,
    locate,
)
from stream_masker.core.replacement.dag.enumeration import (
    LOW,
    is_level_member,
    list_admissible,
    list_near_set,
    prefetch_member,
    put_in_order,
    sift,
    sweep_level,
)
from stream_masker.core.replacement.dag.index import HASH_MULTIPLIER, GraphArrays, MemberLists
from stream_masker.core.replacement.dag.pruning import distance_bound, is_list_prunable, is_too_near
from stream_masker.core.replacement.dag.scratch import BOUNDED, READY, AncestorScratch, mark

LEVEL_OF_FEW = 8
FEWEST_TRIES, MOST_TRIES, MEMBERS_A_TRY = 4, 4096, 32
TRIES_PER_ROUND = 16
"""Members that are tried together, after the first ones."""

SMALL_NEAR_SET = 64
"""Concepts that may be nearer to the reference: if they are no more, they are listed at once."""

WORD_BITS = 64

MANY_LISTED = 32
"""Concepts of a list not yet in order: if they are more, tries may well do without."""


@inlined
def offset_below(seed: np.uint64, turn: int, size: int) -> int:
    """A random integer in 0 … size - 1, the turn-th from a record's word (splitmix64)."""
    word = seed + HASH_MULTIPLIER * np.uint64(turn + 1)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return index_below(word ^ (word >> np.uint64(31)), size)


@inlined
def tries_of(members: int) -> int:
    """How many members to try before all are listed."""
    return 0 if members <= LEVEL_OF_FEW else min(FEWEST_TRIES + members // MEMBERS_A_TRY, MOST_TRIES)


@part
def draw_from_level(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    slot: int,
    first: int,
    j: int,
    seed: np.uint64,
) -> int:
    """An admissible concept of the case's level j, or -1 if there is none; ``first``: the value's first level."""
    at = memo.cases[slot, START] + j
    if memo.statuses[at] == UNKNOWN and case[2] < 0 and memo.cases[slot, BALL] <= SMALL_NEAR_SET:
        list_near_set(graph, lists, memo, work, case, slot, first)
    if memo.statuses[at] == EMPTY:
        return int64(-1)
    level = first + j
    if memo.statuses[at] == UNKNOWN and case[2] > 0 and is_too_near(graph, lists, memo, work, case, level):
        memo.statuses[at] = EMPTY
        return int64(-1)
    turns = tries_of(memo.sizes[level])
    if not is_cached_level(memo, at):
        found = try_members(graph, lists, memo, work, case, level, turns, seed)
        if found >= 0:
            memo.statuses[at] = max(memo.statuses[at], THERE)
            return found
    if memo.statuses[at] < LISTED:
        list_admissible(graph, lists, memo, work, case, slot, first, level, at)
    if memo.statuses[at] == EMPTY:
        return int64(-1)
    return drawn(graph, lists, memo, work, case, level, at, turns, seed)


@inlined
def is_cached_level(memo: CandidateCache, at: int) -> bool:
    """Whether a status tells of a list that is in order, or soon put in order."""
    return memo.statuses[at] >= LISTED and memo.found[memo.statuses[at] - LISTED] >= -MANY_LISTED


@inlined
def try_members(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    level: int,
    turns: int,
    seed: np.uint64,
) -> int:
    """The first admissible one of so many members tried; -1 if none is. Few tries need no bounds."""
    mark(graph, work, case)
    turn = min(turns, FEWEST_TRIES)
    found = try_members_together(graph, lists, memo, work, case, level, 0, turn, seed)
    while found < 0 and turn < turns:
        if turn > FEWEST_TRIES:
            distance_bound(graph, work, case)
        found = try_members_together(
            graph, lists, memo, work, case, level, turn, min(turns, turn + TRIES_PER_ROUND), seed
        )
        turn += TRIES_PER_ROUND
    return found


@part
def try_members_together(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    level: int,
    turn: int,
    stop: int,
    seed: np.uint64,
) -> int:
    """As ``try_members``, of some turns, whose members are asked for together."""
    kept = work.kept
    bounded = work.state[READY] == BOUNDED and case[2] != 0
    count = 0
    for t in range(turn, stop):
        g, y = locate(lists, memo, level, offset_below(seed, t, memo.sizes[level]))
        x, i = int64(memo.groups[2 * g]), int64(memo.groups[2 * g + 1])
        if not (bounded and is_list_prunable(graph, lists, work, case[2], x, i)):
            prefetch(lists.members, y)
            kept[count] = (g << 32) + y
            count += 1
    for n in range(count):
        c = int64(lists.members[kept[n] & LOW])
        if bounded:
            prefetch(graph.rows, ROW_WORDS * c)
            prefetch(graph.root_path, c)
        else:
            prefetch_member(graph, c)
    if bounded:
        count = sift(graph, lists, memo, work, case, count)
    for n in range(count):
        if is_level_member(graph, lists, memo, work, case, kept[n]):
            return int64(lists.members[kept[n] & LOW])
    return int64(-1)


@inlined
def bits_of_places(found: Int32Array, at: int) -> np.uint64:
    """The bits ``bit_of`` of all places on the list at ``found[at]``; all bits for many."""
    bits = np.uint64(0)
    if found[at] > WORD_BITS:
        bits = ~bits
    else:
        for i in range(at + 1, at + 1 + found[at]):
            bits |= bit_of(found[i])
    return bits


@inlined
def bit_of(place: int) -> np.uint64:
    """One of 64 bits for each place."""
    return np.uint64(1) << (np.uint64(place) & np.uint64(WORD_BITS - 1))


@inlined
def drawn(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    level: int,
    at: int,
    turns: int,
    seed: np.uint64,
) -> int:
    """The same draw, from the list of those that are admissible; from all of them after so many tries."""
    place = int64(-1)
    if memo.statuses[at] >= LISTED:
        begin = int64(memo.statuses[at] - LISTED)
        if memo.found[begin] < 0:
            put_in_order(graph, lists, memo, work, case, level, begin)
        bits = bits_of_places(memo.found, begin)
        for turn in range(turns):
            u = offset_below(seed, turn, memo.sizes[level])
            if bits & bit_of(u) != 0 and is_enumerated(memo.found, begin, u):
                place = u
                break
        if place < 0:
            place = int64(memo.found[begin + 1 + offset_below(seed, turns, memo.found[begin])])
    else:
        size = sweep_level(graph, lists, memo, work, case, level, -1, 0)[0]
        place = sweep_level(graph, lists, memo, work, case, level, offset_below(seed, turns, size), 0)[1]
    return int64(lists.members[locate(lists, memo, level, place)[1]])
