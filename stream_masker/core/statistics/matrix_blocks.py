"""Compiled sums over blocks of a distance matrix, 32 columns wide.

They serve taxonomies in which depths alone do not determine distances.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.kernels.simd import VECTOR_LANES, add_product_lanes, add_scaled_lanes, prefetch_lanes

PREFETCH_COLUMNS = 8
"""How many pairs ahead the data of a pair is prefetched."""


@kernel
def times_counts(
    block: Float64Array, shift: float, offsets: Int64Array, rows: Int64Array, counts: Float64Array, result: Float64Array
) -> None:
    """``result``: each column b of N times the block less ``shift``, Σ_a N_ab · (block[a] - shift).

    ``block`` and ``result``: (k · 32,) and (l · 32,), row after row. Column b's counts are those from offsets[b] to
    offsets[b + 1], of the rows a in ``rows``.
    """
    result[:] = 0.0
    for b in range(offsets.size - 1):
        for p in range(offsets[b], offsets[b + 1]):
            if p + PREFETCH_COLUMNS < rows.size:
                prefetch_lanes(block, rows[p + PREFETCH_COLUMNS] * VECTOR_LANES)
            add_scaled_lanes(result, b * VECTOR_LANES, block, rows[p] * VECTOR_LANES, counts[p], shift)


@kernel
def row_products(
    held: Float64Array, block: Float64Array, shift: float, first: Int64Array, second: Int64Array, counts: Float64Array
) -> float:
    """Σ N_ab · (row a of ``held``)·(row b of ``block`` less ``shift``): (r · 32,) and (k · 32,), row after row."""
    sums = np.zeros(VECTOR_LANES, np.float64)
    for p in range(first.size):
        if p + PREFETCH_COLUMNS < first.size:
            prefetch_lanes(held, first[p + PREFETCH_COLUMNS] * VECTOR_LANES)
            prefetch_lanes(block, second[p + PREFETCH_COLUMNS] * VECTOR_LANES)
        add_product_lanes(sums, 0, held, first[p] * VECTOR_LANES, block, second[p] * VECTOR_LANES, counts[p], shift)
    return sums.sum()


@kernel
def order_by(column: Int64Array, offsets: Int64Array) -> Int64Array:
    """(p,) int64: the indices of the entries of ``column`` from the least on, equal ones as they come."""
    next_of = offsets[:-1].copy()
    order = np.empty(column.size, np.int64)
    for p in range(column.size):
        order[next_of[column[p]]] = p
        next_of[column[p]] += 1
    return order
