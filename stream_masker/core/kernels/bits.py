"""Bits of words, and words of bytes, for kernels."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.kernels.jit import inlined, int64

LOW_HALF = np.uint64(0xFFFFFFFF)


@inlined
def popcount(word: np.uint64) -> int:
    """Return the number of set bits."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def lowest_bit(word: np.uint64) -> int:
    """Return the index, 0 … 63, of the lowest set bit of a word that is not 0."""
    return popcount((word - np.uint64(1)) & ~word)


@inlined
def highest_bit(word: np.uint64) -> int:
    """Return the index, 0 … 63, of the highest set bit of a word that is not 0."""
    for shift in (1, 2, 4, 8, 16, 32):
        word |= word >> np.uint64(shift)
    return popcount(word) - 1


@inlined
def multiply_high(one: np.uint64, other: np.uint64) -> np.uint64:
    """Return the upper 64 bits of a product."""
    half = np.uint64(32)
    low, high = one & LOW_HALF, one >> half
    other_low, other_high = other & LOW_HALF, other >> half
    middle = high * other_low + ((low * other_low) >> half)
    crossed = low * other_high + (middle & LOW_HALF)
    return high * other_high + (middle >> half) + (crossed >> half)


@inlined
def word_at(data: UInt8Array, at: int) -> np.uint64:
    """Return the 8 bytes ``data[at : at + 8]`` as a little-endian word."""
    start, word = np.uint64(at), np.uint64(0)
    for i in range(8):
        word |= np.uint64(data[start + np.uint64(i)]) << np.uint64(8 * i)
    return word


@inlined
def put_word(data: UInt8Array, at: int, word: np.uint64) -> None:
    """Write a word to the 8 bytes ``data[at : at + 8]``, little-endian."""
    start = np.uint64(at)
    for i in range(8):
        data[start + np.uint64(i)] = word >> np.uint64(8 * i)
