"""Compiled hash tables over texts (``Texts``): 64-bit hashes, and open addressing with linear probing."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def text_hash(data, start, end):  # type: ignore[no-untyped-def]
    """uint64: FNV-1a of ``data[start:end]``, its bits mixed so that the low ones alone may choose a slot."""
    value = np.uint64(14695981039346656037)
    for k in range(start, end):
        value = (value ^ np.uint64(data[k])) * np.uint64(1099511628211)
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return value ^ (value >> np.uint64(32))


@njit(cache=True, nogil=True)
def text_hashes(data, offsets, gap):  # type: ignore[no-untyped-def]
    """(n,) uint64: of the texts ``data[offsets[i]:offsets[i + 1] - gap]``."""
    hashes = np.empty(offsets.size - 1, np.uint64)
    for i in range(hashes.size):
        hashes[i] = text_hash(data, offsets[i], offsets[i + 1] - gap)
    return hashes


@njit(cache=True, nogil=True)
def piece_offsets(data, most):  # type: ignore[no-untyped-def]
    """Where the pieces of ``data`` begin that zero bytes end: (most + 1,) int64, and how many pieces there are."""
    offsets = np.zeros(most + 1, np.int64)
    pieces = 0
    for k in range(data.size):
        if data[k] == 0:
            pieces += 1
            if pieces <= most:
                offsets[pieces] = k + 1
    return offsets, pieces


@njit(cache=True, nogil=True)
def fill_slots(size, data, starts, ends):  # type: ignore[no-untyped-def]
    """(size,) int32, a power of two greater than n: the index of the text in each slot, -1 for an empty one."""
    slots = np.full(size, -1, np.int32)
    mask = np.uint64(size - 1)
    for i in range(starts.size):
        slot = text_hash(data, starts[i], ends[i]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = i
    return slots


@njit(cache=True, nogil=True)
def same_text(data, start, end, other, first, last):  # type: ignore[no-untyped-def]
    """Whether ``data[start:end]`` and ``other[first:last]`` are equal."""
    if end - start != last - first:
        return False
    same = True
    for k in range(end - start):
        same &= data[start + k] == other[first + k]
    return same


@njit(cache=True, nogil=True)
def find_texts(wanted, offsets, gap, slots, data, starts, ends):  # type: ignore[no-untyped-def]
    """(n,) int32: the indices of the texts ``wanted[offsets[i]:offsets[i + 1] - gap]``, -1 for those not there."""
    found = np.full(offsets.size - 1, -1, np.int32)
    mask = np.uint64(slots.size - 1)
    for i in range(found.size):
        first, last = offsets[i], offsets[i + 1] - gap
        slot = text_hash(wanted, first, last) & mask
        while slots[slot] >= 0:
            index = slots[slot]
            if same_text(wanted, first, last, data, starts[index], ends[index]):
                found[i] = index
                break
            slot = (slot + np.uint64(1)) & mask
    return found
