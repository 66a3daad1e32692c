"""Scratch memory for one query at a time, in which the ancestors of its value and of its reference are marked.

Equal values are neighbours in a batch, so the marks of a value stay until another value is marked. The marks of a
reference are removed with its query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Int16Array, Int64Array, RecordArray, UInt8Array, UInt64Array
from stream_masker.core.kernels.bits import lowest_bit
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.replacement.dag.cache import CandidateCache
from stream_masker.core.replacement.dag.index import (
    MEMBER_BLOCK,
    PATH_MASK,
    GraphArrays,
    MemberLists,
    next_ancestor,
    next_line,
)
from stream_masker.core.replacement.dag.lines import ANCESTOR_LINE, PATH_BITS, SIGNATURE_WORDS, marked_on_line
from stream_masker.core.replacement.dag.query import Query
from stream_masker.core.replacement.rule import Separation, meets_sign

STEP = np.dtype(
    [
        ("concept", np.int64),
        ("depth", np.int64),
        ("shared_depth", np.int64),
        ("shared_links", np.int64),
        ("enough_links", np.int64),
        ("depth_over_shared", np.int64),
        ("depth_over_others", np.int64),
        ("root_path", np.int64),
    ]
)
"""A step: an ancestor s of the value, with the bounds of ``pruning`` for the members of its lists.

concept, depth: of s. shared_depth, shared_links: of the least common subsumer of s and r.
For sign > 0: enough_links: a candidate with at least this number of links up to s is far enough if it shares no more
with r
than s does; depth_over_shared, depth_over_others: a candidate must be deeper than this to be far enough over a common
ancestor of a and r, or over another ancestor of r.
For sign < 0: root_path: the greatest path up to the root of a candidate that is near enough over a common ancestor of a
and r.
"""

OTHER = np.dtype([("first_bit", np.int64), ("second_bit", np.int64), ("limit", np.int64)])
"""An ancestor of r that is not an ancestor of a: its signature bits; and the greatest ``root_path`` (sign < 0), or
minus the least
depth (sign > 0), of a candidate that may be admissible because it is below it."""

BOUND = np.dtype([("depth", np.int64), ("limit", np.int64)])
"""A common ancestor of a and r: its depth, and the depth that a candidate must exceed to be far enough over it."""

MEMBER = np.dtype([("group", np.int32), ("index", np.int32)])
"""A member of a level: its group, and its index in ``MemberLists.members``."""

NEAR_MEMBER = np.dtype([("subsumer", np.int32), ("concept", np.int32)])
"""A concept that may be near to r, and the ancestor of r in whose list it is."""

LEVEL_CONCEPT = np.dtype([("level", np.int32), ("concept", np.int32)])
"""An admissible concept, and the index of its level among those of the value."""

STAGE, HELD, LONGEST, OTHERS = range(4)
"""Indices of ``AncestorScratch.state``: the stage; the value whose ancestors are marked, or ``NO_CONCEPT_MARKED``;
the greatest limit of the others (sign < 0); the number of the others."""

CLEAN, MARKED, BOUNDED = range(3)
"""Stages: no query; the ancestors of a query are marked; its bounds are computed, too."""

NO_CONCEPT_MARKED = -1

VALUE, REFERENCE = range(2)
"""Sides of ``AncestorScratch.marks``."""

BITS_OF_VALUE = np.uint64(0x55555555)
"""Bits of ``marked_on_line`` for ``VALUE``; those for ``REFERENCE`` are one higher."""

MAX_NEAR_SET = 1 << 16
"""The maximum number of concepts near a reference that are visited instead of a level."""

MAX_MEMBERS = 8 * MEMBER_BLOCK
"""The maximum number of members that are gathered together."""

MAX_SMALL_LEVEL = 48
"""The maximum number of members of a level that is enumerated without pruning."""


class AncestorScratch(NamedTuple):
    """Scratch memory for one query.

    marks: (2 · m,) for concept x and side: 1 + links from the value (side 0) or the reference (side 1) up to x; 0 if x
        is not an ancestor. All are 0 between batches.
    step_of: (m,) the step of each ancestor of a; undefined for other concepts.
    state: (4,) see ``STAGE``.
    steps: array of ``STEP``; one for each ancestor of a, deepest first, as in the closure.
    others: array of ``OTHER``; one for each relevant ancestor of r that is not one of a.
    mask: (8,) the union of the first signature bits of the others.
    links: by depth: the fewest links at a distance of at least the own one (sign > 0: of more) over a subsumer there.
    others_by_depth: by depth: the least depth that a candidate must exceed over any other at least so deep (sign > 0).
    common: array of ``BOUND``; one for each common ancestor of a and r.
    near: array of ``NEAR_MEMBER``. members, small_level: arrays of ``MEMBER``. admissible: array of ``LEVEL_CONCEPT``.
    """

    marks: UInt8Array
    step_of: Int16Array
    state: Int64Array
    steps: RecordArray
    others: RecordArray
    mask: UInt64Array
    links: Int64Array
    others_by_depth: Int64Array
    common: RecordArray
    near: RecordArray
    members: RecordArray
    small_level: RecordArray
    admissible: RecordArray


def new_ancestor_scratch(concepts: int, ancestors: int, depths: int) -> AncestorScratch:
    """Return scratch memory for a taxonomy whose concepts have at most this number of ancestors and depths."""
    return AncestorScratch(
        marks=np.zeros(2 * concepts, np.uint8),
        step_of=np.zeros(concepts, np.int16),
        state=np.array([CLEAN, NO_CONCEPT_MARKED, 0, 0], np.int64),
        steps=np.zeros(ancestors, STEP),
        others=np.zeros(ancestors, OTHER),
        mask=np.zeros(SIGNATURE_WORDS, np.uint64),
        links=np.zeros(depths + 1, np.int64),
        others_by_depth=np.zeros(depths + 1, np.int64),
        common=np.zeros(ancestors, BOUND),
        near=np.zeros(MAX_MEMBERS, NEAR_MEMBER),
        members=np.zeros(MAX_MEMBERS, MEMBER),
        small_level=np.zeros(MAX_SMALL_LEVEL, MEMBER),
        admissible=np.zeros(MAX_NEAR_SET, LEVEL_CONCEPT),
    )


@inlined
def mark_value(graph: GraphArrays, scratch: AncestorScratch, a: int) -> None:
    """Mark the ancestors of a value, and write its steps."""
    scratch.state[HELD] = a
    at, i, s = ANCESTOR_LINE * a, 0, int64(1)
    while s > 0:
        s, path, at = next_ancestor(graph, at)
        scratch.marks[2 * s + VALUE] = path + 1
        scratch.step_of[s] = i
        scratch.steps[i].concept = s
        scratch.steps[i].depth = graph.depth[s]
        i += 1


@inlined
def unmark(graph: GraphArrays, scratch: AncestorScratch, c: int, side: int) -> None:
    """Remove the marks of the ancestors of c on one side."""
    at, s = ANCESTOR_LINE * c, int64(1)
    while s > 0:
        s, _, at = next_ancestor(graph, at)
        scratch.marks[2 * s + side] = 0


@part
def release_value(graph: GraphArrays, scratch: AncestorScratch) -> None:
    """Remove the marks of the held value, if there is one."""
    if scratch.state[HELD] != NO_CONCEPT_MARKED:
        unmark(graph, scratch, scratch.state[HELD], VALUE)
        scratch.state[HELD] = NO_CONCEPT_MARKED


@part
def hold_value(graph: GraphArrays, scratch: AncestorScratch, a: int) -> None:
    """Mark the ancestors of a instead of those of the held value, unless a is held."""
    if scratch.state[HELD] != a:
        release_value(graph, scratch)
        mark_value(graph, scratch, a)


@part
def mark_query(graph: GraphArrays, scratch: AncestorScratch, query: Query) -> None:
    """Mark the ancestors of a query's value and reference, unless they are marked."""
    if scratch.state[STAGE] == CLEAN:
        scratch.state[STAGE] = MARKED
        hold_value(graph, scratch, query.value)
        if query.sign != 0:
            at, s = ANCESTOR_LINE * query.reference, int64(1)
            while s > 0:
                s, path, at = next_ancestor(graph, at)
                scratch.marks[2 * s + REFERENCE] = path + 1


@part
def clean_query(graph: GraphArrays, scratch: AncestorScratch, query: Query) -> None:
    """Remove the marks and bounds of a query, except the marks of its value."""
    if scratch.state[STAGE] != CLEAN:
        if query.sign != 0:
            unmark(graph, scratch, query.reference, REFERENCE)
        scratch.state[STAGE] = CLEAN


@inlined
def marked_entries(graph: GraphArrays, scratch: AncestorScratch, at: int, side: int) -> np.uint64:
    """Return the marked entries of the ancestor line at an index: bit 2 · i + side is set for entry i."""
    return marked_on_line(graph.lines, at, scratch.marks) & (BITS_OF_VALUE << np.uint64(side))


@inlined
def first_marked(graph: GraphArrays, scratch: AncestorScratch, at: int, bits: np.uint64, side: int) -> tuple[int, int]:
    """Return (position, links) of the entry of the lowest bit.

    links: those of the paths from the line's concept and from the marked concept up to it, in sum.
    """
    entry = int64(graph.lines[at + (lowest_bit(bits) >> 1)])
    x = entry >> PATH_BITS
    return x, int64(scratch.marks[2 * x + side]) - 1 + (entry & PATH_MASK)


@inlined
def common_subsumer(graph: GraphArrays, scratch: AncestorScratch, c: int, side: int) -> tuple[int, Separation]:
    """Return the position of the least common subsumer of c and the marked value or reference, and their separation.

    Among the deepest common ancestors it is the one with the fewest links, then the one with the greatest position.
    """
    at = ANCESTOR_LINE * int64(c)
    bits = marked_entries(graph, scratch, at, side)
    while bits == 0:
        at = next_line(graph, at)
        bits = marked_entries(graph, scratch, at, side)
    subsumer, links = first_marked(graph, scratch, at, bits, side)
    depth = int64(graph.depth[subsumer])
    bits &= bits - np.uint64(1)
    while True:
        while bits != 0:
            x, total = first_marked(graph, scratch, at, bits, side)
            if x < graph.depth_starts[depth]:
                return subsumer, Separation(depth, links)
            if total < links:
                subsumer, links = x, total
            bits &= bits - np.uint64(1)
        at = next_line(graph, at)
        if at == 0:
            return subsumer, Separation(depth, links)
        bits = marked_entries(graph, scratch, at, side)


@inlined
def is_admissible_over(graph: GraphArrays, scratch: AncestorScratch, query: Query, c: int, s: int) -> bool:
    """Return whether s is the least common subsumer of c and the value, and c is admissible."""
    return common_subsumer(graph, scratch, c, VALUE)[0] == s and meets_query_sign(graph, scratch, query, c)


@inlined
def meets_query_sign(graph: GraphArrays, scratch: AncestorScratch, query: Query, c: int) -> bool:
    """Return whether c meets the sign condition of a query."""
    if query.sign == 0:
        return True
    return meets_sign(query.sign, common_subsumer(graph, scratch, c, REFERENCE)[1], query.own_distance)


class DagArrays(NamedTuple):
    """The index of the taxonomy (``graph``, ``lists``), the cache and the scratch memory of one ``DagReplacer``."""

    graph: GraphArrays
    lists: MemberLists
    cache: CandidateCache
    scratch: AncestorScratch
