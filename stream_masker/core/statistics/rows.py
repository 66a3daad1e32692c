"""The rows of a batch, which counts are of (``statistics.counts.Counts``)."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.dtypes import Int64Array
from stream_masker.errors import ParameterError


def rows_of(batch: Batch) -> tuple[list[NDArray[np.int32]], Int64Array]:
    """Return the rows of a batch (see ``Counts``): (rows,) int32 codes of each attribute, ``ABSENT`` for no value, and
    (rows,) int64, the index of the record of each row."""
    every, arrays = np.arange(batch.size), [column for column in batch.columns if column.is_array]
    if not arrays:
        return [column.codes for column in batch.columns], every
    lengths = [np.diff(_offsets(column)) for column in arrays]
    owners = [np.repeat(every, n) for n in lengths]
    record = np.concatenate([*owners, np.flatnonzero(sum(lengths[1:], lengths[0]) == 0)])
    starts = iter(accumulate(map(len, owners), initial=0))
    return [_column_rows(c, record, next(starts) if c.is_array else 0) for c in batch.columns], record


def _column_rows(column: Column, record: Int64Array, start: int) -> NDArray[np.int32]:
    if not column.is_array:
        return column.codes[record]
    rows = np.full(len(record), ABSENT, dtype=np.int32)
    elements = column_elements(column)
    rows[start : start + len(elements)] = elements
    return rows


def column_elements(column: Column) -> NDArray[np.int32]:
    offsets = _offsets(column)
    return column.codes[offsets[0] : offsets[-1]]


def present_elements(column: Column) -> Int64Array:
    """Return (n,) int64: the number of present elements of each record."""
    before = np.concatenate(([0], np.cumsum(column.codes >= 0)))
    return np.diff(before[_offsets(column)])


def _offsets(column: Column) -> Int64Array:
    if column.offsets is None:
        raise ParameterError("a scalar column has no offsets")
    return column.offsets
