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
from stream_masker.core.mechanisms.transition.trie import Trie, draw_leaf
from stream_masker.core.random.draws import mixed_word, uniform


@part
def draw_outside(domain: Domain, equal: Float64Array, low: int, high: int, word: np.uint64) -> int:
    """Return the index of a value outside the part low … high − 1, which has at least one.

    All values are drawn from, again until one is outside.
    """
    while True:
        leaf = draw_leaf(domain.trie, 0, equal.size, equal, -1, word)
        index = int64(domain.index_of[domain.trie.values[leaf]])
        if not low <= index < high:
            return index
        word = mixed_word(word)


@part
def draw_other(domain: Domain, word: np.uint64) -> int:
    """Return the position that replaces a value outside the domain."""
    return int64(domain.trie.values[draw_leaf(domain.trie, 0, domain.values.size, domain.cumulative, -1, word)])


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
    parts: Trie,
    equal: Float64Array,
) -> Int32Array:
    """Draw new values by parts.

    * ``keep``: (v,) float64, the probability to stay unchanged.
    * ``within``: (v,) float64, the probability to stay in the part low … high − 1 (int64).
    * ``parts``: the tries of the parts.
    * ``equal``: (v,) float64, 1 … v.
    """
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            i = int64(domain.index_of[codes[k]])
            share = uniform(first[k])
            if i < 0:
                drawn[k] = draw_other(domain, second[k])
            elif share >= within[i]:
                drawn[k] = domain.values[draw_outside(domain, equal, low[i], high[i], second[k])]
            elif share >= keep[i]:
                drawn[k] = domain.values[draw_leaf(parts, low[i], high[i], equal, i, second[k])]
    return drawn


@kernel
def draw_others(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    domain: Domain,
    keep: Float64Array,
    equal: Float64Array,
) -> Int32Array:
    """Draw one of the other values of the domain with equal probability.

    * ``keep``: (v,) float64, the probability to stay unchanged. ``equal``: (v,) float64, 1 … v.
    """
    values = domain.trie.values
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            i = domain.index_of[codes[k]]
            if i < 0:
                drawn[k] = draw_other(domain, second[k])
            elif uniform(first[k]) >= keep[i]:
                own = np.searchsorted(values, codes[k])
                drawn[k] = values[draw_leaf(domain.trie, 0, values.size, equal, own, second[k])]
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
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0 and (index_of[codes[k]] < 0 or uniform(first[k]) >= retention):
            drawn[k] = draw_other(domain, second[k])
    return drawn


@kernel
def draw_by_rows(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    domain: Domain,
    rows: Float64Matrix,
) -> Int32Array:
    """Draw new values by cumulative transition probabilities.

    ``rows``: (v, v) float64, one row for each value of the domain, over the values of its trie.
    """
    index_of = domain.index_of
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            i = index_of[codes[k]]
            if i < 0:
                drawn[k] = draw_other(domain, second[k])
            else:
                drawn[k] = domain.trie.values[draw_leaf(domain.trie, 0, rows.shape[1], rows[i], -1, first[k])]
    return drawn
