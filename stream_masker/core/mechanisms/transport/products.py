"""Products of Gibbs kernels with a sparse table, at the entries of the table.

A table Φ over values a of A and b of B has its entries in compressed rows: row a holds the columns
``columns[offsets[a]:offsets[a + 1]]``, ascending. K_A·Φ·K_B is computed at these entries only, in O(entries · values),
and no matrix over pairs of tuples is ever built.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels.jit import kernel, reduction

TRANSPOSED_TILE = 32
"""The side of the squares in which a matrix is transposed."""


@kernel
def row_products(
    offsets: Int64Array, columns: Int64Array, weights: Float64Array, right: Float64Matrix
) -> Float64Matrix:
    """(rows, v) float64: Φ·R for a table Φ with the given weights and a (columns, v) matrix R."""
    result = np.zeros((offsets.size - 1, right.shape[1]), np.float64)
    for a in range(offsets.size - 1):
        row = result[a]
        k = offsets[a]
        while k + 1 < offsets[a + 1]:
            first = right[columns[k]]
            second = right[columns[k + 1]]
            for j in range(row.size):
                row[j] += weights[k] * first[j] + weights[k + 1] * second[j]
            k += 2
        if k < offsets[a + 1]:
            last = right[columns[k]]
            for j in range(row.size):
                row[j] += weights[k] * last[j]
    return result


@kernel
def transposed(matrix: Float64Matrix) -> Float64Matrix:
    """The transpose of a matrix, contiguous."""
    rows, columns = matrix.shape
    result = np.empty((columns, rows), np.float64)
    for top in range(0, rows, TRANSPOSED_TILE):
        for left in range(0, columns, TRANSPOSED_TILE):
            for i in range(top, min(top + TRANSPOSED_TILE, rows)):
                for j in range(left, min(left + TRANSPOSED_TILE, columns)):
                    result[j, i] = matrix[i, j]
    return result


@reduction
def entry_products(offsets: Int64Array, columns: Int64Array, left: Float64Matrix, right: Float64Matrix) -> Float64Array:
    """(entries,) float64: Σ_v left[a, v]·right[b, v] for each entry (a, b)."""
    result = np.empty(columns.size, np.float64)
    for a in range(offsets.size - 1):
        x = left[a]
        for k in range(offsets[a], offsets[a + 1]):
            y = right[columns[k]]
            total = 0.0
            for v in range(x.size):
                total += x[v] * y[v]
            result[k] = total
    return result


@kernel
def row_maxima(offsets: Int64Array, columns: Int64Array, terms: Float64Array, right: Float64Matrix) -> Float64Matrix:
    """(rows, v) float64: max over the entries (a, b) of row a of terms + R[b, v]; −inf for an empty row."""
    result = np.full((offsets.size - 1, right.shape[1]), -np.inf)
    for a in range(offsets.size - 1):
        row = result[a]
        for k in range(offsets[a], offsets[a + 1]):
            other = right[columns[k]]
            for j in range(row.size):
                row[j] = max(row[j], terms[k] + other[j])
    return result


@kernel
def entry_maxima(offsets: Int64Array, columns: Int64Array, left: Float64Matrix, right: Float64Matrix) -> Float64Array:
    """(entries,) float64: max over v of left[a, v] + right[b, v] for each entry (a, b)."""
    result = np.empty(columns.size, np.float64)
    for a in range(offsets.size - 1):
        x = left[a]
        for k in range(offsets[a], offsets[a + 1]):
            y = right[columns[k]]
            best = -np.inf
            for v in range(x.size):
                best = max(best, x[v] + y[v])
            result[k] = best
    return result
