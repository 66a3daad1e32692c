"""A low tree as the bitset engine reads it: paths, and ranges of ranks of candidates.

Candidates have *ranks*, in ascending position. The candidates at one depth below a concept have consecutive ranks, so a
region (see ``level_bitsets``) is a few ranges of ranks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int32Matrix, RecordArray, UInt64Matrix
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.replacement.level_bitsets import DOWN, UP, LevelBitsets

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
