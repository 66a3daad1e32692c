"""The extracted values of attributes in a batch, as arrays: codes, and the counts of the styles of their texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.batch import Column
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.pipeline.codec.attributes import SHIFT, SUPPRESSED, TRAITS, UNLISTED
from stream_masker.pipeline.style import StyleCounts


@dataclass(frozen=True, slots=True)
class ExtractedColumn:
    """One attribute of n records: the codes as a column, and facts about the m extracted values.

    present: (m,) bool, whether a value is in the column; styles: those of the texts of the present values; unknown: the
    number of values without a concept of their own; lost: the number of those that are not in the column.
    """

    column: Column
    present: BoolArray
    styles: StyleCounts
    unknown: int
    lost: int


def scalar_column(values: Int64Array) -> ExtractedColumn:
    """Return the column of an attribute with one value a record. values: (n,) int64 (``codec.attributes``)."""
    return _extracted(values, values >= 0, Column((values >> SHIFT).astype(np.int32)))


def array_column(values: Int64Array, lengths: Int64Array) -> ExtractedColumn:
    """Return the column of an array attribute. values: (m,) int64; lengths: (n,) int64, each record's number of
    values."""
    present = values >= 0
    records = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.cumsum(np.bincount(records[present], minlength=len(lengths)))
    column = Column((values[present] >> SHIFT).astype(np.int32), np.concatenate(([0], ends)).astype(np.int64))
    return _extracted(values, present, column)


def masked_positions(extracted: ExtractedColumn, masked: Column) -> Int64Array:
    """Return (m,) int64: the masked position of each extracted value; -1 for values that are not in the column."""
    positions = np.full(len(extracted.present), -1, dtype=np.int64)
    positions[extracted.present] = masked.codes[masked.codes >= 0]
    return positions


def _extracted(values: Int64Array, present: BoolArray, column: Column) -> ExtractedColumn:
    return ExtractedColumn(column, present, StyleCounts.of(values[present] & TRAITS), _unknown(values), _lost(values))


def _unknown(values: Int64Array) -> int:
    return int(np.count_nonzero(values & UNLISTED))


def _lost(values: Int64Array) -> int:
    return int(np.count_nonzero(values == SUPPRESSED))
