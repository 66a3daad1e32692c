"""Weighted sums over two sparse count tables and the distances of their values, in blocks of bounded size.

The sums serve taxonomies in which depths alone do not determine distances. A block of k rows is stored as (k · 32,)
float64, row after row.
"""

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
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.kernels.simd import VECTOR_LANES, add_product_lanes, add_scaled_lanes, prefetch_lanes

PREFETCH_COLUMNS = 8
"""How many pairs ahead of their use data are prefetched."""


@kernel
def multiply_by_counts(
    block: Float64Array, shift: float, offsets: Int64Array, rows: Int64Array, counts: Float64Array, result: Float64Array
) -> None:
    """Fill row b of ``result`` with Σ_a N_ab · (block[a] − shift), for each column b of N.

    * ``block``: (k · 32,) float64. ``result``: (l · 32,) float64.
    * ``rows``, ``counts``: (p,), the entries of N by column; column b has those from offsets[b] to offsets[b + 1] − 1.
    """
    result[:] = 0.0
    for b in range(offsets.size - 1):
        for p in range(offsets[b], offsets[b + 1]):
            if p + PREFETCH_COLUMNS < rows.size:
                prefetch_lanes(block, rows[p + PREFETCH_COLUMNS] * VECTOR_LANES)
            add_scaled_lanes(result, b * VECTOR_LANES, block, rows[p] * VECTOR_LANES, counts[p], shift)


@kernel
def sum_row_products(
    rows: Float64Array, block: Float64Array, shift: float, first: Int64Array, second: Int64Array, counts: Float64Array
) -> float:
    """Return Σ N_ab · (row a of ``rows``)·(row b of ``block`` − shift).

    ``rows``: (r · 32,) float64. ``block``: (k · 32,) float64. ``first``, ``second``, ``counts``: (p,), the entries of
    N.
    """
    sums = np.zeros(VECTOR_LANES, np.float64)
    for p in range(first.size):
        if p + PREFETCH_COLUMNS < first.size:
            prefetch_lanes(rows, first[p + PREFETCH_COLUMNS] * VECTOR_LANES)
            prefetch_lanes(block, second[p + PREFETCH_COLUMNS] * VECTOR_LANES)
        add_product_lanes(sums, 0, rows, first[p] * VECTOR_LANES, block, second[p] * VECTOR_LANES, counts[p], shift)
    return sums.sum()


@kernel
def stable_order(column: Int64Array, offsets: Int64Array) -> Int64Array:
    """Return (p,) int64: the indices that sort ``column``, with equal entries in their order (a counting sort).

    ``offsets``: (k + 1,) int64, the offset of each distinct entry in the sorted order.
    """
    next_index = offsets[:-1].copy()
    order = np.empty(column.size, np.int64)
    for p in range(column.size):
        order[next_index[column[p]]] = p
        next_index[column[p]] += 1
    return order


MAX_HELD_CELLS = 1 << 25
"""The most cells (256 MB) of a product of distances and counts that are held at a time; beyond, distances are
recomputed.

In addition, one block of distances is held: 32 columns, and one row per distinct value.
"""


DENSE_CELLS_PER_PAIR = 8
"""A dense matrix product computes this many cells in the time that a sparse sum needs for one pair."""


@dataclass(frozen=True, eq=False)
class DistinctValues:
    """The k distinct values of one attribute, as sources and as targets of distances. Frozen; both are cached."""

    d: Distance
    positions: Int32Array

    @cached_property
    def targets(self) -> Targets:
        """The values as targets of distances."""
        return self.d.targets(self.positions)

    @cached_property
    def sources(self) -> Sources:
        """The values as sources of distances."""
        return self.d.sources(self.positions)

    def __len__(self) -> int:
        return self.positions.size


@dataclass(frozen=True, eq=False)
class CountTable:
    """A sparse table N of the values of A by the values of B. Frozen; derived tables are cached.

    * ``a``, ``b``: the distinct values of the rows and of the columns.
    * ``first``, ``second``: (p,) int64, the row (ascending) and column of each entry, as indices of distinct values.
    * ``counts``: (p,) float64, of any sign.
    """

    a: DistinctValues
    b: DistinctValues
    first: Int64Array
    second: Int64Array
    counts: Float64Array

    @classmethod
    def of(cls, keys: Int64Array, counts: Float64Array, d_a: Distance, d_b: Distance) -> CountTable:
        """Build the table from ascending keys (see ``SparseCounts``)."""
        a, b = np.divmod(keys, len(d_b.taxonomy))
        starts = np.diff(a, prepend=-1) > 0
        columns, second = _ranks(b, len(d_b.taxonomy))
        values = DistinctValues(d_a, a[starts].astype(np.int32)), DistinctValues(d_b, columns)
        return cls(*values, np.cumsum(starts) - 1, second, counts)

    @cached_property
    def transposed(self) -> CountTable:
        """The table of B by A."""
        order = stable_order(self.second, offsets_from_lengths(self._column_sizes))
        return CountTable(self.b, self.a, self.second[order], self.first[order], self.counts[order])

    @cached_property
    def by_column(self) -> tuple[Int64Array, Int64Array, Float64Array]:
        """The counts by column: the offset of each column, then rows and counts."""
        return offsets_from_lengths(self._column_sizes), self.transposed.second, self.transposed.counts

    @property
    def tiles(self) -> int:
        """The number of tiles of 32 columns."""
        return -(-len(self.b) // VECTOR_LANES)

    @property
    def _column_sizes(self) -> Int64Array:
        return np.bincount(self.second, minlength=len(self.b))


def _ranks(positions: Int64Array, size: int) -> tuple[Int32Array, Int64Array]:
    """Return the distinct positions, ascending, and the index of each position among them."""
    present = np.zeros(size, np.bool_)
    present[positions] = True
    return np.flatnonzero(present).astype(np.int32), (np.cumsum(present) - 1)[positions]


def table_product_sum(outer: CountTable, inner: CountTable, shift_a: float, shift_b: float) -> float:
    """Return Σ outer ∘ (X_A inner X_B), with X the distances minus a shift.

    It is S1·n² of sdCov² if both are the table of counts. It takes O(p_inner·k_outer + p_outer·k_inner) for k distinct
    values and p pairs.
    """
    if len(outer.a) < len(outer.b):
        return table_product_sum(outer.transposed, inner.transposed, shift_b, shift_a)
    dense = len(outer.a) * len(outer.b) <= DENSE_CELLS_PER_PAIR * outer.counts.size
    if dense and len(inner.b) * len(outer.b) <= MAX_HELD_CELLS:
        return _dense_sum(outer, inner, shift_a, shift_b)
    return _sparse_sum(outer, inner, shift_a, shift_b)


def _dense_sum(outer: CountTable, inner: CountTable, shift_a: float, shift_b: float) -> float:
    """Compute the sum by matrix products; suits outer tables in which few cells are empty."""
    distances = inner.b.d.between(inner.b.positions, outer.b.positions)
    distances -= shift_b
    totals: list[float] = []
    for start, stop, products in _count_products(outer.a.sources, inner, shift_a):
        cells = products[: len(inner.b), : stop - start].T @ distances
        inside = slice(*np.searchsorted(outer.first, (start, stop)))
        totals.append(float(cells[outer.first[inside] - start, outer.second[inside]] @ outer.counts[inside]))
    return math.fsum(totals)


def _sparse_sum(outer: CountTable, inner: CountTable, shift_a: float, shift_b: float) -> float:
    """Compute the sum pair by pair: as many rows of X_A N as fit are held while the columns of X_B are computed.

    Rows with many pairs come first, so that later rows need few columns.
    """
    rows, first, second, counts = _by_size(outer)
    tiles = inner.tiles
    step = min(max(1, MAX_HELD_CELLS // (tiles * VECTOR_LANES**2)) * VECTOR_LANES, rows.size)
    products = np.zeros((tiles, step, VECTOR_LANES))
    totals: list[float] = []
    for start in range(0, rows.size, step):
        for row, end, block in _count_products(inner.a.d.sources(rows[start : start + step]), inner, shift_a):
            products[:, row:end] = block.reshape(tiles, VECTOR_LANES, VECTOR_LANES).transpose(0, 2, 1)[:, : end - row]
        pairs_of_rows = slice(*np.searchsorted(first, (start, start + step)))
        columns, column = np.unique(second[pairs_of_rows], return_inverse=True)
        entries = first[pairs_of_rows] - start, column, counts[pairs_of_rows]
        targets = outer.b.d.targets(outer.b.positions[columns])
        for start_column, _, block in targets.blocks(inner.b.sources):
            tile = products[start_column // VECTOR_LANES].ravel()
            totals.append(sum_row_products(tile, block.ravel(), shift_b, *entries))
    return math.fsum(totals)


def _by_size(table: CountTable) -> tuple[Int32Array, Int64Array, Int64Array, Float64Array]:
    """Return the positions of the rows, those with most pairs first, and the pairs in that order.

    The pairs are returned as rows (ranks in the new order), columns and counts.
    """
    order = np.argsort(-np.bincount(table.first), kind="stable")
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    pairs = np.argsort(rank[table.first], kind="stable")
    return table.a.positions[order], rank[table.first][pairs], table.second[pairs], table.counts[pairs]


def _count_products(rows: Sources, inner: CountTable, shift: float) -> Iterator[tuple[int, int, Float64Array]]:
    """Yield start, stop and rows of X_A N as columns, (tiles · 32, 32); each step overwrites the array."""
    products = np.zeros((inner.tiles * VECTOR_LANES, VECTOR_LANES))
    for start, stop, block in inner.a.targets.blocks(rows):
        multiply_by_counts(block.ravel(), shift, *inner.by_column, products.ravel())
        yield start, stop, products
