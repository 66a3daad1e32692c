"""Compiled sums over blocks of a distance matrix, 32 columns wide.

They serve taxonomies in which depths alone do not determine distances. A block of k rows is stored as (k · 32,)
float64, row after row.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int64Array
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
