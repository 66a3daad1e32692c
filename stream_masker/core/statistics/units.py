"""Numbers of different noise keys among counted rows, from one bit for each noise key.

Its keyed hash (``key_hashes``) gives each noise key one of ``KEY_SLOTS`` slots. The bits of an entry of
counts are those of the slots of its rows, so the bits of several windows are united by OR, in any order and any number
of times. Two noise keys of one slot count as one: the number of bits never exceeds that of the noise keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int64Array, UInt64Array
from stream_masker.core.kernels.bits import lowest_bit, popcount
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.random import Secret

KEY_SLOTS: Final = 64
"""The number of slots: one for each bit of a word."""

NO_SLOT: Final = KEY_SLOTS
"""The slot of a row whose noise key is not known. It has no bit."""

MANY_KEYS: Final = 32
"""Entries with this number of bits have about 44 noise keys or more. All their rows count as different."""

MANY_SLOTS: Final = 2 * KEY_SLOTS
"""In a list of slots, an entry with ``MANY_KEYS`` bits or more."""

ALL_BITS: Final = np.uint64(2**KEY_SLOTS - 1)

SLOT_SHIFT: Final = 16
"""The lowest bit of a hash that determines its slot: above those that bound the records of a noise key."""

_SLOT_BITS = 7
"""Bits of a slot in a sorted word, ``NO_SLOT`` included."""


def key_hashes(secret: Secret, keys: Iterable[bytes]) -> Int64Array:
    """Return (n,) int64 in [0, 2⁶³): hashes of n noise keys that nobody can test against a guess without the secret."""
    words = secret.cipher(b"masker-slot").words(secret.digests(keys))
    return (words[:, 0] >> np.uint64(1)).astype(np.int64)


def key_slots(hashes: Int64Array) -> Int64Array:
    """Return (n,) int64: the slots of noise keys, from their (n,) keyed hashes."""
    return hashes >> SLOT_SHIFT & (KEY_SLOTS - 1)


def joined_slots(batches: Sequence[Batch]) -> Int64Array | None:
    """Return the slots of the records of several batches, ``NO_SLOT`` for those without; None if no batch has any."""
    if all(batch.slots is None for batch in batches):
        return None
    return np.concatenate([np.full(b.size, NO_SLOT) if b.slots is None else b.slots for b in batches])


def units_of(counts: Int64Array, key_bits: UInt64Array | None) -> Int64Array:
    """Return (m,) int64: the number of different noise keys of each entry, at least.

    It is at most the number of rows, which it is if no noise keys are known, or ``MANY_KEYS`` or more. Rows without a
    noise key count as one together, and as none beside others.
    """
    if key_bits is None:
        return counts
    bits = np.bitwise_count(key_bits).astype(np.int64)
    return np.where(bits < MANY_KEYS, np.minimum(np.maximum(bits, 1), counts), counts)


def holds_too_many_bits(counts: Int64Array, key_bits: UInt64Array | None) -> bool:
    """Return whether any of m entries has more bits than rows; ``MANY_KEYS`` bits stand for all greater numbers."""
    return key_bits is not None and bool((np.minimum(np.bitwise_count(key_bits), MANY_KEYS) > counts).any())


def united_bits(key_bits: Iterable[UInt64Array | None]) -> int | None:
    """Return the bits of all entries of several counts, one for each slot; None if no noise key is known."""
    known = [np.bitwise_or.reduce(bits) for bits in key_bits if bits is not None]
    return int(np.bitwise_or.reduce(known)) if known else None


def grouped_bits(key_bits: UInt64Array | None, groups: Int64Array, size: int) -> UInt64Array | None:
    """Return (size,) uint64: the united bits of the entries of each group; ``groups``: (m,), in [0, size)."""
    if key_bits is None:
        return None
    united = np.zeros(size, np.uint64)
    np.bitwise_or.at(united, groups, key_bits)
    return united


@kernel
def slot_list(key_bits: UInt64Array) -> Int64Array:
    """Return the slots of m entries as (k,) int64, one entry after another, each in ascending order.

    The first slot of an entry stands as it is, and each further one plus ``KEY_SLOTS``. An entry with ``MANY_KEYS``
    bits or more is the single number ``MANY_SLOTS``. An entry needs at least one bit.
    """
    slots = np.empty(_listed(key_bits), np.int64)
    size = 0
    for word in key_bits:
        left, further = word, 0
        if popcount(word) >= MANY_KEYS:
            left = np.uint64(0)
            slots[size] = MANY_SLOTS
            size += 1
        while left:
            slots[size] = int64(lowest_bit(left)) + further
            size += 1
            further = KEY_SLOTS
            left &= left - np.uint64(1)
    return slots


@part
def _listed(key_bits: UInt64Array) -> int:
    """Return the number of slots in the list of the entries."""
    size = 0
    for word in key_bits:
        bits = int64(popcount(word))
        size += 1 if bits >= MANY_KEYS else bits
    return size


def bits_of_slots(slots: Int64Array, entries: int) -> UInt64Array | None:
    """Return (entries,) uint64: the bits of what ``slot_list`` returns. None if it is not the list of so many entries.

    Entries that are ``MANY_SLOTS`` have all bits.
    """
    starts = (slots < KEY_SLOTS) | (slots == MANY_SLOTS)
    if np.count_nonzero(starts) != entries or not starts[:1].all() or (slots < 0).any() or (slots > MANY_SLOTS).any():
        return None
    words = np.where(slots == MANY_SLOTS, ALL_BITS, np.uint64(1) << (slots % KEY_SLOTS).astype(np.uint64))
    return np.bitwise_or.reduceat(words, np.flatnonzero(starts)) if entries else words


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
