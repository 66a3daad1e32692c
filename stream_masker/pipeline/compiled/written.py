"""Codes and labels as they are written, kept as bytes for the kernels and written by Python on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stream_masker.pipeline.attributes import Attribute
from stream_masker.pipeline.compiled.fill import (
    CROWDED,
    EMPTY,
    OWNER_SHIFT,
    Longs,
    find_texts,
    nothing_written,
    put_all,
)

FIRST_SLOTS: Final = 1 << 12
MOST_SLOTS: Final = 1 << 22
"""Beyond it everything is written anew: 2,000,000 texts, 120 MB of tables."""

BYTES_EACH: Final = 32


class WrittenTexts:
    """Every text that was written so far, up to a bound; it starts anew with a batch when it is full."""

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        self._writers = [writer for one in attributes for writer in (one.codes.text, one.labels.text)]
        self._filled = 0
        self.table = nothing_written(FIRST_SLOTS, FIRST_SLOTS * BYTES_EACH)

    def slots(self, uses: Longs, positions: Longs, styles: Longs, firsts: Longs) -> Longs:
        """The slot of each gap's text (``fill.find_texts``); every text is there afterwards."""
        slots = np.empty(len(uses), np.int64)
        if self.table.keys.size >= MOST_SLOTS:
            self._start_anew()
        while (missing := find_texts(uses, positions, styles, firsts, self.table, slots)) == CROWDED:
            self._write(np.flatnonzero((self.table.keys != EMPTY) & (self.table.sizes < 0)))
            self._grow()
        self._write(self.table.missing[:missing])
        return slots

    def _start_anew(self) -> None:
        self._filled = 0
        self.table = nothing_written(FIRST_SLOTS, FIRST_SLOTS * BYTES_EACH)

    def _grow(self) -> None:
        old = self.table
        there = np.flatnonzero(old.keys != EMPTY)
        self.table = nothing_written(2 * old.keys.size, 1)._replace(texts=old.texts)
        put_all(self.table, old.keys[there], old.starts[there], old.sizes[there])

    def _write(self, slots: Longs) -> None:
        texts = [self._text(int(key)) for key in self.table.keys[slots]]
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        whole = np.frombuffer(b"".join(texts), np.uint8)
        self._make_room(len(whole))
        self.table.texts[self._filled : self._filled + len(whole)] = whole
        self.table.starts[slots] = self._filled + np.cumsum(sizes) - sizes
        self.table.sizes[slots] = sizes
        self._filled += len(whole)

    def _text(self, key: int) -> bytes:
        owner, what = divmod(key, 1 << OWNER_SHIFT)
        return self._writers[owner](what)

    def _make_room(self, more: int) -> None:
        texts = self.table.texts
        if self._filled + more > len(texts):
            grown = np.concatenate([texts, np.zeros(max(more, len(texts)), np.uint8)])
            self.table = self.table._replace(texts=grown)
