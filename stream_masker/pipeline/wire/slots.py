"""The bits of noise keys (``core.statistics.counts``) as short lists of slots."""

from __future__ import annotations

from typing import Final

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt64Array
from stream_masker.core.statistics.counts import KEY_SLOTS, MANY_KEYS

MANY_SLOTS: Final = 2 * KEY_SLOTS
"""In a list of slots, an entry with ``MANY_KEYS`` bits or more."""

ALL_BITS: Final = np.uint64(2**KEY_SLOTS - 1)


def slot_list(key_bits: UInt64Array) -> Int64Array:
    """Return the slots of m entries as (k,) int64, one entry after another, each in ascending order.

    The first slot of an entry stands as it is, and each further one plus ``KEY_SLOTS``. An entry with ``MANY_KEYS``
    bits or more is the single number ``MANY_SLOTS``. An entry needs at least one bit.
    """
    many = np.flatnonzero(np.bitwise_count(key_bits) >= MANY_KEYS)
    bits = np.unpackbits(key_bits.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    bits[many] = 0
    entry, slot = np.nonzero(bits)
    further = np.diff(entry, prepend=-1) == 0
    entries = np.concatenate([entry, many])
    slots = np.concatenate([slot + KEY_SLOTS * further, np.full(many.size, MANY_SLOTS)])
    return np.asarray(slots[np.argsort(entries, kind="stable")])


def bits_of_slots(slots: Int64Array, entries: int) -> UInt64Array | None:
    """Return (entries,) uint64: the bits of what ``slot_list`` returns. None if it is not the list of so many entries.

    Entries that are ``MANY_SLOTS`` have all bits.
    """
    starts = (slots < KEY_SLOTS) | (slots == MANY_SLOTS)
    if np.count_nonzero(starts) != entries or not starts[:1].all() or (slots < 0).any() or (slots > MANY_SLOTS).any():
        return None
    words = np.where(slots == MANY_SLOTS, ALL_BITS, np.uint64(1) << (slots % KEY_SLOTS).astype(np.uint64))
    return np.bitwise_or.reduceat(words, np.flatnonzero(starts)) if entries else words


def holds_too_many_bits(counts: Int64Array, key_bits: UInt64Array | None) -> bool:
    """Return whether any of m entries has more bits than rows; ``MANY_KEYS`` bits stand for all greater numbers."""
    return key_bits is not None and bool((np.minimum(np.bitwise_count(key_bits), MANY_KEYS) > counts).any())
