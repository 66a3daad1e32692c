"""Compiled hash tables over n texts: 64-bit hashes, and open addressing with linear probing.

Texts are slices of an array of UTF-8 bytes, as in ``TextTable``. There are two tables. ``fill_slots`` stores the index
of each text; a lookup compares the text itself. ``fill_short`` stores texts of at most 16 bytes inline, as two words,
so that a lookup reads one slot.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.intrinsics import lowest_bit, word_at
from stream_masker.core.kernels.jit import inlined, int32, int64, kernel

SHORT = 16
"""The most bytes of a short text."""

LOW_BITS = np.uint64(0x0101010101010101)
HIGH_BITS = np.uint64(0x8080808080808080)


@kernel
def text_hash(data: UInt8Array, start: int, end: int) -> np.uint64:
    """FNV-1a of ``data[start:end]``, with its bits mixed so that the low bits can select a slot."""
    value = np.uint64(14695981039346656037)
    for k in range(start, end):
        value = (value ^ np.uint64(data[k])) * np.uint64(1099511628211)
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return value ^ (value >> np.uint64(32))


@kernel
def text_hashes(data: UInt8Array, offsets: Int64Array, gap: int) -> UInt64Array:
    """Return (n,) uint64: the hashes of the texts ``data[offsets[i]:offsets[i + 1] - gap]``."""
    hashes = np.empty(offsets.size - 1, np.uint64)
    for i in range(hashes.size):
        hashes[i] = text_hash(data, offsets[i], offsets[i + 1] - gap)
    return hashes


@kernel
def piece_offsets(data: UInt8Array, most: int) -> tuple[Int64Array, int]:
    """Split ``data`` at zero bytes: (most + 1,) int64 offsets of at most ``most`` pieces, and their total number."""
    offsets = np.zeros(most + 1, np.int64)
    pieces = 0
    for k in range(data.size):
        if data[k] == 0:
            pieces += 1
            if pieces <= most:
                offsets[pieces] = k + 1
    return offsets, pieces


@kernel
def fill_slots(size: int, data: UInt8Array, starts: Int64Array, ends: Int64Array) -> Int32Array:
    """Return (size,) int32: the index of the text in each slot, -1 for an empty slot. ``size``: a power of two
    above n."""
    slots = np.full(size, -1, np.int32)
    mask = np.uint64(size - 1)
    for i in range(starts.size):
        slot = text_hash(data, starts[i], ends[i]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = i
    return slots


@kernel
def same_text(data: UInt8Array, start: int, end: int, other: UInt8Array, first: int, last: int) -> bool:
    """Return whether ``data[start:end]`` and ``other[first:last]`` are equal."""
    if end - start != last - first:
        return False
    same = True
    for k in range(end - start):
        same &= data[start + k] == other[first + k]
    return same


@kernel
def find_text(
    wanted: UInt8Array, first: int, last: int, slots: Int32Array, data: UInt8Array, starts: Int64Array, ends: Int64Array
) -> int:
    """Return the index of the text that equals ``wanted[first:last]``, or -1."""
    mask = np.uint64(slots.size - 1)
    slot = text_hash(wanted, first, last) & mask
    while slots[slot] >= 0:
        index = slots[slot]
        if same_text(wanted, first, last, data, starts[index], ends[index]):
            return index
        slot = (slot + np.uint64(1)) & mask
    return int32(-1)


@kernel
def find_text_indices(
    wanted: UInt8Array,
    offsets: Int64Array,
    gap: int,
    slots: Int32Array,
    data: UInt8Array,
    starts: Int64Array,
    ends: Int64Array,
) -> Int32Array:
    """Return (k,) int32: the index of each of k texts ``wanted[offsets[i]:offsets[i + 1] - gap]``, or -1."""
    found = np.empty(offsets.size - 1, np.int32)
    for i in range(found.size):
        found[i] = find_text(wanted, offsets[i], offsets[i + 1] - gap, slots, data, starts, ends)
    return found


@inlined
def short_slot(low: np.uint64, high: np.uint64, mask: np.uint64) -> np.uint64:
    """Return the first slot to probe for a short text, given as two words."""
    value = (low ^ (high * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xD6E8FEB86659FD93)
    return (value ^ (value >> np.uint64(32))) & mask


@inlined
def before_zero(data: UInt8Array, at: int) -> tuple[np.uint64, int]:
    """Return the bytes from ``at`` up to the next zero byte as a little-endian word, and their number; at most 8
    bytes."""
    word = word_at(data, at)
    zeros = (word - LOW_BITS) & ~word & HIGH_BITS
    if zeros == np.uint64(0):
        return word, 8
    size = lowest_bit(zeros) >> 3
    return word & ((np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)), size


@kernel
def fill_short(size: int, data: UInt8Array, starts: Int64Array, ends: Int64Array) -> UInt64Array:
    """Return (3 · size,) uint64: for each slot the two words of a short text and its index plus 1; zeros if it is
    empty.

    ``size``: a power of two above n. Texts of more than 16 bytes, and texts with zero bytes, are left out.
    """
    table = np.zeros(3 * size, np.uint64)
    mask = np.uint64(size - 1)
    for i in range(starts.size):
        low, high = np.uint64(0), np.uint64(0)
        fits = ends[i] - starts[i] <= SHORT
        for k in range(min(ends[i] - starts[i], SHORT)):
            byte = np.uint64(data[starts[i] + k])
            fits &= byte != 0
            if k < 8:
                low |= byte << np.uint64(8 * k)
            else:
                high |= byte << np.uint64(8 * (k - 8))
        if fits:
            slot = short_slot(low, high, mask)
            while table[np.uint64(3) * slot + np.uint64(2)] != 0:
                slot = (slot + np.uint64(1)) & mask
            at = int64(slot) * 3
            table[at], table[at + 1], table[at + 2] = low, high, np.uint64(i + 1)
    return table


@inlined
def find_short(table: UInt64Array, low: np.uint64, high: np.uint64) -> int:
    """Return the index of the short text with these two words, or -1."""
    mask = np.uint64(table.size // 3 - 1)
    slot = short_slot(low, high, mask)
    while True:
        at = int64(slot) * 3
        if table[at + 2] == 0:
            return int64(-1)
        if table[at] == low and table[at + 1] == high:
            return int64(table[at + 2]) - 1
        slot = (slot + np.uint64(1)) & mask


@kernel
def find_joined(
    wanted: UInt8Array,
    count: int,
    table: UInt64Array,
    slots: Int32Array,
    data: UInt8Array,
    starts: Int64Array,
    ends: Int64Array,
) -> tuple[Int32Array, int]:
    """Return (count,) int32: the index of each text in ``wanted``, or -1; and the offset after the last text.

    ``wanted``: texts that each end with a zero byte, followed by ``SHORT`` zero bytes. ``table``: from ``fill_short``.
    """
    found = np.full(count, -1, np.int32)
    at = 0
    for i in range(count):
        low, size = before_zero(wanted, at)
        high, more = np.uint64(0), 0
        if size == 8:
            high, more = before_zero(wanted, at + 8)
        end = at + size + more
        if wanted[end] == 0:
            found[i] = find_short(table, low, high)
        else:
            while wanted[end] != 0:
                end += 1
            found[i] = find_text(wanted, at, end, slots, data, starts, ends)
        at = end + 1
    return found, at
