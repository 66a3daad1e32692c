"""Products of Gibbs kernels with a sparse table, at the entries of the table.

A table Φ over values a of A and b of B has its entries in compressed rows: row a holds the columns
``columns[offsets[a]:offsets[a + 1]]``, ascending. K_A·Φ·K_B is computed at these entries only, in O(entries · values),
and no matrix over pairs of tuples is ever built. It is computed for ``STRIP`` rows of Φ·K_B at a time, which stay in
the cache of the processor.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float32Matrix, Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import kernel, part
from stream_masker.core.kernels.simd import sum_of_products

FloatArray: TypeAlias = NDArray[np.float32 | np.float64]
FloatMatrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32 | np.float64]]
"""Arrays of single or double precision; all of one call have the same."""

STRIP = 128
"""The number of rows of Φ·K_B that are held at once."""
TRANSPOSED_ROWS = 16
"""The number of rows of a strip that are transposed at once."""
TRANSPOSED_TILE = 32
"""The side of the squares in which a matrix is transposed."""
CONTEXT_ROWS_AT_ONCE = 32
"""The number of rows of C that are held before they are transposed."""


@kernel
def transposed(matrix: Float64Matrix) -> Float64Matrix:
    """Return the transpose of a matrix, contiguous."""
    rows, columns = matrix.shape
    result = np.empty((columns, rows), np.float64)
    for top in range(0, rows, TRANSPOSED_TILE):
        for left in range(0, columns, TRANSPOSED_TILE):
            for i in range(top, min(top + TRANSPOSED_TILE, rows)):
                for j in range(left, min(left + TRANSPOSED_TILE, columns)):
                    result[j, i] = matrix[i, j]
    return result


@kernel
def row_products(matrix: FloatMatrix, rows: Int64Array, vector: Float64Array) -> Float64Array:
    """Return (n,) float64: some rows of a matrix times a vector.

    The order of each sum is fixed. That of a BLAS depends on the processor and its number of threads, and the rounds of
    a scaling make such differences great enough to change masks.
    """
    result = np.empty(rows.size)
    whole = vector.size - vector.size % 4
    for i in range(rows.size):
        row = matrix[rows[i]]
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for k in range(0, whole, 4):
            first += np.float64(row[k]) * vector[k]
            second += np.float64(row[k + 1]) * vector[k + 1]
            third += np.float64(row[k + 2]) * vector[k + 2]
            fourth += np.float64(row[k + 3]) * vector[k + 3]
        for k in range(whole, vector.size):
            first += np.float64(row[k]) * vector[k]
        result[i] = (first + second) + (third + fourth)
    return result


@part
def fill_strip(
    offsets: Int64Array,
    columns: Int64Array,
    weights: FloatArray,
    right: FloatMatrix,
    top: int,
    end: int,
    rows: FloatMatrix,
    strip: FloatMatrix,
) -> None:
    """Set the first columns of a strip to the rows top … end − 1 of Φ·R, transposed, and the others to 0.

    ``strip``: (v, ``STRIP``) for a (columns, v) matrix R. ``rows``: (``TRANSPOSED_ROWS``, v), overwritten.
    """
    for first in range(top, end, TRANSPOSED_ROWS):
        last = min(first + TRANSPOSED_ROWS, end)
        rows[:] = 0.0
        for a in range(first, last):
            row = rows[a - first]
            k = offsets[a]
            while k + 1 < offsets[a + 1]:
                one, other = right[columns[k]], right[columns[k + 1]]
                weight, next_weight = weights[k], weights[k + 1]
                for j in range(row.size):
                    row[j] += weight * one[j] + next_weight * other[j]
                k += 2
            if k < offsets[a + 1]:
                one, weight = right[columns[k]], weights[k]
                for j in range(row.size):
                    row[j] += weight * one[j]
        for j in range(rows.shape[1]):
            for i in range(last - first):
                strip[j, first - top + i] = rows[i, j]
    strip[:, end - top :] = 0.0


@kernel
def entry_products(
    offsets: Int64Array,
    columns: Int64Array,
    weights: FloatArray,
    left: FloatMatrix,
    right: FloatMatrix,
    rows: FloatMatrix,
    strip: FloatMatrix,
    result: FloatArray,
) -> None:
    """Add to ``result``, (entries,), the entries (a, b) of L·Φ·R for a table Φ with the given weights.

    ``left``: (rows, rows) L. ``right``: (columns, columns) R. For the other arrays see ``fill_strip``.
    """
    for top in range(0, left.shape[1], STRIP):
        end = min(top + STRIP, left.shape[1])
        fill_strip(offsets, columns, weights, right, top, end, rows, strip)
        for a in range(offsets.size - 1):
            x = left[a, top:end]
            for k in range(offsets[a], offsets[a + 1]):
                result[k] += sum_of_products(x, strip[columns[k], : x.size])


@kernel
def row_maxima(offsets: Int64Array, columns: Int64Array, terms: Float64Array, right: Float64Matrix) -> Float64Matrix:
    """Return (rows, v) float64: max over the entries (a, b) of row a of terms + R[b, v]; −inf for an empty row."""
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
    """Return (entries,) float64: max over v of left[a, v] + right[b, v] for each entry (a, b)."""
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


@kernel
def fill_contexts(
    offsets: Int64Array, partners: Int32Array, psi: Float64Array, second: Float32Matrix, context: Float32Matrix
) -> None:
    """Set Cᵀ, (k_B, k_A), which is computed and transposed some rows at a time.

    Large matrices are allocated by NumPy, on huge pages, which a kernel does not.
    """
    size = offsets.size - 1
    rows = np.empty((CONTEXT_ROWS_AT_ONCE, second.shape[1]), np.float32)
    for top in range(0, size, CONTEXT_ROWS_AT_ONCE):
        end = min(top + CONTEXT_ROWS_AT_ONCE, size)
        rows[:] = 0.0
        for a in range(top, end):
            row = rows[a - top]
            for k in range(offsets[a], offsets[a + 1]):
                weight = np.float32(psi[k])
                if weight > 0.0:
                    other = second[partners[k]]
                    for b in range(row.size):
                        row[b] += weight * other[b]
        for b in range(context.shape[0]):
            for a in range(top, end):
                context[b, a] = rows[a - top, b]
