"""SipHash-2-4 (Aumasson and Bernstein 2012) of the values of records, with a key for each record and attribute.

A message has 9 bytes: 8 bytes for the value and the number of its element, and 1 byte for the number of the word. The
first 8 bytes are compressed once for all words of a value.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels.jit import inlined, kernel

MESSAGE_BYTES = 9

STATE_0, STATE_1, STATE_2, STATE_3 = map(
    np.uint64, (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
)
LAST_BLOCK = np.uint64(MESSAGE_BYTES << 56)
FINALIZATION = np.uint64(0xFF)


@inlined
def rotated_left(word: np.uint64, bits: int) -> np.uint64:
    """Return a word rotated to the left by ``bits`` bits."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def sip_round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Apply SipRound (section 2) to a state."""
    v0 += v1
    v2 += v3
    v1 = rotated_left(v1, 13) ^ v0
    v3 = rotated_left(v3, 16) ^ v2
    v0 = rotated_left(v0, 32)
    v2 += v1
    v0 += v3
    v1 = rotated_left(v1, 17) ^ v2
    v3 = rotated_left(v3, 21) ^ v0
    v2 = rotated_left(v2, 32)
    return v0, v1, v2, v3


@inlined
def compressed(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, block: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the state after one block of the message (two rounds)."""
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3 ^ block)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ block, v1, v2, v3


@inlined
def finalized(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> np.uint64:
    """Return the hash, from the state after the last block (four rounds)."""
    v2 ^= FINALIZATION
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@kernel
def value_words(
    seeds: UInt64Matrix, start: int, offsets: Int64Array, messages: UInt64Array, first: int, width: int
) -> UInt64Matrix:
    """Return (k, width) uint64: the words ``first`` … ``first + width - 1`` of k values of n records.

    seeds: (n, 8) uint64; columns ``start`` and ``start + 1`` are the key of each record. offsets: (n + 1,) int64; the
    values of record i are offsets[i] … offsets[i + 1] - 1. messages: (k,) uint64, the first 8 bytes of each message.
    """
    words = np.empty((messages.size, width), np.uint64)
    for i in range(offsets.size - 1):
        low, high = seeds[i, start], seeds[i, start + 1]
        for at in range(offsets[i], offsets[i + 1]):
            v0, v1, v2, v3 = compressed(low ^ STATE_0, high ^ STATE_1, low ^ STATE_2, high ^ STATE_3, messages[at])
            for column in range(width):
                words[at, column] = finalized(*compressed(v0, v1, v2, v3, LAST_BLOCK | np.uint64(first + column)))
    return words
