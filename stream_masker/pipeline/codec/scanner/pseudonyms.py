"""Pseudonyms of many texts in one call (``pipeline.pseudonyms``)."""

from __future__ import annotations

from typing import Final

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.blake2b_simd import MESSAGE_LANES, mix_last_blocks
from stream_masker.core.kernels.intrinsics import word_at
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.random.blake2b import BLOCK_BYTES, mix_block
from stream_masker.pipeline.codec.scanner.tokens import ALL, ENDS

HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
DIGITS: Final = 32
"""Hexadecimal digits of a pseudonym."""


@inlined
def take_block(
    state: UInt64Array,
    block: UInt8Array,
    words: UInt64Array,
    data: UInt8Array,
    start: int,
    size: int,
    length: int,
    last: bool,
) -> None:
    """Update a state of BLAKE2b with up to 128 bytes."""
    for k in range(size):
        block[k] = data[start + k]
    for k in range(size, BLOCK_BYTES):
        block[k] = 0
    mix_block(state, words, length, last)


@inlined
def write_digits(low: np.uint64, high: np.uint64, out: UInt8Array, to: int) -> None:
    """Write the hexadecimal digits of two words' bytes."""
    for k in range(8):
        one, other = int64(low >> np.uint64(8 * k)) & 255, int64(high >> np.uint64(8 * k)) & 255
        out[to + 2 * k], out[to + 2 * k + 1] = HEX[one >> 4], HEX[one & 15]
        out[to + 2 * k + 16], out[to + 2 * k + 17] = HEX[other >> 4], HEX[other & 15]


@inlined
def write_pseudonym(
    key: UInt64Array,
    empty: UInt8Array,
    state: UInt64Array,
    block: UInt8Array,
    words: UInt64Array,
    data: UInt8Array,
    start: int,
    size: int,
    out: UInt8Array,
    to: int,
) -> None:
    """Write the pseudonym of a text (``pipeline.pseudonyms``). key: the state after the secret."""
    if size == 0:
        for k in range(DIGITS):
            out[to + k] = empty[k]
        return
    for k in range(8):
        state[k] = key[k]
    length = BLOCK_BYTES
    while size > BLOCK_BYTES:
        length += BLOCK_BYTES
        take_block(state, block, words, data, start, BLOCK_BYTES, length, False)
        start += BLOCK_BYTES
        size -= BLOCK_BYTES
    take_block(state, block, words, data, start, size, length + size, True)
    write_digits(state[0], state[1], out, to)


@inlined
def fit_lanes(sizes: Int64Array, first: int) -> bool:
    """Return whether there is a text from ``first`` on for each lane, and each of them fits into one block."""
    if first + MESSAGE_LANES > sizes.size:
        return False
    for i in range(first, first + MESSAGE_LANES):
        if not 0 < sizes[i] <= BLOCK_BYTES:
            return False
    return True


@inlined
def fill_pseudonym_lanes(
    data: UInt8Array, starts: Int64Array, sizes: Int64Array, first: int, words: UInt64Array, lengths: UInt64Array
) -> None:
    """Write the blocks of texts into lanes."""
    for i in range(words.size):
        words[i] = np.uint64(0)
    for lane in range(MESSAGE_LANES):
        at, size = starts[first + lane], sizes[first + lane]
        lengths[lane] = np.uint64(BLOCK_BYTES + size)
        for k in range(0, size, 8):
            words[k // 8 * MESSAGE_LANES + lane] = word_at(data, at + k) & (ENDS[size - k] if size - k < 8 else ALL)


@kernel
def pseudonyms_of(
    key: UInt64Array, empty: UInt8Array, data: UInt8Array, starts: Int64Array, sizes: Int64Array
) -> UInt8Array:
    """Return (32 · n,) uint8: the pseudonyms of n texts, which are slices of ``data``.

    ``PADDING`` more bytes must follow the last text. Eight consecutive texts are hashed together if each fits into one
    block.
    """
    out = np.empty(DIGITS * sizes.size, np.uint8)
    words, states, lengths = (
        np.empty(16 * MESSAGE_LANES, np.uint64),
        np.empty(8 * MESSAGE_LANES, np.uint64),
        np.empty(MESSAGE_LANES, np.uint64),
    )
    state, block = np.empty(8, np.uint64), np.empty(BLOCK_BYTES, np.uint8)
    i = 0
    while i < sizes.size:
        if fit_lanes(sizes, i):
            fill_pseudonym_lanes(data, starts, sizes, i, words, lengths)
            for k in range(8 * MESSAGE_LANES):
                states[k] = key[k // MESSAGE_LANES]
            mix_last_blocks(states, words, lengths)
            for lane in range(MESSAGE_LANES):
                write_digits(states[lane], states[MESSAGE_LANES + lane], out, DIGITS * (i + lane))
            i += MESSAGE_LANES
        else:
            write_pseudonym(key, empty, state, block, block.view(np.uint64), data, starts[i], sizes[i], out, DIGITS * i)
            i += 1
    return out
