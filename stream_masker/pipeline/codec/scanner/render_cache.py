"""Codes and labels as they are written, kept as bytes for the kernels and written by Python on first use."""

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
    CROWDED,
    EMPTY,
    KEY,
    OWNER_SHIFT,
    SIZE,
    START,
    empty_render_arrays,
    find_rendered_texts,
    place_missing,
    put_all,
)
from stream_masker.pipeline.codec.scanner.tokens import PADDING

RENDER_FIRST_SLOTS: Final = 1 << 6
RENDER_MAX_SLOTS: Final = 1 << 22
"""Beyond it everything is written anew: 2,000,000 texts, 120 MB of tables."""

RENDER_BYTES_EACH: Final = 32


class RenderCache:
    """Every text that was written so far, up to a bound; it starts anew with a batch when it is full."""

    def __init__(self, attributes: Sequence[AttributeCodec]) -> None:
        self._writers = [writer for one in attributes for writer in (one.codes.texts, one.labels.texts)]
        self._filled = 0
        self.table = empty_render_arrays(RENDER_FIRST_SLOTS, RENDER_FIRST_SLOTS * RENDER_BYTES_EACH)

    def places(self, uses: Int64Array, values: Int64Array, firsts: Int64Array, numbers: Int64Array) -> Int64Array:
        """Where each gap's text stands (``fill.find_texts``); every text is there afterwards."""
        places = np.empty((len(uses), 2), np.int64)
        if len(self.table.rows) >= RENDER_MAX_SLOTS:
            self._start_anew()
        while (missing := find_rendered_texts(uses, values, firsts, numbers, self.table, places)) == CROWDED:
            rows = self.table.rows
            self._write(np.flatnonzero((rows[:, KEY] != EMPTY) & (rows[:, SIZE] < 0)))
            self._grow()
        if missing:
            self._write(self.table.missing[:missing])
            place_missing(self.table, places)
        return places

    def _start_anew(self) -> None:
        self._filled = 0
        self.table = empty_render_arrays(RENDER_FIRST_SLOTS, RENDER_FIRST_SLOTS * RENDER_BYTES_EACH)

    def _grow(self) -> None:
        old = self.table
        self.table = empty_render_arrays(2 * len(old.rows), 0)._replace(texts=old.texts)
        put_all(self.table, old.rows[old.rows[:, KEY] != EMPTY])

    def _write(self, slots: Int64Array) -> None:
        rows = self.table.rows
        slots = slots[np.argsort(rows[slots, KEY])]
        texts = self._texts(rows[slots, KEY])
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        whole = np.frombuffer(b"".join(texts), np.uint8)
        self._make_room(len(whole))
        self.table.texts[self._filled : self._filled + len(whole)] = whole
        rows[slots, START] = self._filled + np.cumsum(sizes) - sizes
        rows[slots, SIZE] = sizes
        self._filled += len(whole)

    def _texts(self, keys: Int64Array) -> list[bytes]:
        """What each of some keys, ascending, stands for."""
        owners, what = np.divmod(keys, 1 << OWNER_SHIFT)
        bounds = np.searchsorted(owners, np.arange(len(self._writers) + 1)).tolist()
        parts = zip(self._writers, pairwise(bounds), strict=True)
        return [text for writer, (start, end) in parts for text in writer(what[start:end].tolist())]

    def _make_room(self, more: int) -> None:
        texts = self.table.texts
        if self._filled + more + PADDING > len(texts):
            grown = np.concatenate([texts, np.zeros(max(more, len(texts)), np.uint8)])
            self.table = self.table._replace(texts=grown)


def number_texts(numbers: Float64Array | None, kinds: Sequence[Numeric]) -> tuple[Int64Array, UInt8Array]:
    """(q, n, 2) int64: where the text of each number stands, start and size; and the texts. numbers: (n, q)."""
    columns = [] if numbers is None else numbers.T.tolist()
    texts = [[json_number(value, kind) for value in column] for column, kind in zip(columns, kinds, strict=True)]
    flat = [text for column in texts for text in column]
    sizes = np.fromiter(map(len, flat), np.int64, len(flat))
    places = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)
    records = 0 if numbers is None else len(numbers)
    return places.reshape(len(columns), records, 2), np.frombuffer(b"".join(flat) + bytes(PADDING), np.uint8)
