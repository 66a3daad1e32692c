"""Cutting what a run of records is counted by, so that each block fits into a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column, MaskedBatch, Tally
from stream_masker.pipeline.records import Rejected

BLOCK_BYTES: Final = 900_000
"""The most that a block's JSON should have: brokers and clients take messages of 1 MB unless told otherwise."""

VALUE_BYTES: Final = 48
"""A row's share for each attribute, on both sides, when no value occurs twice: the concept's id and its count."""

PAIR_BYTES: Final = 28
"""A row's share for each two attributes, on both sides: two indices and a count."""


@dataclass(frozen=True, slots=True)
class CountedRecords:
    """What the blocks of n records count. batch, masked: of those of the records whose index is in ``indices``
    (ascending); rejected: by index; unknown: values of each attribute that
    found no concept; lost: those of them that are not in the batch."""

    batch: Batch
    masked: MaskedBatch
    indices: NDArray[np.int64]
    rejected: Mapping[int, Rejected]
    unknown: Sequence[int]
    lost: Sequence[int]


def split_ranges(batch: Batch, records: int) -> Iterator[Batch]:
    """Batches of consecutive records, ``records`` each; the last may have fewer."""
    for start in range(0, batch.size, records):
        yield rows_of(batch, start, min(start + records, batch.size))


def rows_of(batch: Batch, start: int, end: int) -> Batch:
    """The records of a batch from one index to before another."""
    alpha = None if batch.alpha is None else batch.alpha[start:end]
    return Batch(end - start, _sliced(batch.columns, start, end), alpha, _rows(batch, start, end))


def split_into_blocks(counted: CountedRecords, size: int) -> Iterator[tuple[int, int, CountedRecords]]:
    """(start, end, part) of consecutive records; most often there is one part, all ``size`` of them.

    What is known only of the whole (tallies, unknown values) stands in the
    first part: blocks are added up, so that sums stay true. A single record is never cut.
    """
    pieces = _pieces(counted)
    if pieces <= 1 or size <= 1:
        yield 0, size, counted
        return
    bounds = np.unique(np.linspace(0, size, min(pieces, size) + 1).astype(np.int64)).tolist()
    for start, end in pairwise(bounds):
        yield start, end, part_of(counted, start, end)


def _pieces(counted: CountedRecords) -> int:
    attributes = len(counted.batch.columns)
    row = VALUE_BYTES * attributes + PAIR_BYTES * attributes * (attributes - 1) // 2
    rows = max((len(column.codes) for column in counted.batch.columns), default=0)
    return -(-rows * row // BLOCK_BYTES)


def part_of(counted: CountedRecords, start: int, end: int) -> CountedRecords:
    """What the records from one index to before another count; what is known only of the whole is in the first part."""
    first, last = np.searchsorted(counted.indices, [start, end]).tolist()
    tallies = counted.masked.tallies if start == 0 else (Tally(),) * len(counted.masked.tallies)
    return CountedRecords(
        Batch(last - first, _sliced(counted.batch.columns, first, last), numeric=_rows(counted.batch, first, last)),
        MaskedBatch(_sliced(counted.masked.columns, first, last), tallies, _rows(counted.masked, first, last)),
        counted.indices[first:last] - start,
        {index - start: one for index, one in counted.rejected.items() if start <= index < end},
        counted.unknown if start == 0 else [0] * len(counted.unknown),
        counted.lost if start == 0 else [0] * len(counted.lost),
    )


def _sliced(columns: Sequence[Column], first: int, last: int) -> tuple[Column, ...]:
    return tuple(_slice(column, first, last) for column in columns)


def _rows(batch: Batch | MaskedBatch, first: int, last: int) -> NDArray[np.float64] | None:
    return None if batch.numeric is None else batch.numeric[first:last]


def _slice(column: Column, first: int, last: int) -> Column:
    if column.offsets is None:
        return Column(column.codes[first:last])
    offsets = column.offsets[first : last + 1]
    return Column(column.codes[offsets[0] : offsets[-1]], offsets - offsets[0])
