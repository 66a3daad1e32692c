"""Pseudonyms of many texts in one call (``pipeline.pseudonyms``)."""

from __future__ import annotations

from typing import Final

import numpy as np

from stream_masker.core.blake2b import BLOCK, mix_block
from stream_masker.core.compiling import inlined, kernel

HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
DIGITS: Final = 32
"""Hexadecimal digits of a pseudonym."""


@inlined
def take_block(state, block, words, data, start, size, length, last):  # type: ignore[no-untyped-def]
    """Takes up to 128 bytes into a state of BLAKE2b."""
    for k in range(size):
        block[k] = data[start + k]
    for k in range(size, BLOCK):
        block[k] = 0
    mix_block(state, words, length, last)


@inlined
def write_pseudonym(key, empty, state, block, words, data, start, size, out, to):  # type: ignore[no-untyped-def]
    """Writes the pseudonym of a text (``pipeline.pseudonyms``): ``key``, the state after the secret."""
    if size == 0:
        for k in range(DIGITS):
            out[to + k] = empty[k]
        return
    for k in range(8):
        state[k] = key[k]
    length = BLOCK
    while size > BLOCK:
        length += BLOCK
        take_block(state, block, words, data, start, BLOCK, length, False)
        start += BLOCK
        size -= BLOCK
    take_block(state, block, words, data, start, size, length + size, True)
    for k in range(DIGITS // 2):
        byte = np.int64(state[k >> 3] >> np.uint64(8 * (k & 7))) & 255
        out[to + 2 * k], out[to + 2 * k + 1] = HEX[byte >> 4], HEX[byte & 15]


@kernel
def pseudonyms_of(key, empty, data, bounds):  # type: ignore[no-untyped-def]
    """(32 · n,) uint8: the pseudonyms of n texts that stand in ``data`` one after another; bounds: (n + 1,) int64."""
    out = np.empty(DIGITS * (bounds.size - 1), np.uint8)
    state, block = np.empty(8, np.uint64), np.empty(BLOCK, np.uint8)
    words = block.view(np.uint64)
    for i in range(bounds.size - 1):
        size = bounds[i + 1] - bounds[i]
        write_pseudonym(key, empty, state, block, words, data, bounds[i], size, out, DIGITS * i)
    return out
