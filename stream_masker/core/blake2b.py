"""Keyed BLAKE2b (RFC 7693) of many messages in one call: what ``hashlib`` computes, without an object for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.compiling import inlined, kernel

Words: TypeAlias = NDArray[np.uint64]

DIGEST = 64
BLOCK = 128
MOST_PERSON = 16

START = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    np.uint64,
)
"""The initialisation vector (RFC 7693: section 2.6)."""

ORDER = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    np.int64,
)
"""The message schedule of the twelve rounds (RFC 7693: section 2.7)."""


def keyed_state(key: bytes, person: bytes, size: int = DIGEST) -> Words:
    """(8,) uint64: the state after the key, from which every message goes on.

    ``key``: 1 to 64 bytes; ``person``: up to 16, what ``hashlib`` calls so; ``size``: bytes of a digest, 1 to 64.
    """
    parameters = bytes([size, len(key), 1, 1]).ljust(DIGEST - MOST_PERSON, b"\0") + person.ljust(MOST_PERSON, b"\0")
    state: Words = START ^ np.frombuffer(parameters, "<u8")
    mix_block(state, np.frombuffer(key.ljust(BLOCK, b"\0"), "<u8").copy(), BLOCK, False)
    return state


def digests(state: Words, prefix: int, messages: Sequence[bytes]) -> Words:
    """(n, 8) uint64: of n messages, each after the eight bytes of ``prefix``, the digests' bytes in order."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(lengths)
    found: Words = hash_all(state, np.uint64(prefix), np.frombuffer(b"".join(messages), np.uint8), ends)
    return found


@inlined
def turned(word, bits):  # type: ignore[no-untyped-def]
    """The word rotated to the right."""
    return (word >> np.uint64(bits)) | (word << np.uint64(64 - bits))


@inlined
def mixed(a, b, c, d, x, y):  # type: ignore[no-untyped-def]
    """RFC 7693: section 3.1."""
    a = a + b + x
    d = turned(d ^ a, 32)
    c = c + d
    b = turned(b ^ c, 24)
    a = a + b + y
    d = turned(d ^ a, 16)
    c = c + d
    b = turned(b ^ c, 63)
    return a, b, c, d


@kernel
def mix_block(state, words, length, last):  # type: ignore[no-untyped-def]
    """Takes a block of 16 words into the state; ``length``: bytes so far, its own included (RFC 7693: section 3.2)."""
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    v4, v5, v6, v7 = state[4], state[5], state[6], state[7]
    v8, v9, v10, v11 = START[0], START[1], START[2], START[3]
    v12, v13, v14, v15 = START[4] ^ np.uint64(length), START[5], START[6], START[7]
    if last:
        v14 = ~v14
    for turn in range(12):
        m = ORDER[turn]
        v0, v4, v8, v12 = mixed(v0, v4, v8, v12, words[m[0]], words[m[1]])
        v1, v5, v9, v13 = mixed(v1, v5, v9, v13, words[m[2]], words[m[3]])
        v2, v6, v10, v14 = mixed(v2, v6, v10, v14, words[m[4]], words[m[5]])
        v3, v7, v11, v15 = mixed(v3, v7, v11, v15, words[m[6]], words[m[7]])
        v0, v5, v10, v15 = mixed(v0, v5, v10, v15, words[m[8]], words[m[9]])
        v1, v6, v11, v12 = mixed(v1, v6, v11, v12, words[m[10]], words[m[11]])
        v2, v7, v8, v13 = mixed(v2, v7, v8, v13, words[m[12]], words[m[13]])
        v3, v4, v9, v14 = mixed(v3, v4, v9, v14, words[m[14]], words[m[15]])
    state[0] ^= v0 ^ v8
    state[1] ^= v1 ^ v9
    state[2] ^= v2 ^ v10
    state[3] ^= v3 ^ v11
    state[4] ^= v4 ^ v12
    state[5] ^= v5 ^ v13
    state[6] ^= v6 ^ v14
    state[7] ^= v7 ^ v15


@kernel
def hash_all(start, prefix, data, ends):  # type: ignore[no-untyped-def]
    """(n, 8) uint64: the states at the ends of n messages that stand in ``data`` one after another."""
    result = np.empty((ends.size, 8), np.uint64)
    block = np.empty(BLOCK, np.uint8)
    words = block.view(np.uint64)
    at = 0
    for i in range(ends.size):
        state = result[i]
        state[:] = start
        block[:] = 0
        words[0] = prefix
        filled, length = 8, BLOCK
        while at < ends[i]:
            if filled == BLOCK:
                length += BLOCK
                mix_block(state, words, length, False)
                block[:] = 0
                filled = 0
            block[filled] = data[at]
            filled += 1
            at += 1
        mix_block(state, words, length + filled, True)
    return result
