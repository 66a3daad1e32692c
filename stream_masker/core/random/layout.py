"""The layout of random words: which of a record's words belong to which value.

Each attribute of a record has a *seed* of 128 bits: two words of one of the record's word blocks. Each word of a value
is the SipHash-2-4, keyed by that seed, of the value and the number of the word. The words of a value therefore depend
only on the record's key, the attribute and the value, not on other values of the record or on the batch.

* ``PositionKeys``: the hash also covers the index of an array element. Every value of every record has its own words.
* ``FieldKeys``: it does not. A value has the same words at any index and in all records with the same key, such as all
  records of a patient. The words of different values are independent: knowing one reveals nothing about another.

A message of the hash has 9 bytes: 8 for the value and the number of its element, and 1 for the number of the word. The
first 8 bytes are compressed once for all words of a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.arrays import frozen_array
from stream_masker.core.batch import Batch, Column
from stream_masker.core.dtypes import Float64Matrix, Int64Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels.jit import inlined, kernel
from stream_masker.core.random.keys import Keys

MESSAGE_BYTES = 9

STATE_0, STATE_1, STATE_2, STATE_3 = map(
    np.uint64, (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
)
LAST_BLOCK = np.uint64(MESSAGE_BYTES << 56)
FINALIZATION = np.uint64(0xFF)


@inlined
def rotated_left(word: np.uint64, bits: int) -> np.uint64:
    """Return a word rotated to the left by ``bits`` bits."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def sip_round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Apply SipRound (section 2) to a state."""
    v0 += v1
    v2 += v3
    v1 = rotated_left(v1, 13) ^ v0
    v3 = rotated_left(v3, 16) ^ v2
    v0 = rotated_left(v0, 32)
    v2 += v1
    v0 += v3
    v1 = rotated_left(v1, 17) ^ v2
    v3 = rotated_left(v3, 21) ^ v0
    v2 = rotated_left(v2, 32)
    return v0, v1, v2, v3


@inlined
def compressed(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, block: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the state after one block of the message (two rounds)."""
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3 ^ block)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ block, v1, v2, v3


@inlined
def finalized(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> np.uint64:
    """Return the hash, from the state after the last block (four rounds)."""
    v2 ^= FINALIZATION
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@kernel
def value_words(
    seeds: UInt64Matrix, start: int, offsets: Int64Array, messages: UInt64Array, first: int, width: int
) -> UInt64Matrix:
    """Return (k, width) uint64: the words ``first`` … ``first + width - 1`` of k values of n records.

    seeds: (n, 8) uint64; columns ``start`` and ``start + 1`` are the key of each record. offsets: (n + 1,) int64; the
    values of record i are offsets[i] … offsets[i + 1] - 1. messages: (k,) uint64, the first 8 bytes of each message.
    """
    words = np.empty((messages.size, width), np.uint64)
    for i in range(offsets.size - 1):
        low, high = seeds[i, start], seeds[i, start + 1]
        for at in range(offsets[i], offsets[i + 1]):
            v0, v1, v2, v3 = compressed(low ^ STATE_0, high ^ STATE_1, low ^ STATE_2, high ^ STATE_3, messages[at])
            for column in range(width):
                words[at, column] = finalized(*compressed(v0, v1, v2, v3, LAST_BLOCK | np.uint64(first + column)))
    return words


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


VALUE_WORDS = 4
VALUES = WordLayout(width=VALUE_WORDS, first=0)
"""Four words for each value: two for a normal variate, ``ROUNDING_WORD``, ``TIES``."""

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


def seeds_of(block: UInt64Array) -> UInt64Matrix:
    """Return (4, 2) uint64: the seeds of the first four attributes of a record, from its word block 0."""
    return block.reshape(SEEDS_PER_BLOCK, 2)


def one_record_words(
    block: UInt64Array, codes: Sequence[int], offsets: Sequence[int], layout: WordLayout
) -> UInt64Matrix:
    """Return (k, width) uint64: the words of the k values of one record, as ``draw_words`` does with ``FieldKeys``.

    ``block``: word block 0 of the record. ``codes``: the positions of the values, none of them absent, one attribute
    after the other. ``offsets``: the first value of each attribute, of which there are at most ``SEEDS_PER_BLOCK``,
    and k.
    """
    return value_words(seeds_of(block), 0, np.array(offsets), np.array(codes, np.uint64), layout.first, layout.width)


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
