"""Block splitting: the records of a run are counted in several blocks if one block would not fit into a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.pipeline.records import Rejected
from stream_masker.pipeline.style import StyleCounts

MAX_BLOCK_BYTES: Final = 900_000
"""The target size of a block's JSON. By default, brokers and clients accept messages of up to 1 MB."""

VALUE_BYTES: Final = 52
"""Bytes of a row for each attribute, before and after masking, if no value repeats: a concept id and a count each, and
the slot of a noise key."""

PAIR_BYTES: Final = 32
"""Bytes of a row for each pair of attributes, before and after masking: two indices and a count each, and the slot of
a noise key."""


MAX_COUNTED_ELEMENTS: Final = 256
"""The maximum number of counted array elements of a record, so that a single record cannot dominate a window."""


@dataclass(frozen=True, slots=True)
class CountedRecords:
    """n records, as blocks count them.

    batch, masked: before and after masking, of the records ``indices`` (ascending); rejected: by index; unknown: for
    each attribute the number of values without a concept; lost: the number of those that are not in the batch; styles:
    those of the original codes of each attribute; keys: (n,) the hashes of the records' noise keys
    (``core.random.distinct``), None if their noise is by position.
    """

    batch: Batch
    masked: MaskedBatch
    indices: Int64Array
    rejected: Mapping[int, Rejected]
    unknown: Sequence[int]
    lost: Sequence[int]
    styles: Sequence[StyleCounts] = ()
    keys: Int64Array | None = None


def limit_elements(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns with only the first ``MAX_COUNTED_ELEMENTS`` elements of each record's array."""
    return tuple(map(_limited, columns))


def _limited(column: Column) -> Column:
    if column.offsets is None:
        return column
    lengths = np.diff(column.offsets)
    if lengths.max(initial=0) <= MAX_COUNTED_ELEMENTS:
        return column
    kept = np.minimum(lengths, MAX_COUNTED_ELEMENTS)
    offsets = np.concatenate(([0], np.cumsum(kept)))
    places = np.arange(offsets[-1]) + np.repeat(column.offsets[:-1] - offsets[:-1], kept)
    return Column(column.codes[places], offsets)


def slice_batch(batch: Batch, start: int, end: int) -> Batch:
    """Return the records ``start`` to ``end`` (exclusive) of a batch."""
    alpha = None if batch.alpha is None else batch.alpha[start:end]
    columns, numbers = _slice_columns(batch.columns, start, end), _slice_numbers(batch, start, end)
    context = None if batch.context is None else batch.context[start:end]
    rolled = {key: concepts[start:end] for key, concepts in batch.rolled.items()}
    return Batch(end - start, columns, alpha, numbers, context=context, rolled=rolled)


def split_into_blocks(counted: CountedRecords, size: int) -> Iterator[tuple[int, int, CountedRecords]]:
    """Yield (start, end, slice) of the ``size`` records for each block; usually there is one block.

    Distortions, numbers of unknown values and styles are known only for all records together. They are counted in the
    first block, which leaves the sums over all blocks correct. A single record is never split.
    """
    blocks = _number_of_blocks(counted)
    if blocks <= 1 or size <= 1:
        yield 0, size, counted
        return
    bounds = np.unique(np.linspace(0, size, min(blocks, size) + 1).astype(np.int64)).tolist()
    for start, end in pairwise(bounds):
        yield start, end, slice_counted(counted, start, end)


def _number_of_blocks(counted: CountedRecords) -> int:
    attributes = len(counted.batch.columns)
    row = VALUE_BYTES * attributes + PAIR_BYTES * attributes * (attributes - 1) // 2
    row = row if counted.batch.context is None else row * 3 // 2
    rows = max((len(column.codes) for column in counted.batch.columns), default=0)
    fields = VALUE_BYTES * len(counted.batch.rolled) * counted.batch.size
    return -(-(rows * row + fields) // MAX_BLOCK_BYTES)


def slice_counted(counted: CountedRecords, start: int, end: int) -> CountedRecords:
    """Return the records ``start`` to ``end`` (exclusive).

    Only a slice from 0 has distortions, unknown values and styles.
    """
    first, last = np.searchsorted(counted.indices, [start, end]).tolist()
    distortions = counted.masked.distortions if start == 0 else (Distortion(),) * len(counted.masked.distortions)
    return CountedRecords(
        slice_batch(counted.batch, first, last),
        MaskedBatch(
            _slice_columns(counted.masked.columns, first, last),
            distortions,
            _slice_numbers(counted.masked, first, last),
        ),
        counted.indices[first:last] - start,
        {index - start: one for index, one in counted.rejected.items() if start <= index < end},
        counted.unknown if start == 0 else [0] * len(counted.unknown),
        counted.lost if start == 0 else [0] * len(counted.lost),
        counted.styles if start == 0 else [StyleCounts()] * len(counted.styles),
        None if counted.keys is None else counted.keys[first:last],
    )


def _slice_columns(columns: Sequence[Column], first: int, last: int) -> tuple[Column, ...]:
    return tuple(_slice_column(column, first, last) for column in columns)


def _slice_column(column: Column, first: int, last: int) -> Column:
    if column.offsets is None:
        return Column(column.codes[first:last])
    offsets = column.offsets[first : last + 1]
    return Column(column.codes[offsets[0] : offsets[-1]], offsets - offsets[0])


def _slice_numbers(batch: Batch | MaskedBatch, first: int, last: int) -> Float64Array | None:
    return None if batch.numeric is None else batch.numeric[first:last]
