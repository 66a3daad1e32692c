"""Bounds that exclude members of a list, whole blocks or whole lists that contain no admissible candidate.

Let a be the value, r its reference, x the own distance sd(a, r), s an ancestor of a, and c a member of the list of s
with k links up to it. c belongs to the level if s is the least common subsumer of a and c: no common ancestor of both
is deeper; of those as deep none has fewer links in sum, or as many and a greater position (so that c counts once). c
cannot be admissible in these cases:

* c is below an ancestor of a that is deeper than s. The cover of a block shows this for all its members.
* sign > 0 (farther). Let q be the depth of the least common subsumer of r and s, with p links. If r and c share nothing
  deeper, at most p + k links separate them. If p + k links are not farther than x, c needs a common ancestor u with r
  that is deeper than q. c reaches u by at most depth(c) - depth(u) links, so depth(c) must exceed a bound, the least
  over all such u. There are two bounds: one over the common ancestors of a and r; one over the other ancestors of r,
  which matters only if the signature of c shows that c may be below one of them.
  For a whole level, depth(r) gives another bound: over u there are at most depth(c) + depth(r) - 2 · depth(u) links, so
  depth(c) + depth(r) must exceed a bound that is least for depth(u) = q + 1.
* sign < 0 (nearer). If c and r share only common ancestors of a and r that are at most as deep as s, then for
  some such u the path from c up to u has at least root_path(c) - root_path(u) links, so root_path(c) has an upper
  bound. The same holds if c is below another ancestor u of r, which the signature shows. Neither bound exceeds the
  greatest
  root_path of the descendants of u.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import UInt64Array
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.replacement.dag.index import COVER, DEEPEST, GraphArrays, MemberLists, next_ancestor
from stream_masker.core.replacement.dag.lines import ANCESTOR_LINE, SIGNATURE_WORDS, has_common_bit
from stream_masker.core.replacement.dag.query import Query
from stream_masker.core.replacement.dag.scratch import (
    BOUNDED,
    LONGEST,
    MARKED,
    OTHERS,
    REFERENCE,
    STAGE,
    VALUE,
    AncestorScratch,
    DagArrays,
    common_subsumer,
    mark_query,
)
from stream_masker.core.replacement.rule import Separation, meets_sign

UNBOUNDED = int64(1 << 60)


@part
def compute_bounds(graph: GraphArrays, scratch: AncestorScratch, query: Query) -> None:
    """Mark a query and compute its bounds, unless that has been done."""
    mark_query(graph, scratch, query)
    if scratch.state[STAGE] == MARKED and query.sign != 0:
        steps = graph.offsets[query.value + 1] - graph.offsets[query.value]
        fill_links(graph, scratch, query.own_distance, query.sign > 0)
        scratch.state[OTHERS] = 0
        for w in range(SIGNATURE_WORDS):
            scratch.mask[w] = 0
        if query.sign > 0:
            bound_depths(graph, scratch, steps, query.reference)
        else:
            bound_root_paths(graph, scratch, steps)
            list_others(graph, scratch, query.reference)
    scratch.state[STAGE] = BOUNDED


@inlined
def fill_links(graph: GraphArrays, scratch: AncestorScratch, own_distance: Separation, is_beyond: bool) -> None:
    """Fill ``AncestorScratch.links``: for each depth of a subsumer, the fewest links at a distance of at least the own
    one.

    ``is_beyond``: at a greater distance than the own one.
    """
    links = int64(0)
    rest = int64(0) if is_beyond else own_distance.depth - 1
    for depth in range(1, graph.depth_starts.size - 1):
        rest += own_distance.links
        while rest >= own_distance.depth:
            rest -= own_distance.depth
            links += 1
        scratch.links[depth] = links + 1 if is_beyond else links


@inlined
def relate_step(graph: GraphArrays, scratch: AncestorScratch, i: int) -> None:
    """Write the separation of step i from r. It follows from those of the step's parents, which are later steps."""
    steps = scratch.steps
    s = steps[i].concept
    links = int64(scratch.marks[2 * s + REFERENCE]) - 1
    depth = int64(steps[i].depth)
    if links < 0:
        depth = int64(0)
        for j in range(graph.parent_offsets[s], graph.parent_offsets[s + 1]):
            h = int64(scratch.step_of[graph.parents[j]])
            shared_depth, shared_links = steps[h].shared_depth, steps[h].shared_links + 1
            if shared_depth > depth or (shared_depth == depth and shared_links < links):
                depth, links = shared_depth, shared_links
    steps[i].shared_depth = depth
    steps[i].shared_links = links


@inlined
def bound_depths(graph: GraphArrays, scratch: AncestorScratch, count: int, r: int) -> None:
    """Compute the bounds of the first ``count`` steps for sign > 0."""
    steps, common = scratch.steps, int64(0)
    others = scratch.others_by_depth
    for i in range(others.size):
        others[i] = UNBOUNDED
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        u = int64(graph.ancestors[j])
        depth = int64(graph.depth[u])
        limit = scratch.links[depth] - 1 + depth - graph.paths[j]
        if scratch.marks[2 * u + VALUE] == 0:
            add_other(graph, scratch, u, -limit - 1)
            others[depth - 1] = min(others[depth - 1], limit)
        else:
            scratch.common[common].depth = depth
            scratch.common[common].limit = limit
            common += 1
    for i in range(others.size - 2, -1, -1):
        others[i] = min(others[i], others[i + 1])
    for i in range(count - 1, -1, -1):
        relate_step(graph, scratch, i)
        shared_depth = int64(steps[i].shared_depth)
        steps[i].enough_links = scratch.links[shared_depth] - steps[i].shared_links
        least = UNBOUNDED
        for j in range(common):
            if shared_depth < scratch.common[j].depth <= steps[i].depth:
                least = min(least, scratch.common[j].limit)
        steps[i].depth_over_shared = least
        steps[i].depth_over_others = others[shared_depth]


@inlined
def bound_root_paths(graph: GraphArrays, scratch: AncestorScratch, count: int) -> None:
    """Compute ``root_path`` of ``count`` steps for sign < 0: the greatest over the steps that are not deeper."""
    steps = scratch.steps
    greatest = int64(-1)
    i = count - 1
    while i >= 0:
        h = i
        while h >= 0 and steps[h].depth == steps[i].depth:
            s = steps[h].concept
            mark = int64(scratch.marks[2 * s + REFERENCE])
            most = scratch.links[steps[h].depth] - mark
            if mark > 0 and most >= 0:
                greatest = max(greatest, min(most + graph.root_path[s], graph.max_root_path[s]))
            h -= 1
        for j in range(h + 1, i + 1):
            steps[j].root_path = greatest
        i = h


@inlined
def list_others(graph: GraphArrays, scratch: AncestorScratch, r: int) -> None:
    """List the ancestors of r, but not of a, over which a candidate may be near enough (sign < 0)."""
    scratch.state[LONGEST] = -1
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        u = int64(graph.ancestors[j])
        most = scratch.links[graph.depth[u]] - 1 - graph.paths[j]
        if scratch.marks[2 * u + VALUE] == 0 and most >= 0:
            limit = min(most + graph.root_path[u], graph.max_root_path[u])
            scratch.state[LONGEST] = max(scratch.state[LONGEST], limit)
            add_other(graph, scratch, u, limit)


@inlined
def add_other(graph: GraphArrays, scratch: AncestorScratch, u: int, limit: int) -> None:
    """Add an ancestor of r to ``AncestorScratch.others``."""
    count = scratch.state[OTHERS]
    first, second = int64(graph.signature_bits[u, 0]), int64(graph.signature_bits[u, 1])
    scratch.others[count].first_bit = first
    scratch.others[count].second_bit = second
    scratch.others[count].limit = limit
    scratch.mask[first >> 6] |= np.uint64(1) << np.uint64(first & 63)
    scratch.state[OTHERS] = count + 1


@inlined
def longest_root_path(scratch: AncestorScratch, i: int) -> int:
    """Return the greatest ``root_path`` of an admissible member of a list of step i (sign < 0)."""
    return max(scratch.steps[i].root_path, scratch.state[LONGEST])


@inlined
def has_bit(words: UInt64Array, at: int, bit: int) -> bool:
    """Return whether bit 64 · i + j is set: bit j of the word at index ``at + i``."""
    return (words[at + (bit >> 6)] >> np.uint64(bit & 63)) & np.uint64(1) != np.uint64(0)


@inlined
def may_be_below_other(words: UInt64Array, at: int, scratch: AncestorScratch, number: int) -> bool:
    """Return whether a concept may be admissible because it is below one of ``AncestorScratch.others``.

    at: the index of the concept's signature in ``words``. number: its root_path (sign < 0) or minus its depth (sign >
    0). For the union of several signatures: the least of these numbers.
    """
    if not has_common_bit(words, at, scratch.mask):
        return False
    others = scratch.others
    for i in range(scratch.state[OTHERS]):
        matters = number <= others[i].limit
        if matters and has_bit(words, at, others[i].first_bit) and has_bit(words, at, others[i].second_bit):
            return True
    return False


@inlined
def is_deep_enough(lists: MemberLists, scratch: AncestorScratch, i: int, k: int, block: int, is_below: bool) -> bool:
    """Return whether a member of a block, with k links up to step i, may be far enough (sign > 0).

    block: index of its words; is_below: ``may_be_below_other`` of the block.
    """
    if k >= scratch.steps[i].enough_links:
        return True
    deepest = int64(lists.blocks[block + DEEPEST])
    step = scratch.steps[i]
    return deepest > step.depth_over_shared or (is_below and deepest > step.depth_over_others)


@inlined
def is_prunable(graph: GraphArrays, scratch: AncestorScratch, sign: int, i: int, k: int, c: int) -> bool:
    """Return whether c, with k links up to step i, cannot be admissible by its depth, its root_path and its
    signature."""
    step = scratch.steps[i]
    if sign == 0 or (sign > 0 and k >= step.enough_links):
        return False
    if sign > 0:
        depth = graph.depth[c]
        if depth > step.depth_over_shared:
            return False
        at = SIGNATURE_WORDS * c
        return depth <= step.depth_over_others or not may_be_below_other(graph.signatures, at, scratch, -depth)
    root_path = int64(graph.root_path[c])
    if root_path <= step.root_path:
        return False
    if root_path > scratch.state[LONGEST]:
        return True
    return not may_be_below_other(graph.signatures, SIGNATURE_WORDS * c, scratch, root_path)


@inlined
def is_covered(graph: GraphArrays, lists: MemberLists, scratch: AncestorScratch, i: int, block: int) -> bool:
    """Return whether all members of a block are below an ancestor of a that is deeper than step i."""
    end = graph.depth_starts[scratch.steps[i].depth + 1]
    at, x = ANCESTOR_LINE * int64(lists.blocks[block + COVER]), end
    while x >= end:
        x, _, at = next_ancestor(graph, at)
        if x >= end and scratch.marks[2 * x + VALUE] > 0:
            return True
    return False


@inlined
def is_level_prunable(dag: DagArrays, query: Query, level: int) -> bool:
    """Return whether no member of a level can be far enough (sign > 0).

    This follows from the separations of its lists' concepts from r and from the lists' greatest depths.
    """
    graph, lists, cache, scratch = dag
    mark_query(graph, scratch, query)
    own_depth, own_links = query.own_distance
    for g in range(cache.first_group[level], cache.first_group[level + 1]):
        x = int64(cache.groups[g].list)
        s = scratch.steps[cache.groups[g].step].concept
        _, shared = common_subsumer(graph, scratch, s, REFERENCE)
        farthest = Separation(shared.depth, shared.links + x - lists.first[s])
        if meets_sign(query.sign, farthest, query.own_distance):
            return False
        if (int64(lists.deepest[x]) + graph.depth[query.reference]) * own_depth > (2 * own_depth + own_links) * (
            shared.depth + 1
        ):
            return False
    return True


@inlined
def is_list_prunable(
    graph: GraphArrays, lists: MemberLists, scratch: AncestorScratch, sign: int, x: int, i: int
) -> bool:
    """Return whether no member of list x of step i can be admissible.

    All have too great a root_path (sign < 0), or none is deep enough to be far enough over another subsumer (sign > 0).
    """
    step = scratch.steps[i]
    if sign == 0 or (sign > 0 and x - lists.first[step.concept] >= step.enough_links):
        return False
    if sign > 0:
        return lists.deepest[x] <= min(step.depth_over_shared, step.depth_over_others)
    return graph.root_path[lists.members[lists.starts[x]]] > longest_root_path(scratch, i)


@inlined
def first_longer(graph: GraphArrays, lists: MemberLists, start: int, stop: int, root_path: int) -> int:
    """Return the first of the members start … stop - 1 of one list whose root_path is greater; ``stop`` if none is."""
    while start < stop:
        middle = (start + stop) >> 1
        if graph.root_path[lists.members[middle]] <= root_path:
            start = middle + 1
        else:
            stop = middle
    return start
