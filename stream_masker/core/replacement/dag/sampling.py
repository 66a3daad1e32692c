"""Drawing one admissible candidate of a level, exactly uniformly, without a visit of all members.

The number of members of a level is known; some of them are admissible. Members are tried at random, each with the same
probability, until one is admissible. If a number of tries, which depends on the number of members alone, finds none,
all admissible members are enumerated, and one of them is drawn. So the draw is a function of the query, the level and
the record's random word. An enumeration is cached; later draws read from the list what their tries would have found, so
that the cache never changes a draw.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Array
from stream_masker.core.kernels.draws import index_below
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.replacement.dag.cache import (
    EMPTY,
    LISTED,
    NONEMPTY,
    UNKNOWN,
    CandidateCache,
    is_listed,
    locate,
)
from stream_masker.core.replacement.dag.enumeration import (
    enumerate_level,
    is_admissible_member,
    sift_members,
    sweep_level,
)
from stream_masker.core.replacement.dag.index import HASH_MULTIPLIER
from stream_masker.core.replacement.dag.near_set import enumerate_near_set, sort_listed
from stream_masker.core.replacement.dag.pruning import compute_bounds, is_level_prunable, is_list_prunable
from stream_masker.core.replacement.dag.query import Query
from stream_masker.core.replacement.dag.scratch import BOUNDED, STAGE, DagArrays, mark_query

MAX_UNTRIED = 8
"""A level of at most this number of members is enumerated at once."""
MIN_TRIES, MAX_TRIES, MEMBERS_PER_TRY = 4, 4096, 32
TRIES_PER_ROUND = 16
"""Members that are tried together, after the first ``MIN_TRIES``."""

SMALL_NEAR_SET = 64
"""A near set of at most this number of members is enumerated at once."""

WORD_BITS = 64

MANY_LISTED = 32
"""If more concepts than this are listed but not yet sorted, tries probably find one sooner."""


@inlined
def random_index(seed: np.uint64, turn: int, size: int) -> int:
    """Return integer number ``turn`` of a random sequence (splitmix64) that starts at ``seed``, in 0 … size - 1."""
    word = seed + HASH_MULTIPLIER * np.uint64(turn + 1)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return index_below(word ^ (word >> np.uint64(31)), size)


@inlined
def max_tries(members: int) -> int:
    """Return the number of tries before a level with this number of members is enumerated."""
    return 0 if members <= MAX_UNTRIED else min(MIN_TRIES + members // MEMBERS_PER_TRY, MAX_TRIES)


@part
def draw_from_level(dag: DagArrays, query: Query, j: int, seed: np.uint64) -> int:
    """Draw an admissible candidate of level j of the query's value; -1 if there is none. seed: a random word."""
    cache = dag.cache
    at = cache.queries[query.entry].start + j
    if cache.statuses[at] == UNKNOWN and query.sign < 0 and cache.queries[query.entry].near_set <= SMALL_NEAR_SET:
        enumerate_near_set(dag, query)
    if cache.statuses[at] == EMPTY:
        return int64(-1)
    level = query.first_level + j
    if cache.statuses[at] == UNKNOWN and query.sign > 0 and is_level_prunable(dag, query, level):
        cache.statuses[at] = EMPTY
        return int64(-1)
    turns = max_tries(cache.sizes[level])
    if not is_drawn_from_list(cache, at):
        member = try_members(dag, query, level, turns, seed)
        if member >= 0:
            cache.statuses[at] = max(cache.statuses[at], NONEMPTY)
            return member
    if cache.statuses[at] < LISTED:
        enumerate_level(dag, query, level, at)
    if cache.statuses[at] == EMPTY:
        return int64(-1)
    return draw_enumerated(dag, query, level, at, turns, seed)


@inlined
def is_drawn_from_list(cache: CandidateCache, at: int) -> bool:
    """Return whether the status at an index refers to a list of places, or to a list of few concepts."""
    return cache.statuses[at] >= LISTED and cache.listed[cache.statuses[at] - LISTED] >= -MANY_LISTED


@inlined
def try_members(dag: DagArrays, query: Query, level: int, turns: int, seed: np.uint64) -> int:
    """Return the first admissible member that is tried, or -1 if no tried member is.

    The bounds are computed only after the first rounds, because they cost more than a few tries.
    """
    mark_query(dag.graph, dag.scratch, query)
    turn = min(turns, MIN_TRIES)
    member = try_round(dag, query, level, 0, turn, seed)
    while member < 0 and turn < turns:
        if turn > MIN_TRIES:
            compute_bounds(dag.graph, dag.scratch, query)
        member = try_round(dag, query, level, turn, min(turns, turn + TRIES_PER_ROUND), seed)
        turn += TRIES_PER_ROUND
    return member


@part
def try_round(dag: DagArrays, query: Query, level: int, turn: int, stop: int, seed: np.uint64) -> int:
    """Run ``try_members`` for the tries turn … stop - 1, whose members are gathered together."""
    graph, lists, cache, scratch = dag
    members = scratch.members
    bounded = scratch.state[STAGE] == BOUNDED and query.sign != 0
    count = 0
    for t in range(turn, stop):
        g, y = locate(lists, cache, level, random_index(seed, t, cache.sizes[level]))
        x, i = int64(cache.groups[g].list), int64(cache.groups[g].step)
        if not (bounded and is_list_prunable(graph, lists, scratch, query.sign, x, i)):
            members[count].group = g
            members[count].index = y
            count += 1
    if bounded:
        count = sift_members(dag, query.sign, count)
    for n in range(count):
        index = int64(members[n].index)
        if is_admissible_member(dag, query, int64(members[n].group), index):
            return int64(lists.members[index])
    return int64(-1)


@inlined
def place_bits(listed: Int32Array, begin: int) -> np.uint64:
    """Return the union of ``place_bit`` over the list of places at ``listed[begin]``; all bits if the list is long."""
    bits = np.uint64(0)
    if listed[begin] > WORD_BITS:
        bits = ~bits
    else:
        for i in range(begin + 1, begin + 1 + listed[begin]):
            bits |= place_bit(listed[i])
    return bits


@inlined
def place_bit(place: int) -> np.uint64:
    """One of 64 bits for each place."""
    return np.uint64(1) << (np.uint64(place) & np.uint64(WORD_BITS - 1))


@inlined
def draw_enumerated(dag: DagArrays, query: Query, level: int, at: int, turns: int, seed: np.uint64) -> int:
    """Draw from a level that is enumerated.

    Return the first of ``turns`` tries that is on the list; if none is, return one of the list. A level with too many
    admissible members for a list is swept twice.
    """
    cache = dag.cache
    place = int64(-1)
    if cache.statuses[at] >= LISTED:
        begin = int64(cache.statuses[at] - LISTED)
        if cache.listed[begin] < 0:
            sort_listed(dag, query, level, begin)
        bits = place_bits(cache.listed, begin)
        for turn in range(turns):
            tried = random_index(seed, turn, cache.sizes[level])
            if bits & place_bit(tried) != 0 and is_listed(cache.listed, begin, tried):
                place = tried
                break
        if place < 0:
            place = int64(cache.listed[begin + 1 + random_index(seed, turns, cache.listed[begin])])
    else:
        size = sweep_level(dag, query, level, -1, 0)[0]
        place = sweep_level(dag, query, level, random_index(seed, turns, size), 0)[1]
    return int64(dag.lists.members[locate(dag.lists, cache, level, place)[1]])
