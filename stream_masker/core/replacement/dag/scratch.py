"""Room for one case at a time, where the ancestors of its value and of its reference are marked.

A value comes with many references, so its marks stay until another value's are asked for; a reference's are removed
with its case.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Int16Array, Int64Array, Int64Matrix, UInt8Array, UInt64Array
from stream_masker.core.kernels.cache_lines import ANCESTOR_LINE, PATH_BITS, ROW_WORDS, marked_on_line
from stream_masker.core.kernels.intrinsics import lowest_bit
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.replacement.dag.index import MEMBER_BLOCK, PATH_MASK, GraphArrays, next_above, next_line
from stream_masker.core.replacement.levels import passes

SELF, DEPTH, PATH, SHARED, LINKS, ENOUGH, BY_SHARED, BY_OTHERS, ROOT_PATH = range(9)
"""Columns of ``AncestorScratch.steps``."""
SCRATCH_COLUMNS = 9

FIRST, SECOND, LIMIT, COUNT = range(4)
"""Columns of ``AncestorScratch.others``; their number stands in the first row."""

READY, HELD, LONGEST = range(3)
"""Indices of ``AncestorScratch.state``."""

MARKED, BOUNDED = 1, 2
"""What ``AncestorScratch`` holds: the ancestors of a case, and also what rules concepts out."""

NO_VALUE = -1

VALUE, REFERENCE = range(2)
"""Sides of ``AncestorScratch.marks``."""

BITS_OF_VALUE = np.uint64(0x55555555)
"""Those of ``marked_on_line`` that tell of ``VALUE``; the others, higher by one, tell of ``REFERENCE``."""

MAX_NEAR_SET = 1 << 16
"""Concepts near a reference that are looked at instead of a level."""

MAX_KEPT = 8 * MEMBER_BLOCK
"""Members that are asked for together, at most."""

FEW_MEMBERS = 48
"""Of a level, that are looked at one by one."""


class AncestorScratch(NamedTuple):
    """Room for one case at a time.

    marks: (2m,) links + 1 up to each ancestor of a (even places) and of r (odd ones), 0 for what is none; all 0 between
    batches. step_of: (m,) the step of each ancestor of a. state: 0, ``MARKED`` or ``BOUNDED``; whose ancestors are
    marked on the even places, or ``NO_VALUE``; the greatest limit of the others, for sign < 0.

    steps: (ancestors of a, 9), deepest first: the position, depth and path of each; the depth and links that it shares
    with r; the fewest links from which on sharing these is far enough; the two bounds of depth; that of root_path.
    others: (ancestors of r, 4) those that a has not, with their bits, and the greatest root_path (sign < 0) or minus
    the least depth (sign > 0) of a concept to which they matter; mask: (8,) the first bits of all. links, by_others: by
    depth, and common: by ancestor of r, what bounds are made of. entries, kept, few, ahead: room for lists.
    """

    marks: UInt8Array
    step_of: Int16Array
    state: Int64Array
    steps: Int64Matrix
    others: Int64Matrix
    mask: UInt64Array
    links: Int64Array
    by_others: Int64Array
    common: Int64Matrix
    entries: Int64Array
    kept: Int64Array
    few: Int64Array
    ahead: Int64Array


def new_ancestor_scratch(concepts: int, ancestors: int, depths: int, *, ahead: int) -> AncestorScratch:
    """Room for values of a taxonomy where none has more ancestors, itself included, or is deeper; so many ahead."""
    return AncestorScratch(
        marks=np.zeros(2 * concepts, np.uint8),
        step_of=np.zeros(concepts, np.int16),
        state=np.array([0, NO_VALUE, 0], np.int64),
        steps=np.zeros((ancestors, SCRATCH_COLUMNS), np.int64),
        others=np.zeros((ancestors, 4), np.int64),
        mask=np.zeros(ROW_WORDS, np.uint64),
        links=np.zeros(depths + 1, np.int64),
        by_others=np.zeros(depths + 1, np.int64),
        common=np.zeros((ancestors, 2), np.int64),
        entries=np.zeros(MAX_NEAR_SET, np.int64),
        kept=np.zeros(MAX_KEPT, np.int64),
        few=np.zeros(FEW_MEMBERS, np.int64),
        ahead=np.zeros(ahead, np.int64),
    )


@inlined
def mark_value(graph: GraphArrays, work: AncestorScratch, a: int) -> None:
    """Marks the ancestors of a value, and writes its steps."""
    work.state[HELD] = a
    at, i, s = ANCESTOR_LINE * a, 0, int64(1)
    while s > 0:
        s, path, at = next_above(graph, at)
        work.marks[2 * s + VALUE] = path + 1
        work.step_of[s] = i
        work.steps[i, SELF], work.steps[i, DEPTH], work.steps[i, PATH] = s, graph.depth[s], path
        i += 1


@inlined
def unmark(graph: GraphArrays, work: AncestorScratch, c: int, side: int) -> None:
    """Removes the marks of a concept's ancestors."""
    at, s = ANCESTOR_LINE * c, int64(1)
    while s > 0:
        s, _, at = next_above(graph, at)
        work.marks[2 * s + side] = 0


@part
def release(graph: GraphArrays, work: AncestorScratch) -> None:
    """Removes the marks of the value that is held, if there is one."""
    if work.state[HELD] != NO_VALUE:
        unmark(graph, work, work.state[HELD], VALUE)
        work.state[HELD] = NO_VALUE


@part
def hold(graph: GraphArrays, work: AncestorScratch, a: int) -> None:
    """Marks the ancestors of a value instead of another one's, unless they are marked."""
    if work.state[HELD] != a:
        release(graph, work)
        mark_value(graph, work, a)


@part
def mark(graph: GraphArrays, work: AncestorScratch, case: tuple[int, int, int, tuple[int, int]]) -> None:
    """Marks the ancestors of a case (a, r, sign, own), unless they are marked."""
    a, r, sign = case[0], case[1], case[2]
    if work.state[READY] == 0:
        work.state[READY] = MARKED
        hold(graph, work, a)
        if sign != 0:
            at, s = ANCESTOR_LINE * r, int64(1)
            while s > 0:
                s, path, at = next_above(graph, at)
                work.marks[2 * s + REFERENCE] = path + 1


@part
def clean(graph: GraphArrays, work: AncestorScratch, case: tuple[int, int, int, tuple[int, int]]) -> None:
    """Empties the room of a case, but for its value."""
    if work.state[READY] != 0:
        if case[2] != 0:
            unmark(graph, work, case[1], REFERENCE)
        work.state[READY] = 0


@inlined
def marked(graph: GraphArrays, work: AncestorScratch, at: int, side: int) -> np.uint64:
    """Bits of the marked ones of a line of ``Graph.up``, two apart, in its order."""
    return marked_on_line(graph.up, at, work.marks) & (BITS_OF_VALUE << np.uint64(side))


@inlined
def first_marked(graph: GraphArrays, work: AncestorScratch, at: int, bits: np.uint64, side: int) -> tuple[int, int]:
    """(the first one of these bits of a line, the links to it from the line's concept and from the marked one)."""
    number = int64(graph.up[at + (lowest_bit(bits) >> 1)])
    x = number >> PATH_BITS
    return x, int64(work.marks[2 * x + side]) - 1 + (number & PATH_MASK)


@inlined
def common_subsumer(graph: GraphArrays, work: AncestorScratch, c: int, side: int) -> tuple[int, int, int]:
    """(position, depth, links) of the least common subsumer of c and the value or the reference, by marks: of the
    deepest ones that with the fewest links, and of these the last position."""
    at = ANCESTOR_LINE * int64(c)
    bits = marked(graph, work, at, side)
    while bits == 0:
        at = next_line(graph, at)
        bits = marked(graph, work, at, side)
    found, links = first_marked(graph, work, at, bits, side)
    depth = int64(graph.depth[found])
    bits &= bits - np.uint64(1)
    while True:
        while bits != 0:
            x, total = first_marked(graph, work, at, bits, side)
            if x < graph.begins[depth]:
                return found, depth, links
            if total < links:
                found, links = x, total
            bits &= bits - np.uint64(1)
        at = next_line(graph, at)
        if at == 0:
            return found, depth, links
        bits = marked(graph, work, at, side)


@inlined
def fits(
    graph: GraphArrays, work: AncestorScratch, case: tuple[int, int, int, tuple[int, int]], c: int, s: int
) -> bool:
    """Whether c has s for its least common subsumer with a and is admissible."""
    return common_subsumer(graph, work, c, VALUE)[0] == s and meets_sign(graph, work, case, c)


@inlined
def meets_sign(graph: GraphArrays, work: AncestorScratch, case: tuple[int, int, int, tuple[int, int]], c: int) -> bool:
    """Whether c is farther from the reference, or nearer to it, than the value, as the case's sign demands."""
    if case[2] == 0:
        return True
    _, depth, links = common_subsumer(graph, work, c, REFERENCE)
    return passes(case[2], depth, links, case[3])
