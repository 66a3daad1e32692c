"""The sum of products of distances that sdCov needs, in blocks of bounded size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.kernels.simd import sum_of_products
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.core.statistics.marginal import MAX_HELD_CELLS, Marginal


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

    * ``first``, ``second``: (p,) int64, the row (ascending) and column of each entry, as indices of distinct values.
    * ``counts``: (p,) float64, of any sign.
    """

    first: Int64Array
    second: Int64Array
    counts: Float64Array

    @classmethod
    def of(cls, pair: SparseCounts, size_b: int) -> CountTable:
        """Build the table from the counts of pairs; ``size_b``: the number of concepts of B's taxonomy."""
        a, b = np.divmod(pair.keys, size_b)
        first, second = (np.unique(keys, return_inverse=True)[1] for keys in (a, b))
        return cls(first, second, pair.counts.astype(np.float64))


def table_product_sum(table: CountTable, a: Marginal, b: Marginal) -> float:
    """Return Σ N ∘ (X_A N X_B), with X the distances minus their grand mean; ``a``, ``b``: the values of N.

    It is S1·n² of sdCov². It takes O(p·(k_a + k_b)) for k distinct values and p pairs.
    """
    step = max(1, MAX_HELD_CELLS // max(a.positions.size, b.positions.size))
    totals: list[float] = []
    for start in range(0, a.positions.size, step):
        inside = slice(*np.searchsorted(table.first, (start, start + step)))
        distances = a.distances_to(start, start + step) - a.grand_mean
        products = multiply_by_counts(distances, table.first, table.second, table.counts, b.positions.size)
        rows, first, second = np.ascontiguousarray(products.T), table.first[inside] - start, table.second[inside]
        for column in range(0, b.positions.size, step):
            distances = np.ascontiguousarray(b.distances_to(column, column + step).T) - b.grand_mean
            here = np.flatnonzero((second >= column) & (second < column + step))
            entries = first[here], second[here] - column, table.counts[inside][here]
            totals.append(sum_row_products(rows, distances, *entries))
    return math.fsum(totals)
