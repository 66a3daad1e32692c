"""Listing what is admissible on a level of a case, once while it is remembered.

* A level of few members: they are looked at one by one.
* A larger one: its lists are swept, less the blocks and members that bounds rule out (``dag_bounds``).
* With sign < 0, and fewer concepts that may be nearer to the reference than members: these are looked at, for all
  levels at once. Such lists are of concepts; one that is drawn from is made one of places in order before.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Array
from stream_masker.core.kernels.cache_lines import ANCESTOR_LINE, ROW_WORDS
from stream_masker.core.kernels.intrinsics import prefetch
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.replacement.dag.cache import (
    BALL,
    EMPTY,
    FOUND,
    LISTED,
    MOST_LISTED,
    START,
    THERE,
    CandidateCache,
    first_level_at,
    has_place,
)
from stream_masker.core.replacement.dag.index import BLOCK_BIT_WORDS, DEEPEST, MEMBER_BLOCK, GraphArrays, MemberLists
from stream_masker.core.replacement.dag.pruning import (
    distance_bound,
    fill_links,
    first_after,
    is_covered,
    is_deep_enough,
    is_list_prunable,
    is_prunable,
    longest,
    may_share,
)
from stream_masker.core.replacement.dag.scratch import (
    ENOUGH,
    FEW_MEMBERS,
    MARKED,
    READY,
    REFERENCE,
    ROOT_PATH,
    SELF,
    VALUE,
    AncestorScratch,
    common_subsumer,
    fits,
    mark,
)
from stream_masker.core.replacement.levels import passes, wu_palmer_level

LOW = np.int64(0xFFFFFFFF)
"""The lower half of an entry: of a group and an index in ``Lists.members``, or of a level and a concept."""

NEAR_SET_SHARE = 2
"""What is nearer to the reference is looked at instead of a level of at least so many times as many members."""

FEW_TO_LIST = 2
"""Members of a block that are rather looked at than asked for by what covers them."""


@inlined
def prefetch_member(graph: GraphArrays, c: int) -> None:
    """Asks for the ancestors of a concept that is to be looked at soon."""
    prefetch(graph.up, ANCESTOR_LINE * int64(c))


@inlined
def is_level_member(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    entry: int,
) -> bool:
    """Whether a level's member is admissible. entry: its group · 2³² + its index in ``Lists.members``."""
    g = entry >> 32
    return fits(graph, work, case, int64(lists.members[entry & LOW]), work.steps[memo.groups[2 * g + 1], SELF])


@part
def list_admissible(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    slot: int,
    first: int,
    level: int,
    at: int,
) -> None:
    """Lists the admissible members of a level, whose status is at ``at``."""
    if memo.sizes[level] <= FEW_MEMBERS and work.state[READY] == MARKED and has_place(memo, FEW_MEMBERS):
        list_few(graph, lists, memo, work, case, level, at)
    elif case[2] < 0 and memo.cases[slot, BALL] <= min(memo.sizes[level] // NEAR_SET_SHARE, work.entries.size):
        list_near_set(graph, lists, memo, work, case, slot, first)
    else:
        list_level(graph, lists, memo, work, case, level, at)


@inlined
def list_few(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    level: int,
    at: int,
) -> None:
    """Looks at all members of a level of few."""
    begin = memo.used[FOUND]
    size, count = 0, 0
    for g in range(memo.first_group[level], memo.first_group[level + 1]):
        for y in range(lists.starts[memo.groups[2 * g]], lists.starts[memo.groups[2 * g] + 1]):
            prefetch_member(graph, lists.members[y])
            work.few[size] = (int64(g) << 32) + y
            size += 1
    for place in range(size):
        if is_level_member(graph, lists, memo, work, case, work.few[place]):
            count += 1
            memo.found[begin + count] = place
    keep_list(memo, at, begin, count)


@inlined
def keep_list(memo: CandidateCache, at: int, begin: int, count: int) -> None:
    """Writes the status of a level that has been listed after ``begin``."""
    memo.statuses[at] = EMPTY
    if count > 0:
        memo.found[begin] = count
        memo.used[FOUND] = begin + count + 1
        memo.statuses[at] = LISTED + begin


@inlined
def list_level(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    level: int,
    at: int,
) -> None:
    """Sweeps a level. More than there is room for are only known to be there."""
    distance_bound(graph, work, case)
    begin = memo.used[FOUND]
    room = min(MOST_LISTED, memo.found.size - begin - 1)
    count = sweep_level(graph, lists, memo, work, case, level, -1, room)[0]
    if count <= room:
        keep_list(memo, at, begin, count)
    else:
        memo.statuses[at] = THERE


@part
def sweep_level(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    level: int,
    wanted: int,
    room: int,
) -> tuple[int, int]:
    """(the number of admissible members, the place of the wanted-th); writes the first places, as many as have room,
    after ``memo.used[FOUND]``."""
    count, place, before = int64(0), int64(-1), int64(0)
    for g in range(memo.first_group[level], memo.first_group[level + 1]):
        x, i = int64(memo.groups[2 * g]), int64(memo.groups[2 * g + 1])
        if not is_list_prunable(graph, lists, work, case[2], x, i):
            count, place = sweep_list(graph, lists, memo, work, case, (g, before), count, place, wanted, room)
        before += int64(lists.starts[x + 1]) - lists.starts[x]
    return count, place


@part
def sweep_list(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    where: tuple[int, int],
    count: int,
    place: int,
    wanted: int,
    room: int,
) -> tuple[int, int]:
    """As ``sweep_level``, of one list; goes on from count and place. Many members are asked for at a time."""
    g, before = where
    sign = case[2]
    x, i = int64(memo.groups[2 * g]), int64(memo.groups[2 * g + 1])
    k = x - lists.first[work.steps[i, SELF]]
    start, stop = int64(lists.starts[x]), int64(lists.starts[x + 1])
    unsure = stop
    if sign < 0:
        unsure = first_after(graph, lists, start, stop, work.steps[i, ROOT_PATH])
        stop = first_after(graph, lists, unsure, stop, longest(work, i))
    elif sign > 0 and k < work.steps[i, ENOUGH]:
        unsure = start
    y = start
    while y < stop:
        y, size = gather_members(graph, lists, work, sign, (g, i, k), y, stop, unsure)
        for n in range(sift(graph, lists, memo, work, case, size)):
            if is_level_member(graph, lists, memo, work, case, work.kept[n]):
                z = before + (work.kept[n] & LOW) - start
                if count == wanted:
                    place = z
                if count < room:
                    memo.found[memo.used[FOUND] + 1 + count] = z
                count += 1
    return count, place


@inlined
def gather_members(
    graph: GraphArrays,
    lists: MemberLists,
    work: AncestorScratch,
    sign: int,
    where: tuple[int, int, int],
    y: int,
    stop: int,
    unsure: int,
) -> tuple[int, int]:
    """Keeps what blocks do not rule out of a list's members from y on, as many as have room; asks for the bits of those
    from ``unsure`` on. (Where it goes on, their number)."""
    g, i, k = where
    size = 0
    while y < stop and size + MEMBER_BLOCK <= work.kept.size:
        end = min(stop, (y // MEMBER_BLOCK + 1) * MEMBER_BLOCK)
        for z in range(y, last_viable_block(graph, lists, work, sign, i, k, y, end, unsure)):
            if z >= unsure:
                prefetch(graph.rows, ROW_WORDS * int64(lists.members[z]))
            work.kept[size] = (g << 32) + z
            size += 1
        y = end
    return y, size


@inlined
def sift(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    size: int,
) -> int:
    """Of the first entries of ``Work.kept``, so many, keeps those that may be admissible, and asks for them; their
    number."""
    count = 0
    for n in range(size):
        g = work.kept[n] >> 32
        i = int64(memo.groups[2 * g + 1])
        k = memo.groups[2 * g] - lists.first[work.steps[i, SELF]]
        c = int64(lists.members[work.kept[n] & LOW])
        if not is_prunable(graph, work, case[2], i, k, c):
            work.kept[count] = work.kept[n]
            prefetch_member(graph, c)
            count += 1
    return count


@inlined
def last_viable_block(
    graph: GraphArrays,
    lists: MemberLists,
    work: AncestorScratch,
    sign: int,
    i: int,
    k: int,
    y: int,
    end: int,
    unsure: int,
) -> int:
    """Up to where members of the block of y, which ends at ``end``, may be admissible: y if none. For sign < 0 those
    before ``unsure`` may, whatever they share."""
    block = (y // MEMBER_BLOCK) * BLOCK_BIT_WORDS
    last = end
    if sign != 0:
        number = -int64(lists.blocks[block + DEEPEST]) if sign > 0 else int64(graph.root_path[lists.members[y]])
        touched = may_share(lists.blocks, block, work, number)
        if sign < 0 and not touched:
            last = max(y, min(end, unsure))
        if sign > 0 and not is_deep_enough(lists, work, i, k, block, touched):
            last = y
    if last - y > FEW_TO_LIST and is_covered(graph, lists, work, i, block):
        last = y
    return last


@inlined
def reach(graph: GraphArrays, lists: MemberLists, work: AncestorScratch, j: int) -> int:
    """How many lists of an ancestor of r, entry j of the closure, may hold concepts nearer to r, by ``Work.links``."""
    t = int64(graph.ancestors[j])
    return max(min(work.links[graph.depth[t]] - graph.paths[j], lists.first[t + 1] - lists.first[t]), int64(0))


@part
def near_set_size(graph: GraphArrays, lists: MemberLists, work: AncestorScratch, r: int, own: tuple[int, int]) -> int:
    """How many members of lists, at least, hold all concepts nearer to r than own."""
    fill_links(graph, work, own, False)
    total = int64(0)
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        x = lists.first[graph.ancestors[j]]
        total += lists.starts[x + reach(graph, lists, work, j)] - lists.starts[x]
    return total


@part
def list_near_set(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    slot: int,
    first: int,
) -> None:
    """Lists the admissible members of all levels of a case with sign < 0, by looking at what is near to r."""
    distance_bound(graph, work, case)
    r, count, size = case[1], int64(0), 0
    stop = memo.first_level[memo.value_at[case[0]] + 1]
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        t = int64(graph.ancestors[j])
        start = lists.starts[lists.first[t]]
        for y in range(start, lists.starts[lists.first[t] + reach(graph, lists, work, j)]):
            work.kept[size] = (t << 32) + lists.members[y]
            prefetch_member(graph, lists.members[y])
            size += 1
            if size == work.kept.size:
                count = search_near_set(graph, memo, work, case, first, stop, size, count)
                size = 0
    count = search_near_set(graph, memo, work, case, first, stop, size, count)
    keep_lists(memo, work, memo.cases[slot, START], stop - first, count)


@part
def search_near_set(
    graph: GraphArrays,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    first: int,
    stop: int,
    size: int,
    count: int,
) -> int:
    """Of so many entries of ``Work.kept``, each a member of a list of t and t, puts down those that are admissible and
    have t for their least common subsumer with r, so that each comes once, with its level; the number of all that are
    put down."""
    for n in range(size):
        c = work.kept[n] & LOW
        t, depth, links = common_subsumer(graph, work, c, REFERENCE)
        if t == work.kept[n] >> 32 and c != case[0] and passes(case[2], depth, links, case[3]):
            _, depth, links = common_subsumer(graph, work, c, VALUE)
            level = first_level_at(memo, first, stop, wu_palmer_level(depth, links))
            work.entries[count] = ((level - first) << 32) + c
            count += 1
    return count


@inlined
def keep_lists(memo: CandidateCache, work: AncestorScratch, start: int, levels: int, count: int) -> None:
    """Writes the lists of all levels from entries, level · 2³² + concept; what has no room is only known to be there.
    The number of a list of concepts is written with a minus."""
    entries, statuses, found = work.entries, memo.statuses, memo.found
    for j in range(start, start + levels):
        statuses[j] = 0
    for i in range(count):
        statuses[start + (entries[i] >> 32)] += 1
    for j in range(start, start + levels):
        size = int64(statuses[j])
        begin = memo.used[FOUND]
        statuses[j] = EMPTY if size == 0 else THERE
        if 0 < size <= MOST_LISTED and has_place(memo, size):
            memo.used[FOUND] = begin + 1 + size
            statuses[j] = LISTED + begin
            found[begin] = 0
    for i in range(count):
        begin = int64(statuses[start + (entries[i] >> 32)]) - LISTED
        if begin >= 0:
            found[begin] -= 1
            found[begin - found[begin]] = entries[i] & LOW


@part
def put_in_order(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    level: int,
    begin: int,
) -> None:
    """Makes a list of concepts one of their places, ascending."""
    mark(graph, work, case)
    found = memo.found
    count = -int64(found[begin])
    for i in range(begin + 1, begin + 1 + count):
        c = int64(found[i])
        s, _, links = common_subsumer(graph, work, c, VALUE)
        found[i] = member_place(graph, lists, memo, level, s, links - work.marks[2 * s + VALUE] + 1, c)
    sort(found, begin + 1, count)
    found[begin] = count


@inlined
def sort(entries: Int32Array, start: int, count: int) -> None:
    """Sorts so many entries from ``start`` on, by the gaps of Shell and Knuth."""
    gap = 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(start + gap, start + count):
            entry = entries[i]
            j = i
            while j >= start + gap and entries[j - gap] > entry:
                entries[j] = entries[j - gap]
                j -= gap
            entries[j] = entry
        gap //= 3


@inlined
def member_place(
    graph: GraphArrays, lists: MemberLists, memo: CandidateCache, level: int, s: int, path: int, c: int
) -> int:
    """The place among the members of a level of c, so many links below s."""
    x = lists.first[s] + path
    place = int64(0)
    g = memo.first_group[level]
    while memo.groups[2 * g] != x:
        place += lists.starts[memo.groups[2 * g] + 1] - lists.starts[memo.groups[2 * g]]
        g += 1
    low, high = int64(lists.starts[x]), int64(lists.starts[x + 1])
    while low < high:
        middle = (low + high) >> 1
        other = lists.members[middle]
        before = graph.root_path[other] < graph.root_path[c]
        if before or (graph.root_path[other] == graph.root_path[c] and lists.preorder[other] < lists.preorder[c]):
            low = middle + 1
        else:
            high = middle
    return place + low - lists.starts[x]
