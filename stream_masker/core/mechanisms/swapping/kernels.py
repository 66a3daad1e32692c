"""Compiled swaps of ranked values."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt64Matrix
from stream_masker.core.kernels.jit import inlined, int64, kernel

FIRST_CHOICE = 0
SECOND_CHOICE = 1
PLACE_WORD = 2
NEXT = 3
"""Which of a value's four random words: for its partner (two), its place among ties, and the reference after it."""


@inlined
def draw_partner(word: np.uint64, size: int) -> int:
    """A number from 0 to ``size`` - 1, each as likely, by the 53 high bits of a random word."""
    return int64(np.float64(word >> np.uint64(11)) * 2.0**-53 * size)


@kernel
def swap_in_range(order: Int64Array, owners: Int64Array, k: int, words: UInt64Matrix) -> Int64Array:
    """(n,) int64 partners by Algorithm 1 of 2019, lines 5 to 12.

    ``order``: (n,) int64, the values by rank; each that is unswapped swaps with one of the unswapped among the k
    values that follow it (of another owner), each as likely; itself where there is none.
    """
    n = order.size
    partners = np.arange(n)
    swapped = np.zeros(n, np.bool_)
    found = np.empty(min(k, n), np.int64)
    for i in range(n):
        if swapped[i]:
            continue
        a = order[i]
        count = 0
        for at in range(i + 1, min(i + k, n - 1) + 1):
            if not swapped[at] and owners[order[at]] != owners[a]:
                found[count] = at
                count += 1
        swapped[i] = True
        if count:
            at = found[draw_partner(words[a, FIRST_CHOICE], count)]
            swapped[at] = True
            partners[a] = order[at]
            partners[order[at]] = a
    return partners


@kernel
def swap_in_order(order: Int64Array, owners: Int64Array) -> Int64Array:
    """(n,) int64 partners: each unswapped value of ``order`` swaps with the next unswapped one of another owner."""
    n = order.size
    partners = np.arange(n)
    swapped = np.zeros(n, np.bool_)
    for i in range(n):
        if swapped[i]:
            continue
        a = order[i]
        at = i + 1
        while at < n and (swapped[at] or owners[order[at]] == owners[a]):
            at += 1
        if at < n:
            swapped[at] = True
            partners[a] = order[at]
            partners[order[at]] = a
    return partners
