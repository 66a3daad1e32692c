"""Second pass: what was written of a batch, with its gaps filled once the batch is masked."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stream_masker.core.dtypes import Int64Array, Int64Cube, Int64Matrix, UInt8Array
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.pipeline.codec.attributes import LABEL_PLACEHOLDER as LABEL_GAP
from stream_masker.pipeline.codec.attributes import PLACEHOLDER_KIND, PLACEHOLDER_SHIFT, STYLE
from stream_masker.pipeline.codec.scanner.buffers import ScanBuffers
from stream_masker.pipeline.codec.scanner.pseudonyms import DIGITS
from stream_masker.pipeline.codec.scanner.tokens import HASH_ROTATION, PADDING, PRIME, copied
from stream_masker.pipeline.style import STYLE_BITS

EMPTY: Final = -1
NULL_TEXT, PSEUDONYM, UNWRITTEN = -1, -2, -3
"""What fills a gap that no written text does."""

NUMBER_TEXT: Final = 1 << 40
"""What the starts of numbers' texts come after."""

OWNER_SHIFT: Final = 44
CROWDED: Final = -1

KEY, START, SIZE = range(3)
"""Columns of ``RenderArrays.rows``."""


class RenderArrays(NamedTuple):
    """An open hash table of written codes and labels.

    ``rows``, of each slot: KEY (EMPTY, or ``(2 · attribute + is label) << OWNER_SHIFT | position << STYLE_BITS |
    style``), and where the text stands in ``texts``: START and SIZE (-1: not yet written). ``missing``: slots that
    Python is to write; ``used``: (1,).
    """

    rows: Int64Matrix
    texts: UInt8Array
    missing: Int64Array
    used: Int64Array


def empty_render_arrays(slots: int, size: int) -> RenderArrays:
    """An empty table of so many slots (a power of two), and bytes of texts."""
    rows = np.full((slots, 3), EMPTY, np.int64)
    return RenderArrays(rows, np.zeros(size + PADDING, np.uint8), np.zeros(slots, np.int64), np.zeros(1, np.int64))


@inlined
def text_slot(written: RenderArrays, key: int) -> int:
    """The slot of a key, or the empty one for it."""
    most = written.rows.shape[0] - 1
    mixed = np.uint64(key) * PRIME
    slot = int64((mixed ^ (mixed >> HASH_ROTATION)) >> np.uint64(8)) & most
    while written.rows[slot, KEY] != EMPTY and written.rows[slot, KEY] != key:
        slot = (slot + 1) & most
    return slot


@kernel
def put_all(written: RenderArrays, rows: Int64Matrix) -> None:
    """Puts rows into a table that has room for them."""
    for k in range(rows.shape[0]):
        slot = text_slot(written, rows[k, KEY])
        for column in range(3):
            written.rows[slot, column] = rows[k, column]
    written.used[0] += rows.shape[0]


@kernel
def find_rendered_texts(
    uses: Int64Array,
    values: Int64Matrix,
    firsts: Int64Array,
    numbers: Int64Cube,
    written: RenderArrays,
    places: Int64Matrix,
) -> int:
    """Where each gap's text stands (``places``, (g, 2) int64: start and size); how many are to be written first.

    CROWDED: there is no more room. uses: (g,) int64 (``Work.gap_uses``); values: (m, 2) int64, positions (below 0:
    null) and styles, those of nominal attribute a from ``firsts[a]`` on; numbers: (q, n, 2) int64, where each number's
    text stands among those. Instead of a start stands NULL_TEXT, PSEUDONYM, UNWRITTEN - slot, or NUMBER_TEXT + start.
    """
    nominal, missing = firsts.size, 0
    total = nominal + numbers.shape[0]
    for gap in range(uses.size):
        use = uses[gap]
        if use < 0:
            places[gap, 0], places[gap, 1] = PSEUDONYM, DIGITS + 2
            continue
        owner = use >> PLACEHOLDER_SHIFT
        attribute = owner % total
        if attribute >= nominal:
            number = numbers[attribute - nominal, owner // total]
            places[gap, 0], places[gap, 1] = NUMBER_TEXT + number[0], number[1]
            continue
        value = firsts[attribute] + owner // total
        if values[value, 0] < 0:
            places[gap, 0], places[gap, 1] = NULL_TEXT, 4
            continue
        style = use & STYLE if use & PLACEHOLDER_KIND else values[value, 1]
        label = 1 if use & LABEL_GAP else 0
        key = ((2 * attribute + label) << OWNER_SHIFT) | (values[value, 0] << STYLE_BITS) | style
        slot = text_slot(written, key)
        if written.rows[slot, KEY] == EMPTY:
            if 2 * (written.used[0] + 1) > written.rows.shape[0]:
                return CROWDED
            written.rows[slot, KEY] = key
            written.used[0] += 1
            written.missing[missing] = slot
            missing += 1
        places[gap, 0], places[gap, 1] = written.rows[slot, START], written.rows[slot, SIZE]
        if places[gap, 1] < 0:
            places[gap, 0] = UNWRITTEN - slot
    return missing


@kernel
def place_missing(written: RenderArrays, places: Int64Matrix) -> None:
    """Tells gaps where their texts stand that were not written at first."""
    for gap in range(places.shape[0]):
        if places[gap, 1] < 0:
            slot = UNWRITTEN - places[gap, 0]
            places[gap, 0], places[gap, 1] = written.rows[slot, START], written.rows[slot, SIZE]


@kernel
def measure_all(ends: Int64Matrix, places: Int64Matrix, bounds: Int64Array) -> None:
    """Where each filled record begins, and the last ends: ``bounds``, (n + 1,) int64."""
    bounds[0] = 0
    for i in range(bounds.size - 1):
        size = ends[i + 1, 0] - ends[i, 0]
        for gap in range(ends[i, 1], ends[i + 1, 1]):
            size += places[gap, 1]
        bounds[i + 1] = bounds[i] + size


@kernel
def render_all(
    work: ScanBuffers, places: Int64Matrix, texts: UInt8Array, numbers: UInt8Array, pseudonyms: UInt8Array, size: int
) -> UInt8Array:
    """(size + PADDING,) uint8: every record with its gaps filled, one after another.

    numbers: the numbers' texts; pseudonyms: those of all gaps that have one, in the gaps' order, ``DIGITS`` each.
    """
    out = np.empty(size + PADDING, np.uint8)
    at, to, pseudonym = 0, 0, 0
    for gap in range(places.shape[0]):
        to = copied(work.out, at, work.gap_places[gap] - at, out, to)
        at = work.gap_places[gap]
        start = places[gap, 0]
        if start >= NUMBER_TEXT:
            to = copied(numbers, start - NUMBER_TEXT, places[gap, 1], out, to)
        elif start >= 0:
            to = copied(texts, start, places[gap, 1], out, to)
        elif start == NULL_TEXT:
            out[to], out[to + 1], out[to + 2], out[to + 3] = 110, 117, 108, 108
            to += 4
        else:
            out[to], out[to + DIGITS + 1] = 34, 34
            for k in range(DIGITS):
                out[to + 1 + k] = pseudonyms[pseudonym + k]
            pseudonym += DIGITS
            to += DIGITS + 2
    copied(work.out, at, size - to, out, to)
    return out
