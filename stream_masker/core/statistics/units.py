"""Numbers of different noise keys among counted rows, from one bit for each noise key.

A keyed hash gives each noise key one of ``KEY_SLOTS`` slots (``core.random.distinct``). The bits of an entry of counts
are those of the slots of its rows, so the bits of several windows are united by OR, in any order and any number of
times. Two noise keys of one slot count as one: the number of bits never exceeds the number of different noise keys.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt64Array
from stream_masker.core.kernels.jit import kernel

KEY_SLOTS: Final = 64
"""The number of slots: one for each bit of a word."""

NO_SLOT: Final = KEY_SLOTS
"""The slot of a row whose noise key is not known. It has no bit."""

MANY_KEYS: Final = 32
"""Entries with this number of bits have about 44 noise keys or more. All their rows count as different."""

_SLOT_BITS = 7
"""Bits of a slot in a sorted word, ``NO_SLOT`` included."""


def units_of(counts: Int64Array, key_bits: UInt64Array | None) -> Int64Array:
    """Return (m,) int64: the number of different noise keys of each entry, at least.

    It is at most the number of rows, which it is if no noise keys are known, or ``MANY_KEYS`` or more. Rows without a
    noise key count as one together, and as none beside others.
    """
    if key_bits is None:
        return counts
    bits = np.bitwise_count(key_bits).astype(np.int64)
    return np.where(bits < MANY_KEYS, np.minimum(np.maximum(bits, 1), counts), counts)


def grouped_bits(key_bits: UInt64Array | None, groups: Int64Array, size: int) -> UInt64Array | None:
    """Return (size,) uint64: the united bits of the entries of each group; ``groups``: (m,), in [0, size)."""
    if key_bits is None:
        return None
    united = np.zeros(size, np.uint64)
    np.bitwise_or.at(united, groups, key_bits)
    return united


def with_slots(keys: Int64Array, slots: Int64Array) -> Int64Array:
    """Return (n,) int64 words that sort by key; ``keys``: (n,) below 2⁵⁶; ``slots``: (n,), in [0, ``NO_SLOT``]."""
    return keys << _SLOT_BITS | slots


@kernel
def run_units(ordered: Int64Array) -> tuple[Int64Array, Int64Array, UInt64Array]:
    """Return the distinct keys of sorted (n,) words of ``with_slots``, how often each occurs, and its bits."""
    keys = np.empty(ordered.size, np.int64)
    counts = np.zeros(ordered.size, np.int64)
    bits = np.zeros(ordered.size, np.uint64)
    size = 0
    for i in range(ordered.size):
        key = ordered[i] >> _SLOT_BITS
        if size == 0 or key != keys[size - 1]:
            keys[size] = key
            size += 1
        counts[size - 1] += 1
        slot = ordered[i] - (key << _SLOT_BITS)
        if slot < KEY_SLOTS:
            bits[size - 1] |= np.uint64(1) << np.uint64(slot)
    return keys[:size].copy(), counts[:size].copy(), bits[:size].copy()
