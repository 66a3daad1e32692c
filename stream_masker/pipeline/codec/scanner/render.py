"""The second pass: the written records of a batch are completed with the texts of their placeholders.

The texts of codes and labels are rendered once and kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import orjson

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, Int64Cube, Int64Matrix, UInt8Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.numeric import Numeric
from stream_masker.pipeline.codec.attributes import LABEL_PLACEHOLDER, PLACEHOLDER_SHIFT, AttributeCodec
from stream_masker.pipeline.codec.numbers import json_number
from stream_masker.pipeline.codec.scanner.buffers import (
    FIRST_TRANSFORM_KIND,
    INPUT_SHIFT,
    ScanBuffers,
    slices_of,
    transformed_places,
)
from stream_masker.pipeline.codec.scanner.tokens import COMMA, LIST_CLOSES, LIST_OPENS, PADDING, copy_bytes
from stream_masker.pipeline.pseudonyms import PSEUDONYM_DIGITS
from stream_masker.pipeline.transforms import DROPPED, FieldTransform, TransformContext

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


RENDER_FIRST_BYTES: Final = 2048


class RenderCache:
    """The rendered codes and labels in the attributes' present styles, at most one text each for every concept.

    The memory of ``rows``, 32 bytes for a concept, is used only where concepts occur.
    """

    def __init__(self, attributes: Sequence[AttributeCodec]) -> None:
        self._attributes = attributes
        sizes = [2 * len(attribute.plan.concepts.taxonomy) for attribute in attributes]
        self._bounds = np.cumsum([0, *sizes])
        self._filled = 0
        self.table = RenderArrays(
            np.zeros((int(self._bounds[-1]), 2), np.int64), self._bounds[:-1], np.zeros(RENDER_FIRST_BYTES, np.uint8)
        )

    def locate(self, uses: Int64Array, positions: Int64Array, firsts: Int64Array, numbers: Int64Array) -> Int64Array:
        """Return start and size of the text of each placeholder (``find_rendered_texts``). Missing texts are
        rendered."""
        places, missing = np.empty((len(uses), 2), np.int64), np.empty(len(uses), np.int64)
        requested = find_rendered_texts(uses, positions, firsts, numbers, self.table, places, missing)
        if requested:
            self._render(np.unique(missing[:requested]))
            fill_in_missing(self.table, places)
        return places

    def _render(self, rows: Int64Array) -> None:
        """Render the texts of some rows, ascending, and append them to the table's texts."""
        texts = self._texts(rows)
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        appended = np.frombuffer(b"".join(texts), np.uint8)
        self._make_room(len(appended))
        self.table.texts[self._filled : self._filled + len(appended)] = appended
        self.table.rows[rows, RENDERED_START] = self._filled + np.cumsum(sizes) - sizes
        self.table.rows[rows, RENDERED_SIZE] = sizes
        self._filled += len(appended)

    def _texts(self, rows: Int64Array) -> list[bytes]:
        """Return the text of each row. The rows are ascending."""
        bounds = pairwise(np.searchsorted(rows, self._bounds).tolist())
        texts: list[bytes] = []
        for attribute, first, (start, end) in zip(self._attributes, self._bounds[:-1], bounds, strict=True):
            texts += _attribute_texts(attribute, rows[start:end] - first)
        return texts

    def _make_room(self, size: int) -> None:
        texts = self.table.texts
        if self._filled + size + PADDING > len(texts):
            grown = np.concatenate([texts, np.zeros(max(size + PADDING, len(texts)), np.uint8)])
            self.table = self.table._replace(texts=grown)


def _attribute_texts(attribute: AttributeCodec, rows: Int64Array) -> list[bytes]:
    """Return the texts of one attribute: of concept k, the code in row 2 k and the label in row 2 k + 1."""
    positions, is_label = np.divmod(rows, 2)
    codes = iter(attribute.codes.texts(positions[is_label == 0].tolist()))
    labels = iter(attribute.labels.texts(positions[is_label == 1].tolist()))
    return [next(labels if label else codes) for label in is_label.tolist()]


def rewritten_numbers(data: UInt8Array, starts: Int64Array, sizes: Int64Array) -> tuple[Int64Array, bytes]:
    """Return the texts of n ≥ 1 numbers as the encoder writes them: (n, 2) int64, start and size of each; and the
    texts.

    The numbers are slices of ``data``. All of them are decoded and encoded in one call.
    """
    joined = orjson.dumps(orjson.loads(join_numbers(data, starts, sizes).data))
    commas = np.flatnonzero(np.frombuffer(joined, np.uint8) == COMMA)
    bounds = np.concatenate([[0], commas, [len(joined) - 1]])
    return np.stack([bounds[:-1] + 1, np.diff(bounds) - 1], axis=1), joined


def number_texts(numbers: Float64Array | None, kinds: Sequence[Numeric]) -> tuple[Int64Array, UInt8Array]:
    """Return the texts of numbers, (n, q): (q, n, 2) int64, start and size of each text; and the bytes of all texts."""
    columns = [] if numbers is None else numbers.T.tolist()
    texts = [[json_number(value, kind) for value in column] for column, kind in zip(columns, kinds, strict=True)]
    flat = [text for column in texts for text in column]
    sizes = np.fromiter(map(len, flat), np.int64, len(flat))
    places = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)
    records = 0 if numbers is None else len(numbers)
    return places.reshape(len(columns), records, 2), np.frombuffer(b"".join(flat) + bytes(PADDING), np.uint8)


KEPT_TEXTS: Final = 1 << 14
"""The maximum number of texts that are kept for each transform: about 8 MB."""

KEPT_BYTES: Final = 128
"""The maximum size of a value, with the record's key, whose text is kept."""


class _Texts(dict[tuple[bytes, bytes], bytes | None]):
    """The text of each transformed value, by the record's key and the value's text; None for a value that is dropped.

    The key is empty if the transform needs none. Long values are not kept, so that a producer cannot fill the memory.
    """

    def __init__(self, transform: FieldTransform, context: TransformContext) -> None:
        super().__init__()
        self.has_key: Final = transform.key is not None
        self._transform = transform.prepared()
        self._context = context

    def __missing__(self, case: tuple[bytes, bytes]) -> bytes | None:
        key, text = case
        if self._transform.key is not None:
            self._context.keys = {self._transform.key: key}
        treated = self._transform.of_value(orjson.loads(text), self._context)
        result = None if treated is DROPPED else orjson.dumps(treated)
        if len(key) + len(text) <= KEPT_BYTES:
            if len(self) >= KEPT_TEXTS:
                self.clear()
            self[case] = result
        return result


class TransformedTexts:
    """The texts of the values that transforms replace, in the order of their placeholders."""

    def __init__(self, transforms: Sequence[FieldTransform], context: TransformContext) -> None:
        self._context = context
        self._texts = [_Texts(transform, context) for transform in transforms]

    def set_shared(self, shared: Mapping[str, Int32Array]) -> None:
        """Set what each concept becomes; see ``RecordCodec``."""
        self._context.shared = shared
        for texts in self._texts:
            texts.clear()

    def of_batch(
        self, data: bytes, buffers: ScanBuffers, keys: Sequence[bytes]
    ) -> tuple[Sequence[bytes | None], Int64Array]:
        """Return the text of each transformed value, and the decoded record that it belongs to, (m,) int64.

        data: the input; keys: the noise key of each decoded record, empty if there are none.
        """
        if not self._texts:
            return [], np.empty(0, np.int64)
        kinds, starts = slices_of(buffers.placeholder_uses[: buffers.placeholders])
        places = transformed_places(kinds)
        records = np.searchsorted(buffers.ends[: buffers.decoded + 1, 1], places, side="right") - 1
        numbers, starts = kinds[places] - FIRST_TRANSFORM_KIND, starts[places]
        ends = starts + buffers.placeholder_sizes[places]
        columns = (numbers.tolist(), records.tolist(), starts.tolist(), ends.tolist())
        texts = []
        for number, record, start, end in zip(*columns, strict=True):
            of_transform = self._texts[number]
            key = keys[record] if of_transform.has_key else b""
            texts.append(of_transform[key, data[start:end]])
        return texts, records
