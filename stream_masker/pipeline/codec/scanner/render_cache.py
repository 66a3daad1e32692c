"""The rendered codes and labels of attributes: bytes for the kernels, rendered by Python on first use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import orjson

from stream_masker.core.dtypes import Float64Array, Int64Array, UInt8Array
from stream_masker.core.numeric import Numeric
from stream_masker.pipeline.codec.attributes import AttributeCodec
from stream_masker.pipeline.codec.numbers import json_number
from stream_masker.pipeline.codec.scanner.render import (
    RENDERED_SIZE,
    RENDERED_START,
    RenderArrays,
    fill_in_missing,
    find_rendered_texts,
    join_numbers,
)
from stream_masker.pipeline.codec.scanner.tokens import COMMA, PADDING

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
