"""The extracted values of attributes in a batch, as arrays: codes, and the styles to write their replacements in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.batch import Column
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.pipeline.codec.attributes import SHIFT, STYLE, SUPPRESSED, UNLISTED, AttributeCodec
from stream_masker.pipeline.style import borrow, styled


@dataclass(frozen=True, slots=True)
class ExtractedColumn:
    """One attribute of n records: the codes as a column, and more about each of the m extracted values.

    present: (m,) bool, whether a value is in the column; styles: (m,) int64; records: (m,) int64, each value's record;
    unknown: the number of values without a concept of their own; lost: the number of those that are not in the column.
    """

    column: Column
    present: BoolArray
    styles: Int64Array
    records: Int64Array
    unknown: int
    lost: int


def scalar_column(values: Int64Array) -> ExtractedColumn:
    """The column of an attribute with one value a record. values: (n,) int64 (``codec.attributes``)."""
    column = Column((values >> SHIFT).astype(np.int32))
    return ExtractedColumn(column, values >= 0, values & STYLE, np.arange(len(values)), _unknown(values), _lost(values))


def array_column(values: Int64Array, lengths: Int64Array) -> ExtractedColumn:
    """The column of an array attribute. values: (m,) int64; lengths: (n,) int64, each record's number of values."""
    present = values >= 0
    records = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.cumsum(np.bincount(records[present], minlength=len(lengths)))
    column = Column((values[present] >> SHIFT).astype(np.int32), np.concatenate(([0], ends)).astype(np.int64))
    return ExtractedColumn(column, present, values & STYLE, records, _unknown(values), _lost(values))


def masked_positions(extracted: ExtractedColumn, masked: Column) -> Int64Array:
    """(m,) int64: the masked position of each extracted value; -1 for values that are not in the column."""
    positions = np.full(len(extracted.present), -1, dtype=np.int64)
    positions[extracted.present] = masked.codes[masked.codes >= 0]
    return positions


def completed_styles(attributes: Sequence[AttributeCodec], columns: Sequence[ExtractedColumn]) -> list[Int64Array]:
    """The style of every value; traits that it does not show are those of its record's other codes of the taxonomy."""
    taxonomies = [attribute.plan.concepts.taxonomy.fingerprint for attribute in attributes]
    records = max((int(record) + 1 for column in columns for record in column.records[-1:]), default=0)
    shown = {taxonomy: np.zeros(records, dtype=np.int64) for taxonomy in taxonomies}
    for taxonomy, column in zip(taxonomies, columns, strict=True):
        np.bitwise_or.at(shown[taxonomy], column.records, styled(column.styles))
    return [borrow(c.styles, shown[taxonomy][c.records]) for taxonomy, c in zip(taxonomies, columns, strict=True)]


def _unknown(values: Int64Array) -> int:
    return int(np.count_nonzero(values & UNLISTED))


def _lost(values: Int64Array) -> int:
    return int(np.count_nonzero(values == SUPPRESSED))
