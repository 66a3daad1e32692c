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
from stream_masker.core.mechanisms.candidates import Int64
from stream_masker.core.randomness import Keys, Rows, Words, stream_words

NORMAL = slice(0, 2)
ROUNDING = 2
TIES = 3

LANE_WORDS = 8
LONG = 32


@dataclass(frozen=True, slots=True)
class Layout:
    """Where words lie: ``width`` words a slot, lanes from ``first`` on; ``streams`` + j: seeds of attribute j's."""

    width: int
    first: int
    streams: int

    @property
    def slots(self) -> int:
        """The slots of a lane."""
        return LANE_WORDS // self.width

    def of(self, words: Words, slot: int) -> Words:
        """The slot's words of a lane's."""
        start = self.width * (slot % self.slots)
        return words[:, start : start + self.width]

    def lane(self, slot: int) -> int:
        """The slot's lane."""
        return self.first + slot // self.slots


VALUES = Layout(width=4, first=0, streams=1 << 62)
"""Four words of every value: ``NORMAL``, ``ROUNDING``, ``TIES``."""

EXPONENTIALS = Layout(width=1, first=1 << 63, streams=(1 << 63) + (1 << 62))
"""One more of every value, for the exponential variates of Laplace noise."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of an array column, by length of their records.

    lengths: (n,) of each record; firsts: (n,) where each one's begin; longest: (n,) the records, longest first;
    shortness: (n,) minus their lengths, ascending.
    """

    lengths: Int64
    firsts: Int64
    longest: Rows
    shortness: Int64

    @classmethod
    def of(cls, offsets: Int64) -> Elements:
        lengths = np.diff(offsets)
        longest = np.argsort(-lengths, kind="stable")
        return cls(lengths, offsets[:-1], longest, -lengths[longest])

    @property
    def most(self) -> int:
        """The elements of the longest record."""
        return -int(self.shortness[0]) if self.shortness.size else 0

    def rows(self, k: int) -> Rows:
        """The records, ascending, that have an element k."""
        return np.sort(self.longest[: np.searchsorted(self.shortness, -k, side="left")])


def draw_words(keys: Keys, batch: Batch, layout: Layout = VALUES) -> list[Words]:
    """The words of every value, by column, (k, width) uint64 each; of absent scalars too."""
    scalars = _scalar_words(keys, batch, layout)
    return [
        scalars[j] if column.offsets is None else _element_words(keys, j, batch, column.offsets, layout)
        for j, column in enumerate(batch.columns)
    ]


def record_words(keys: Keys) -> Words:
    """(n,) uint64: the word of each record's first slot of ``EXPONENTIALS``, for what all of its values share."""
    return keys.words(EXPONENTIALS.first)[:, 0]


def _scalar_words(keys: Keys, batch: Batch, layout: Layout) -> dict[int, Words]:
    """The words of the scalar columns; each lane is drawn once."""
    scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
    lanes = {lane: keys.words(lane) for lane in sorted({layout.lane(j) for j in scalars})}
    return {j: layout.of(lanes[layout.lane(j)], j) for j in scalars}


def _element_words(keys: Keys, j: int, batch: Batch, offsets: Int64, layout: Layout) -> Words:
    """The words of an array column's elements; each lane is drawn for the records that reach it."""
    elements = Elements.of(offsets)
    words = np.empty((int(offsets[-1]), layout.width), np.uint64)
    slots = [j + k * len(batch.columns) for k in range(min(elements.most, LONG))]
    for lane, places in _by_lane(slots, layout):
        rows = elements.rows(places[0])
        found = keys.words(lane, rows)
        for k in places:
            reached = elements.lengths[rows] > k
            words[elements.firsts[rows[reached]] + k] = layout.of(found[reached], slots[k])
    _fill_long(words, keys, layout.streams + j, elements)
    return words


def _by_lane(slots: list[int], layout: Layout) -> Iterator[tuple[int, list[int]]]:
    """Lanes, with the elements whose slots they hold."""
    places: dict[int, list[int]] = {}
    for k, slot in enumerate(slots):
        places.setdefault(layout.lane(slot), []).append(k)
    yield from places.items()


def _fill_long(words: Words, keys: Keys, lane: int, elements: Elements) -> None:
    """The words of elements ``LONG`` and on, from streams that the records' words of ``lane`` seed."""
    rows = elements.rows(LONG)
    seeds = keys.words(lane, rows) if rows.size else ()
    for row, seed in zip(rows, seeds, strict=True):
        first, end = elements.firsts[row] + LONG, elements.firsts[row] + elements.lengths[row]
        words[first:end] = stream_words(seed, words[first:end].size).reshape(-1, words.shape[1])
