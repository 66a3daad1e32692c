"""A low tree as the bitset engine reads it: regions as bits of a word, and candidates as ranges of ranks.

In a tree, sd(c, a) depends on two numbers alone: the links i from a up to the least common subsumer s of a and c, and
the links k from s down to c. A *region* is such a pair (i, k): the descendants k levels below an ancestor s of a,
except those below the child of s on the path to a. The regions of a value depend on its depth alone. In a tree of
height h a value has fewer than h · (h + 1) / 2 regions, so that the regions that contain candidates, those that a sign
condition admits, and those at one distance are each one word of bits.

Candidates have *ranks*, in ascending position. The candidates at one depth below a concept have consecutive ranks, so a
region is a few ranges of ranks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import (
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Array,
    Int64Cube,
    Int64Matrix,
    RecordArray,
    UInt64Array4D,
    UInt64Matrix,
)
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.replacement.rule import is_beyond, level_of

MAX_HEIGHT = 10
"""Height (nodes on the longest path) of the trees whose values have at most 64 regions."""

BITSET_WORD_BITS = 64
LEVEL_BUCKETS = 256
"""Intervals of [0, 1] that start the search for a distance among the regions."""

FARTHER, NEARER = range(2)
"""Sides of a sign condition: the first index of ``LevelBitsets.admitted``."""

UP, DOWN = range(2)
"""Columns of ``LevelBitsets.links``."""


class LevelBitsets(NamedTuple):
    """The regions of values at each depth 1 … h, which is the first index; ordered by distance, then by links up.

    links: (h + 1, 64, 2) links up and down of each region.
    distances: (h + 1, 66) of each region, after a 0 for the value itself; inf after the last one.
    equal: (h + 1, 64) the bits of the regions at the same distance as each region.
    starts: (h + 1, ``LEVEL_BUCKETS``) the number of regions nearer than the start of each bucket.
    of_ancestor: (h + 1, h + 1) the bits of the regions of the ancestor that many links up.
    admitted: (2, h + 1, h + 1, h + 1) by side, depth of a value, depth of the least common subsumer M of the value and
    a reference, and depth of the reference: the bits of the regions that meet the sign condition. If the reference is
    below M, the regions of M count as admitted for ``NEARER``; ``split_region`` decides about their candidates.
    lengths: (h + 1, 2 · h + 1) the distance of two concepts by their ``Separation``.
    """

    links: Int64Cube
    distances: Float64Matrix
    equal: UInt64Matrix
    starts: Int64Matrix
    of_ancestor: UInt64Matrix
    admitted: UInt64Array4D
    lengths: Float64Matrix


def level_bitsets(distance: Distance) -> LevelBitsets:
    """Return the regions of a tree of height ``MAX_HEIGHT`` or less."""
    height = int(distance.taxonomy.depth.max())
    bitsets = _empty(height)
    write_lengths(distance.name == "wu_palmer", bitsets.lengths)
    of_depth = [_ordered(bitsets.lengths, depth, height) for depth in range(1, height + 1)]
    for depth, ordered in enumerate(of_depth, start=1):
        _write(bitsets, depth, ordered)
    write_admitted(bitsets.links, np.array([0, *map(len, of_depth)]), bitsets.lengths, bitsets.admitted)
    return bitsets


def _empty(height: int) -> LevelBitsets:
    size = height + 1
    return LevelBitsets(
        links=np.zeros((size, BITSET_WORD_BITS, 2), np.int64),
        distances=np.full((size, BITSET_WORD_BITS + 2), np.inf),
        equal=np.zeros((size, BITSET_WORD_BITS), np.uint64),
        starts=np.zeros((size, LEVEL_BUCKETS), np.int64),
        of_ancestor=np.zeros((size, size), np.uint64),
        admitted=np.zeros((2, size, size, size), np.uint64),
        lengths=np.zeros((size, 2 * height + 1)),
    )


def _ordered(lengths: Float64Matrix, depth: int, height: int) -> list[tuple[float, int, int]]:
    """Return (distance, links up, links down) of all regions of a depth, ascending."""
    pairs = [(up, down) for up in range(depth) for down in range(height - depth + up + 1) if up or down]
    return sorted((float(lengths[depth - up, up + down]), up, down) for up, down in pairs)


def _write(bitsets: LevelBitsets, depth: int, ordered: list[tuple[float, int, int]]) -> None:
    bitsets.distances[depth, 0] = 0.0
    for region, (distance, up, down) in enumerate(ordered):
        bitsets.links[depth, region] = up, down
        bitsets.distances[depth, region + 1] = distance
        bitsets.equal[depth, region] = sum(1 << other for other, same in enumerate(ordered) if same[0] == distance)
        bitsets.of_ancestor[depth, up] |= np.uint64(1 << region)
    levels = np.array([distance for distance, _, _ in ordered])
    bitsets.starts[depth] = np.searchsorted(levels, np.arange(LEVEL_BUCKETS) / LEVEL_BUCKETS, side="left")


@kernel
def write_lengths(wu_palmer: bool, lengths: Float64Matrix) -> None:
    """Fill ``LevelBitsets.lengths``. By Wu–Palmer, or logarithmic."""
    for depth in range(1, lengths.shape[0]):
        for links in range(lengths.shape[1]):
            lengths[depth, links] = level_of(wu_palmer, depth, links)


@kernel
def write_admitted(links: Int64Cube, counts: Int64Array, lengths: Float64Matrix, admitted: UInt64Array4D) -> None:
    """Fill ``LevelBitsets.admitted``. counts: the number of regions by depth of a value."""
    height = counts.size - 1
    for depth in range(1, height + 1):
        for meeting in range(1, depth + 1):
            for reference in range(meeting, height + 1):
                own_distance = lengths[meeting, depth + reference - 2 * meeting]
                for region in range(counts[depth]):
                    at, down = depth - links[depth, region, UP], links[depth, region, DOWN]
                    subsumer = min(at, meeting)
                    distance = lengths[subsumer, at + down + reference - 2 * subsumer]
                    is_split = at == meeting and reference != meeting
                    bit = np.uint64(1) << np.uint64(region)
                    if is_beyond(1, distance, own_distance):
                        admitted[FARTHER, depth, meeting, reference] |= bit
                    if is_split or is_beyond(-1, distance, own_distance):
                        admitted[NEARER, depth, meeting, reference] |= bit


DEPTH, IS_CANDIDATE, PATH = 2, 3, 4
"""Columns of ``LevelTable.rows``; column ``PATH`` + d - 1 is the ancestor at depth d."""

BITSET_ROW = 16
"""Columns of a row: one cache line."""

NO_REGION = np.uint64(0)

SPAN = np.dtype([("first", np.int32), ("size", np.int32)])
"""The candidates at one depth below a concept: the first of their ranks, and the number of ranks."""


class RankRange(NamedTuple):
    """Consecutive ranks of candidates."""

    first: int
    size: int


@inlined
def skip_ranges(first: int, one: RankRange, other: RankRange, index: int) -> int:
    """Return the rank with an index among the ranks from ``first`` on that are in neither of two disjoint ranges."""
    if one.first > other.first:
        one, other = other, one
    rank = first + index
    if rank >= one.first:
        rank += one.size
    return rank + other.size if rank >= other.first else rank


class LevelTable(NamedTuple):
    """A tree of m concepts and height h as kernels read it.

    rows: (m + 1, 16) for each concept: two halves of the word of its regions that contain candidates; its depth;
        whether it is a candidate; its ancestors from the root down to itself; and m, a concept without candidates.
    held: (m + 1, 8) the same memory as uint64; column 0 is the word.
    lines: the same memory, flat.
    spans: ((m + 1) · (h + 1),) ``SPAN``; span s · (h + 1) + k + 1 is that of the candidates k levels below s.
    positions: the position of each candidate, ascending.
    levels: h.
    """

    rows: Int32Matrix
    held: UInt64Matrix
    lines: Int32Array
    spans: RecordArray
    positions: Int32Array
    levels: int


class TreeValue(NamedTuple):
    """A value: its position and its depth."""

    position: int
    depth: int


def level_table(tau: Taxonomy, bitsets: LevelBitsets, rank: Int32Array) -> LevelTable:
    """Return the table of a tree. rank: (m + 1,) the number of ranks of the candidates before each position."""
    m, height = len(tau), int(tau.depth.max())
    weights = np.diff(rank)
    positions = np.flatnonzero(weights).astype(np.int32)
    rows = np.zeros((m + 1, BITSET_ROW), np.int32)
    rows[:-1, DEPTH], rows[:-1, IS_CANDIDATE] = tau.depth, weights > 0
    write_paths(rows, tau.tree.parent)
    spans = _spans(tau, rank, height + 1)
    table = LevelTable(rows, rows.view(np.uint64), rows.reshape(-1), spans, positions, height)
    write_held(table, bitsets)
    return table


def _spans(tau: Taxonomy, rank: Int32Array, width: int) -> RecordArray:
    """``LevelTable.spans``; width: h + 1."""
    m, table = len(tau), tau.tree
    heights = np.diff(table.level_offsets)
    owner = np.repeat(np.arange(m, dtype=np.int64), heights)
    places = owner * width + 1 + np.arange(owner.size) - table.level_offsets[owner]
    low, high = rank[table.level_lo], rank[table.level_hi]
    spans = np.zeros((m + 1) * width, SPAN)
    spans["first"][places], spans["size"][places] = low, high - low
    return spans


@kernel
def write_paths(rows: Int32Matrix, parent: Int32Array) -> None:
    """Write the ancestors of every concept, parents first."""
    m = parent.size
    for c in range(m):
        end = PATH + rows[c, DEPTH]
        if c > 0:
            for column in range(PATH, end - 1):
                rows[c, column] = rows[parent[c], column]
        rows[c, end - 1], rows[c, end] = c, m
    rows[m, PATH] = m


@kernel
def write_held(table: LevelTable, bitsets: LevelBitsets) -> None:
    """Write the word of every concept: its regions that contain candidates."""
    for a in range(table.held.shape[0] - 1):
        depth = int64(table.rows[a, DEPTH])
        word = NO_REGION
        region = 0
        while bitsets.distances[depth, region + 1] < np.inf:
            if region_ranks(table, bitsets, TreeValue(a, depth), region)[1] > 0:
                word |= np.uint64(1) << np.uint64(region)
            region += 1
        table.held[a, 0] = word


@inlined
def table_span(table: LevelTable, s: int, level: int) -> RankRange:
    """Return the candidates ``level`` ≥ -1 levels below s."""
    span = s * (table.levels + 1) + level + 1
    return RankRange(int64(table.spans[span].first), int64(table.spans[span].size))


@inlined
def region_ranks(table: LevelTable, bitsets: LevelBitsets, value: TreeValue, region: int) -> tuple[int, int, RankRange]:
    """Return (first rank, number of ranks, range of ranks to skip) of a region.

    The range is below the child on the path to the value.
    """
    up, down = bitsets.links[value.depth, region, UP], bitsets.links[value.depth, region, DOWN]
    column = PATH + value.depth - 1 - up
    first, size = table_span(table, int64(table.rows[value.position, column]), down)
    inner = table_span(table, int64(table.rows[value.position, column + 1]), down - 1)
    return first, size - inner.size, inner
