"""Second pass: what was written of a batch, with its gaps filled once the batch is masked."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.blake2b import BLOCK, mix_block
from stream_masker.core.compiling import inlined, kernel
from stream_masker.pipeline.attributes import GAP_SHIFT, KIND, STYLE
from stream_masker.pipeline.attributes import LABEL as LABEL_GAP
from stream_masker.pipeline.compiled.tokens import PRIME, TURN
from stream_masker.pipeline.style import STYLE_BITS

Longs: TypeAlias = NDArray[np.int64]

EMPTY: Final = -1
NULL_TEXT, PSEUDONYM = -1, -2
"""What fills a gap that no written text does."""

HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
DIGITS: Final = 32
"""Hexadecimal digits of a pseudonym."""

OWNER_SHIFT: Final = 44
CROWDED: Final = -1


class Written(NamedTuple):
    """An open hash table of written codes and labels: ``keys`` (EMPTY, or ``(2 · attribute + is label) << OWNER_SHIFT |
    position << STYLE_BITS | style``), and where each text stands: ``starts``, ``sizes`` (-1: not yet written) in
    ``texts``. ``missing``: slots that Python is to write; ``used``: (1,)."""

    keys: Longs
    starts: Longs
    sizes: Longs
    texts: NDArray[np.uint8]
    missing: Longs
    used: Longs


def nothing_written(slots: int, size: int) -> Written:
    """An empty table of so many slots (a power of two), and bytes of texts."""
    starts, sizes, missing = (np.zeros(slots, np.int64) for _ in range(3))
    keys = np.full(slots, EMPTY, np.int64)
    return Written(keys, starts, sizes, np.zeros(size, np.uint8), missing, np.zeros(1, np.int64))


@inlined
def slot_of(written, key):  # type: ignore[no-untyped-def]
    """The slot of a key, or the empty one for it."""
    most = written.keys.size - 1
    mixed = np.uint64(key) * PRIME
    slot = np.int64((mixed ^ (mixed >> TURN)) >> np.uint64(8)) & most
    while written.keys[slot] != EMPTY and written.keys[slot] != key:
        slot = (slot + 1) & most
    return slot


@kernel
def put_all(written, keys, starts, sizes):  # type: ignore[no-untyped-def]
    """Puts texts into a table that has room for them."""
    for k in range(keys.size):
        slot = slot_of(written, keys[k])
        written.keys[slot], written.starts[slot], written.sizes[slot] = keys[k], starts[k], sizes[k]
    written.used[0] += keys.size


@kernel
def find_texts(uses, positions, styles, firsts, written, slots):  # type: ignore[no-untyped-def]
    """The slot of each gap's text, or NULL_TEXT or PSEUDONYM; how many are to be written, or CROWDED: no more room.

    uses: (g,) int64 (``Work.gap_uses``); positions, styles: of every attribute's values, (m,) int64, those of attribute
    a from ``firsts[a]`` on; a position below 0 is null.
    """
    total, missing = firsts.size, 0
    for gap in range(uses.size):
        use = uses[gap]
        if use < 0:
            slots[gap] = PSEUDONYM
            continue
        owner = use >> GAP_SHIFT
        attribute = owner % total
        value = firsts[attribute] + owner // total
        if positions[value] < 0:
            slots[gap] = NULL_TEXT
            continue
        style = use & STYLE if use & KIND else styles[value]
        label = 1 if use & LABEL_GAP else 0
        key = ((2 * attribute + label) << OWNER_SHIFT) | (positions[value] << STYLE_BITS) | style
        slot = slot_of(written, key)
        if written.keys[slot] == EMPTY:
            if 2 * (written.used[0] + 1) > written.keys.size:
                return CROWDED
            written.keys[slot], written.sizes[slot] = key, -1
            written.used[0] += 1
            written.missing[missing] = slot
            missing += 1
        slots[gap] = slot
    return missing


@inlined
def size_of(slots, sizes, gap):  # type: ignore[no-untyped-def]
    """How many bytes fill a gap."""
    slot = slots[gap]
    return sizes[slot] if slot >= 0 else 4 if slot == NULL_TEXT else DIGITS + 2


@kernel
def measure_all(ends, slots, sizes, bounds):  # type: ignore[no-untyped-def]
    """Where each filled record begins, and the last ends: ``bounds``, (n + 1,) int64."""
    bounds[0] = 0
    for i in range(bounds.size - 1):
        size = ends[i + 1, 0] - ends[i, 0]
        for gap in range(ends[i, 1], ends[i + 1, 1]):
            size += size_of(slots, sizes, gap)
        bounds[i + 1] = bounds[i] + size


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


@kernel
def fill_all(data, work, slots, written, bounds, key, empty):  # type: ignore[no-untyped-def]
    """(bounds[-1],) uint8: every record with its gaps filled."""
    out = np.empty(bounds[-1], np.uint8)
    state, block = np.empty(8, np.uint64), np.empty(BLOCK, np.uint8)
    words = block.view(np.uint64)
    at, to = work.ends[0, 0], 0
    for gap in range(slots.size):
        slot = slots[gap]
        while at < work.gap_places[gap]:
            out[to] = work.out[at]
            at += 1
            to += 1
        if slot >= 0:
            for k in range(written.sizes[slot]):
                out[to + k] = written.texts[written.starts[slot] + k]
            to += written.sizes[slot]
        elif slot == NULL_TEXT:
            out[to], out[to + 1], out[to + 2], out[to + 3] = 110, 117, 108, 108
            to += 4
        else:
            out[to], out[to + DIGITS + 1] = 34, 34
            start, size = -1 - work.gap_uses[gap], work.gap_sizes[gap]
            write_pseudonym(key, empty, state, block, words, data, start, size, out, to + 1)
            to += DIGITS + 2
    for rest in range(at, work.ends[bounds.size - 1, 0]):
        out[to] = work.out[rest]
        to += 1
    return out
