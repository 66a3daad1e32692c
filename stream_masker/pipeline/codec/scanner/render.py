"""The second pass: the written records of a batch are completed with the texts of their placeholders."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stream_masker.core.dtypes import Int64Array, Int64Cube, Int64Matrix, UInt8Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.pipeline.codec.attributes import LABEL_PLACEHOLDER, PLACEHOLDER_SHIFT
from stream_masker.pipeline.codec.scanner.buffers import INPUT_SHIFT, ScanBuffers
from stream_masker.pipeline.codec.scanner.tokens import COMMA, LIST_CLOSES, LIST_OPENS, PADDING, copy_bytes
from stream_masker.pipeline.pseudonyms import PSEUDONYM_DIGITS

NULL_TEXT, PSEUDONYM, UNRENDERED = -1, -2, -3
"""Start of a placeholder's text if it is null, a pseudonym, or (minus a row) not yet rendered."""

NUMBER_TEXT: Final = 1 << 40
"""Added to the starts of numbers' texts."""

RENDERED_START, RENDERED_SIZE = range(2)
"""Columns of ``RenderArrays.rows``."""


class RenderArrays(NamedTuple):
    """The rendered codes and labels.

    ``rows``: two for each concept, its code and its label, those of nominal attribute a from ``first_rows[a]`` on;
    RENDERED_START and RENDERED_SIZE of the text in ``texts``, size 0 for one that is not yet rendered.
    """

    rows: Int64Matrix
    first_rows: Int64Array
    texts: UInt8Array


@kernel
def find_rendered_texts(
    uses: Int64Array,
    positions: Int64Array,
    firsts: Int64Array,
    numbers: Int64Cube,
    rendered: RenderArrays,
    places: Int64Matrix,
    missing: Int64Array,
) -> int:
    """Find the text of each placeholder, and fill in ``places``. Return how many texts must be rendered first.

    uses: (g,), as ``ScanBuffers.placeholder_uses``; positions: (m,), of the masked concepts (negative: null), those of
    nominal attribute a from ``firsts[a]`` on; numbers: (q, n, 2), start and size of the text of each number; places:
    (g, 2), start, which is NULL_TEXT, PSEUDONYM, UNRENDERED - row, NUMBER_TEXT + start or a start in the rendered
    texts, and size (not those of transformed values and rewritten numbers); missing: (g,), filled with the rows to
    render, some of them several times.
    """
    nominal, requested = firsts.size, 0
    total = nominal + numbers.shape[0]
    for i in range(uses.size):
        use = uses[i]
        if use < 0:
            is_pseudonym = -1 - use >> INPUT_SHIFT == 0
            places[i, 0] = PSEUDONYM if is_pseudonym else NUMBER_TEXT
            places[i, 1] = PSEUDONYM_DIGITS + 2 if is_pseudonym else 0
            continue
        owner = use >> PLACEHOLDER_SHIFT
        attribute = owner % total
        if attribute >= nominal:
            number = numbers[attribute - nominal, owner // total]
            places[i, 0], places[i, 1] = NUMBER_TEXT + number[0], number[1]
            continue
        position = positions[firsts[attribute] + owner // total]
        if position < 0:
            places[i, 0], places[i, 1] = NULL_TEXT, 4
            continue
        row = rendered.first_rows[attribute] + 2 * position + (use & LABEL_PLACEHOLDER)
        places[i, 0], places[i, 1] = rendered.rows[row, RENDERED_START], rendered.rows[row, RENDERED_SIZE]
        if places[i, 1] == 0:
            places[i, 0], missing[requested] = UNRENDERED - row, row
            requested += 1
    return requested


@kernel
def fill_in_missing(rendered: RenderArrays, places: Int64Matrix) -> None:
    """Fill in the texts that ``find_rendered_texts`` found unrendered and that have been rendered since."""
    for i in range(places.shape[0]):
        if places[i, 0] <= UNRENDERED:
            row = UNRENDERED - places[i, 0]
            places[i, 0], places[i, 1] = rendered.rows[row, RENDERED_START], rendered.rows[row, RENDERED_SIZE]


@kernel
def measure_all(ends: Int64Matrix, places: Int64Matrix, bounds: Int64Array) -> None:
    """Fill in ``bounds``, (n + 1,): the start of each completed record, and the end of the last one."""
    bounds[0] = 0
    for i in range(bounds.size - 1):
        size = ends[i + 1, 0] - ends[i, 0]
        for k in range(ends[i, 1], ends[i + 1, 1]):
            size += places[k, 1]
        bounds[i + 1] = bounds[i] + size


@kernel
def join_numbers(data: UInt8Array, starts: Int64Array, sizes: Int64Array) -> UInt8Array:
    """Return a JSON list of numbers that are slices of ``data``. ``PADDING`` more bytes must follow the last one."""
    out = np.empty(sizes.sum() + sizes.size + 1 + PADDING, np.uint8)
    to = 0
    for i in range(starts.size):
        out[to] = COMMA
        to = copy_bytes(data, starts[i], sizes[i], out, to + 1)
    out[0], out[to] = LIST_OPENS, LIST_CLOSES
    return out[: to + 1]


@kernel
def render_all(
    buffers: ScanBuffers, places: Int64Matrix, texts: UInt8Array, numbers: UInt8Array, pseudonyms: UInt8Array, size: int
) -> UInt8Array:
    """Return (size + PADDING,) uint8: the completed records, one after another.

    places: of the texts of all placeholders; texts, numbers: the bytes that they are in; pseudonyms:
    ``PSEUDONYM_DIGITS`` bytes for each pseudonym, in the order of the placeholders.
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
            out[to], out[to + PSEUDONYM_DIGITS + 1] = 34, 34
            for k in range(PSEUDONYM_DIGITS):
                out[to + 1 + k] = pseudonyms[pseudonym + k]
            pseudonym += PSEUDONYM_DIGITS
            to += PSEUDONYM_DIGITS + 2
    copy_bytes(buffers.out, at, size - to, out, to)
    return out
