"""The second pass: the written records of a batch are completed with the texts of their placeholders."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stream_masker.core.dtypes import Int64Array, Int64Cube, Int64Matrix, UInt8Array
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.pipeline.codec.attributes import LABEL_PLACEHOLDER, PLACEHOLDER_KIND, PLACEHOLDER_SHIFT, STYLE
from stream_masker.pipeline.codec.scanner.buffers import ScanBuffers
from stream_masker.pipeline.codec.scanner.pseudonyms import DIGITS
from stream_masker.pipeline.codec.scanner.tokens import HASH_ROTATION, PADDING, PRIME, copy_bytes
from stream_masker.pipeline.style import STYLE_BITS

EMPTY_SLOT: Final = -1
NULL_TEXT, PSEUDONYM, UNRENDERED = -1, -2, -3
"""Start of a placeholder's text that is null, a pseudonym, or (minus a slot) not yet rendered."""

NUMBER_TEXT: Final = 1 << 40
"""Added to the starts of numbers' texts."""

OWNER_SHIFT: Final = 44
CACHE_FULL: Final = -1

RENDERED_KEY, RENDERED_START, RENDERED_SIZE = range(3)
"""Columns of ``RenderArrays.rows``."""


class RenderArrays(NamedTuple):
    """An open hash table of rendered codes and labels.

    ``rows``, by slot: RENDERED_KEY, EMPTY_SLOT or ``(2 · attribute + is label) << OWNER_SHIFT | position << STYLE_BITS
    | style``; RENDERED_START and RENDERED_SIZE of the text in ``texts``, size -1 for one that is not yet rendered.
    ``missing``: slots that Python must render; ``used``: (1,), the number of rows.
    """

    rows: Int64Matrix
    texts: UInt8Array
    missing: Int64Array
    used: Int64Array


def empty_render_arrays(slots: int, size: int) -> RenderArrays:
    """An empty table with room for ``slots`` rows (a power of two) and ``size`` bytes."""
    rows = np.full((slots, 3), EMPTY_SLOT, np.int64)
    return RenderArrays(rows, np.zeros(size + PADDING, np.uint8), np.zeros(slots, np.int64), np.zeros(1, np.int64))


@inlined
def text_slot(rendered: RenderArrays, key: int) -> int:
    """The slot of a key, or the empty slot for it."""
    last = rendered.rows.shape[0] - 1
    mixed = np.uint64(key) * PRIME
    slot = int64((mixed ^ (mixed >> HASH_ROTATION)) >> np.uint64(8)) & last
    while rendered.rows[slot, RENDERED_KEY] != EMPTY_SLOT and rendered.rows[slot, RENDERED_KEY] != key:
        slot = (slot + 1) & last
    return slot


@kernel
def put_all(rendered: RenderArrays, rows: Int64Matrix) -> None:
    """Puts rows into a table that has room for them."""
    for k in range(rows.shape[0]):
        slot = text_slot(rendered, rows[k, RENDERED_KEY])
        for column in range(3):
            rendered.rows[slot, column] = rows[k, column]
    rendered.used[0] += rows.shape[0]


@kernel
def find_rendered_texts(
    uses: Int64Array,
    values: Int64Matrix,
    firsts: Int64Array,
    numbers: Int64Cube,
    rendered: RenderArrays,
    places: Int64Matrix,
) -> int:
    """Finds the text of each placeholder, and fills in ``places``. Returns how many must be rendered first.

    CACHE_FULL: the table has no more room. uses: (g,), as ``ScanBuffers.placeholder_uses``; values: (m, 2), positions
    (negative: null) and styles, those of nominal attribute a from ``firsts[a]`` on; numbers: (q, n, 2), start and size
    of the text of each number; places: (g, 2), start, which is NULL_TEXT, PSEUDONYM, UNRENDERED - slot, NUMBER_TEXT +
    start or a start in the table's texts, and size.
    """
    nominal, missing = firsts.size, 0
    total = nominal + numbers.shape[0]
    for i in range(uses.size):
        use = uses[i]
        if use < 0:
            places[i, 0], places[i, 1] = PSEUDONYM, DIGITS + 2
            continue
        owner = use >> PLACEHOLDER_SHIFT
        attribute = owner % total
        if attribute >= nominal:
            number = numbers[attribute - nominal, owner // total]
            places[i, 0], places[i, 1] = NUMBER_TEXT + number[0], number[1]
            continue
        value = firsts[attribute] + owner // total
        if values[value, 0] < 0:
            places[i, 0], places[i, 1] = NULL_TEXT, 4
            continue
        style = use & STYLE if use & PLACEHOLDER_KIND else values[value, 1]
        label = 1 if use & LABEL_PLACEHOLDER else 0
        key = ((2 * attribute + label) << OWNER_SHIFT) | (values[value, 0] << STYLE_BITS) | style
        slot = text_slot(rendered, key)
        if rendered.rows[slot, RENDERED_KEY] == EMPTY_SLOT:
            if 2 * (rendered.used[0] + 1) > rendered.rows.shape[0]:
                return CACHE_FULL
            rendered.rows[slot, RENDERED_KEY] = key
            rendered.used[0] += 1
            rendered.missing[missing] = slot
            missing += 1
        places[i, 0], places[i, 1] = rendered.rows[slot, RENDERED_START], rendered.rows[slot, RENDERED_SIZE]
        if places[i, 1] < 0:
            places[i, 0] = UNRENDERED - slot
    return missing


@kernel
def fill_in_missing(rendered: RenderArrays, places: Int64Matrix) -> None:
    """Fills in the texts that ``find_rendered_texts`` found unrendered, and that have been rendered since."""
    for i in range(places.shape[0]):
        if places[i, 1] < 0:
            slot = UNRENDERED - places[i, 0]
            places[i, 0], places[i, 1] = rendered.rows[slot, RENDERED_START], rendered.rows[slot, RENDERED_SIZE]


@kernel
def measure_all(ends: Int64Matrix, places: Int64Matrix, bounds: Int64Array) -> None:
    """Fills in ``bounds``, (n + 1,): where each completed record begins, and the last one ends."""
    bounds[0] = 0
    for i in range(bounds.size - 1):
        size = ends[i + 1, 0] - ends[i, 0]
        for k in range(ends[i, 1], ends[i + 1, 1]):
            size += places[k, 1]
        bounds[i + 1] = bounds[i] + size


@kernel
def render_all(
    buffers: ScanBuffers, places: Int64Matrix, texts: UInt8Array, numbers: UInt8Array, pseudonyms: UInt8Array, size: int
) -> UInt8Array:
    """(size + PADDING,) uint8: the completed records, one after another.

    places: of the texts of all placeholders; texts, numbers: the bytes that they are in; pseudonyms: ``DIGITS`` bytes
    for each pseudonym, in the order of the placeholders.
    """
    out = np.empty(size + PADDING, np.uint8)
    at, to, pseudonym = 0, 0, 0
    for i in range(places.shape[0]):
        to = copy_bytes(buffers.out, at, buffers.placeholder_starts[i] - at, out, to)
        at = buffers.placeholder_starts[i]
        start = places[i, 0]
        if start >= NUMBER_TEXT:
            to = copy_bytes(numbers, start - NUMBER_TEXT, places[i, 1], out, to)
        elif start >= 0:
            to = copy_bytes(texts, start, places[i, 1], out, to)
        elif start == NULL_TEXT:
            out[to], out[to + 1], out[to + 2], out[to + 3] = 110, 117, 108, 108
            to += 4
        else:
            out[to], out[to + DIGITS + 1] = 34, 34
            for k in range(DIGITS):
                out[to + 1 + k] = pseudonyms[pseudonym + k]
            pseudonym += DIGITS
            to += DIGITS + 2
    copy_bytes(buffers.out, at, size - to, out, to)
    return out
