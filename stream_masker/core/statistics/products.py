"""Weighted sums over a sparse count table and the distances of its values, in blocks of bounded size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.kernels.simd import sum_of_products

MAX_HELD_CELLS = 1 << 23
"""The most cells (64 MB) of each matrix of distances, and of their products with counts."""


@kernel
def multiply_by_counts(
    distances: Float64Matrix, first: Int64Array, second: Int64Array, counts: Float64Array, columns: int
) -> Float64Matrix:
    """Return (columns, r) float64: row b is Σ_a N_ab · ``distances[a]``. ``distances``: (k, r).

    ``first``, ``second``, ``counts``: (p,), the entries of N.
    """
    result = np.zeros((columns, distances.shape[1]), np.float64)
    for p in range(first.size):
        own, other, count = result[second[p]], distances[first[p]], counts[p]
        for i in range(own.size):
            own[i] += count * other[i]
    return result


@kernel
def sum_row_products(
    rows: Float64Matrix, columns: Float64Matrix, first: Int64Array, second: Int64Array, counts: Float64Array
) -> float:
    """Return Σ N_ab · (row a of ``rows``)·(row b of ``columns``); ``first``, ``second``, ``counts``: (p,), the
    entries of N."""
    total = 0.0
    for p in range(first.size):
        total += counts[p] * sum_of_products(rows[first[p]], columns[second[p]])
    return total


@dataclass(frozen=True, eq=False)
class CountTable:
    """A sparse table N of the values of A by the values of B. Frozen.

    * ``a``, ``b``: the positions of the distinct values of the rows and of the columns, ascending.
    * ``first``, ``second``: (p,) int64, the row (ascending) and column of each entry, as indices of distinct values.
    * ``counts``: (p,) float64, of any sign.
    """

    d_a: Distance
    d_b: Distance
    a: Int32Array
    b: Int32Array
    first: Int64Array
    second: Int64Array
    counts: Float64Array

    @classmethod
    def of(cls, keys: Int64Array, counts: Float64Array, d_a: Distance, d_b: Distance) -> CountTable:
        """Build the table from ascending keys (see ``SparseCounts``)."""
        a, first = np.unique(keys // len(d_b.taxonomy), return_inverse=True)
        b, second = np.unique(keys % len(d_b.taxonomy), return_inverse=True)
        return cls(d_a, d_b, a.astype(np.int32), b.astype(np.int32), first, second, counts)


def table_product_sum(table: CountTable, shift_a: float, shift_b: float) -> float:
    """Return Σ N ∘ (X_A N X_B), with X the distances minus a shift.

    It is S1·n² of sdCov². It takes O(p·(k_a + k_b)) for k distinct values and p pairs.
    """
    step = max(1, MAX_HELD_CELLS // max(table.a.size, table.b.size))
    totals: list[float] = []
    for start in range(0, table.a.size, step):
        inside = slice(*np.searchsorted(table.first, (start, start + step)))
        distances = table.d_a.between(table.a, table.a[start : start + step])
        distances -= shift_a
        products = multiply_by_counts(distances, table.first, table.second, table.counts, table.b.size)
        rows, first, second = np.ascontiguousarray(products.T), table.first[inside] - start, table.second[inside]
        for column in range(0, table.b.size, step):
            distances = table.d_b.between(table.b[column : column + step], table.b)
            distances -= shift_b
            chosen = np.flatnonzero((second >= column) & (second < column + step))
            entries = first[chosen], second[chosen] - column, table.counts[inside][chosen]
            totals.append(sum_row_products(rows, distances, *entries))
    return math.fsum(totals)
