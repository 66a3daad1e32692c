"""Which random words serve which value.

Of p attributes, element k of attribute j (a scalar has element 0) is slot s = j + k·p. Slot s is half s mod 2 of lane
s // 2: four words, two for its normal variate, one for its rounding, one for its ties. So a value's words depend on
its record, attribute and place alone, whatever else the record or the batch holds.

A lane is one call for all records. Elements from ``LONG`` on come from a stream of their record's own instead, so that
one endless array does not cost a call for each two of its elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int64Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.ontology.arrays import frozen_array
from stream_masker.core.random.keys import Keys, stream_words

NORMAL = slice(0, 2)
ROUNDING_WORD = 2
TIES = 3

LANE_WORDS = 8
LONG = 32


@dataclass(frozen=True, slots=True)
class WordLayout:
    """Where words lie: ``width`` words a slot, lanes from ``first`` on; ``streams`` + j: seeds of attribute j's."""

    width: int
    first: int
    streams: int

    @property
    def slots(self) -> int:
        """The slots of a lane."""
        return LANE_WORDS // self.width

    def start(self, slot: int) -> int:
        """The first of the slot's words among its lane's."""
        return self.width * (slot % self.slots)

    def of(self, words: UInt64Array, slot: int) -> UInt64Array:
        """The slot's words of a lane's."""
        return words[:, self.start(slot) : self.start(slot) + self.width]

    def lane(self, slot: int) -> int:
        """The slot's lane."""
        return self.first + slot // self.slots


VALUES = WordLayout(width=4, first=0, streams=1 << 62)
"""Four words of every value: ``NORMAL``, ``ROUNDING_WORD``, ``TIES``."""

EXPONENTIALS = WordLayout(width=1, first=1 << 63, streams=(1 << 63) + (1 << 62))
"""One more of every value, for the exponential variates of Laplace noise."""


def draw_words(keys: Keys, batch: Batch, layout: WordLayout = VALUES) -> list[UInt64Array]:
    """The words of every value, by column, (k, width) uint64 each; of absent scalars too."""
    scalars = _scalar_words(keys, batch, layout)
    return [
        scalars[j] if column.offsets is None else _element_words(keys, j, batch, column.offsets, layout)
        for j, column in enumerate(batch.columns)
    ]


def record_words(keys: Keys) -> UInt64Array:
    """(n,) uint64: the word of each record's first slot of ``EXPONENTIALS``, for what all of its values share."""
    return keys.words(EXPONENTIALS.first)[:, 0]


def _scalar_words(keys: Keys, batch: Batch, layout: WordLayout) -> dict[int, UInt64Array]:
    """The words of the scalar columns; each lane is drawn once."""
    scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
    lanes = {lane: keys.words(lane) for lane in sorted({layout.lane(j) for j in scalars})}
    return {j: layout.of(lanes[layout.lane(j)], j) for j in scalars}


def _element_words(keys: Keys, j: int, batch: Batch, offsets: Int64Array, layout: WordLayout) -> UInt64Array:
    """The words of an array column's elements; each lane is drawn for the records that reach it."""
    lengths = np.diff(offsets)
    words = np.empty((int(offsets[-1]), layout.width), np.uint64)
    slots = [j + k * len(batch.columns) for k in range(min(int(lengths.max(initial=0)), LONG))]
    for lane, places in _by_lane(slots, layout):
        rows = np.flatnonzero(lengths > places[0])
        found = frozen_array(keys.words(lane, None if rows.size == len(keys) else rows))
        for k in places:
            put_words(words, offsets, rows, k, found, layout.start(slots[k]))
    _fill_long(words, keys, layout.streams + j, offsets)
    return words


@kernel
def put_words(
    words: UInt64Matrix, offsets: Int64Array, rows: Int64Array, k: int, found: UInt64Matrix, start: int
) -> None:
    """Writes the words of all elements k, from column ``start`` on of those that were found for some records."""
    for i in range(rows.size):
        at = offsets[rows[i]] + k
        if at < offsets[rows[i] + 1]:
            for column in range(words.shape[1]):
                words[at, column] = found[i, start + column]


def _by_lane(slots: list[int], layout: WordLayout) -> Iterator[tuple[int, list[int]]]:
    """Lanes, with the elements whose slots they hold."""
    places: dict[int, list[int]] = {}
    for k, slot in enumerate(slots):
        places.setdefault(layout.lane(slot), []).append(k)
    yield from places.items()


def _fill_long(words: UInt64Array, keys: Keys, lane: int, offsets: Int64Array) -> None:
    """The words of elements ``LONG`` and on, from streams that the records' words of ``lane`` seed."""
    rows = np.flatnonzero(np.diff(offsets) > LONG)
    seeds = keys.words(lane, rows) if rows.size else ()
    for row, seed in zip(rows, seeds, strict=True):
        first, end = offsets[row] + LONG, offsets[row + 1]
        words[first:end] = stream_words(seed, words[first:end].size).reshape(-1, words.shape[1])
