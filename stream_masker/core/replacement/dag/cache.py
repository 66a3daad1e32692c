"""What is remembered of values once seen, in bounded memory, so that the next ones like them cost little.

* Of a value a: its *levels*, the distances at which there may be candidates, ascending, and for each level the *groups*
  of which it consists: lists of ``Lists``, each by an ancestor of a. They are at most the ancestors' lists of paths.
* Of a *case*, a value with a reference and a sign: sd(a, r), and for each level its *status*: whether it is known to
  have admissible candidates, and which, if they had to be found all.

Everything here is a function of the taxonomy and the candidates alone; it can be forgotten at any time, and is when
room runs out, without any effect on what is chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, Int64Matrix
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.replacement.dag.index import HASH_MULTIPLIER, GraphArrays, MemberLists
from stream_masker.core.replacement.levels import wu_palmer_level

VALUES, LEVELS, GROUPS, CASES, STATUSES, FOUND, BATCHES = range(7)
"""Indices of ``CandidateCache.used``; the last one counts batches."""

KEY, START, OWN, BALL = range(4)
"""Columns of ``CandidateCache.cases``."""
CACHE_COLUMNS = 4

REQUESTED_AGAIN = np.int64(1)
BATCH_SHIFT, LINKS_SHIFT, DEPTH_SHIFT = 32, 1, 16
BATCH_MASK, LINKS_MASK, DEPTH_MASK = np.int64((1 << 31) - 1), np.int64((1 << 15) - 1), np.int64((1 << 16) - 1)
"""Parts of the column ``OWN``: whether a later batch came with the case, links and depth, and the first batch."""

UNKNOWN, EMPTY, THERE, LISTED = range(4)
"""What a status says: nothing; no admissible candidate; some; LISTED + i: those that ``found[i]`` begins to list."""

MOST_LISTED = 1 << 14
"""Admissible candidates of one level that are listed; more are so many that tries find one."""


class CandidateCache(NamedTuple):
    """value_at: (m,) which value, from 1, a concept is; 0 none. first_level: value v has the levels
    ``first_level[v]`` to ``first_level[v + 1]``.

    levels: distances; sizes: members of all of a level's groups, ``groups[first_group[l]:first_group[l + 1]]``, each a
    list and the index of the ancestor in the value's row of the closure.
    cases: a hash table by open addressing, ``KEY`` 0 where empty; ``OWN`` has depth and links between value and
    reference, and when the case came; flat: the same memory. statuses of the levels of a case from its ``START`` on.
    found: for a listed level the number of its admissible members, and their places, ascending, among the level's
    members; or minus that number, and the members themselves in any order. used: how much of each there is.
    """

    value_at: Int32Array
    first_level: Int64Array
    levels: Float64Array
    sizes: Int32Array
    first_group: Int32Array
    groups: Int32Array
    cases: Int64Matrix
    flat: Int64Array
    statuses: Int32Array
    found: Int32Array
    most: Int64Array
    used: Int64Array


def new_candidate_cache(concepts: int, most: int, size: int) -> CandidateCache:
    """An empty one. most: the groups that a value may have; size: how much to remember, in levels of values.

    Memory is taken as it is filled: about 120 bytes for each of ``size``.
    """
    levels = max(size, 2 * most + 2)
    cases = np.empty((1 << max(4, (levels // 4).bit_length()), CACHE_COLUMNS), np.int64)
    cases[:] = 0
    return CandidateCache(
        value_at=np.zeros(concepts, np.int32),
        first_level=np.zeros(levels + 2, np.int64),
        levels=np.empty(levels, np.float64),
        sizes=np.empty(levels, np.int32),
        first_group=np.zeros(levels + 1, np.int32),
        groups=np.empty(4 * levels, np.int32),
        cases=cases,
        flat=cases.reshape(-1),
        statuses=np.empty(12 * levels, np.int32),
        found=np.empty(4 * levels + 2 * MOST_LISTED, np.int32),
        most=np.array([most], np.int64),
        used=np.zeros(BATCHES + 1, np.int64),
    )


@inlined
def cache_has_room(memo: CandidateCache) -> bool:
    """Whether the memo can take another value with two cases, and another list."""
    most = memo.most[0]
    used = memo.used
    return (
        used[LEVELS] + most <= memo.levels.size
        and 2 * (used[GROUPS] + most) <= memo.groups.size
        and 2 * (used[CASES] + 2) <= memo.cases.shape[0]
        and used[STATUSES] + 2 * most <= memo.statuses.size
        and used[FOUND] + MOST_LISTED < memo.found.size
    )


@kernel
def add_value(graph: GraphArrays, lists: MemberLists, memo: CandidateCache, a: int) -> None:
    """Finds the levels of a and their groups, nearest first; groups of a level by descending ancestor."""
    distances = np.empty(memo.most[0], np.float64)
    groups = np.empty((memo.most[0], 2), np.int32)
    count = 0
    offset = graph.offsets[a]
    for i in range(graph.offsets[a + 1] - offset):
        s = graph.ancestors[offset + i]
        path = int64(graph.paths[offset + i])
        for x in range(lists.first[s] + (1 if i == 0 else 0), lists.first[s + 1]):
            if lists.starts[x + 1] > lists.starts[x]:
                distances[count] = wu_palmer_level(graph.depth[s], path + x - lists.first[s])
                groups[count, 0] = x
                groups[count, 1] = i
                count += 1
    order = np.argsort(distances[:count], kind="mergesort")
    level = memo.used[LEVELS] - 1
    for j in range(count):
        x = groups[order[j], 0]
        if j == 0 or distances[order[j]] != distances[order[j - 1]]:
            level += 1
            memo.levels[level] = distances[order[j]]
            memo.sizes[level] = 0
        memo.sizes[level] += lists.starts[x + 1] - lists.starts[x]
        at = memo.used[GROUPS]
        memo.groups[2 * at], memo.groups[2 * at + 1] = x, groups[order[j], 1]
        memo.used[GROUPS] = at + 1
        memo.first_group[level + 1] = at + 1
    value = memo.used[VALUES] + 1
    memo.used[VALUES] = value
    memo.used[LEVELS] = level + 1
    memo.first_level[value + 1] = level + 1
    memo.value_at[a] = value


@inlined
def first_level_at(memo: CandidateCache, first: int, stop: int, distance: float) -> int:
    """The first of a value's levels that is not nearer; ``stop`` for none."""
    while first < stop:
        middle = (first + stop) >> 1
        if memo.levels[middle] < distance:
            first = middle + 1
        else:
            stop = middle
    return first


@inlined
def query_key(concepts: int, a: int, r: int, sign: int) -> int:
    """A number, not 0, for each case."""
    return ((a * (concepts + 1) + r + 1) * 3) + sign + 2


@inlined
def home_slot(memo: CandidateCache, key: int) -> int:
    """Where the case of that key is, unless others were there before."""
    return int64((np.uint64(key) * HASH_MULTIPLIER) >> np.uint64(24)) & (memo.cases.shape[0] - 1)


@inlined
def query_slot(memo: CandidateCache, key: int) -> int:
    """Where the case of that key is, or is to be put."""
    mask = memo.cases.shape[0] - 1
    slot = home_slot(memo, key)
    while memo.cases[slot, KEY] != 0 and memo.cases[slot, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@inlined
def add_query(memo: CandidateCache, slot: int, key: int, levels: int, own: tuple[int, int], ball: int) -> None:
    """Puts a case of so many levels, of which nothing is known. own: (depth, links)."""
    start = memo.used[STATUSES]
    memo.cases[slot, KEY] = key
    memo.cases[slot, START] = start
    memo.cases[slot, OWN] = (this_batch(memo) << BATCH_SHIFT) | (own[0] << DEPTH_SHIFT) | (own[1] << LINKS_SHIFT)
    memo.cases[slot, BALL] = ball
    for j in range(start, start + levels):
        memo.statuses[j] = UNKNOWN
    memo.used[STATUSES] = start + levels
    memo.used[CASES] += 1


@inlined
def own_distance_of(memo: CandidateCache, slot: int) -> tuple[int, int]:
    """(depth, links) between a case's value and its reference."""
    own = memo.cases[slot, OWN]
    return (own >> DEPTH_SHIFT) & DEPTH_MASK, (own >> LINKS_SHIFT) & LINKS_MASK


@inlined
def this_batch(memo: CandidateCache) -> int:
    """The batch's number, of which only the last bits are told."""
    return memo.used[BATCHES] & BATCH_MASK


@inlined
def mark_requested_again(memo: CandidateCache, slot: int) -> None:
    """Marks a case that an earlier batch brought."""
    if memo.cases[slot, OWN] >> BATCH_SHIFT != this_batch(memo):
        memo.cases[slot, OWN] |= REQUESTED_AGAIN


@inlined
def clear_cache(memo: CandidateCache, rows: Int64Matrix, i: int) -> None:
    """Makes a case of rows like those of ``CandidateCache.cases`` one of this batch, not marked."""
    own = rows[i, OWN] & ((int64(1) << BATCH_SHIFT) - 1) & ~REQUESTED_AGAIN
    rows[i, OWN] = own | (this_batch(memo) << BATCH_SHIFT)


@inlined
def cached_value(memo: CandidateCache, key: int) -> int:
    """The number of the value of a case, by its key."""
    return int64(memo.value_at[(key - 1) // 3 // (memo.value_at.size + 1)])


@inlined
def has_place(memo: CandidateCache, count: int) -> bool:
    """Whether a list of so many has room."""
    return memo.used[FOUND] + count < memo.found.size


@inlined
def locate(lists: MemberLists, memo: CandidateCache, level: int, place: int) -> tuple[int, int]:
    """The group and the index in ``Lists.members`` of the member at a place of the level."""
    g = int64(memo.first_group[level])
    while True:
        x = memo.groups[2 * g]
        start = int64(lists.starts[x])
        size = lists.starts[x + 1] - start
        if place < size:
            return g, start + place
        place -= size
        g += 1


@inlined
def is_enumerated(found: Int32Array, at: int, place: int) -> bool:
    """Whether a place is on the list at ``found[at]``."""
    low = int64(at + 1)
    high = low + found[at]
    while low < high:
        middle = (low + high) >> 1
        if found[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low <= at + found[at] and found[low] == place
