"""Distances of millions of pairs, from one cache line a concept.

A few *hubs*, the concepts with the most descendants, subsume most of what two random concepts have in common. With a
concept subsumes its ancestors, so hubs are closed upwards: if two concepts share an ancestor that is no hub, they share
one whose parents are all hubs, a *top*. Every concept has a row of eight words:

* word 0: which hubs subsume it; bits in the order of positions, so that the highest common bit is a deepest common hub;
* words 1 to 3, but for the 16 highest bits: which tops subsume it, several tops sharing a bit;
* the 16 highest bits of word 3: how many ancestors it has, itself included (the greatest value: that many or more);
* words 4 to 7: links on the shortest path up to each hub, four bits each (the greatest value: that many or more).

Two concepts whose rows share no top's bit have only hubs in common, and the rows tell their distance exactly. Pairs
that rows cannot tell are left to the kernels that walk over ancestors.
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
"""Rows are asked for this many pairs ahead of their use."""

UNTOLD = -1.0

ONE_BIT = np.uint64(1)
NONE = np.uint64(0)
FOUR = np.uint64(4)
TWO = np.uint64(2)
NIBBLE = np.uint64(15)
IN_WORD = np.uint64(63)
TOPS_OF_LAST = np.uint64((1 << 48) - 1)
COUNT_SHIFT = np.uint64(48)


@dataclass(frozen=True, slots=True, eq=False)
class PairIndex:
    """Rows (m · 8,) uint64, each in one cache line; by bit (64,) each: depths of the hubs, bits of equal depth."""

    rows: UInt64Array
    depths: NDArray[np.int64]
    levels: UInt64Array

    @classmethod
    def of(cls, tau: Taxonomy, *, hubs: int = INDEXED_HUBS) -> PairIndex:
        """The table of a taxonomy, in O(links · hubs of a concept); ``hubs`` from 1 to 64."""
        if not 1 <= hubs <= INDEXED_HUBS:
            raise ParameterError(f"hubs={hubs} is not allowed: use 1 to {INDEXED_HUBS}")
        below = hub_descendants(tau)
        bit = np.full(len(tau), -1, np.int32)
        chosen = np.sort(np.argsort(-below, kind="stable")[:hubs])
        bit[chosen] = np.arange(chosen.size)
        rows = on_lines(len(tau) * WORDS, np.uint64)
        fill_rows(rows, bit, _top_bits(tau, bit, below), tau.parent_offsets, tau.parents, _ancestor_counts(tau))
        depths = np.zeros(INDEXED_HUBS, np.int64)
        depths[: chosen.size] = tau.depth[chosen]
        return cls(rows, depths, _levels(depths))

    def pairs(self, kind: int, a: Int32Array, b: Int32Array) -> tuple[NDArray[np.float64], Int32Array]:
        """(n,) float64 distances of n pairs of positions, and the indices of those that are left to others."""
        result, left = np.empty(a.size), np.empty(a.size, np.int32)
        size = row_distances(kind, a, b, self.rows, self.depths, self.levels, result, left)
        return result, left[:size]


def hub_descendants(tau: Taxonomy) -> NDArray[np.int64]:
    """(m,): how many concepts each one subsumes, itself included."""
    if tau.is_tree:
        return np.asarray(subtree_sizes(tau.tree.parent))
    return np.bincount(tau.closure.ancestors, minlength=len(tau))


def _top_bits(tau: Taxonomy, bit: Int32Array, below: NDArray[np.int64]) -> Int32Array:
    """(m,): each top's bit, -1 for others. Neighbours share bits, so that each bit has about as many descendants."""
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
    """(64,) uint64: the bits of the same depth as each bit."""
    powers = ONE_BIT << np.arange(INDEXED_HUBS, dtype=np.uint64)
    return np.asarray(((depths[:, None] == depths) * powers).sum(axis=1, dtype=np.uint64))


@kernel
def subtree_sizes(parent: Int32Array) -> Int64Array:
    """(m,) int64: how many concepts each one of a tree subsumes, itself included."""
    sizes = np.ones(parent.size, np.int64)
    for c in range(parent.size - 1, 0, -1):
        sizes[parent[c]] += sizes[c]
    return sizes


@inlined
def links_in(word: np.uint64, bit: np.uint64) -> int:
    """The links to the hub of that bit, from the word that holds them; ``MAX_COUNTED_LINKS`` for that many."""
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
    """Fills rows of zeros, parents first: what subsumes a parent subsumes its children, one link farther."""
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
        rows[row + 3] = (rows[row + 3] & TOPS_OF_LAST) | (np.uint64(ancestors[c]) << COUNT_SHIFT)
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
    left: Int32Array,
) -> int:
    """Fills ``result``; the pairs that rows cannot tell go to ``left``. Returns their number.

    All in one loop: arrays handed to a function, even an inlined one, are counted as references, which costs more than
    the distance.
    """
    size = 0
    for i in range(first.size):
        if i + PREFETCH_PAIRS < first.size:
            prefetch(rows, int64(first[i + PREFETCH_PAIRS]) * WORDS)
            prefetch(rows, int64(second[i + PREFETCH_PAIRS]) * WORDS)
        a = int64(first[i]) * WORDS
        b = int64(second[i]) * WORDS
        tops = (rows[a + 1] & rows[b + 1]) | (rows[a + 2] & rows[b + 2]) | (rows[a + 3] & rows[b + 3] & TOPS_OF_LAST)
        common = rows[a] & rows[b]
        distance = UNTOLD
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
            ancestors_a = int64(rows[a + 3] >> COUNT_SHIFT)
            ancestors_b = int64(rows[b + 3] >> COUNT_SHIFT)
            both = int64(popcount(common))
            if max(ancestors_a, ancestors_b) < MANY_ANCESTORS:
                distance = log_taxonomic(ancestors_a + ancestors_b - both, both)
        result[i] = distance
        if distance == UNTOLD:
            left[size] = i
            size += 1
    return size
