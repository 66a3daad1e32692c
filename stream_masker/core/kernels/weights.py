"""The compiled draw from Markov matrices."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int64Array, UInt64Array
from stream_masker.core.kernels.draws import accepts
from stream_masker.core.kernels.jit import kernel


@kernel
def draw_by_weights(
    words: UInt64Array,
    rows: Int64Array,
    own: Int64Array,
    weights: Float64Matrix,
    totals: Float64Array,
    salts: UInt64Array,
) -> Int64Array:
    """Return (n,) int64: for each word an index drawn in proportion to a row of weights.

    Candidates are visited in order and accepted with their share of what is left, so that few draws change when the
    weights change a little (``random.draws.accepts``).

    * ``words``: (n,) uint64. ``rows``: (n,) int64, the row of each draw. ``own``: (n,) int64, the index that is not
      drawn, −1 for none.
    * ``weights``: (r, v) float64, not negative, with a candidate in each row. ``totals``: (r,), the sum of each row.
    * ``salts``: (v,) uint64, the salt of each index.
    """
    drawn = np.empty(words.size, np.int64)
    for k in range(words.size):
        row, excluded, last = rows[k], own[k], -1
        left = totals[row] - (weights[row, excluded] if excluded >= 0 else 0.0)
        for j in range(weights.shape[1]):
            weight = weights[row, j]
            if weight > 0.0 and j != excluded:
                last = j
                if accepts(words[k], salts[j], weight, left):
                    break
                left -= weight
        drawn[k] = last
    return drawn
