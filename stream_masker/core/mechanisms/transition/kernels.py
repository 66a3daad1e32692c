"""Compiled draws of new values by transition probabilities.

Arguments of every kernel:

* ``codes``: (k,) int32 positions; negative ones stay as they are.
* ``first``, ``second``: (k,) uint64, two random words of each value.
* ``index``: (m,) int32, a position's index among the v values of the window, −1 for other positions.
* ``values``: (v,) int32 positions.
* ``cumulative``: (v,) float64, ascending. A value that the window does not contain becomes value i with a probability
  proportional to step i.

Each kernel returns the new positions, (k,) int32.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.random.draws import index_below, uniform


@part
def first_above(steps: Float64Array, target: float) -> int:
    """The index of the first of ascending numbers that is greater; the last for none."""
    low = int64(0)
    high = int64(steps.size - 1)
    while low < high:
        middle = (low + high) >> 1
        if steps[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@part
def by_share(cumulative: Float64Array, word: np.uint64) -> int:
    """An index drawn with the shares of the steps."""
    return first_above(cumulative, uniform(word) * cumulative[cumulative.size - 1])


@part
def in_parts(
    i: int, v: int, keep: float, within: float, low: int, high: int, first: np.uint64, second: np.uint64
) -> int:
    """The new index of value i of v: itself, another of its part (low … high − 1), or one of another part."""
    share = uniform(first)
    if share < keep:
        return int64(i)
    if share < within:
        k = low + index_below(second, high - low - 1)
        return k + 1 if k >= i else k
    k = index_below(second, v - (high - low))
    return k + (high - low) if k >= low else k


@kernel
def draw_in_parts(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    index: Int32Array,
    values: Int32Array,
    cumulative: Float64Array,
    keep: Float64Array,
    within: Float64Array,
    low: Int64Array,
    high: Int64Array,
) -> Int32Array:
    """keep: (v,) the probability to stay; within: (v,) to stay in the part low … high − 1 (int64, half open)."""
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            i = index[codes[k]]
            if i < 0:
                drawn[k] = values[by_share(cumulative, second[k])]
            else:
                new = in_parts(i, values.size, keep[i], within[i], low[i], high[i], first[k], second[k])
                drawn[k] = values[new]
    return drawn


@kernel
def draw_by_share(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    index: Int32Array,
    values: Int32Array,
    cumulative: Float64Array,
    retention: float,
) -> Int32Array:
    """retention: the probability to stay without a draw."""
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0 and (index[codes[k]] < 0 or uniform(first[k]) >= retention):
            drawn[k] = values[by_share(cumulative, second[k])]
    return drawn


@kernel
def draw_by_rows(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    index: Int32Array,
    values: Int32Array,
    cumulative: Float64Array,
    rows: Float64Matrix,
) -> Int32Array:
    """rows: (v, v) float64, the cumulative transition probabilities of each value."""
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            i = index[codes[k]]
            if i < 0:
                drawn[k] = values[by_share(cumulative, second[k])]
            else:
                drawn[k] = values[first_above(rows[i], uniform(first[k]))]
    return drawn
