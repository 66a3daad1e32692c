"""What a small change of a window makes of the sums that distance variances and covariances consist of, compiled.

Each sum takes in every product with what it is off (``compensated``), so that rounding does not add up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.statistics.compensated import exact_product, exact_sum

GRAIN = 402653184.0
"""1.5 · 2²⁸: added and taken away, it rounds a number below 1 to 24 bits behind the point; sums of such numbers, each
times a count, are exact."""


class KnownSums(NamedTuple):
    """The values of an attribute whose sums are kept, at k places: all of the window, and some that were in it.

    place: (m,) the place of each concept, or -1. row: (k,) which of ``distances`` each value has, or -1.
    distances: (r, k) those of some values to all, less a shift. counts: (k,) the rows that have each value.
    sums: (k, 2) of each value's shifted distances to those of all rows, and their errors; squares: (1, 2) the sum of
    their squares over all values of all rows, and its error.
    """

    place: Int32Array
    row: Int64Array
    distances: Float64Matrix
    counts: Float64Array
    sums: Float64Matrix
    squares: Float64Matrix


@kernel
def slide_values(keys: Int64Array, changes: Int64Array, size: int, known: KnownSums) -> bool:
    """Takes changes of values, (c,) each, into their sums; ``size``: how many values are known.

    Returns whether it did: only where all that change are known and have rows of distances.
    """
    if not have_rows(keys, known):
        return False
    amounts = np.zeros(size, np.float64)
    for i in range(keys.size):
        amounts[known.place[keys[i]]] += changes[i]
    take_in(amounts, known, np.zeros((4, size), np.float64))
    return True


@kernel
def slide_pairs(
    keys: Int64Array,
    counts: Int64Array,
    changed: Int64Array,
    changes: Int64Array,
    concepts: int,
    size_a: int,
    a: KnownSums,
    size_b: int,
    b: KnownSums,
    products: Float64Matrix,
) -> bool:
    """Takes changes of pairs into the sum of ``products``, (1, 2), and into the sums of both attributes' values.

    ``keys`` and ``counts``: the pairs before; ``concepts``: those of B's taxonomy. Otherwise like ``slide_values``.
    """
    first = changed // concepts
    second = changed - first * concepts
    if not (have_rows(first, a) and have_rows(second, b)):
        return False
    weighted = np.empty((size_b, 2), np.float64)
    for i in range(changed.size):
        if i == 0 or first[i] != first[i - 1]:
            row = a.row[a.place[first[i]]]
            weighted[:] = 0.0
            add_times_counts(weighted, row, keys, counts, 2.0, concepts, a, b)
            add_times_counts(weighted, row, changed, changes, 1.0, concepts, a, b)
        add_row_product(products, weighted, b.row[b.place[second[i]]], b.distances, changes[i])
    slide_values(first, changes, size_a, a)
    slide_values(second, changes, size_b, b)
    return True


@kernel
def product_of_means(
    keys: Int64Array,
    counts: Int64Array,
    concepts: int,
    place_a: Int32Array,
    means_a: Float64Array,
    place_b: Int32Array,
    means_b: Float64Array,
) -> float:
    """Σ N_ab·r_a·r_b over all pairs, of means r at the values' places; by rows, so that rounding stays small."""
    total = 0.0
    within = 0.0
    start = int64(0)
    mean = 0.0
    for p in range(keys.size):
        if p == 0 or keys[p] >= start + concepts:
            total += mean * within
            within = 0.0
            start = keys[p] // concepts * concepts
            mean = means_a[place_a[start // concepts]]
        within += counts[p] * means_b[place_b[keys[p] - start]]
    return total + mean * within


@part
def have_rows(keys: Int64Array, known: KnownSums) -> bool:
    """Whether all values are known and have rows of distances."""
    for i in range(keys.size):
        value = keys[i]
        if value >= known.place.size or known.place[value] < 0 or known.row[known.place[value]] < 0:
            return False
    return True


@part
def add_times_counts(
    weighted: Float64Matrix,
    row: int,
    keys: Int64Array,
    counts: Int64Array,
    factor: float,
    concepts: int,
    a: KnownSums,
    b: KnownSums,
) -> None:
    """Adds ``factor`` · X_A N, of one row of X_A, to ``weighted``: (k_b, 2), what is exact of each sum and the rest."""
    end = int64(0)
    start = int64(0)
    high = 0.0
    low = 0.0
    for p in range(keys.size):
        if keys[p] >= end:
            value = keys[p] // concepts
            start = value * concepts
            end = start + concepts
            distance = a.distances[row, a.place[value]]
            high = rounded(distance)
            low = factor * (distance - high)
            high *= factor
        place = b.place[keys[p] - start]
        weighted[place, 0] += counts[p] * high
        weighted[place, 1] += counts[p] * low


@part
def add_row_product(
    products: Float64Matrix, weighted: Float64Matrix, row: int, distances: Float64Matrix, factor: int
) -> None:
    """Adds ``factor`` times the sum of ``weighted`` by a row of X_B to ``products``."""
    total = 0.0
    error = 0.0
    for j in range(weighted.shape[0]):
        product, product_error = exact_product(weighted[j, 0], distances[row, j])
        total, sum_error = exact_sum(total, product)
        error += (product_error + sum_error) + weighted[j, 1] * distances[row, j]
    add_product(products, total, error, factor)


@part
def take_in(amounts: Float64Array, known: KnownSums, gained: Float64Matrix) -> None:
    """Takes a change of the counts, at each place, into all sums and the counts; ``gained``: (4, k) zeros."""
    for i in range(amounts.size):
        if amounts[i] != 0.0:
            add_distances(gained, known.distances, known.row[i], amounts[i])
    total = 0.0
    error = 0.0
    for j in range(amounts.size):
        known.sums[j, 0], sum_error = exact_sum(known.sums[j, 0], gained[0, j])
        known.sums[j, 1] += sum_error + gained[1, j]
        both = 2.0 * known.counts[j] + amounts[j]
        product, product_error = exact_product(gained[2, j], both)
        total, sum_error = exact_sum(total, product)
        error += (product_error + sum_error) + gained[3, j] * both
        known.counts[j] += amounts[j]
    add_product(known.squares, total, error, 1.0)


@part
def add_distances(gained: Float64Matrix, distances: Float64Matrix, row: int, factor: float) -> None:
    """Adds ``factor`` times a row of distances, and its squares, to ``gained``: what is exact of each, and the rest."""
    for j in range(gained.shape[1]):
        distance = distances[row, j]
        high = rounded(distance)
        gained[0, j] += factor * high
        gained[1, j] += factor * (distance - high)
        square = distance * distance
        high = rounded(square)
        gained[2, j] += factor * high
        gained[3, j] += factor * (square - high)


@inlined
def rounded(number: float) -> float:
    """A number below 1 with 24 bits behind the point."""
    return (number + GRAIN) - GRAIN


@part
def add_product(total: Float64Matrix, number: float, error: float, factor: float | int) -> None:
    """Adds a number, which is off by ``error``, times ``factor`` to ``total``: (1, 2), a sum and its error."""
    product, product_error = exact_product(number, factor)
    total[0, 0], sum_error = exact_sum(total[0, 0], product)
    total[0, 1] += (product_error + sum_error) + error * factor
