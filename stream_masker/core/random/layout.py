"""The layout of random words: which words of a record are those of which value.

With p attributes, element k of attribute j (a scalar has element 0) has slot s = j + k · p. Slot s is half s mod 2 of
word block s // 2: four words, two for its normal variate, one for the rounding, one for ties. So the words of a value
depend on its record, its attribute and its index alone, not on other values of the record or on the batch.

A word block is drawn in one call for all records. The words of elements from ``FIRST_STREAMED`` on come from a stream
of their record instead, so that a very long array does not cost a call for every two of its elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stream_masker.core.arrays import frozen_array
from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int64Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.random.keys import Keys, stream_words

NORMAL = slice(0, 2)
ROUNDING_WORD = 2
TIES = 3

WORDS_PER_BLOCK = 8
"""Words of a word block."""

FIRST_STREAMED = 32
"""The first element of an array whose words come from a stream."""


@dataclass(frozen=True, slots=True)
class WordLayout:
    """A kind of words: ``width`` words for each slot, in the word blocks from ``first`` on.

    Word block ``streams`` + j seeds the streams of attribute j.
    """

    width: int
    first: int
    streams: int

    @property
    def slots(self) -> int:
        """The number of slots in a word block."""
        return WORDS_PER_BLOCK // self.width

    def start(self, slot: int) -> int:
        """The index of the first word of a slot in its word block."""
        return self.width * (slot % self.slots)

    def of(self, words: UInt64Array, slot: int) -> UInt64Array:
        """(n, width) the words of a slot, given the (n, 8) words of its word block."""
        return words[:, self.start(slot) : self.start(slot) + self.width]

    def block(self, slot: int) -> int:
        """The word block of a slot."""
        return self.first + slot // self.slots


VALUES = WordLayout(width=4, first=0, streams=1 << 62)
"""Four words for each value: ``NORMAL``, ``ROUNDING_WORD``, ``TIES``."""

EXPONENTIALS = WordLayout(width=1, first=1 << 63, streams=(1 << 63) + (1 << 62))
"""One more word for each value, for the exponential variates of Laplace noise."""


def draw_words(keys: Keys, batch: Batch, layout: WordLayout = VALUES) -> list[UInt64Array]:
    """For each column of k values, absent scalars included, their (k, width) uint64 words."""
    scalars = _scalar_words(keys, batch, layout)
    return [
        scalars[j] if column.offsets is None else _element_words(keys, j, batch, column.offsets, layout)
        for j, column in enumerate(batch.columns)
    ]


def record_words(keys: Keys) -> UInt64Array:
    """(n,) uint64: the word of the first slot of ``EXPONENTIALS`` of each record, for draws that its values share."""
    return keys.words(EXPONENTIALS.first)[:, 0]


def _scalar_words(keys: Keys, batch: Batch, layout: WordLayout) -> dict[int, UInt64Array]:
    """The words of the scalar columns. Each word block is drawn once."""
    scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
    blocks = {block: keys.words(block) for block in sorted({layout.block(j) for j in scalars})}
    return {j: layout.of(blocks[layout.block(j)], j) for j in scalars}


def _element_words(keys: Keys, j: int, batch: Batch, offsets: Int64Array, layout: WordLayout) -> UInt64Array:
    """The words of the elements of an array column. Each word block is drawn for the records with enough elements."""
    lengths = np.diff(offsets)
    words = np.empty((int(offsets[-1]), layout.width), np.uint64)
    slots = [j + k * len(batch.columns) for k in range(min(int(lengths.max(initial=0)), FIRST_STREAMED))]
    for block, elements in _by_block(slots, layout):
        rows = np.flatnonzero(lengths > elements[0])
        found = frozen_array(keys.words(block, None if rows.size == len(keys) else rows))
        for k in elements:
            put_words(words, offsets, rows, k, found, layout.start(slots[k]))
    _fill_streamed(words, keys, layout.streams + j, offsets)
    return words


@kernel
def put_words(
    words: UInt64Matrix, offsets: Int64Array, rows: Int64Array, k: int, found: UInt64Matrix, start: int
) -> None:
    """Copies the words of element k of some records: row i of ``found``, from column ``start`` on, to record
    ``rows[i]``.

    words: (elements, width). offsets: the elements of record i are offsets[i] … offsets[i + 1] - 1. Records with no
    element k are skipped.
    """
    for i in range(rows.size):
        at = offsets[rows[i]] + k
        if at < offsets[rows[i] + 1]:
            for column in range(words.shape[1]):
                words[at, column] = found[i, start + column]


def _by_block(slots: list[int], layout: WordLayout) -> Iterator[tuple[int, list[int]]]:
    """(word block, elements with slots in it). slots: by element."""
    elements: dict[int, list[int]] = {}
    for k, slot in enumerate(slots):
        elements.setdefault(layout.block(slot), []).append(k)
    yield from elements.items()


def _fill_streamed(words: UInt64Array, keys: Keys, block: int, offsets: Int64Array) -> None:
    """Fills the words of the elements from ``FIRST_STREAMED`` on, from streams that a word block seeds."""
    rows = np.flatnonzero(np.diff(offsets) > FIRST_STREAMED)
    seeds = keys.words(block, rows) if rows.size else ()
    for row, seed in zip(rows, seeds, strict=True):
        first, end = offsets[row] + FIRST_STREAMED, offsets[row + 1]
        words[first:end] = stream_words(seed, words[first:end].size).reshape(-1, words.shape[1])
