"""The cache of rendered codes and labels: bytes for the kernels, rendered by Python on first use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int64Array, UInt8Array
from stream_masker.core.numeric import Numeric
from stream_masker.pipeline.codec.attributes import AttributeCodec
from stream_masker.pipeline.codec.numbers import json_number
from stream_masker.pipeline.codec.scanner.render import (
    CACHE_FULL,
    EMPTY_SLOT,
    OWNER_SHIFT,
    RENDERED_KEY,
    RENDERED_SIZE,
    RENDERED_START,
    RenderArrays,
    empty_render_arrays,
    fill_in_missing,
    find_rendered_texts,
    put_all,
)
from stream_masker.pipeline.codec.scanner.tokens import PADDING

RENDER_FIRST_SLOTS: Final = 1 << 6
RENDER_MAX_SLOTS: Final = 1 << 22
"""A table of this size is emptied before the next batch: 2,000,000 texts, 120 MB."""

RENDER_BYTES_EACH: Final = 32


class RenderCache:
    """The rendered codes and labels. It is bounded: when it is full, it starts empty with the next batch."""

    def __init__(self, attributes: Sequence[AttributeCodec]) -> None:
        self._renderers = [texts for one in attributes for texts in (one.codes.texts, one.labels.texts)]
        self._filled = 0
        self.table = _empty_table()

    def locate(self, uses: Int64Array, values: Int64Array, firsts: Int64Array, numbers: Int64Array) -> Int64Array:
        """Start and size of the text of each placeholder (``find_rendered_texts``). Missing texts are rendered."""
        places = np.empty((len(uses), 2), np.int64)
        if len(self.table.rows) >= RENDER_MAX_SLOTS:
            self._filled, self.table = 0, _empty_table()
        while (missing := find_rendered_texts(uses, values, firsts, numbers, self.table, places)) == CACHE_FULL:
            rows = self.table.rows
            self._render(np.flatnonzero((rows[:, RENDERED_KEY] != EMPTY_SLOT) & (rows[:, RENDERED_SIZE] < 0)))
            self._grow()
        if missing:
            self._render(self.table.missing[:missing])
            fill_in_missing(self.table, places)
        return places

    def _grow(self) -> None:
        old = self.table
        self.table = empty_render_arrays(2 * len(old.rows), 0)._replace(texts=old.texts)
        put_all(self.table, old.rows[old.rows[:, RENDERED_KEY] != EMPTY_SLOT])

    def _render(self, slots: Int64Array) -> None:
        """Renders the texts of some slots, and appends them to the table's texts."""
        rows = self.table.rows
        slots = slots[np.argsort(rows[slots, RENDERED_KEY])]
        texts = self._texts(rows[slots, RENDERED_KEY])
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        appended = np.frombuffer(b"".join(texts), np.uint8)
        self._make_room(len(appended))
        self.table.texts[self._filled : self._filled + len(appended)] = appended
        rows[slots, RENDERED_START] = self._filled + np.cumsum(sizes) - sizes
        rows[slots, RENDERED_SIZE] = sizes
        self._filled += len(appended)

    def _texts(self, keys: Int64Array) -> list[bytes]:
        """The text of each key. The keys are ascending."""
        owners, kept = np.divmod(keys, 1 << OWNER_SHIFT)
        bounds = np.searchsorted(owners, np.arange(len(self._renderers) + 1)).tolist()
        slices = zip(self._renderers, pairwise(bounds), strict=True)
        return [text for texts, (start, end) in slices for text in texts(kept[start:end].tolist())]

    def _make_room(self, size: int) -> None:
        texts = self.table.texts
        if self._filled + size + PADDING > len(texts):
            grown = np.concatenate([texts, np.zeros(max(size, len(texts)), np.uint8)])
            self.table = self.table._replace(texts=grown)


def _empty_table() -> RenderArrays:
    return empty_render_arrays(RENDER_FIRST_SLOTS, RENDER_FIRST_SLOTS * RENDER_BYTES_EACH)


def number_texts(numbers: Float64Array | None, kinds: Sequence[Numeric]) -> tuple[Int64Array, UInt8Array]:
    """The texts of numbers, (n, q): (q, n, 2) int64, start and size of each text; and the bytes of all texts."""
    columns = [] if numbers is None else numbers.T.tolist()
    texts = [[json_number(value, kind) for value in column] for column, kind in zip(columns, kinds, strict=True)]
    flat = [text for column in texts for text in column]
    sizes = np.fromiter(map(len, flat), np.int64, len(flat))
    places = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)
    records = 0 if numbers is None else len(numbers)
    return places.reshape(len(columns), records, 2), np.frombuffer(b"".join(flat) + bytes(PADDING), np.uint8)
