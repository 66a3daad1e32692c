"""An index that computes the distances of millions of pairs, with one cache line per concept.

*Hubs* are the concepts with the most descendants. They subsume most of what two random concepts have in common. A
concept subsumes no more concepts than its ancestors do, so all ancestors of a hub are hubs. If two concepts share an
ancestor that is not a hub, they also share a *top*: an ancestor that is not a hub, but whose parents are all hubs.

Every concept has a row of eight words:

* word 0: the hubs that subsume the concept, one bit each. Bits have the order of positions, so the highest common bit
  of two concepts is a deepest common hub;
* words 1 to 3, except the 16 highest bits: the tops that subsume it; several tops share a bit;
* the 16 highest bits of word 3: the number of its ancestors, including itself; the maximum means that many or more;
* words 4 to 7: the number of links on the shortest path up to each hub, four bits each; the maximum means that many or
  more.

If the rows of two concepts share no bit of a top, all their common ancestors are hubs, and their rows determine the
distance exactly. Other pairs stay unresolved; kernels that compare all ancestors compute them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance.kernels import WU_PALMER, log_taxonomic, wu_palmer
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.intrinsics import highest_bit, on_lines, popcount, prefetch
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.errors import ParameterError

INDEXED_HUBS = 64
WORDS = 8
TOP_BITS = 176
MAX_COUNTED_LINKS = 15
MANY_ANCESTORS = (1 << 16) - 1
PREFETCH_PAIRS = 32
"""Rows are prefetched this many pairs ahead of their use."""

UNRESOLVED = -1.0

ONE_BIT = np.uint64(1)
NONE = np.uint64(0)
FOUR = np.uint64(4)
TWO = np.uint64(2)
NIBBLE = np.uint64(15)
IN_WORD = np.uint64(63)
TOPS_OF_WORD_3 = np.uint64((1 << 48) - 1)
ANCESTORS_SHIFT = np.uint64(48)


@dataclass(frozen=True, slots=True, eq=False)
class PairIndex:
    """The rows of m concepts, and the depths of the hubs.

    rows: (m · 8,) uint64, each row in one cache line. depths: (64,) int64, the depth of the hub of each bit. levels:
    (64,) uint64, for each bit the mask of all hubs with the same depth.
    """

    rows: UInt64Array
    depths: NDArray[np.int64]
    levels: UInt64Array

    @classmethod
    def of(cls, tau: Taxonomy, *, hubs: int = INDEXED_HUBS) -> PairIndex:
        """Build the index of a taxonomy, in O(links · hubs of a concept). ``hubs``: 1 to 64."""
        if not 1 <= hubs <= INDEXED_HUBS:
            raise ParameterError(f"hubs={hubs} is not allowed: use 1 to {INDEXED_HUBS}")
        below = descendant_counts(tau)
        bit = np.full(len(tau), -1, np.int32)
        chosen = np.sort(np.argsort(-below, kind="stable")[:hubs])
        bit[chosen] = np.arange(chosen.size)
        rows = on_lines(len(tau) * WORDS, np.uint64)
        fill_rows(rows, bit, _top_bits(tau, bit, below), tau.parent_offsets, tau.parents, _ancestor_counts(tau))
        depths = np.zeros(INDEXED_HUBS, np.int64)
        depths[: chosen.size] = tau.depth[chosen]
        return cls(rows, depths, _levels(depths))

    def pairs(self, kind: int, a: Int32Array, b: Int32Array) -> tuple[NDArray[np.float64], Int32Array]:
        """Return (n,) float64: the distances of n pairs of positions, and the indices of the unresolved pairs."""
        result, unresolved = np.empty(a.size), np.empty(a.size, np.int32)
        size = row_distances(kind, a, b, self.rows, self.depths, self.levels, result, unresolved)
        return result, unresolved[:size]


def descendant_counts(tau: Taxonomy) -> NDArray[np.int64]:
    """Return (m,) int64: the number of concepts that each concept subsumes, including itself."""
    if tau.is_tree:
        return np.asarray(subtree_sizes(tau.tree.parent))
    return np.bincount(tau.closure.ancestors, minlength=len(tau))


def _top_bits(tau: Taxonomy, bit: Int32Array, below: NDArray[np.int64]) -> Int32Array:
    """Return (m,) int32: the bit of each top, -1 for other concepts.

    Neighbours share a bit, such that the tops of each bit have about equally many descendants.
    """
    children = np.repeat(np.arange(len(tau)), np.diff(tau.parent_offsets))
    outside = np.bincount(children, bit[tau.parents] < 0, minlength=len(tau))
    tops = np.flatnonzero((bit < 0) & (outside == 0))
    before = np.cumsum(below[tops]) - below[tops]
    result = np.full(len(tau), -1, np.int32)
    result[tops] = before * TOP_BITS // max(1, int(below[tops].sum()))
    return result


def _ancestor_counts(tau: Taxonomy) -> NDArray[np.int64]:
    counts = tau.depth if tau.is_tree else np.diff(tau.closure.offsets)
    return np.minimum(counts, MANY_ANCESTORS).astype(np.int64)


def _levels(depths: NDArray[np.int64]) -> UInt64Array:
    """Return (64,) uint64: for each bit the mask of all bits with the same depth."""
    powers = ONE_BIT << np.arange(INDEXED_HUBS, dtype=np.uint64)
    return np.asarray(((depths[:, None] == depths) * powers).sum(axis=1, dtype=np.uint64))


@kernel
def subtree_sizes(parent: Int32Array) -> Int64Array:
    """Return (m,) int64: the number of concepts in the subtree of each concept of a tree."""
    sizes = np.ones(parent.size, np.int64)
    for c in range(parent.size - 1, 0, -1):
        sizes[parent[c]] += sizes[c]
    return sizes


@inlined
def links_in(word: np.uint64, bit: np.uint64) -> int:
    """Return the number of links to the hub of a bit, from the word that contains it; at most ``MAX_COUNTED_LINKS``."""
    return int64((word >> ((bit & NIBBLE) << TWO)) & NIBBLE)


@kernel
def fill_rows(
    rows: UInt64Array,
    hub_bit: Int32Array,
    top_bit: Int32Array,
    parent_offsets: Int64Array,
    parents: Int32Array,
    ancestors: Int64Array,
) -> None:
    """Fill ``rows``, which must be zeros: what subsumes a parent also subsumes its children, one link farther."""
    links = np.empty(INDEXED_HUBS, np.int64)
    for c in range(hub_bit.size):
        row = c * WORDS
        links[:] = MAX_COUNTED_LINKS
        for k in range(parent_offsets[c], parent_offsets[c + 1]):
            above = int64(parents[k]) * WORDS
            hubs = rows[above]
            while hubs != NONE:
                bit = highest_bit(hubs)
                hubs ^= ONE_BIT << bit
                links[bit] = min(links[bit], links_in(rows[above + 4 + int64(bit >> FOUR)], bit) + 1)
            for word in range(4):
                rows[row + word] |= rows[above + word]
        if hub_bit[c] >= 0:
            rows[row] |= ONE_BIT << np.uint64(hub_bit[c])
            links[hub_bit[c]] = 0
        if top_bit[c] >= 0:
            rows[row + 1 + (top_bit[c] >> 6)] |= ONE_BIT << (np.uint64(top_bit[c]) & IN_WORD)
        rows[row + 3] = (rows[row + 3] & TOPS_OF_WORD_3) | (np.uint64(ancestors[c]) << ANCESTORS_SHIFT)
        hubs = rows[row]
        while hubs != NONE:
            bit = highest_bit(hubs)
            hubs ^= ONE_BIT << bit
            rows[row + 4 + int64(bit >> FOUR)] |= np.uint64(links[bit]) << ((bit & NIBBLE) << TWO)


@kernel
def row_distances(
    kind: int,
    first: Int32Array,
    second: Int32Array,
    rows: UInt64Array,
    depths: Int64Array,
    levels: UInt64Array,
    result: Float64Array,
    unresolved: Int32Array,
) -> int:
    """Compute the distances of pairs from their rows into ``result``, ``UNRESOLVED`` if the rows do not determine it.

    Writes the indices of unresolved pairs to ``unresolved`` and returns their number. Everything is in one loop:
    counting references to arrays that are passed to a function, even to an inlined one, costs more than the distance.
    """
    size = 0
    for i in range(first.size):
        if i + PREFETCH_PAIRS < first.size:
            prefetch(rows, int64(first[i + PREFETCH_PAIRS]) * WORDS)
            prefetch(rows, int64(second[i + PREFETCH_PAIRS]) * WORDS)
        a = int64(first[i]) * WORDS
        b = int64(second[i]) * WORDS
        tops = (rows[a + 1] & rows[b + 1]) | (rows[a + 2] & rows[b + 2]) | (rows[a + 3] & rows[b + 3] & TOPS_OF_WORD_3)
        common = rows[a] & rows[b]
        distance = UNRESOLVED
        if a == b:
            distance = 0.0
        elif tops == NONE and kind == WU_PALMER:
            bit = highest_bit(common)
            deepest = common & levels[bit]
            least = 2 * MAX_COUNTED_LINKS
            longest = 0
            while deepest != NONE:
                bit = highest_bit(deepest)
                deepest ^= ONE_BIT << bit
                word = 4 + int64(bit >> FOUR)
                up = links_in(rows[a + word], bit)
                down = links_in(rows[b + word], bit)
                least = min(least, up + down)
                longest = max(longest, up, down)
            if longest < MAX_COUNTED_LINKS:
                distance = wu_palmer(depths[bit], least)
        elif tops == NONE:
            ancestors_a = int64(rows[a + 3] >> ANCESTORS_SHIFT)
            ancestors_b = int64(rows[b + 3] >> ANCESTORS_SHIFT)
            both = int64(popcount(common))
            if max(ancestors_a, ancestors_b) < MANY_ANCESTORS:
                distance = log_taxonomic(ancestors_a + ancestors_b - both, both)
        result[i] = distance
        if distance == UNRESOLVED:
            unresolved[size] = i
            size += 1
    return size
