"""Compiled reading of RF2 files: rows and columns, numbers and language codes."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int64Array, Int64Matrix, UInt8Array
from stream_masker.core.kernels.jit import int64, kernel

SKIPPED, FLAG, NUMBER, TEXT, LANGUAGE = range(5)
"""What a column holds."""

FINE, TOO_FEW, TOO_MANY, MALFORMED = range(4)
"""What is wrong with a line: nothing, too few columns, too many, or a value that its column cannot hold."""

TAB = 9
NEWLINE = 10
RETURN = 13


@kernel
def count_lines(data: UInt8Array, start: int) -> int:
    """The lines from ``start`` on, one without an end included."""
    lines = 0
    for i in range(start, data.size):
        lines += data[i] == NEWLINE
    return lines + (data.size > start and data[data.size - 1] != NEWLINE)


@kernel
def decimal(data: UInt8Array, start: int, end: int) -> int:
    """The decimal number in ``data[start:end]``, -1 where it is none or has more than 18 digits."""
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
    """Up to eight ASCII characters in small letters as one number (the first has most weight), -1 for others."""
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
def tokenise(
    data: UInt8Array, start: int, roles: Int64Array, lines: int
) -> tuple[Int64Matrix, Int64Array, Int64Array, int, int, int]:
    """Splits ``data[start:]`` into rows of ``roles.size`` columns.

    Returns flags, numbers and languages (kept columns, lines), starts and ends of texts (lines,), and the row, the
    column and the kind of the first problem.
    """
    values = np.empty((np.sum((roles != SKIPPED) & (roles != TEXT)), lines), np.int64)
    texts = lines if np.any(roles == TEXT) else 0
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
            return values, starts, ends, row, column + 1, TOO_FEW if ends_line else TOO_MANY
        end = i - 1 if ends_line and i > begin and data[i - 1] == RETURN else i
        role = roles[column]
        if role == TEXT:
            starts[row], ends[row] = begin, end
        elif role != SKIPPED:
            value = language(data, begin, end) if role == LANGUAGE else decimal(data, begin, end)
            values[kept, row] = value
            if value < 0 or (role == FLAG and value > 1):
                return values, starts, ends, row, column, MALFORMED
            kept += 1
        column += 1
        begin = i + 1
        if ends_line:
            row += 1
            column = kept = 0
    return values, starts, ends, row, column, FINE


@kernel
def gather_rows(data: UInt8Array, starts: Int64Array, offsets: Int64Array) -> UInt8Array:
    """(b,) uint8: pieces of ``data`` from these starts on, copied to these offsets."""
    copy = np.empty(offsets[-1], np.uint8)
    for k in range(starts.size):
        size = offsets[k + 1] - offsets[k]
        copy[offsets[k] : offsets[k + 1]] = data[starts[k] : starts[k] + size]
    return copy
