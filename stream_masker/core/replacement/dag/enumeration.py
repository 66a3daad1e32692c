"""Enumeration of all admissible candidates of a level, done at most once for each query while it is cached.

* A small level: all members are visited.
* A larger one: its lists are swept, except the blocks and members that ``pruning`` excludes.
* With sign < 0, if the near set is smaller than the level: the near set is visited, for all levels of the query at once
  (``near_set``).
"""

from __future__ import annotations

from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.replacement.dag.cache import (
    EMPTY,
    LISTED,
    LISTED_PLACES,
    MAX_LISTED,
    NONEMPTY,
    CandidateCache,
    is_room_to_list,
)
from stream_masker.core.replacement.dag.index import (
    BLOCK_WORDS,
    DEEPEST,
    MEMBER_BLOCK,
    GraphArrays,
    MemberLists,
)
from stream_masker.core.replacement.dag.near_set import enumerate_near_set
from stream_masker.core.replacement.dag.pruning import (
    compute_bounds,
    first_longer,
    is_covered,
    is_deep_enough,
    is_list_prunable,
    is_prunable,
    longest_root_path,
    may_be_below_other,
)
from stream_masker.core.replacement.dag.query import Query
from stream_masker.core.replacement.dag.scratch import (
    MARKED,
    MAX_SMALL_LEVEL,
    STAGE,
    AncestorScratch,
    DagArrays,
    is_admissible_over,
)

NEAR_SET_SHARE = 2
"""The near set is visited instead of a level that has at least this many times as many members."""

FEW_IN_BLOCK = 2
"""Up to this number of members of a block are visited without a test of the block's cover."""


@inlined
def is_admissible_member(dag: DagArrays, query: Query, g: int, y: int) -> bool:
    """Return whether ``MemberLists.members[y]``, in group g of a level, is an admissible member of the level."""
    s = dag.scratch.steps[dag.cache.groups[g].step].concept
    return is_admissible_over(dag.graph, dag.scratch, query, int64(dag.lists.members[y]), s)


@part
def enumerate_level(dag: DagArrays, query: Query, level: int, at: int) -> None:
    """List the admissible members of a level, and write its status, which has index ``at``."""
    cache, scratch = dag.cache, dag.scratch
    is_small = cache.sizes[level] <= MAX_SMALL_LEVEL and scratch.state[STAGE] == MARKED
    if is_small and is_room_to_list(cache, MAX_SMALL_LEVEL):
        enumerate_small_level(dag, query, level, at)
    elif query.sign < 0 and cache.queries[query.entry].near_set <= min(
        cache.sizes[level] // NEAR_SET_SHARE, scratch.admissible.size
    ):
        enumerate_near_set(dag, query)
    else:
        enumerate_by_sweep(dag, query, level, at)


@inlined
def enumerate_small_level(dag: DagArrays, query: Query, level: int, at: int) -> None:
    """Visit all members of a level of at most ``MAX_SMALL_LEVEL``."""
    _, lists, cache, scratch = dag
    begin = cache.used[LISTED_PLACES]
    members = scratch.small_level
    size, count = 0, 0
    for g in range(cache.first_group[level], cache.first_group[level + 1]):
        x = cache.groups[g].list
        for y in range(lists.starts[x], lists.starts[x + 1]):
            members[size].group = g
            members[size].index = y
            size += 1
    for place in range(size):
        if is_admissible_member(dag, query, int64(members[place].group), int64(members[place].index)):
            count += 1
            cache.listed[begin + count] = place
    keep_list(cache, at, begin, count)


@inlined
def keep_list(cache: CandidateCache, at: int, begin: int, count: int) -> None:
    """Keep the list of places that follows ``listed[begin]``, and write the status at ``at``."""
    cache.statuses[at] = EMPTY
    if count > 0:
        cache.listed[begin] = count
        cache.used[LISTED_PLACES] = begin + count + 1
        cache.statuses[at] = LISTED + begin


@inlined
def enumerate_by_sweep(dag: DagArrays, query: Query, level: int, at: int) -> None:
    """Sweep a level. If there are more admissible members than fit, only their existence is kept."""
    compute_bounds(dag.graph, dag.scratch, query)
    cache = dag.cache
    begin = cache.used[LISTED_PLACES]
    room = min(MAX_LISTED, cache.listed.size - begin - 1)
    count = sweep_level(dag, query, level, -1, room)[0]
    if count <= room:
        keep_list(cache, at, begin, count)
    else:
        cache.statuses[at] = NONEMPTY


@part
def sweep_level(dag: DagArrays, query: Query, level: int, wanted: int, room: int) -> tuple[int, int]:
    """Return the number of admissible members, and the place of the one with index ``wanted`` among them, or -1.

    Write the first ``room`` places after ``listed[used[LISTED_PLACES]]``. The bounds of the query must be computed.
    """
    graph, lists, cache, scratch = dag
    count, place, before = int64(0), int64(-1), int64(0)
    for g in range(cache.first_group[level], cache.first_group[level + 1]):
        x, i = int64(cache.groups[g].list), int64(cache.groups[g].step)
        if not is_list_prunable(graph, lists, scratch, query.sign, x, i):
            count, place = sweep_list(dag, query, g, before, count, place, wanted, room)
        before += int64(lists.starts[x + 1]) - lists.starts[x]
    return count, place


@part
def sweep_list(
    dag: DagArrays, query: Query, g: int, before: int, count: int, place: int, wanted: int, room: int
) -> tuple[int, int]:
    """Run ``sweep_level`` for one group, after the ``before`` members of other groups; continue from count and place.

    Members are gathered, sifted and visited in rounds of up to ``MAX_MEMBERS``, so that the processor loads many
    ancestor lines at a time.
    """
    graph, lists, cache, scratch = dag
    x, i = int64(cache.groups[g].list), int64(cache.groups[g].step)
    k = x - lists.first[scratch.steps[i].concept]
    start, stop = int64(lists.starts[x]), int64(lists.starts[x + 1])
    unsure = stop
    if query.sign < 0:
        unsure = first_longer(graph, lists, start, stop, scratch.steps[i].root_path)
        stop = first_longer(graph, lists, unsure, stop, longest_root_path(scratch, i))
    elif query.sign > 0 and k < scratch.steps[i].enough_links:
        unsure = start
    y = start
    while y < stop:
        y, size = gather_members(graph, lists, scratch, query.sign, g, i, k, y, stop, unsure)
        for n in range(sift_members(dag, query.sign, size)):
            index = int64(scratch.members[n].index)
            if is_admissible_member(dag, query, g, index):
                z = before + index - start
                if count == wanted:
                    place = z
                if count < room:
                    cache.listed[cache.used[LISTED_PLACES] + 1 + count] = z
                count += 1
    return count, place


@inlined
def gather_members(
    graph: GraphArrays,
    lists: MemberLists,
    scratch: AncestorScratch,
    sign: int,
    g: int,
    i: int,
    k: int,
    y: int,
    stop: int,
    unsure: int,
) -> tuple[int, int]:
    """Gather the members y … stop - 1 of group g, a list of step i, in ``AncestorScratch.members`` while there is room.

    Members of excluded blocks are left out. Return the index where to continue, and the number of members gathered.
    """
    size = 0
    while y < stop and size + MEMBER_BLOCK <= scratch.members.size:
        end = min(stop, (y // MEMBER_BLOCK + 1) * MEMBER_BLOCK)
        for z in range(y, viable_end(graph, lists, scratch, sign, i, k, y, end, unsure)):
            scratch.members[size].group = g
            scratch.members[size].index = z
            size += 1
        y = end
    return y, size


@inlined
def sift_members(dag: DagArrays, sign: int, size: int) -> int:
    """Keep those of the first ``size`` entries of ``AncestorScratch.members`` that may be admissible.

    Return their number.
    """
    graph, lists, cache, scratch = dag
    members = scratch.members
    count = 0
    for n in range(size):
        g = int64(members[n].group)
        i = int64(cache.groups[g].step)
        k = cache.groups[g].list - lists.first[scratch.steps[i].concept]
        c = int64(lists.members[members[n].index])
        if not is_prunable(graph, scratch, sign, i, k, c):
            members[count].group = g
            members[count].index = members[n].index
            count += 1
    return count


@inlined
def viable_end(
    graph: GraphArrays,
    lists: MemberLists,
    scratch: AncestorScratch,
    sign: int,
    i: int,
    k: int,
    y: int,
    end: int,
    unsure: int,
) -> int:
    """Return the end of the members from y on, in the block that ends at ``end``, that may be admissible; y if none
    may.

    For sign < 0, those before ``unsure`` may be admissible regardless of the ancestors that they share with r.
    """
    block = (y // MEMBER_BLOCK) * BLOCK_WORDS
    last = end
    if sign != 0:
        number = -int64(lists.blocks[block + DEEPEST]) if sign > 0 else int64(graph.root_path[lists.members[y]])
        is_below = may_be_below_other(lists.blocks, block, scratch, number)
        if sign < 0 and not is_below:
            last = max(y, min(end, unsure))
        if sign > 0 and not is_deep_enough(lists, scratch, i, k, block, is_below):
            last = y
    if last - y > FEW_IN_BLOCK and is_covered(graph, lists, scratch, i, block):
        last = y
    return last
