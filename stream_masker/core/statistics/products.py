"""Sums over two sparse tables of counts of pairs and the distances between their values, in blocks of bounded size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.distance import Distance
from stream_masker.core.distance.many import Sources, Targets
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.core.kernels.simd import VECTOR_LANES
from stream_masker.core.statistics import matrix_blocks

HELD_CELLS = 1 << 25
"""No more numbers (256 MB) than these are held of a distance matrix times counts; beyond, distances are computed again.

Besides, a block of distances has 32 columns, and rows as many as there are distinct values.
"""


DENSE = 8
"""A product of matrices is as fast for so many cells as a sum over pairs is for one pair."""


@dataclass(frozen=True, eq=False)
class Side:
    """Distinct values (k,) of one attribute, as sources and as targets of distances. Frozen; these are kept."""

    d: Distance
    positions: Int32Array

    @cached_property
    def targets(self) -> Targets:
        """The values as targets."""
        return self.d.targets(self.positions)

    @cached_property
    def sources(self) -> Sources:
        """The values as sources."""
        return self.d.sources(self.positions)

    def __len__(self) -> int:
        return self.positions.size


@dataclass(frozen=True, eq=False)
class CountTable:
    """A sparse table N of values of A by values of B: ``counts`` (p,), of any sign, at rows ``first``, ascending, and
    columns ``second``, both (p,) indices of distinct values.
    """

    a: Side
    b: Side
    first: Int64Array
    second: Int64Array
    counts: Float64Array

    @classmethod
    def of(cls, keys: Int64Array, counts: Float64Array, d_a: Distance, d_b: Distance) -> CountTable:
        """From ascending keys: position in A * concepts of B's taxonomy + position in B."""
        a, b = np.divmod(keys, len(d_b.taxonomy))
        starts = np.diff(a, prepend=-1) > 0
        columns, second = _ranks(b, len(d_b.taxonomy))
        sides = Side(d_a, a[starts].astype(np.int32)), Side(d_b, columns)
        return cls(*sides, np.cumsum(starts) - 1, second, counts)

    @cached_property
    def swapped(self) -> CountTable:
        """The table of B by A."""
        order = matrix_blocks.order_by(self.second, offsets_from_lengths(self._column_sizes))
        return CountTable(self.b, self.a, self.second[order], self.first[order], self.counts[order])

    @cached_property
    def by_column(self) -> tuple[Int64Array, Int64Array, Float64Array]:
        """The counts by column: where each column begins, then rows and counts."""
        return offsets_from_lengths(self._column_sizes), self.swapped.second, self.swapped.counts

    @property
    def tiles(self) -> int:
        """How many tiles of 32 columns there are."""
        return -(-len(self.b) // VECTOR_LANES)

    @property
    def _column_sizes(self) -> Int64Array:
        return np.bincount(self.second, minlength=len(self.b))


def _ranks(positions: Int64Array, size: int) -> tuple[Int32Array, Int64Array]:
    """The distinct positions, ascending, and of each position which of them it is."""
    there = np.zeros(size, np.bool_)
    there[positions] = True
    return np.flatnonzero(there).astype(np.int32), (np.cumsum(there) - 1)[positions]


def table_product_sum(outer: CountTable, inner: CountTable, shift_a: float, shift_b: float) -> float:
    """Σ outer ∘ (X_A inner X_B), X the distances less a shift: S1·n² of sdCov² where both are the table of counts.

    O(p_inner·k_outer + p_outer·k_inner), distinct values k and pairs p.
    """
    if len(outer.a) < len(outer.b):
        return table_product_sum(outer.swapped, inner.swapped, shift_b, shift_a)
    if len(outer.a) * len(outer.b) <= DENSE * outer.counts.size and len(inner.b) * len(outer.b) <= HELD_CELLS:
        return _dense_sum(outer, inner, shift_a, shift_b)
    return _sparse_sum(outer, inner, shift_a, shift_b)


def _dense_sum(outer: CountTable, inner: CountTable, shift_a: float, shift_b: float) -> float:
    """The sum by products of matrices: for outer tables with few cells beside those that are counted."""
    distances = inner.b.d.between(inner.b.positions, outer.b.positions)
    distances -= shift_b
    totals: list[float] = []
    for start, stop, products in _times_counts(outer.a.sources, inner, shift_a):
        cells = products[: len(inner.b), : stop - start].T @ distances
        inside = slice(*np.searchsorted(outer.first, (start, stop)))
        totals.append(float(cells[outer.first[inside] - start, outer.second[inside]] @ outer.counts[inside]))
    return math.fsum(totals)


def _sparse_sum(outer: CountTable, inner: CountTable, shift_a: float, shift_b: float) -> float:
    """The sum pair by pair: rows of X_A N are held, as many as the budget allows, while the columns of X_B pass by.

    Rows with many pairs come first, so that the others need few columns.
    """
    rows, first, second, counts = _by_size(outer)
    tiles = inner.tiles
    step = min(max(1, HELD_CELLS // (tiles * VECTOR_LANES**2)) * VECTOR_LANES, rows.size)
    held = np.zeros((tiles, step, VECTOR_LANES))
    totals: list[float] = []
    for start in range(0, rows.size, step):
        for row, end, products in _times_counts(inner.a.d.sources(rows[start : start + step]), inner, shift_a):
            held[:, row:end] = products.reshape(tiles, VECTOR_LANES, VECTOR_LANES).transpose(0, 2, 1)[:, : end - row]
        inside = slice(*np.searchsorted(first, (start, start + step)))
        columns, column = np.unique(second[inside], return_inverse=True)
        pairs = first[inside] - start, column, counts[inside]
        targets = outer.b.d.targets(outer.b.positions[columns])
        for begin, _, block in targets.blocks(inner.b.sources):
            totals.append(
                matrix_blocks.row_products(held[begin // VECTOR_LANES].ravel(), block.ravel(), shift_b, *pairs)
            )
    return math.fsum(totals)


def _by_size(table: CountTable) -> tuple[Int32Array, Int64Array, Int64Array, Float64Array]:
    """Positions of the rows, those with most pairs first; of each pair, in that order, row, column and count."""
    order = np.argsort(-np.bincount(table.first), kind="stable")
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    pairs = np.argsort(rank[table.first], kind="stable")
    return table.a.positions[order], rank[table.first][pairs], table.second[pairs], table.counts[pairs]


def _times_counts(rows: Sources, inner: CountTable, shift: float) -> Iterator[tuple[int, int, Float64Array]]:
    """First row, end, and (tiles · 32, 32): those rows of X_A N, one in a column. The next ones overwrite them."""
    products = np.zeros((inner.tiles * VECTOR_LANES, VECTOR_LANES))
    for start, stop, block in inner.a.targets.blocks(rows):
        matrix_blocks.times_counts(block.ravel(), shift, *inner.by_column, products.ravel())
        yield start, stop, products
