"""Compiled updates of the sums behind distance variances and covariances, for small changes of a window.

Every product is added together with its rounding error (``compensated``), so that rounding does not accumulate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.statistics.compensated import exact_product, exact_sum

GRID = 402653184.0
"""1.5 · 2²⁸: adding and subtracting it rounds a number below 1 to 24 fractional bits.

Sums of such numbers, each times a count, are exact.
"""


class ValueSums(NamedTuple):
    """The sums of the values that have slots: those in the window, and some that have left it. Updated in place.

    The k slots include free ones; x = sd − shift is a shifted distance.

    * ``slot_of``: (m,) int32, the slot of each concept, or −1.
    * ``row_of``: (k,) int64, the row of ``distances`` of each slot, or −1.
    * ``distances``: (r, k) float64, the cached rows x from some values to all values.
    * ``counts``: (k,) float64, the number of rows that have each value.
    * ``sums``: (k, 2) float64, Σ x from each value to the values of all rows, and its error.
    * ``squares``: (1, 2) float64, Σ x² over the values of all pairs of rows, and its error.
    """

    slot_of: Int32Array
    row_of: Int64Array
    distances: Float64Matrix
    counts: Float64Array
    sums: Float64Matrix
    squares: Float64Matrix


class SumChanges(NamedTuple):
    """The changes of the sums of each slot, (k,) float64 each: a part that is exact, and the rest.

    * ``sums``, ``sum_rests``: the changes of Σ x.
    * ``squares``, ``square_rests``: the changes of Σ x² over the changed rows.
    """

    sums: Float64Array
    sum_rests: Float64Array
    squares: Float64Array
    square_rests: Float64Array


@kernel
def slide_values(keys: Int64Array, changes: Int64Array, size: int, values: ValueSums) -> bool:
    """Apply changes of the counts of values, (c,) each, to their sums; ``size``: the number of slots in use.

    Return whether the changes were applied; every changed value needs a slot and a cached row of distances.
    """
    if not all_have_rows(keys, values):
        return False
    amounts = np.zeros(size, np.float64)
    for i in range(keys.size):
        amounts[values.slot_of[keys[i]]] += changes[i]
    gains = SumChanges(np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size))
    apply_change(amounts, values, gains)
    return True


@kernel
def slide_pairs(
    keys: Int64Array,
    counts: Int64Array,
    changed: Int64Array,
    changes: Int64Array,
    concepts: int,
    size_a: int,
    a: ValueSums,
    size_b: int,
    b: ValueSums,
    products: Float64Matrix,
) -> bool:
    """Apply changes of the counts of pairs to the sum of ``products``, (1, 2), and to the sums of both attributes.

    * ``keys``, ``counts``: the pairs before the change. ``changed``, ``changes``: the changed pairs.
    * ``concepts``: the number of concepts of B's taxonomy.
    * ``size_a``, ``size_b``: the numbers of slots in use.

    Return whether the changes were applied, as ``slide_values``.
    """
    first = changed // concepts
    second = changed - first * concepts
    if not (all_have_rows(first, a) and all_have_rows(second, b)):
        return False
    weighted = np.empty((size_b, 2), np.float64)
    for i in range(changed.size):
        if i == 0 or first[i] != first[i - 1]:
            row = a.row_of[a.slot_of[first[i]]]
            weighted[:] = 0.0
            add_count_products(weighted, row, keys, counts, 2.0, concepts, a, b)
            add_count_products(weighted, row, changed, changes, 1.0, concepts, a, b)
        add_row_product(products, weighted, b.row_of[b.slot_of[second[i]]], b.distances, changes[i])
    slide_values(first, changes, size_a, a)
    slide_values(second, changes, size_b, b)
    return True


@kernel
def product_of_means(
    keys: Int64Array,
    counts: Int64Array,
    concepts: int,
    slots_a: Int32Array,
    means_a: Float64Array,
    slots_b: Int32Array,
    means_b: Float64Array,
) -> float:
    """Return Σ N_ab·r_a·r_b over all pairs, with the means r by slot.

    It is summed by rows to keep rounding errors small.
    """
    total = 0.0
    row_sum = 0.0
    start = int64(0)
    mean = 0.0
    for p in range(keys.size):
        if p == 0 or keys[p] >= start + concepts:
            total += mean * row_sum
            row_sum = 0.0
            start = keys[p] // concepts * concepts
            mean = means_a[slots_a[start // concepts]]
        row_sum += counts[p] * means_b[slots_b[keys[p] - start]]
    return total + mean * row_sum


@part
def all_have_rows(keys: Int64Array, values: ValueSums) -> bool:
    """Return whether all values have slots and cached rows of distances."""
    for i in range(keys.size):
        value = keys[i]
        if value >= values.slot_of.size or values.slot_of[value] < 0 or values.row_of[values.slot_of[value]] < 0:
            return False
    return True


@part
def add_count_products(
    weighted: Float64Matrix,
    row: int,
    keys: Int64Array,
    counts: Int64Array,
    factor: float,
    concepts: int,
    a: ValueSums,
    b: ValueSums,
) -> None:
    """Add ``factor`` · X_A N, for one row of X_A, to ``weighted``: (k_b, 2), an exact part and the rest."""
    end = int64(0)
    start = int64(0)
    high = 0.0
    low = 0.0
    for p in range(keys.size):
        if keys[p] >= end:
            value = keys[p] // concepts
            start = value * concepts
            end = start + concepts
            distance = a.distances[row, a.slot_of[value]]
            high = round_to_grid(distance)
            low = factor * (distance - high)
            high *= factor
        slot_of = b.slot_of[keys[p] - start]
        weighted[slot_of, 0] += counts[p] * high
        weighted[slot_of, 1] += counts[p] * low


@part
def add_row_product(
    products: Float64Matrix, weighted: Float64Matrix, row: int, distances: Float64Matrix, factor: int
) -> None:
    """Add ``factor`` times the product of ``weighted`` and a row of X_B to ``products``."""
    total = 0.0
    error = 0.0
    for j in range(weighted.shape[0]):
        product, product_error = exact_product(weighted[j, 0], distances[row, j])
        total, sum_error = exact_sum(total, product)
        error += (product_error + sum_error) + weighted[j, 1] * distances[row, j]
    add_product(products, total, error, factor)


@part
def apply_change(amounts: Float64Array, values: ValueSums, gains: SumChanges) -> None:
    """Apply the changes of the counts, by slot, to all sums and to the counts; ``gains``: zeros."""
    for i in range(amounts.size):
        if amounts[i] != 0.0:
            add_distances(gains, values.distances, values.row_of[i], amounts[i])
    total = 0.0
    error = 0.0
    for j in range(amounts.size):
        values.sums[j, 0], sum_error = exact_sum(values.sums[j, 0], gains.sums[j])
        values.sums[j, 1] += sum_error + gains.sum_rests[j]
        both = 2.0 * values.counts[j] + amounts[j]
        product, product_error = exact_product(gains.squares[j], both)
        total, sum_error = exact_sum(total, product)
        error += (product_error + sum_error) + gains.square_rests[j] * both
        values.counts[j] += amounts[j]
    add_product(values.squares, total, error, 1.0)


@part
def add_distances(gains: SumChanges, distances: Float64Matrix, row: int, factor: float) -> None:
    """Add ``factor`` times a row of distances, and its squares, to ``gains``."""
    for j in range(gains.sums.size):
        distance = distances[row, j]
        high = round_to_grid(distance)
        gains.sums[j] += factor * high
        gains.sum_rests[j] += factor * (distance - high)
        square = distance * distance
        high = round_to_grid(square)
        gains.squares[j] += factor * high
        gains.square_rests[j] += factor * (square - high)


@inlined
def round_to_grid(number: float) -> float:
    """Round a number below 1 to 24 fractional bits."""
    return (number + GRID) - GRID


@part
def add_product(total: Float64Matrix, number: float, error: float, factor: float | int) -> None:
    """Add ``factor`` times a number with the given error to ``total``, (1, 2): a sum and its error."""
    product, product_error = exact_product(number, factor)
    total[0, 0], sum_error = exact_sum(total[0, 0], product)
    total[0, 1] += (product_error + sum_error) + error * factor
