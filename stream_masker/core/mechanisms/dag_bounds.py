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
* Nearer (sign < 0). If c and r share nothing but what a and r do, at most as deep as s, then for some such u the path
  from c up to u is at least root_path(c) - root_path(u) long; so root_path(c) has a greatest value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.compiling import inlined, part
from stream_masker.core.distance.kernels import WU_PALMER
from stream_masker.core.mechanisms.candidates import Int64
from stream_masker.core.mechanisms.dag_bits import ROW_WORDS, has_common_bit
from stream_masker.core.mechanisms.dag_tables import BLOCK, COVER, DEEPEST, Words
from stream_masker.core.mechanisms.levels import (
    first_links,
    is_beyond,
    slope,
    wu_palmer_level,
)

SELF, DEPTH, PATH, SHARED, LINKS, ENOUGH, BY_SHARED, BY_OTHERS, ROOT_PATH = range(9)
"""Columns of ``Work.steps``."""
COLUMNS = 9

FIRST, SECOND, LIMIT, COUNT = range(4)
"""Columns of ``Work.others``; their number stands in the first row."""

MARKED, BOUNDED = 1, 2
"""What ``Work`` holds: the ancestors of a case, and also what rules concepts out."""

LARGEST_BALL = 1 << 14
"""Concepts near a reference that are looked at instead of a level."""

BEYOND = np.int64(1 << 60)
FEW = 2
"""Members of a block that are rather looked at than asked for by what covers them."""


class Work(NamedTuple):
    """Room for one value at a time.

    marks: (2m,) links + 1 up to each ancestor of a (even places) and of r (odd ones), 0 for what is none; all 0 between
    values. step_of: (m,) the step of each ancestor of a. ready: 0, ``MARKED`` or ``BOUNDED``.

    steps: (ancestors of a, 9), deepest first: the position, depth and path of each; the depth and links that it shares
    with r; the fewest links from which on sharing these is far enough; the two bounds of depth; that of root_path.
    others: (ancestors of r, 4) those that a has not, with their bits, and the greatest root_path (sign < 0) or minus
    the least depth (sign > 0) of a concept to which they matter; mask: (8,) the first bits of all. links, by_others: by
    depth, and common: by ancestor of r, what bounds are made of. entries, kept: room for lists.
    """

    marks: NDArray[np.int16]
    step_of: NDArray[np.int16]
    ready: Int64
    steps: Int64
    others: Int64
    mask: Words
    links: Int64
    by_others: Int64
    common: Int64
    entries: Int64
    kept: Int64


def new_work(concepts: int, ancestors: int, depths: int) -> Work:
    """Room for values of a taxonomy where none has more ancestors, itself included, or is deeper."""
    return Work(
        marks=np.zeros(2 * concepts, np.int16),
        step_of=np.zeros(concepts, np.int16),
        ready=np.zeros(1, np.int64),
        steps=np.zeros((ancestors, COLUMNS), np.int64),
        others=np.zeros((ancestors, 4), np.int64),
        mask=np.zeros(ROW_WORDS, np.uint64),
        links=np.zeros(depths + 1, np.int64),
        by_others=np.zeros(depths + 1, np.int64),
        common=np.zeros((ancestors, 2), np.int64),
        entries=np.zeros(LARGEST_BALL, np.int64),
        kept=np.zeros(BLOCK, np.int64),
    )


@inlined
def shared(graph, work, c, side, last):  # type: ignore[no-untyped-def]
    """(position, depth, links) of the least common subsumer of c and a (side 0) or r (side 1), of marked ancestors; or
    of any subsumer beyond the position ``last``."""
    found = np.int64(-1)
    links = np.int64(0)
    begin = np.int64(0)
    for j in range(graph.offsets[c], graph.offsets[c + 1]):
        x = np.int64(graph.ancestors[j])
        if x < begin:
            break
        mark = np.int64(work.marks[2 * x + side])
        if mark > 0:
            total = mark - 1 + graph.paths[j]
            if found < 0:
                begin = graph.begins[graph.depth[x]]
            if found < 0 or total < links:
                found = x
                links = total
            if x > last:
                break
    return found, np.int64(graph.depth[found]), links


@inlined
def fits(graph, work, case, c, s, links):  # type: ignore[no-untyped-def]
    """Whether c, so many links from a over s in all, has s for its least common subsumer with a and is admissible."""
    sign, own = case[2], case[3]
    begin = graph.begins[graph.depth[s]]
    end = graph.begins[graph.depth[s] + 1]
    to_r = np.int64(-1)
    begin_r = np.int64(0)
    for j in range(graph.offsets[c], graph.offsets[c + 1]):
        x = np.int64(graph.ancestors[j])
        if x < begin and (sign == 0 or (to_r >= 0 and x < begin_r)):
            break
        mark = np.int64(work.marks[2 * x])
        if mark > 0 and x >= begin and x != s:
            total = mark - 1 + graph.paths[j]
            if x >= end or total < links or (total == links and x > s):
                return False
        mark = np.int64(work.marks[2 * x + 1])
        if mark > 0 and x >= begin_r:
            total = mark - 1 + graph.paths[j]
            if to_r < 0:
                begin_r = graph.begins[graph.depth[x]]
                to_r = total
            to_r = min(to_r, total)
    return sign == 0 or is_beyond(sign, wu_palmer_level(graph.depth[begin_r], to_r), own)


@part
def mark(graph, work, case):  # type: ignore[no-untyped-def]
    """Marks the ancestors of a case (a, r, sign, own), and writes the steps of a."""
    a, r, sign = case[0], case[1], case[2]
    work.ready[0] = MARKED
    offset = graph.offsets[a]
    for i in range(graph.offsets[a + 1] - offset):
        s = np.int64(graph.ancestors[offset + i])
        path = np.int64(graph.paths[offset + i])
        work.marks[2 * s] = path + 1
        work.step_of[s] = i
        work.steps[i, SELF], work.steps[i, DEPTH], work.steps[i, PATH] = s, graph.depth[s], path
    if sign != 0:
        for j in range(graph.offsets[r], graph.offsets[r + 1]):
            work.marks[2 * np.int64(graph.ancestors[j]) + 1] = graph.paths[j] + 1


@part
def clean(graph, work, case):  # type: ignore[no-untyped-def]
    """Empties the room, if it was filled."""
    if work.ready[0] != 0:
        a, r, sign = case[0], case[1], case[2]
        for j in range(graph.offsets[a], graph.offsets[a + 1]):
            work.marks[2 * np.int64(graph.ancestors[j])] = 0
        if sign != 0:
            for j in range(graph.offsets[r], graph.offsets[r + 1]):
                work.marks[2 * np.int64(graph.ancestors[j]) + 1] = 0
        work.ready[0] = 0


@part
def bound(graph, work, case):  # type: ignore[no-untyped-def]
    """Fills what rules concepts out, after ``mark``."""
    a, r, sign, own = case
    work.ready[0] = BOUNDED
    if sign != 0:
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


@inlined
def fill_links(graph, work, own, beyond):  # type: ignore[no-untyped-def]
    """Writes for each depth the fewest links at a distance of at least ``own`` (``beyond``: of more)."""
    ratio = slope(WU_PALMER, own)
    for depth in range(1, graph.begins.size - 1):
        work.links[depth] = first_links(WU_PALMER, depth, own, ratio, beyond)


@inlined
def relate(graph, work, i):  # type: ignore[no-untyped-def]
    """Writes what step i shares with r, from what its parents do, which are later steps."""
    steps = work.steps
    s = steps[i, SELF]
    links = np.int64(work.marks[2 * s + 1]) - 1
    depth = steps[i, DEPTH]
    if links < 0:
        depth = np.int64(0)
        for j in range(graph.parent_offsets[s], graph.parent_offsets[s + 1]):
            h = np.int64(work.step_of[graph.parents[j]])
            above, more = steps[h, SHARED], steps[h, LINKS] + 1
            if above > depth or (above == depth and more < links):
                depth, links = above, more
    steps[i, SHARED], steps[i, LINKS] = depth, links


@inlined
def bound_depths(graph, work, count, r):  # type: ignore[no-untyped-def]
    """Fills what sign > 0 needs."""
    steps, shared_with_a = work.steps, np.int64(0)
    for i in range(work.by_others.size):
        work.by_others[i] = BEYOND
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        u = np.int64(graph.ancestors[j])
        depth = np.int64(graph.depth[u])
        far = work.links[depth] - 1 + depth - graph.paths[j]
        if work.marks[2 * u] == 0:
            add_other(graph, work, u, -far - 1)
            work.by_others[depth - 1] = min(work.by_others[depth - 1], far)
        else:
            work.common[shared_with_a, 0], work.common[shared_with_a, 1] = depth, far
            shared_with_a += 1
    for i in range(work.by_others.size - 2, -1, -1):
        work.by_others[i] = min(work.by_others[i], work.by_others[i + 1])
    for i in range(count - 1, -1, -1):
        relate(graph, work, i)
        steps[i, ENOUGH] = work.links[steps[i, SHARED]] - steps[i, LINKS]
        by_shared = BEYOND
        for j in range(shared_with_a):
            if steps[i, SHARED] < work.common[j, 0] <= steps[i, DEPTH]:
                by_shared = min(by_shared, work.common[j, 1])
        steps[i, BY_SHARED], steps[i, BY_OTHERS] = by_shared, work.by_others[steps[i, SHARED]]


@inlined
def bound_root_paths(graph, work, count):  # type: ignore[no-untyped-def]
    """Fills what sign < 0 needs: for each step the greatest over those that are not deeper."""
    steps = work.steps
    greatest = np.int64(-1)
    i = count - 1
    while i >= 0:
        h = i
        while h >= 0 and steps[h, DEPTH] == steps[i, DEPTH]:
            marked = np.int64(work.marks[2 * steps[h, SELF] + 1])
            most = work.links[steps[h, DEPTH]] - marked
            if marked > 0 and most >= 0:
                greatest = max(greatest, most + graph.root_path[steps[h, SELF]])
            h -= 1
        for j in range(h + 1, i + 1):
            steps[j, ROOT_PATH] = greatest
        i = h


@inlined
def list_others(graph, work, r):  # type: ignore[no-untyped-def]
    """Lists, for sign < 0, the ancestors of r that a has not, each with the greatest root_path with which a concept
    below it may be near enough over it."""
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        u = np.int64(graph.ancestors[j])
        most = work.links[graph.depth[u]] - 1 - graph.paths[j]
        if work.marks[2 * u] == 0 and most >= 0:
            add_other(graph, work, u, most + graph.root_path[u])


@inlined
def add_other(graph, work, u, limit):  # type: ignore[no-untyped-def]
    """Puts an ancestor of r that a has not on the list of those that a concept may be below."""
    count = work.others[0, COUNT]
    work.others[count, FIRST], work.others[count, SECOND] = graph.bits[u, 0], graph.bits[u, 1]
    work.others[count, LIMIT] = limit
    work.mask[graph.bits[u, 0] >> 6] |= np.uint64(1) << np.uint64(graph.bits[u, 0] & 63)
    work.others[0, COUNT] = count + 1


@inlined
def has_bit(words, at, bit):  # type: ignore[no-untyped-def]
    """Whether the words from ``at`` on have a bit."""
    return (words[at + (bit >> 6)] >> np.uint64(bit & 63)) & np.uint64(1) != np.uint64(0)


@inlined
def may_share(words, at, work, number):  # type: ignore[no-untyped-def]
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
def is_deep_enough(lists, work, i, k, block, touched):  # type: ignore[no-untyped-def]
    """For sign > 0: whether any of a block's members with k links up to step i may be farther."""
    if k >= work.steps[i, ENOUGH]:
        return True
    deepest = np.int64(lists.blocks[block + DEEPEST])
    return deepest > work.steps[i, BY_SHARED] or (touched and deepest > work.steps[i, BY_OTHERS])


@inlined
def is_hopeless(graph, work, sign, i, k, c):  # type: ignore[no-untyped-def]
    """Whether c, with k links up to step i, cannot be admissible, as its depths and bits tell."""
    steps = work.steps
    if sign == 0 or (sign > 0 and k >= steps[i, ENOUGH]):
        return False
    if sign > 0:
        depth = graph.depth[c]
        if depth > steps[i, BY_SHARED]:
            return False
        return depth <= steps[i, BY_OTHERS] or not may_share(graph.rows, ROW_WORDS * c, work, -depth)
    root_path = np.int64(graph.root_path[c])
    return root_path > steps[i, ROOT_PATH] and not may_share(graph.rows, ROW_WORDS * c, work, root_path)


@inlined
def is_covered(graph, lists, work, i, block):  # type: ignore[no-untyped-def]
    """Whether all members of a block lie below an ancestor of a that is deeper than step i."""
    cover = np.int64(lists.blocks[block + COVER])
    end = graph.begins[work.steps[i, DEPTH] + 1]
    for j in range(graph.offsets[cover], graph.offsets[cover + 1]):
        if graph.ancestors[j] < end:
            break
        if work.marks[2 * np.int64(graph.ancestors[j])] > 0:
            return True
    return False


@inlined
def first_after(graph, lists, start, stop, root_path):  # type: ignore[no-untyped-def]
    """The first member of a list, from start to stop, with a longer path up to the root; stop for none."""
    while start < stop:
        middle = (start + stop) >> 1
        if graph.root_path[lists.members[middle]] <= root_path:
            start = middle + 1
        else:
            stop = middle
    return start
