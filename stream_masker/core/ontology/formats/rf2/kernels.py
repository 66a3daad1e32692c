"""Compiled parsing of RF2 files: rows and columns, numbers and language codes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Int64Array, Int64Matrix, UInt8Array
from stream_masker.core.kernels.jit import int64, kernel

SKIPPED_COLUMN, FLAG_COLUMN, NUMBER_COLUMN, TEXT_COLUMN, LANGUAGE_COLUMN = range(5)
"""The kinds of columns; ``SKIPPED_COLUMN`` columns are not read."""

FINE, TOO_FEW, TOO_MANY, MALFORMED = range(4)
"""The problems of a line: none, too few columns, too many columns, or a value that does not match its column."""

TAB = 9
NEWLINE = 10
RETURN = 13


class TokenisedRows(NamedTuple):
    """The wanted columns of a file, and its first problem.

    values: (kept columns, lines) int64: flags, numbers and packed languages, in the order of the columns.
    starts, ends: (lines,) int64, the slices of the text column; empty without one.
    row, column, problem: where the first problem is, and its kind; ``FINE`` if there is none.
    """

    values: Int64Matrix
    starts: Int64Array
    ends: Int64Array
    row: int
    column: int
    problem: int


@kernel
def count_lines(data: UInt8Array, start: int) -> int:
    """Return the number of lines from ``start`` on. The last line may lack its end."""
    lines = 0
    for i in range(start, data.size):
        lines += data[i] == NEWLINE
    return lines + (data.size > start and data[data.size - 1] != NEWLINE)


@kernel
def decimal(data: UInt8Array, start: int, end: int) -> int:
    """Return the decimal number in ``data[start:end]``; -1 if it is not one, or has more than 18 digits."""
    if end <= start or end - start > 18:
        return -1
    value = int64(0)
    for i in range(start, end):
        digit = int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = 10 * value + digit
    return value


@kernel
def language(data: UInt8Array, start: int, end: int) -> int:
    """Return two to eight ASCII characters, in lower case, packed into one integer (big-endian).

    Return -1 for anything else.
    """
    if end - start < 2 or end - start > 8:
        return -1
    value = int64(0)
    for i in range(8):
        byte = int64(data[start + i]) | 32 if start + i < end else int64(0)
        if byte > 127:
            return -1
        value = value << 8 | byte
    return value


@kernel
def tokenise(data: UInt8Array, start: int, roles: Int64Array, lines: int) -> TokenisedRows:
    """Split ``data[start:]`` into rows of ``roles.size`` columns, up to the first problem.

    ``roles``: the kind of each column. ``lines``: from ``count_lines``.
    """
    values = np.empty((np.sum((roles != SKIPPED_COLUMN) & (roles != TEXT_COLUMN)), lines), np.int64)
    texts = lines if np.any(roles == TEXT_COLUMN) else 0
    starts, ends = np.empty(texts, np.int64), np.empty(texts, np.int64)
    row = column = kept = 0
    begin = start
    for i in range(start, data.size + 1):
        if i < data.size and data[i] != TAB and data[i] != NEWLINE:
            continue
        ends_line = i == data.size or data[i] == NEWLINE
        if i == data.size and begin == i and column == 0:
            break
        if ends_line != (column == roles.size - 1):
            return TokenisedRows(values, starts, ends, row, column + 1, TOO_FEW if ends_line else TOO_MANY)
        end = i - 1 if ends_line and i > begin and data[i - 1] == RETURN else i
        role = roles[column]
        if role == TEXT_COLUMN:
            starts[row], ends[row] = begin, end
        elif role != SKIPPED_COLUMN:
            value = language(data, begin, end) if role == LANGUAGE_COLUMN else decimal(data, begin, end)
            values[kept, row] = value
            if value < 0 or (role == FLAG_COLUMN and value > 1):
                return TokenisedRows(values, starts, ends, row, column, MALFORMED)
            kept += 1
        column += 1
        begin = i + 1
        if ends_line:
            row += 1
            column = kept = 0
    return TokenisedRows(values, starts, ends, row, column, FINE)


@kernel
def gather_rows(data: UInt8Array, starts: Int64Array, offsets: Int64Array) -> UInt8Array:
    """Copy slices of ``data`` that begin at ``starts``, so that they begin at ``offsets``. Return (b,) uint8."""
    copy = np.empty(offsets[-1], np.uint8)
    for k in range(starts.size):
        size = offsets[k + 1] - offsets[k]
        copy[offsets[k] : offsets[k + 1]] = data[starts[k] : starts[k] + size]
    return copy
