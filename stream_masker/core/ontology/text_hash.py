"""Compiled hash tables over n texts: 64-bit hashes, and open addressing with linear probing.

Texts are slices of an array of UTF-8 bytes, as in ``TextTable``.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import int32, kernel


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
