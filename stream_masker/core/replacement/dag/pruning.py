"""Which members of a list are admissible, and how to tell of whole blocks that none is.

Let a be the value, r its reference, x the own distance sd(a, r), s an ancestor of a, and c a member of the list of s
with k links up to it. c belongs to the level if s is the least common subsumer of a and c: so no common ancestor of
both lies deeper, and of those as deep none has shorter paths in sum, or the same and a greater position (so that c
counts once). What cannot be admissible:

* Where s has an ancestor's depth, and c lies below a deeper ancestor of a. Of a block, what covers it tells.
* Farther (sign > 0). r and s share a subsumer at depth q, with p links; so do r and c, with at most p + k links, if
  they share nothing deeper. If p + k links are not farther than x, c needs a common ancestor u with r deeper than q.
  c reaches u by at most depth(c) - depth(u) links, so that depth(c) must exceed a bound, the least over all u: one
  bound over what a and r share, and one over the rest, of which c's bits tell whether it may share any.
  Of a whole level the same is told from depth(r) instead: over u there are at most depth(c) + depth(r) - 2 depth(u)
  links, so that depth(c) + depth(r) must exceed a bound that is least for depth(u) = q + 1.
* Nearer (sign < 0). If c and r share nothing but what a and r do, at most as deep as s, then for some such u the path
  from c up to u is at least root_path(c) - root_path(u) long; so root_path(c) has a greatest value. So it has if c lies
  below another ancestor u of r, of which again c's bits tell. Neither value exceeds that of all descendants of u.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import UInt64Array
from stream_masker.core.kernels.cache_lines import ANCESTOR_LINE, ROW_WORDS, has_common_bit
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.replacement.dag.cache import CandidateCache
from stream_masker.core.replacement.dag.index import COVER, DEEPEST, GraphArrays, MemberLists, next_above
from stream_masker.core.replacement.dag.scratch import (
    BOUNDED,
    BY_OTHERS,
    BY_SHARED,
    COUNT,
    DEPTH,
    ENOUGH,
    FIRST,
    LIMIT,
    LINKS,
    LONGEST,
    MARKED,
    READY,
    REFERENCE,
    ROOT_PATH,
    SECOND,
    SELF,
    SHARED,
    VALUE,
    AncestorScratch,
    common_subsumer,
    mark,
)
from stream_masker.core.replacement.levels import passes

BEYOND_REACH = np.int64(1 << 60)


@part
def distance_bound(graph: GraphArrays, work: AncestorScratch, case: tuple[int, int, int, tuple[int, int]]) -> None:
    """Marks a case, and fills what rules concepts out, unless that is done."""
    mark(graph, work, case)
    a, r, sign, own = case
    if work.state[READY] == MARKED and sign != 0:
        count = graph.offsets[a + 1] - graph.offsets[a]
        fill_links(graph, work, own, sign > 0)
        work.others[0, COUNT] = 0
        for w in range(ROW_WORDS):
            work.mask[w] = 0
        if sign > 0:
            bound_depths(graph, work, count, r)
        else:
            bound_root_paths(graph, work, count)
            list_others(graph, work, r)
    work.state[READY] = BOUNDED


@inlined
def fill_links(graph: GraphArrays, work: AncestorScratch, own: tuple[int, int], beyond: bool) -> None:
    """Writes for each depth the fewest links at a distance of at least ``own`` (``beyond``: of more)."""
    links = int64(0)
    rest = int64(0) if beyond else own[0] - 1
    for depth in range(1, graph.begins.size - 1):
        rest += own[1]
        while rest >= own[0]:
            rest -= own[0]
            links += 1
        work.links[depth] = links + 1 if beyond else links


@inlined
def relate_block(graph: GraphArrays, work: AncestorScratch, i: int) -> None:
    """Writes what step i shares with r, from what its parents do, which are later steps."""
    steps = work.steps
    s = steps[i, SELF]
    links = int64(work.marks[2 * s + REFERENCE]) - 1
    depth = steps[i, DEPTH]
    if links < 0:
        depth = int64(0)
        for j in range(graph.parent_offsets[s], graph.parent_offsets[s + 1]):
            h = int64(work.step_of[graph.parents[j]])
            above, more = steps[h, SHARED], steps[h, LINKS] + 1
            if above > depth or (above == depth and more < links):
                depth, links = above, more
    steps[i, SHARED], steps[i, LINKS] = depth, links


@inlined
def bound_depths(graph: GraphArrays, work: AncestorScratch, count: int, r: int) -> None:
    """Fills what sign > 0 needs."""
    steps, shared_with_a = work.steps, int64(0)
    for i in range(work.by_others.size):
        work.by_others[i] = BEYOND_REACH
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        u = int64(graph.ancestors[j])
        depth = int64(graph.depth[u])
        far = work.links[depth] - 1 + depth - graph.paths[j]
        if work.marks[2 * u + VALUE] == 0:
            add_other(graph, work, u, -far - 1)
            work.by_others[depth - 1] = min(work.by_others[depth - 1], far)
        else:
            work.common[shared_with_a, 0], work.common[shared_with_a, 1] = depth, far
            shared_with_a += 1
    for i in range(work.by_others.size - 2, -1, -1):
        work.by_others[i] = min(work.by_others[i], work.by_others[i + 1])
    for i in range(count - 1, -1, -1):
        relate_block(graph, work, i)
        steps[i, ENOUGH] = work.links[steps[i, SHARED]] - steps[i, LINKS]
        by_shared = BEYOND_REACH
        for j in range(shared_with_a):
            if steps[i, SHARED] < work.common[j, 0] <= steps[i, DEPTH]:
                by_shared = min(by_shared, work.common[j, 1])
        steps[i, BY_SHARED], steps[i, BY_OTHERS] = by_shared, work.by_others[steps[i, SHARED]]


@inlined
def bound_root_paths(graph: GraphArrays, work: AncestorScratch, count: int) -> None:
    """Fills what sign < 0 needs: for each step the greatest over those that are not deeper."""
    steps = work.steps
    greatest = int64(-1)
    i = count - 1
    while i >= 0:
        h = i
        while h >= 0 and steps[h, DEPTH] == steps[i, DEPTH]:
            s = steps[h, SELF]
            marked = int64(work.marks[2 * s + REFERENCE])
            most = work.links[steps[h, DEPTH]] - marked
            if marked > 0 and most >= 0:
                greatest = max(greatest, min(most + graph.root_path[s], graph.longest[s]))
            h -= 1
        for j in range(h + 1, i + 1):
            steps[j, ROOT_PATH] = greatest
        i = h


@inlined
def list_others(graph: GraphArrays, work: AncestorScratch, r: int) -> None:
    """Lists, for sign < 0, the ancestors of r that a has not, each with the greatest root_path with which a concept
    below it may be near enough over it."""
    work.state[LONGEST] = -1
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        u = int64(graph.ancestors[j])
        most = work.links[graph.depth[u]] - 1 - graph.paths[j]
        if work.marks[2 * u + VALUE] == 0 and most >= 0:
            limit = min(most + graph.root_path[u], graph.longest[u])
            work.state[LONGEST] = max(work.state[LONGEST], limit)
            add_other(graph, work, u, limit)


@inlined
def longest(work: AncestorScratch, i: int) -> int:
    """For sign < 0: the longest path up to the root that a member of a list of step i may have."""
    return max(work.steps[i, ROOT_PATH], work.state[LONGEST])


@inlined
def add_other(graph: GraphArrays, work: AncestorScratch, u: int, limit: int) -> None:
    """Puts an ancestor of r that a has not on the list of those that a concept may be below."""
    count = work.others[0, COUNT]
    work.others[count, FIRST], work.others[count, SECOND] = graph.bits[u, 0], graph.bits[u, 1]
    work.others[count, LIMIT] = limit
    work.mask[graph.bits[u, 0] >> 6] |= np.uint64(1) << np.uint64(graph.bits[u, 0] & 63)
    work.others[0, COUNT] = count + 1


@inlined
def has_bit(words: UInt64Array, at: int, bit: int) -> bool:
    """Whether the words from ``at`` on have a bit."""
    return (words[at + (bit >> 6)] >> np.uint64(bit & 63)) & np.uint64(1) != np.uint64(0)


@inlined
def may_share(words: UInt64Array, at: int, work: AncestorScratch, number: int) -> bool:
    """Whether what has these words from ``at`` on may be below one of the others, and be admissible for that.

    number: its root_path (sign < 0) or minus its depth, or what of several is the least.
    """
    if not has_common_bit(words, at, work.mask):
        return False
    others = work.others
    for i in range(others[0, COUNT]):
        matters = number <= others[i, LIMIT]
        if matters and has_bit(words, at, others[i, FIRST]) and has_bit(words, at, others[i, SECOND]):
            return True
    return False


@inlined
def is_deep_enough(lists: MemberLists, work: AncestorScratch, i: int, k: int, block: int, touched: bool) -> bool:
    """For sign > 0: whether any of a block's members with k links up to step i may be farther."""
    if k >= work.steps[i, ENOUGH]:
        return True
    deepest = int64(lists.blocks[block + DEEPEST])
    return deepest > work.steps[i, BY_SHARED] or (touched and deepest > work.steps[i, BY_OTHERS])


@inlined
def is_prunable(graph: GraphArrays, work: AncestorScratch, sign: int, i: int, k: int, c: int) -> bool:
    """Whether c, with k links up to step i, cannot be admissible, as its depths and bits tell."""
    steps = work.steps
    if sign == 0 or (sign > 0 and k >= steps[i, ENOUGH]):
        return False
    if sign > 0:
        depth = graph.depth[c]
        if depth > steps[i, BY_SHARED]:
            return False
        return depth <= steps[i, BY_OTHERS] or not may_share(graph.rows, ROW_WORDS * c, work, -depth)
    root_path = int64(graph.root_path[c])
    if root_path <= steps[i, ROOT_PATH]:
        return False
    return root_path > work.state[LONGEST] or not may_share(graph.rows, ROW_WORDS * c, work, root_path)


@inlined
def is_covered(graph: GraphArrays, lists: MemberLists, work: AncestorScratch, i: int, block: int) -> bool:
    """Whether all members of a block lie below an ancestor of a that is deeper than step i."""
    end = graph.begins[work.steps[i, DEPTH] + 1]
    at, x = ANCESTOR_LINE * int64(lists.blocks[block + COVER]), end
    while x >= end:
        x, _, at = next_above(graph, at)
        if x >= end and work.marks[2 * x + VALUE] > 0:
            return True
    return False


@inlined
def is_too_near(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    level: int,
) -> bool:
    """For sign > 0: whether no member of a level can be farther, as what its lists share with r and their greatest
    depths tell."""
    mark(graph, work, case)
    _, r, sign, (own_depth, own_links) = case
    for g in range(memo.first_group[level], memo.first_group[level + 1]):
        x = int64(memo.groups[2 * g])
        s = work.steps[memo.groups[2 * g + 1], SELF]
        _, depth, links = common_subsumer(graph, work, s, REFERENCE)
        if passes(sign, depth, links + x - lists.first[s], case[3]):
            return False
        if (int64(lists.deepest[x]) + graph.depth[r]) * own_depth > (2 * own_depth + own_links) * (depth + 1):
            return False
    return True


@inlined
def is_list_prunable(graph: GraphArrays, lists: MemberLists, work: AncestorScratch, sign: int, x: int, i: int) -> bool:
    """Whether no member of a list x of step i can be admissible: all have too long a path up to the root (sign < 0), or
    none is deep enough to be farther over another subsumer (sign > 0)."""
    if sign == 0 or (sign > 0 and x - lists.first[work.steps[i, SELF]] >= work.steps[i, ENOUGH]):
        return False
    if sign > 0:
        return lists.deepest[x] <= min(work.steps[i, BY_SHARED], work.steps[i, BY_OTHERS])
    return graph.root_path[lists.members[lists.starts[x]]] > longest(work, i)


@inlined
def first_after(graph: GraphArrays, lists: MemberLists, start: int, stop: int, root_path: int) -> int:
    """The first member of a list, from start to stop, with a longer path up to the root; stop for none."""
    while start < stop:
        middle = (start + stop) >> 1
        if graph.root_path[lists.members[middle]] <= root_path:
            start = middle + 1
        else:
            stop = middle
    return start
