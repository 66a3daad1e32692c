"""Which random words serve which value.

Of p attributes, element k of attribute j (a scalar has element 0) is slot s = j + k·p. Slot s is half s mod 2 of lane
s // 2: four words, two for its normal variate, one for its rounding, one for its ties. So a value's words depend on
its record, attribute and place alone, whatever else the record or the batch holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from stream_masker.core.batch import Batch, Column
from stream_masker.core.ontology.taxonomy import Int64
from stream_masker.core.randomness import Keys, Rows, Words

ValueWords: TypeAlias = Words
"""(k, 4) uint64, a row for each value of a column."""

NORMAL = slice(0, 2)
ROUNDING = 2
TIES = 3

SLOT = 4
SLOTS_PER_LANE = 2

EXPONENTIAL_LANES = 1 << 63
"""From this lane on, eight slots a lane, one word each: the exponential variates of Laplace noise."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of an array column, by length of their records.

    lengths: (n,) of each record; longest: (n,) the records, longest first; firsts: (n,) where each one's begin.
    """

    lengths: Int64
    longest: Rows
    firsts: Int64

    @classmethod
    def of(cls, offsets: Int64) -> Elements:
        lengths = np.diff(offsets)
        return cls(lengths, np.argsort(-lengths, kind="stable"), offsets[:-1])

    @property
    def most(self) -> int:
        """The elements of the longest record."""
        return int(self.lengths[self.longest[0]]) if self.lengths.size else 0

    def rows(self, k: int) -> Rows:
        """The records, ascending, that have an element k."""
        longer = np.searchsorted(-self.lengths[self.longest], -k, side="left")
        return np.sort(self.longest[:longer])


def value_words(keys: Keys, batch: Batch) -> list[ValueWords]:
    """The four words of every value, by column; of absent scalars too."""
    scalars = _scalar_words(keys, batch)
    return [
        scalars[j] if column.offsets is None else _element_words(keys, j, len(batch.columns), column.offsets)
        for j, column in enumerate(batch.columns)
    ]


def _scalar_words(keys: Keys, batch: Batch) -> dict[int, ValueWords]:
    """The words of the scalar columns; each lane is generated once."""
    scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
    lanes = {lane: keys.words(lane) for lane in sorted({j // SLOTS_PER_LANE for j in scalars})}
    return {j: _half(lanes[j // SLOTS_PER_LANE], j) for j in scalars}


def _element_words(keys: Keys, j: int, attributes: int, offsets: Int64) -> ValueWords:
    """The words of an array column's elements; lanes only for the records that reach them."""
    elements = Elements.of(offsets)
    words = np.empty((int(offsets[-1]), SLOT), np.uint64)
    for lane, places in _lanes(j, attributes, elements.most):
        rows = elements.rows(places[0])
        found = keys.words(lane, rows)
        for k in places:
            reached = elements.lengths[rows] > k
            words[elements.firsts[rows[reached]] + k] = _half(found[reached], j + k * attributes)
    return words


def _lanes(j: int, attributes: int, most: int) -> Iterator[tuple[int, list[int]]]:
    """The lanes of elements 0 … most − 1 of attribute j, with the elements in each."""
    places: dict[int, list[int]] = {}
    for k in range(most):
        places.setdefault((j + k * attributes) // SLOTS_PER_LANE, []).append(k)
    yield from places.items()


def _half(words: Words, slot: int) -> ValueWords:
    first = SLOT * (slot % SLOTS_PER_LANE)
    return words[:, first : first + SLOT]


def record_words(keys: Keys) -> Words:
    """(n,) uint64: one word of each record, for what all of its values share."""
    return keys.words(EXPONENTIAL_LANES)[:, 0]


def single_words(keys: Keys, batch: Batch) -> list[Words]:
    """One more word for every value, by column: (k,) uint64 each."""
    p = len(batch.columns)
    return [_single(keys, j, p, column) for j, column in enumerate(batch.columns)]


def _single(keys: Keys, j: int, attributes: int, column: Column) -> Words:
    if column.offsets is None:
        return keys.words(EXPONENTIAL_LANES + j // 8)[:, j % 8]
    elements = Elements.of(column.offsets)
    words = np.empty(int(column.offsets[-1]), np.uint64)
    for k in range(elements.most):
        slot = j + k * attributes
        rows = elements.rows(k)
        words[elements.firsts[rows] + k] = keys.words(EXPONENTIAL_LANES + slot // 8, rows)[:, slot % 8]
    return words
