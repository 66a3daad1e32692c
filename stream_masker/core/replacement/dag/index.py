"""The index of a directed acyclic graph: for each concept its ancestors, and the candidates below it by path length.

A candidate c is at distance wp(depth(s), path(a, s) + path(c, s)) of the value a, where s is their least common
subsumer. So the candidates at one distance of a are in a few *member lists*: the list of an ancestor s of a for a path
length k holds the candidates whose shortest path up to s has k links. A member of the list is at that distance only if
s is its least common subsumer with a; the others have to be excluded one by one.

Lists are sorted by ``root_path`` and divided into *blocks* of 32 members. A block summarises its members in a few
words, so that most members that are not admissible can be excluded together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import BoolArray, Int32Array, Int32Matrix, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.ontology.graph import first_parents_of, preorder_of
from stream_masker.core.replacement.dag.lines import ANCESTOR_LINE, PATH_BITS, SIGNATURE_WORDS
from stream_masker.core.replacement.rule import Candidates

MEMBER_BLOCK = 32
"""The number of members in a block."""
COVER, DEEPEST = SIGNATURE_WORDS, SIGNATURE_WORDS + 1
"""Offsets of a block's cover and of its greatest depth in the block's words, after its signature."""
BLOCK_WORDS = SIGNATURE_WORDS + 2

NO_ANCESTOR = -1
"""Entry of an ancestor line after the concept's last ancestor."""
PATH_MASK = int64((1 << PATH_BITS) - 1)
MAX_CONCEPTS, MAX_LEVELS = 1 << (31 - PATH_BITS), (1 << PATH_BITS) - 1
"""Limits of the taxonomies that the index can represent, by the width of the entries of ancestor lines and marks."""

HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

HUB_COUNT = 64
"""Concepts with one signature bit of their own: those with the most descendants. All others have two of 448 bits."""

MAX_REMOTE = 4
"""The maximum length of ``MemberLists.remote``."""


class GraphArrays(NamedTuple):
    """A taxonomy of m concepts as kernels read it. Positions are numbered parents first; the root is 0.

    offsets, ancestors, paths: the closure; the ancestors of c are ``ancestors[offsets[c] : offsets[c + 1]]``, deepest
        first, with the links of the shortest path from c up to each.
    parent_offsets, parents: the parents, in the same form.
    depth: (m,) nodes on the longest path from the root; the root has 1.
    depth_starts: (levels + 2,) the first position of each depth, from 0 on; m for the depth beyond the last.
    root_path: (m,) links of the shortest path up to the root.
    max_root_path: (m,) the greatest ``root_path`` of the descendants of each concept.
    lines: the closure again, in cache lines of 16 entries: the line of c starts at 16 · c and holds its ancestors with
        their paths, deepest first, down to the root. ``next_line`` finds the line that continues a full one.
    signature_bits: (m, 2) the two bits of each concept in signatures; equal for hubs.
    signatures: (8 · m,) the bits of all ancestors of each concept (a Bloom filter): if c lacks a bit of u, u is not an
    ancestor of c.
    """

    offsets: Int64Array
    ancestors: Int32Array
    paths: Int32Array
    parent_offsets: Int64Array
    parents: Int32Array
    depth: Int32Array
    depth_starts: Int64Array
    root_path: Int32Array
    max_root_path: Int32Array
    lines: Int32Array
    signature_bits: Int32Matrix
    signatures: UInt64Array


class MemberLists(NamedTuple):
    """The candidates below each concept, by path length.

    List x = ``first[s] + k``, for k from 0 to ``first[s + 1] - first[s]`` - 1, holds the candidates whose shortest path
    up to s has k links: ``members[starts[x] : starts[x + 1]]``, sorted by (``root_path``, ``preorder``).

    eligible: (m,) whether each concept is a candidate.
    deepest: (lists,) the greatest depth of any member; 0 for an empty list.
    preorder: (m,) index of each concept in a preorder walk of the tree of first parents.
    blocks: (10 · blocks,) uint64; block j summarises ``members[32 * j : 32 * (j + 1)]``: the union of their signatures
        (8 words), a concept that is an ancestor of all (``COVER``) and their greatest depth (``DEEPEST``).
    remote: at most 4 candidates far from the root, of which every two have only the root in common.
    """

    eligible: BoolArray
    first: Int64Array
    starts: Int32Array
    members: Int32Array
    deepest: UInt8Array
    preorder: Int32Array
    blocks: UInt64Array
    remote: Int32Array


def is_in_range(taxonomy: Taxonomy) -> bool:
    """Return whether the index can represent the taxonomy."""
    return len(taxonomy) <= MAX_CONCEPTS and int(taxonomy.depth.max()) <= MAX_LEVELS


def build_graph(taxonomy: Taxonomy) -> GraphArrays:
    """Return the arrays of a taxonomy."""
    closure = taxonomy.closure
    depth, links = taxonomy.depth, (taxonomy.parent_offsets, taxonomy.parents)
    bits = _signature_bits(np.bincount(closure.ancestors, minlength=len(taxonomy)))
    root_path = closure.paths[closure.offsets[1:] - 1].astype(np.int32)
    return GraphArrays(
        offsets=closure.offsets,
        ancestors=closure.ancestors,
        paths=closure.paths,
        parent_offsets=taxonomy.parent_offsets,
        parents=taxonomy.parents,
        depth=depth,
        depth_starts=np.searchsorted(depth, np.arange(int(depth.max()) + 2)).astype(np.int64),
        root_path=root_path,
        max_root_path=max_over_descendants(*links, root_path),
        lines=_ancestor_lines(closure.offsets, closure.ancestors, closure.paths),
        signature_bits=bits,
        signatures=_signatures(bits, *links),
    )


def build_member_lists(graph: GraphArrays, candidates: Candidates) -> MemberLists:
    """Return the member lists of the candidates; time and memory are proportional to the size of the closure."""
    first_parents = first_parents_of(graph.parent_offsets, graph.parents)
    preorder = preorder_of(first_parents)
    order = np.lexsort((preorder, graph.root_path))
    eligible = np.zeros(len(preorder), np.bool_)
    eligible[candidates.positions] = True
    ordered = order[eligible[order]].astype(np.int32)
    members = np.zeros(int(np.diff(graph.offsets)[ordered].sum()), np.int32)
    first, starts = write_members(graph.offsets, graph.ancestors, graph.paths, ordered, members)
    blocks = np.zeros(-(-members.size // MEMBER_BLOCK) * BLOCK_WORDS, np.uint64)
    write_blocks(members, graph.signatures, graph.depth, preorder, first_parents, blocks)
    deepest = max_over_lists(starts, members, graph.depth)
    remote = remote_concepts(graph.offsets, graph.ancestors, ordered[::-1].copy(), MAX_REMOTE)
    return MemberLists(eligible, first, starts, members, deepest, preorder, blocks, remote)


def _ancestor_lines(offsets: Int64Array, ancestors: Int32Array, paths: Int32Array) -> Int32Array:
    counts = np.diff(offsets)
    continued = np.where(counts > ANCESTOR_LINE, (counts - 2) // (ANCESTOR_LINE - 1), 0).sum()
    lines = np.full(ANCESTOR_LINE * (counts.size + int(continued)), NO_ANCESTOR, np.int32)
    write_lines(offsets, ancestors, paths, lines)
    return lines


def _signature_bits(descendants: NDArray[np.integer]) -> Int32Array:
    """Return (m, 2) the signature bits of each concept, given its number of descendants."""
    m = len(descendants)
    mixed = np.arange(m, dtype=np.uint64)[:, None] * HASH_MULTIPLIER >> np.array([[16, 40]], np.uint64)
    bits = (HUB_COUNT + mixed % np.uint64(64 * SIGNATURE_WORDS - HUB_COUNT)).astype(np.int32)
    hubs = np.argsort(-descendants, kind="stable")[:HUB_COUNT]
    bits[hubs] = np.arange(len(hubs))[:, None]
    return bits


def _signatures(bits: Int32Array, parent_offsets: Int64Array, parents: Int32Array) -> UInt64Array:
    signatures = np.zeros(len(bits) * SIGNATURE_WORDS, np.uint64)
    write_signatures(bits, parent_offsets, parents, signatures)
    return signatures


@kernel
def write_lines(offsets: Int64Array, ancestors: Int32Array, paths: Int32Array, lines: Int32Array) -> None:
    """Fill ``GraphArrays.lines``. An entry less than ``NO_ANCESTOR`` at the end of a line is minus the index where the
    line continues."""
    free = ANCESTOR_LINE * (offsets.size - 1)
    for c in range(offsets.size - 1):
        at = ANCESTOR_LINE * c
        count = offsets[c + 1] - offsets[c]
        for i in range(count):
            if at % ANCESTOR_LINE == ANCESTOR_LINE - 1 and i + 1 < count:
                lines[at] = -free
                at = free
                free += ANCESTOR_LINE
            j = offsets[c] + i
            lines[at] = (int64(ancestors[j]) << PATH_BITS) | int64(paths[j])
            at += 1


@inlined
def next_line(graph: GraphArrays, at: int) -> int:
    """Return the index where the ancestor line that starts at ``at`` continues; 0 if it does not."""
    last = int64(graph.lines[at + ANCESTOR_LINE - 1])
    return -last if last < NO_ANCESTOR else int64(0)


@inlined
def next_ancestor(graph: GraphArrays, at: int) -> tuple[int, int, int]:
    """Return (position, path, index of the next entry) of the entry at an index of ``GraphArrays.lines``.

    The entries of c start at ``ANCESTOR_LINE * c``; the last one is the root, position 0.
    """
    entry = int64(graph.lines[at])
    if entry < 0:
        at = -entry
        entry = int64(graph.lines[at])
    return entry >> PATH_BITS, entry & PATH_MASK, at + 1


@kernel
def write_signatures(
    bits: Int32Matrix, parent_offsets: Int64Array, parents: Int32Array, signatures: UInt64Array
) -> None:
    """Fill (8 · m,) zeros with the signatures, parents first."""
    for c in range(bits.shape[0]):
        for k in range(parent_offsets[c], parent_offsets[c + 1]):
            for w in range(SIGNATURE_WORDS):
                signatures[c * SIGNATURE_WORDS + w] |= signatures[parents[k] * SIGNATURE_WORDS + w]
        for bit in bits[c]:
            signatures[c * SIGNATURE_WORDS + (bit >> 6)] |= np.uint64(1) << np.uint64(bit & 63)


@kernel
def remote_concepts(offsets: Int64Array, ancestors: Int32Array, order: Int32Array, limit: int) -> Int32Array:
    """Return the first concepts in that order, at most ``limit``, that share only the root with those chosen before."""
    is_taken = np.zeros(offsets.size - 1, np.bool_)
    remote = np.empty(limit, np.int32)
    count = 0
    for c in order:
        is_remote = count < limit
        for k in range(offsets[c], offsets[c + 1] - 1):
            is_remote = is_remote and not is_taken[ancestors[k]]
        if is_remote:
            for k in range(offsets[c], offsets[c + 1] - 1):
                is_taken[ancestors[k]] = True
            remote[count] = c
            count += 1
    return remote[:count].copy()


@kernel
def max_over_descendants(parent_offsets: Int64Array, parents: Int32Array, numbers: Int32Array) -> Int32Array:
    """Return (m,) the greatest of the numbers of each concept and its descendants."""
    greatest = numbers.copy()
    for c in range(numbers.size - 1, 0, -1):
        for k in range(parent_offsets[c], parent_offsets[c + 1]):
            greatest[parents[k]] = max(greatest[parents[k]], greatest[c])
    return greatest


@kernel
def write_members(
    offsets: Int64Array, ancestors: Int32Array, paths: Int32Array, order: Int32Array, members: Int32Array
) -> tuple[Int64Array, Int32Array]:
    """Write the members of all lists, each list in the given order; (first, starts) of ``MemberLists``.

    It is a counting sort of the closure by (ancestor, path).
    """
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
            x = first[ancestors[k]] + paths[k] + 1
            members[starts[x]] = c
            starts[x] += 1
    return first, starts[:-1].copy()


@kernel
def max_over_lists(starts: Int32Array, members: Int32Array, numbers: Int32Array) -> UInt8Array:
    """Return (lists,) the greatest of the numbers of each list's members; 0 for an empty list. Numbers are below
    256."""
    greatest = np.zeros(starts.size - 1, np.uint8)
    for x in range(greatest.size):
        for y in range(starts[x], starts[x + 1]):
            greatest[x] = max(greatest[x], numbers[members[y]])
    return greatest


@kernel
def write_blocks(
    members: Int32Array,
    signatures: UInt64Array,
    depth: Int32Array,
    preorder: Int32Array,
    first_parents: Int32Array,
    blocks: UInt64Array,
) -> None:
    """Fill zeros with the words of all blocks.

    A block's cover is the lowest common ancestor of its members in the tree of first parents: that of the members with
    the least and the greatest preorder index.
    """
    for j in range(blocks.size // BLOCK_WORDS):
        block = j * BLOCK_WORDS
        low = members[j * MEMBER_BLOCK]
        high = low
        deepest = 0
        for y in range(j * MEMBER_BLOCK, min(members.size, (j + 1) * MEMBER_BLOCK)):
            c = members[y]
            for w in range(SIGNATURE_WORDS):
                blocks[block + w] |= signatures[c * SIGNATURE_WORDS + w]
            low = c if preorder[c] < preorder[low] else low
            high = c if preorder[c] > preorder[high] else high
            deepest = max(deepest, depth[c])
        while low != high:
            if low > high:
                low = first_parents[low]
            else:
                high = first_parents[high]
        blocks[block + COVER] = low
        blocks[block + DEEPEST] = deepest
