"""What was read of attributes in a batch, and what fills the gaps that reading left in its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Column, MaskedBatch
from stream_masker.core.dtypes import Int64Array
from stream_masker.pipeline.codec.attributes import (
    LABEL_PLACEHOLDER,
    PLACEHOLDER_KIND,
    PLACEHOLDER_SHIFT,
    SHIFT,
    STYLE,
    SUPPRESSED,
    UNLISTED,
    AttributeCodec,
)
from stream_masker.pipeline.style import STYLE_BITS, borrow, styled


@dataclass(frozen=True, slots=True)
class ExtractedColumn:
    """One attribute of n records: their codes as a column, and more of each of the m values that were looked at.

    there: (m,) bool, the values that are in the column; styles: (m,) int64; rows: (m,) int64, each value's record;
    unknown: how many values found no concept; lost: how many of these are not in the column.
    """

    column: Column
    there: NDArray[np.bool_]
    styles: Int64Array
    rows: Int64Array
    unknown: int
    lost: int


def scalar_column(values: Int64Array) -> ExtractedColumn:
    """The reading of an attribute of one value a record."""
    column = Column((values >> SHIFT).astype(np.int32))
    return ExtractedColumn(column, values >= 0, values & STYLE, np.arange(len(values)), _unknown(values), _lost(values))


def array_column(values: Int64Array, lengths: Int64Array) -> ExtractedColumn:
    """The reading of an attribute of as many values a record as ``lengths`` says."""
    there = values >= 0
    rows = np.repeat(np.arange(len(lengths)), lengths)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(rows[there], minlength=len(lengths))))).astype(np.int64)
    column = Column((values[there] >> SHIFT).astype(np.int32), offsets)
    return ExtractedColumn(column, there, values & STYLE, rows, _unknown(values), _lost(values))


def masked_positions(reading: ExtractedColumn, masked: Column) -> Int64Array:
    """(m,) int64: the masked position of each value that was looked at; -1 for those that are not in the column."""
    positions = np.full(len(reading.there), -1, dtype=np.int64)
    positions[reading.there] = masked.codes[masked.codes >= 0]
    return positions


def placeholder_texts(
    gaps: Sequence[int],
    attributes: Sequence[AttributeCodec],
    readings: Sequence[ExtractedColumn],
    masked: MaskedBatch,
) -> list[bytes]:
    """What fills each gap, as JSON."""
    texts: list[bytes] = [b"null"] * len(gaps)
    owners, what = np.divmod(np.array(gaps, dtype=np.int64), 1 << PLACEHOLDER_SHIFT)
    numbers, owners = np.divmod(owners, attributes[0].total)
    styles = shared_styles(attributes, readings)
    for attribute, reading, column, style in zip(attributes, readings, masked.columns, styles, strict=True):
        mine = np.flatnonzero(owners == attribute.number)
        positions = masked_positions(reading, column)
        kinds = what[mine]
        own = np.where(kinds & PLACEHOLDER_KIND, kinds & STYLE, style[numbers[mine]])
        keys = positions[numbers[mine]] << STYLE_BITS | own
        _write(texts, attribute.labels, mine, keys, kinds & LABEL_PLACEHOLDER > 0)
        _write(texts, attribute.codes, mine, keys, kinds & LABEL_PLACEHOLDER == 0)
    return texts


def _write(
    texts: list[bytes], written: Mapping[int, bytes], gaps: Int64Array, keys: Int64Array, chosen: NDArray[np.bool_]
) -> None:
    for gap, key in zip(gaps[chosen].tolist(), keys[chosen].tolist(), strict=True):
        texts[gap] = written[key]


def shared_styles(attributes: Sequence[AttributeCodec], readings: Sequence[ExtractedColumn]) -> list[Int64Array]:
    """Every value's style, completed by what the other codes of its record show of the same taxonomy's style."""
    kinds = [attribute.plan.concepts.taxonomy.fingerprint for attribute in attributes]
    records = max((int(row) + 1 for reading in readings for row in reading.rows[-1:]), default=0)
    seen = {kind: np.zeros(records, dtype=np.int64) for kind in kinds}
    for kind, reading in zip(kinds, readings, strict=True):
        np.bitwise_or.at(seen[kind], reading.rows, styled(reading.styles))
    return [borrow(r.styles, seen[kind][r.rows]) for kind, r in zip(kinds, readings, strict=True)]


def _unknown(values: Int64Array) -> int:
    return int(np.count_nonzero(values & UNLISTED))


def _lost(values: Int64Array) -> int:
    return int(np.count_nonzero(values == SUPPRESSED))
