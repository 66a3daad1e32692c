"""A directed acyclic graph seen from above: the descendants of every concept by their shortest path up to it.

A candidate c is at distance wp(depth(s), path(a, s) + path(c, s)) of the value a, s being their least common subsumer.
So the concepts at one distance of a are among those of a few *lists*: the descendants of an ancestor s of a at one
length of path. Those of a list of which s is not the least common subsumer with a have to be left out one by one.

Lists are ordered by the path up to the root, and cut into *blocks* of 32 members, of which a few words tell what no
member can be, so that most members that will not do need not be looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import BoolArray, Int32Array, Int32Matrix, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.cache_lines import ANCESTOR_LINE, PATH_BITS, ROW_WORDS
from stream_masker.core.kernels.intrinsics import on_lines
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.replacement.rule import Candidates

MEMBER_BLOCK = 32
COVER, DEEPEST = ROW_WORDS, ROW_WORDS + 1
BLOCK_BIT_WORDS = ROW_WORDS + 2
"""Words of a block: the bits of any of its members, the concept that covers it, the greatest depth."""

NO_MEMBER = -1
"""What stands in ``GraphArrays.up`` behind a concept's last ancestor, on the same line."""
PATH_MASK = int64((1 << PATH_BITS) - 1)
MOST_CONCEPTS, MOST_LEVELS = 1 << (31 - PATH_BITS), (1 << PATH_BITS) - 1
"""What a number of ``GraphArrays.up`` and one of ``Work.marks`` can hold; larger taxonomies are not for these
kernels."""

HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

HUB_COUNT = 64
"""Concepts with a bit of their own in rows, those with the most descendants. All others have two of 448 bits."""


REMOTE = 4
"""How many ``MemberLists.remote`` there are at most."""


class GraphArrays(NamedTuple):
    """The taxonomy. Its closure: (m + 1,) ``offsets``, ``ancestors``, ``paths``; its ``parents`` likewise.

    depth: (m,); begins: the first position of each depth, from 0 on, and m for the depth beyond the last.
    root_path: (m,) links of the shortest path up to the root. longest: (m,) the greatest root_path of any descendant.
    up: the closure once more, a line of 16 numbers for each concept, its ancestors with their paths from the deepest to
    the root (``next_above``); what finds no room in a line goes on in others behind all of these (``next_line``).
    bits: (m, 2) each concept's bits in rows. rows: (m · 8,) the bits of what subsumes a concept, itself included: what
    has not both bits of another one is not subsumed by that.
    """

    offsets: Int64Array
    ancestors: Int32Array
    paths: Int32Array
    parent_offsets: Int64Array
    parents: Int32Array
    depth: Int32Array
    begins: Int64Array
    root_path: Int32Array
    longest: Int32Array
    up: Int32Array
    bits: Int32Matrix
    rows: UInt64Array


class MemberLists(NamedTuple):
    """Candidates below each concept, by path. eligible: (m,) bool, the candidates.

    List ``first[s] + k`` holds those whose shortest path up to s has k links, k = 0 … ``first[s + 1] - first[s]`` - 1:
    ``members[starts[list]:starts[list + 1]]``, ordered by ``root_path``, then ``preorder``. blocks: (blocks · 6,).
    deepest: (lists,) the greatest depth of any member. preorder: (m,) places of concepts in a walk down the first
    parents' tree. remote: a few candidates far from the root, each two with nothing but the root in common.
    """

    eligible: BoolArray
    first: Int64Array
    starts: Int32Array
    members: Int32Array
    deepest: UInt8Array
    preorder: Int32Array
    blocks: UInt64Array
    remote: Int32Array


def graph_of(taxonomy: Taxonomy) -> GraphArrays:
    """What kernels need of a taxonomy."""
    up = taxonomy.closure
    depth, links = taxonomy.depth, (taxonomy.parent_offsets, taxonomy.parents)
    bits = bits_of(np.bincount(up.ancestors, minlength=len(taxonomy)))
    root_path = up.paths[up.offsets[1:] - 1].astype(np.int32)
    return GraphArrays(
        offsets=up.offsets,
        ancestors=up.ancestors,
        paths=up.paths,
        parent_offsets=taxonomy.parent_offsets,
        parents=taxonomy.parents,
        depth=depth,
        begins=np.searchsorted(depth, np.arange(int(depth.max()) + 2)).astype(np.int64),
        root_path=root_path,
        longest=greatest_below(*links, root_path),
        up=_lines_of(up.offsets, up.ancestors, up.paths),
        bits=bits,
        rows=_rows_of(bits, *links),
    )


def is_in_range(taxonomy: Taxonomy) -> bool:
    """Whether the numbers of ``GraphArrays.up`` can hold the taxonomy."""
    return len(taxonomy) <= MOST_CONCEPTS and int(taxonomy.depth.max()) <= MOST_LEVELS


def _lines_of(offsets: Int64Array, ancestors: Int32Array, paths: Int32Array) -> Int32Array:
    counts = np.diff(offsets)
    behind = np.where(counts > ANCESTOR_LINE, (counts - 2) // (ANCESTOR_LINE - 1), 0).sum()
    up = on_lines(ANCESTOR_LINE * (counts.size + int(behind)), np.int32, fill=NO_MEMBER)
    write_lines(offsets, ancestors, paths, up)
    return up


def _rows_of(bits: Int32Array, parent_offsets: Int64Array, parents: Int32Array) -> UInt64Array:
    rows = on_lines(len(bits) * ROW_WORDS, np.uint64)
    write_rows(bits, parent_offsets, parents, rows)
    return rows


def lists_of(graph: GraphArrays, candidates: Candidates) -> MemberLists:
    """The lists of candidates, in O(size of the closure)."""
    above = np.concatenate((np.zeros(1, np.int32), graph.parents[graph.parent_offsets[1:-1]]))
    preorder = walk_order(above)
    order = np.lexsort((preorder, graph.root_path))
    eligible = np.zeros(len(preorder), np.bool_)
    eligible[candidates.positions] = True
    chosen = order[eligible[order]].astype(np.int32)
    members = on_lines(int(np.diff(graph.offsets)[chosen].sum()), np.int32)
    first, starts = transposed(graph.offsets, graph.ancestors, graph.paths, chosen, members)
    blocks = on_lines(-(-members.size // MEMBER_BLOCK) * BLOCK_BIT_WORDS, np.uint64)
    write_blocks(members, graph.rows, graph.depth, preorder, above, blocks)
    deepest = greatest_of_lists(starts, members, graph.depth)
    remote = apart(graph.offsets, graph.ancestors, chosen[::-1].copy(), REMOTE)
    return MemberLists(eligible, first, starts, members, deepest, preorder, blocks, remote)


def bits_of(descendants: NDArray[np.integer]) -> Int32Array:
    """(m, 2) each concept's bits, given how many descendants each one has."""
    m = len(descendants)
    mixed = np.arange(m, dtype=np.uint64)[:, None] * HASH_MULTIPLIER >> np.array([[16, 40]], np.uint64)
    bits = (HUB_COUNT + mixed % np.uint64(64 * ROW_WORDS - HUB_COUNT)).astype(np.int32)
    hubs = np.argsort(-descendants, kind="stable")[:HUB_COUNT]
    bits[hubs] = np.arange(len(hubs))[:, None]
    return bits


@kernel
def write_lines(offsets: Int64Array, ancestors: Int32Array, paths: Int32Array, up: Int32Array) -> None:
    """Fills ``GraphArrays.up``: a number less than ``NO_MEMBER`` at the end of a line says where it goes on."""
    free = ANCESTOR_LINE * (offsets.size - 1)
    for c in range(offsets.size - 1):
        at = ANCESTOR_LINE * c
        count = offsets[c + 1] - offsets[c]
        for i in range(count):
            if at % ANCESTOR_LINE == ANCESTOR_LINE - 1 and i + 1 < count:
                up[at] = -free
                at = free
                free += ANCESTOR_LINE
            j = offsets[c] + i
            up[at] = (int64(ancestors[j]) << PATH_BITS) | int64(paths[j])
            at += 1


@inlined
def next_line(graph: GraphArrays, at: int) -> int:
    """Where the line of ``GraphArrays.up`` from ``at`` on goes on; 0 if it does not."""
    last = int64(graph.up[at + ANCESTOR_LINE - 1])
    return -last if last < NO_MEMBER else int64(0)


@inlined
def next_above(graph: GraphArrays, at: int) -> tuple[int, int, int]:
    """(an ancestor, the path up to it, where the next one stands), from ``ANCESTOR_LINE`` · c on; the last is
    the root, 0."""
    entry = int64(graph.up[at])
    if entry < 0:
        at = -entry
        entry = int64(graph.up[at])
    return entry >> PATH_BITS, entry & PATH_MASK, at + 1


@kernel
def write_rows(bits: Int32Matrix, parent_offsets: Int64Array, parents: Int32Array, rows: UInt64Array) -> None:
    """Fills (m · 8,) zeros with the bits of each concept and of all that subsumes it."""
    for c in range(bits.shape[0]):
        for k in range(parent_offsets[c], parent_offsets[c + 1]):
            for w in range(ROW_WORDS):
                rows[c * ROW_WORDS + w] |= rows[parents[k] * ROW_WORDS + w]
        for bit in bits[c]:
            rows[c * ROW_WORDS + (bit >> 6)] |= np.uint64(1) << np.uint64(bit & 63)


@kernel
def apart(offsets: Int64Array, ancestors: Int32Array, order: Int32Array, most: int) -> Int32Array:
    """The first concepts in that order, so many at most, that share nothing but the root with those before them."""
    taken = np.zeros(offsets.size - 1, np.bool_)
    found = np.empty(most, np.int32)
    count = 0
    for c in order:
        is_apart = count < most
        for k in range(offsets[c], offsets[c + 1] - 1):
            is_apart = is_apart and not taken[ancestors[k]]
        if is_apart:
            for k in range(offsets[c], offsets[c + 1] - 1):
                taken[ancestors[k]] = True
            found[count] = c
            count += 1
    return found[:count].copy()


@kernel
def greatest_below(parent_offsets: Int64Array, parents: Int32Array, numbers: Int32Array) -> Int32Array:
    """(m,) int32: the greatest of the numbers of each concept's descendants, itself included."""
    greatest = numbers.copy()
    for c in range(numbers.size - 1, 0, -1):
        for k in range(parent_offsets[c], parent_offsets[c + 1]):
            greatest[parents[k]] = max(greatest[parents[k]], greatest[c])
    return greatest


@kernel
def walk_order(above: Int32Array) -> Int32Array:
    """(m,) int32: each concept's place in a walk down a tree, given what is above each."""
    m = above.size
    size = np.ones(m, np.int32)
    for c in range(m - 1, 0, -1):
        size[above[c]] += size[c]
    place = np.zeros(m, np.int32)
    free = np.ones(m, np.int32)
    for c in range(1, m):
        place[c] = free[above[c]]
        free[above[c]] += size[c]
        free[c] = place[c] + 1
    return place


@kernel
def transposed(
    offsets: Int64Array, ancestors: Int32Array, paths: Int32Array, order: Int32Array, members: Int32Array
) -> tuple[Int64Array, Int32Array]:
    """(first, starts) of the closure by ancestor and path; writes the members, those of a list in the given order."""
    m = offsets.size - 1
    first = np.zeros(m + 1, np.int64)
    for c in order:
        for k in range(offsets[c], offsets[c + 1]):
            s = int64(ancestors[k])
            first[s + 1] = max(first[s + 1], paths[k] + 1)
    for i in range(m):
        first[i + 1] += first[i]
    starts = np.zeros(first[m] + 2, np.int32)
    for c in order:
        for k in range(offsets[c], offsets[c + 1]):
            starts[first[ancestors[k]] + paths[k] + 2] += 1
    for i in range(2, starts.size):
        starts[i] += starts[i - 1]
    for c in order:
        for k in range(offsets[c], offsets[c + 1]):
            i = first[ancestors[k]] + paths[k] + 1
            members[starts[i]] = c
            starts[i] += 1
    return first, starts[:-1].copy()


@kernel
def greatest_of_lists(starts: Int32Array, members: Int32Array, numbers: Int32Array) -> UInt8Array:
    """(lists,) uint8: the greatest of the numbers of each list's members, 0 for none."""
    greatest = np.zeros(starts.size - 1, np.uint8)
    for x in range(greatest.size):
        for y in range(starts[x], starts[x + 1]):
            greatest[x] = max(greatest[x], numbers[members[y]])
    return greatest


@kernel
def write_blocks(
    members: Int32Array,
    rows: UInt64Array,
    depth: Int32Array,
    preorder: Int32Array,
    above: Int32Array,
    blocks: UInt64Array,
) -> None:
    """Fills zeros with the blocks' words. What covers a block is the least common concept above its members in the
    first parents' tree: every member is the same or below it."""
    for j in range(blocks.size // BLOCK_BIT_WORDS):
        at = j * BLOCK_BIT_WORDS
        low = members[j * MEMBER_BLOCK]
        high = low
        deepest = 0
        for y in range(j * MEMBER_BLOCK, min(members.size, (j + 1) * MEMBER_BLOCK)):
            c = members[y]
            for w in range(ROW_WORDS):
                blocks[at + w] |= rows[c * ROW_WORDS + w]
            low = c if preorder[c] < preorder[low] else low
            high = c if preorder[c] > preorder[high] else high
            deepest = max(deepest, depth[c])
        while low != high:
            if low > high:
                low = above[low]
            else:
                high = above[high]
        blocks[at + COVER] = low
        blocks[at + DEEPEST] = deepest
