"""Keyed BLAKE2b (RFC 7693) of many messages in one call.

The digests are those of ``hashlib.blake2b``, without a Python object for each message.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt8Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels.blake2b_simd import (
    MESSAGE_LANES,
    VECTOR_INITIAL_STATE,
    VECTOR_SCHEDULE,
    mix_last_blocks,
)
from stream_masker.core.kernels.intrinsics import word_at
from stream_masker.core.kernels.jit import inlined, kernel

DIGEST_BYTES = 64
BLOCK_BYTES = 128
PERSON_BYTES = 16
"""Maximum length of the personalisation string, in bytes."""

SHORT_BYTES = BLOCK_BYTES - 8
"""Maximum length, in bytes, of a message that fits into one block together with its prefix."""

INITIAL_STATE = np.array(VECTOR_INITIAL_STATE, np.uint64)
MESSAGE_SCHEDULE = np.array(VECTOR_SCHEDULE, np.int64)


def keyed_state(key: bytes, person: bytes, size: int = DIGEST_BYTES) -> UInt64Array:
    """Return (8,) uint64: the state after the key block, from which every message starts.

    ``key``: 1 to 64 bytes. ``person``: the personalisation, up to 16 bytes. ``size``: bytes of a digest, 1 to 64.
    """
    parameters = bytes([size, len(key), 1, 1]).ljust(DIGEST_BYTES - PERSON_BYTES, b"\0") + person.ljust(
        PERSON_BYTES, b"\0"
    )
    state: UInt64Array = INITIAL_STATE ^ np.frombuffer(parameters, "<u8")
    mix_block(state, np.frombuffer(key.ljust(BLOCK_BYTES, b"\0"), "<u8").copy(), BLOCK_BYTES, False)
    return state


def digests(state: UInt64Array, prefix: int, messages: Sequence[bytes]) -> UInt64Array:
    """Return (n, 8) uint64: the digests of n messages, whose bytes are in order.

    Each message is prefixed with the 8 bytes of ``prefix``.
    """
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(lengths)
    data = np.frombuffer(b"".join(messages) + bytes(8), np.uint8)
    return hash_all(state, np.uint64(prefix), data, ends)


@inlined
def rotated(word: np.uint64, bits: int) -> np.uint64:
    """Return a word rotated to the right by ``bits`` bits."""
    return (word >> np.uint64(bits)) | (word << np.uint64(64 - bits))


@inlined
def mixed(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, x: np.uint64, y: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Apply the mixing function G (RFC 7693: section 3.1)."""
    a = a + b + x
    d = rotated(d ^ a, 32)
    c = c + d
    b = rotated(b ^ c, 24)
    a = a + b + y
    d = rotated(d ^ a, 16)
    c = c + d
    b = rotated(b ^ c, 63)
    return a, b, c, d


@kernel
def mix_block(state: UInt64Array, words: UInt64Array, length: int, last: bool) -> None:
    """Update the state, (8,), with a block of 16 words: the compression function F (RFC 7693: section 3.2).

    length: bytes of the message up to the end of this block. last: whether it is the last block.
    """
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    v4, v5, v6, v7 = state[4], state[5], state[6], state[7]
    v8, v9, v10, v11 = INITIAL_STATE[0], INITIAL_STATE[1], INITIAL_STATE[2], INITIAL_STATE[3]
    v12, v13, v14, v15 = INITIAL_STATE[4] ^ np.uint64(length), INITIAL_STATE[5], INITIAL_STATE[6], INITIAL_STATE[7]
    if last:
        v14 = ~v14
    for turn in range(12):
        m = MESSAGE_SCHEDULE[turn]
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
def hash_all(start: UInt64Array, prefix: np.uint64, data: UInt8Array, ends: Int64Array) -> UInt64Matrix:
    """Return (n, 8) uint64: the final states of n messages, each prefixed with the 8 bytes of ``prefix``.

    start: the state before each message. data: the messages, one after another, followed by 8 more bytes. ends: (n,)
    the end of each message in ``data``. Eight consecutive messages are hashed together if each fits into one block.
    """
    result = np.empty((ends.size, 8), np.uint64)
    words = np.empty(16 * MESSAGE_LANES, np.uint64)
    states = np.empty(8 * MESSAGE_LANES, np.uint64)
    lengths = np.empty(MESSAGE_LANES, np.uint64)
    first, at = 0, 0
    while first < ends.size:
        if are_short(ends, first, at):
            fill_vector_lanes(prefix, data, ends, first, at, words, lengths)
            for i in range(8 * MESSAGE_LANES):
                states[i] = start[i // MESSAGE_LANES]
            mix_last_blocks(states, words, lengths)
            for i in range(8 * MESSAGE_LANES):
                result[first + i % MESSAGE_LANES, i // MESSAGE_LANES] = states[i]
            first += MESSAGE_LANES
        else:
            hash_one(start, prefix, data, at, ends[first], words[:16], result[first])
            first += 1
        at = ends[first - 1]
    return result


@inlined
def are_short(ends: Int64Array, first: int, at: int) -> bool:
    """Return whether the next ``MESSAGE_LANES`` messages exist and each fits into one block.

    Message ``first`` begins at ``at``.
    """
    if first + MESSAGE_LANES > ends.size:
        return False
    for i in range(first, first + MESSAGE_LANES):
        if ends[i] - at > SHORT_BYTES:
            return False
        at = ends[i]
    return True


@inlined
def fill_vector_lanes(
    prefix: np.uint64, data: UInt8Array, ends: Int64Array, first: int, at: int, words: UInt64Array, lengths: UInt64Array
) -> None:
    """Write the blocks of the next ``MESSAGE_LANES`` messages to ``words``, and their lengths to ``lengths``.

    Word w of message i is at index w · ``MESSAGE_LANES`` + i.
    """
    for i in range(words.size):
        words[i] = prefix if i < MESSAGE_LANES else np.uint64(0)
    for lane in range(MESSAGE_LANES):
        end = ends[first + lane]
        lengths[lane] = np.uint64(BLOCK_BYTES + 8 + end - at)
        row = MESSAGE_LANES + lane
        while at < end:
            word = word_at(data, at)
            if end - at < 8:
                word &= (np.uint64(1) << np.uint64(8 * (end - at))) - np.uint64(1)
            words[row] = word
            row += MESSAGE_LANES
            at += 8
        at = end


@kernel
def hash_one(
    start: UInt64Array, prefix: np.uint64, data: UInt8Array, at: int, end: int, words: UInt64Array, state: UInt64Array
) -> None:
    """Write the final state of the message ``data[at:end]`` to ``state``. words: (16,) scratch memory for a block."""
    block = words.view(np.uint8)
    state[:] = start
    block[:] = 0
    words[0] = prefix
    filled, length = 8, BLOCK_BYTES
    while at < end:
        if filled == BLOCK_BYTES:
            length += BLOCK_BYTES
            mix_block(state, words, length, False)
            block[:] = 0
            filled = 0
        block[filled] = data[at]
        filled += 1
        at += 1
    mix_block(state, words, length + filled, True)
