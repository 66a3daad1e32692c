"""The layout of random words: which of a record's words belong to which value.

Each attribute of a record has a *seed* of 128 bits: two words of one of the record's word blocks. Each word of a value
is the SipHash-2-4, keyed by that seed, of the value and the number of the word (``core.random.siphash``). The words of
a value therefore depend only on the record's key, the attribute and the value, not on other values of the record or on
the batch.

* ``PositionKeys``: the hash also covers the index of an array element. Every value of every record has its own words.
* ``FieldKeys``: it does not. A value has the same words at any index and in all records with the same key, such as all
  records of a patient. The words of different values are independent: knowing one reveals nothing about another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.arrays import frozen_array
from stream_masker.core.batch import Batch, Column
from stream_masker.core.dtypes import Float64Matrix, Int64Array, UInt64Array
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.siphash import value_words

NORMAL = slice(0, 2)
ROUNDING_WORD = 2
TIES = 3

SEEDS_PER_BLOCK = 4
"""Number of seeds, of two words each, in a word block."""

NUMERIC_SEEDS = 1 << 61
"""The word block with the seeds of the first four numeric attributes. The blocks of nominal attributes start at 0."""


@dataclass(frozen=True, slots=True)
class WordLayout:
    """A range of word numbers: ``width`` words of each value, numbered from ``first``."""

    width: int
    first: int


VALUES = WordLayout(width=4, first=0)
"""Four words for each value: ``NORMAL``, ``ROUNDING_WORD``, ``TIES``."""

EXPONENTIALS = WordLayout(width=1, first=4)
"""One more word for each value, for the exponential variate of Laplace noise."""

SHARED = WordLayout(width=1, first=5)
"""One more word for each scalar or number, for draws that are shared by all values of a record."""


def draw_words(keys: Keys, batch: Batch, layout: WordLayout = VALUES, *, distinct: bool = False) -> list[UInt64Array]:
    """Return the words of each column of k values, absent scalars included: (k, width) uint64 per column.

    distinct: whether equal values of one key get different words, by their index in the column.
    """
    return [
        _column_words(seeds, start, column, layout, _elements(column, distinct or keys.numbers_elements, distinct))
        for column, (seeds, start) in zip(batch.columns, _seeds(keys, len(batch.columns)), strict=True)
    ]


def draw_number_words(keys: Keys, numbers: Float64Matrix) -> list[UInt64Array]:
    """Return the words ``VALUES`` of each column of (n, q) float64 numbers: (n, 4) uint64 per column.

    An absent number, NaN, is hashed as the first number of its record, with its own seed.
    """
    offsets = np.arange(len(keys) + 1)
    return [
        value_words(seeds, start, offsets, messages, VALUES.first, VALUES.width)
        for messages, (seeds, start) in zip(
            _number_messages(numbers), _seeds(keys, numbers.shape[1], NUMERIC_SEEDS), strict=True
        )
    ]


def record_words(keys: Keys, batch: Batch) -> UInt64Array:
    """Return (n,) uint64: a word of each record, for draws that its values share.

    The word depends on the key and all scalars.
    """
    messages = [None if column.is_array else _code_messages(column) for column in batch.columns]
    return _chained(keys, messages, 0)


def number_record_words(keys: Keys, numbers: Float64Matrix) -> UInt64Array:
    """Return (n,) uint64: a word of each record, for draws that its numbers share.

    ``numbers``: (n, q) float64. The word depends on the key and all numbers.
    """
    return _chained(keys, _number_messages(numbers), NUMERIC_SEEDS)


def _chained(keys: Keys, messages: Sequence[UInt64Array | None], first_block: int) -> UInt64Array:
    """Return (n,) uint64: the CBC-MAC of the attributes' messages.

    The key of each step is the seed of its attribute.
    """
    offsets = np.arange(len(keys) + 1)
    words = np.zeros(len(keys), np.uint64)
    for message, (seeds, start) in zip(messages, _seeds(keys, len(messages), first_block), strict=True):
        if message is not None:
            words = value_words(seeds, start, offsets, words ^ message, SHARED.first, SHARED.width)[:, 0].copy()
    return words


def _seeds(keys: Keys, attributes: int, first_block: int = 0) -> Iterator[tuple[UInt64Array, int]]:
    """Yield the word block of each attribute's seeds, (n, 8) uint64, and the column of the first of its two words."""
    for j in range(attributes):
        if j % SEEDS_PER_BLOCK == 0:
            block = frozen_array(keys.words(first_block + j // SEEDS_PER_BLOCK))
        yield block, 2 * (j % SEEDS_PER_BLOCK)


def _column_words(
    seeds: UInt64Array, start: int, column: Column, layout: WordLayout, elements: UInt64Array | None
) -> UInt64Array:
    offsets = np.arange(len(seeds) + 1) if column.offsets is None else column.offsets
    messages = _code_messages(column)
    if elements is not None:
        messages |= elements << np.uint64(32)
    return value_words(seeds, start, offsets, messages, layout.first, layout.width)


def _elements(column: Column, numbered: bool, distinct: bool) -> UInt64Array | None:
    """Return (k,) uint64: the number that is hashed with each value, or None if it is 0 for all.

    It is the index of the value in its record or, with ``distinct``, in the column.
    """
    if not numbered or (column.offsets is None and not distinct):
        return None
    indices: Int64Array = np.arange(column.codes.size)
    if column.offsets is not None and not distinct:
        indices -= np.repeat(column.offsets[:-1], np.diff(column.offsets))
    return indices.astype(np.uint64)


def _code_messages(column: Column) -> UInt64Array:
    return column.codes.astype(np.uint32).astype(np.uint64)


def _number_messages(numbers: Float64Matrix) -> list[UInt64Array]:
    """Return the bits of each column of (n, q) numbers: (n,) uint64 per column. 0 and -0 have equal bits.

    An absent number has the bits of the first number of its record.
    """
    if not numbers.shape[1]:
        return []
    absent = np.isnan(numbers)
    first = numbers[np.arange(len(numbers)), absent.argmin(axis=1)]
    return [np.where(absent[:, j], first, numbers[:, j] + 0.0).view(np.uint64) for j in range(numbers.shape[1])]
