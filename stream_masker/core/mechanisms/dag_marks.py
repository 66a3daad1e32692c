"""Room for one case at a time, where the ancestors of its value and of its reference are marked.

A value comes with many references, so its marks stay until another value's are asked for; a reference's are removed
with its case.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.compiling import inlined, part
from stream_masker.core.mechanisms.candidates import Int64
from stream_masker.core.mechanisms.dag_bits import ROW_WORDS
from stream_masker.core.mechanisms.dag_tables import BLOCK, LINE, Words, next_above
from stream_masker.core.mechanisms.levels import passes

SELF, DEPTH, PATH, SHARED, LINKS, ENOUGH, BY_SHARED, BY_OTHERS, ROOT_PATH = range(9)
"""Columns of ``Work.steps``."""
COLUMNS = 9

FIRST, SECOND, LIMIT, COUNT = range(4)
"""Columns of ``Work.others``; their number stands in the first row."""

READY, HELD, LONGEST = range(3)
"""Indices of ``Work.state``."""

MARKED, BOUNDED = 1, 2
"""What ``Work`` holds: the ancestors of a case, and also what rules concepts out."""

NO_VALUE = -1

VALUE, REFERENCE = range(2)
"""Sides of ``Work.marks``."""

LARGEST_BALL = 1 << 16
"""Concepts near a reference that are looked at instead of a level."""

FEW_MEMBERS = 48
"""Of a level, that are looked at one by one."""


class Work(NamedTuple):
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

    marks: NDArray[np.uint8]
    step_of: NDArray[np.int16]
    state: Int64
    steps: Int64
    others: Int64
    mask: Words
    links: Int64
    by_others: Int64
    common: Int64
    entries: Int64
    kept: Int64
    few: Int64
    ahead: Int64


def new_work(concepts: int, ancestors: int, depths: int, *, ahead: int) -> Work:
    """Room for values of a taxonomy where none has more ancestors, itself included, or is deeper; so many ahead."""
    return Work(
        marks=np.zeros(2 * concepts, np.uint8),
        step_of=np.zeros(concepts, np.int16),
        state=np.array([0, NO_VALUE, 0], np.int64),
        steps=np.zeros((ancestors, COLUMNS), np.int64),
        others=np.zeros((ancestors, 4), np.int64),
        mask=np.zeros(ROW_WORDS, np.uint64),
        links=np.zeros(depths + 1, np.int64),
        by_others=np.zeros(depths + 1, np.int64),
        common=np.zeros((ancestors, 2), np.int64),
        entries=np.zeros(LARGEST_BALL, np.int64),
        kept=np.zeros(BLOCK, np.int64),
        few=np.zeros(FEW_MEMBERS, np.int64),
        ahead=np.zeros(ahead, np.int64),
    )


@inlined
def mark_value(graph, work, a):  # type: ignore[no-untyped-def]
    """Marks the ancestors of a value, and writes its steps."""
    work.state[HELD] = a
    at, i, s = LINE * a, 0, np.int64(1)
    while s > 0:
        s, path, at = next_above(graph, at)
        work.marks[2 * s + VALUE] = path + 1
        work.step_of[s] = i
        work.steps[i, SELF], work.steps[i, DEPTH], work.steps[i, PATH] = s, graph.depth[s], path
        i += 1


@inlined
def unmark(graph, work, c, side):  # type: ignore[no-untyped-def]
    """Removes the marks of a concept's ancestors."""
    at, s = LINE * c, np.int64(1)
    while s > 0:
        s, _, at = next_above(graph, at)
        work.marks[2 * s + side] = 0


@part
def let_go(graph, work):  # type: ignore[no-untyped-def]
    """Removes the marks of the value that is held, if there is one."""
    if work.state[HELD] != NO_VALUE:
        unmark(graph, work, work.state[HELD], VALUE)
        work.state[HELD] = NO_VALUE


@part
def hold(graph, work, a):  # type: ignore[no-untyped-def]
    """Marks the ancestors of a value instead of another one's, unless they are marked."""
    if work.state[HELD] != a:
        let_go(graph, work)
        mark_value(graph, work, a)


@part
def mark(graph, work, case):  # type: ignore[no-untyped-def]
    """Marks the ancestors of a case (a, r, sign, own), unless they are marked."""
    a, r, sign = case[0], case[1], case[2]
    if work.state[READY] == 0:
        work.state[READY] = MARKED
        hold(graph, work, a)
        if sign != 0:
            at, s = LINE * r, np.int64(1)
            while s > 0:
                s, path, at = next_above(graph, at)
                work.marks[2 * s + REFERENCE] = path + 1


@part
def clean(graph, work, case):  # type: ignore[no-untyped-def]
    """Empties the room of a case, but for its value."""
    if work.state[READY] != 0:
        if case[2] != 0:
            unmark(graph, work, case[1], REFERENCE)
        work.state[READY] = 0


@inlined
def shared(graph, work, c, side):  # type: ignore[no-untyped-def]
    """(position, depth, links) of the least common subsumer of c and the value or the reference, by marks."""
    found, begin, links = np.int64(-1), np.int64(0), np.int64(0)
    at, x = LINE * c, np.int64(1)
    while x > begin:
        x, path, at = next_above(graph, at)
        mark = np.int64(work.marks[2 * x + side])
        if mark > 0 and x >= begin:
            total = mark - 1 + path
            if found < 0:
                begin = graph.begins[graph.depth[x]]
            if found < 0 or total < links:
                found, links = x, total
    return found, np.int64(graph.depth[found]), links


@inlined
def fits(graph, work, case, c, s, links):  # type: ignore[no-untyped-def]
    """Whether c, so many links from a over s in all, has s for its least common subsumer with a and is admissible."""
    sign, own = case[2], case[3]
    begin = graph.begins[graph.depth[s]]
    end = graph.begins[graph.depth[s] + 1]
    to_r = np.int64(-1)
    begin_r = np.int64(0)
    at, x = LINE * c, np.int64(1)
    while x > 0:
        x, path, at = next_above(graph, at)
        if x < begin and (sign == 0 or (to_r >= 0 and x < begin_r)):
            break
        mark = np.int64(work.marks[2 * x + VALUE])
        if mark > 0 and x >= begin and x != s:
            total = mark - 1 + path
            if x >= end or total < links or (total == links and x > s):
                return False
        mark = np.int64(work.marks[2 * x + REFERENCE])
        if mark > 0 and x >= begin_r:
            total = mark - 1 + path
            if to_r < 0:
                begin_r = graph.begins[graph.depth[x]]
                to_r = total
            to_r = min(to_r, total)
    return sign == 0 or passes(sign, np.int64(graph.depth[begin_r]), to_r, own)
