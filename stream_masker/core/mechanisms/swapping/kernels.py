"""Compiled swaps of ordered values."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int64Array, UInt64Matrix
from stream_masker.core.kernels.jit import inlined, int64, kernel

PARTNER_WORD = 0
TIED_PARTNER_WORD = 1
TIE_WORD = 2
REFERENCE_WORD = 3
"""The four random words of a value: two draw its partner, one breaks ties in ranks, one draws the next reference."""
FIRST_REFERENCE_WORD = TIE_WORD
"""The word that draws the first reference by algorithms 2 and 3, which have no ties in ranks."""
STAY_BIT = np.uint64(1)
"""The bit of ``PARTNER_WORD``, which ``draw_below`` does not use, that keeps a value whose swap is forced."""


@inlined
def draw_below(word: np.uint64, size: int) -> int:
    """Return a uniform integer in 0 … size − 1, from the 53 high bits of a random word."""
    return int64(np.float64(word >> np.uint64(11)) * 2.0**-53 * size)


@kernel
def uniform_below(word: np.uint64, size: int) -> int:
    """``draw_below``, for Python."""
    return draw_below(word, size)


@kernel
def swap_in_range(order: Int64Array, codes: Int32Array, owners: Int64Array, k: int, words: UInt64Matrix) -> Int64Array:
    """Return (n,) int64 partners by Algorithm 1 of 2019, lines 5 to 12.

    ``order``: (n,) int64, the values by rank. Each unswapped value swaps with a random unswapped one of another owner
    among the next k values; its partner is itself if there is none. If all of these have one code, which is not its
    own, it stays with probability 1/2.
    """
    n = order.size
    partners = np.arange(n)
    swapped = np.zeros(n, np.bool_)
    open_entries = np.empty(min(k, n), np.int64)
    for i in range(n):
        if swapped[i]:
            continue
        a = order[i]
        count = 0
        for later in range(i + 1, min(i + k, n - 1) + 1):
            if not swapped[later] and owners[order[later]] != owners[a]:
                open_entries[count] = later
                count += 1
        swapped[i] = True
        if count and words[a, PARTNER_WORD] & STAY_BIT:
            only = codes[order[open_entries[0]]]
            forced = only != codes[a]
            for c in range(1, count):
                forced = forced and codes[order[open_entries[c]]] == only
            if forced:
                count = 0
        if count:
            later = open_entries[draw_below(words[a, PARTNER_WORD], count)]
            swapped[later] = True
            partners[a] = order[later]
            partners[order[later]] = a
    return partners


@kernel
def swap_in_order(order: Int64Array, owners: Int64Array) -> Int64Array:
    """Return (n,) int64 partners: each unswapped value swaps with the next unswapped one of another owner.

    ``order``: (n,) int64, the values in random order.
    """
    n = order.size
    partners = np.arange(n)
    swapped = np.zeros(n, np.bool_)
    for i in range(n):
        if swapped[i]:
            continue
        a = order[i]
        later = i + 1
        while later < n and (swapped[later] or owners[order[later]] == owners[a]):
            later += 1
        if later < n:
            swapped[later] = True
            partners[a] = order[later]
            partners[order[later]] = a
    return partners
