"""Draws from random words."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import inlined, int64, kernel


@inlined
def uniform(word: np.uint64) -> float:
    """Return a number in [0, 1) from the 53 high bits of a random word."""
    return int64(word >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inlined
def index_below(word: np.uint64, size: int) -> int:
    """Return an integer in 0 … size - 1 from the 32 high bits of a random word; ``size`` is at most 2³¹.

    The probability of each integer differs from 1 / size by less than 2⁻³².
    """
    return int64(((word >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@inlined
def mixed_word(word: np.uint64) -> np.uint64:
    """Return another random word, computed by the finalizer of SplitMix64."""
    word += np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def salts_of(positions: Int32Array) -> UInt64Array:
    """Return (k,) uint64: a salt of each concept for ``accepts``. A concept has the same salt in every window."""
    words = positions.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@inlined
def accepts(word: np.uint64, salt: np.uint64, weight: float, left: float) -> bool:
    """Return whether a candidate is drawn when candidates are visited one after the other.

    The candidate is drawn with probability ``weight`` / ``left``, where ``left`` is the total weight of this and all
    later candidates. The candidates are thus drawn in proportion to their weights. The random number of a candidate
    depends only on the word and on its ``salt``. A small change of the weights therefore changes few draws: the
    decision on a visited candidate changes only with the probability by which its own probability changed.
    """
    mixed = (word ^ salt) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    return uniform(mixed) * left < weight


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
    weights change a little (``accepts``).

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
