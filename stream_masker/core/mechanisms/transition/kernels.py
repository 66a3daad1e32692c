"""Compiled draws of new values by transition probabilities.

Arguments of every kernel:

* ``codes``: (k,) int32 positions; negative ones stay as they are.
* ``first``, ``second``: (k,) uint64, two random words of each value.
* ``domain``: the values of the window. A value that the window does not contain becomes one of them by the domain's
  shares.

Each kernel returns the new positions, (k,) int32.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transition.domain import Domain
from stream_masker.core.random.draws import index_below, uniform


@part
def index_above(steps: Float64Array, target: float) -> int:
    """Return the index of the first of ascending numbers that is greater than ``target``; the last index if none is."""
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
def draw_index(cumulative: Float64Array, word: np.uint64) -> int:
    """Return an index drawn with probabilities proportional to the steps of ``cumulative``."""
    return index_above(cumulative, uniform(word) * cumulative[cumulative.size - 1])


@part
def draw_from_part(
    i: int, v: int, keep: float, within: float, low: int, high: int, first: np.uint64, second: np.uint64
) -> int:
    """Return the new index of value i of v: itself, another one of its part (low … high − 1), or one outside it."""
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
    domain: Domain,
    keep: Float64Array,
    within: Float64Array,
    low: Int64Array,
    high: Int64Array,
) -> Int32Array:
    """Draw new values by parts.

    * ``keep``: (v,) float64, the probability to stay unchanged.
    * ``within``: (v,) float64, the probability to stay in the part low … high − 1 (int64).
    """
    index_of = domain.index_of
    values = domain.values
    cumulative = domain.cumulative
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            i = index_of[codes[k]]
            if i < 0:
                drawn[k] = values[draw_index(cumulative, second[k])]
            else:
                new = draw_from_part(i, values.size, keep[i], within[i], low[i], high[i], first[k], second[k])
                drawn[k] = values[new]
    return drawn


@kernel
def draw_by_share(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    domain: Domain,
    retention: float,
) -> Int32Array:
    """Draw new values by the domain's shares; ``retention``: the probability to stay unchanged without a draw."""
    index_of = domain.index_of
    values = domain.values
    cumulative = domain.cumulative
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0 and (index_of[codes[k]] < 0 or uniform(first[k]) >= retention):
            drawn[k] = values[draw_index(cumulative, second[k])]
    return drawn


@kernel
def draw_by_rows(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    domain: Domain,
    rows: Float64Matrix,
) -> Int32Array:
    """Draw new values by cumulative transition probabilities; ``rows``: (v, v) float64, one row for each value."""
    index_of = domain.index_of
    values = domain.values
    cumulative = domain.cumulative
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            i = index_of[codes[k]]
            if i < 0:
                drawn[k] = values[draw_index(cumulative, second[k])]
            else:
                drawn[k] = values[index_above(rows[i], uniform(first[k]))]
    return drawn
