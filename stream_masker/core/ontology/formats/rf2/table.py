"""Files in Release Format 2: UTF-8 text, one row per line, tab-separated columns, and their names in the first line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Int64Array, Int64Matrix, UInt8Array
from stream_masker.core.kernels.jit import int64, kernel
from stream_masker.errors import EmptyOntologyError, SourceFormatError

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


ColumnKind: TypeAlias = Literal["flag", "number", "text", "language"]

ROLES: Final[Mapping[str, int]] = {
    "flag": FLAG_COLUMN,
    "number": NUMBER_COLUMN,
    "text": TEXT_COLUMN,
    "language": LANGUAGE_COLUMN,
}
EXPECTED: Final[Mapping[str, str]] = {
    "flag": "0 or 1",
    "number": "a number of at most 18 digits",
    "text": "a text",
    "language": "a language code of two to eight letters",
}

READ_CHUNK: Final = 1 << 24
HEADER_LIMIT: Final = 1 << 12
LINE_LIMIT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of a release: its name for messages, and a function that returns its bytes (mapped or unpacked)."""

    name: str
    read: Callable[[], memoryview]


@dataclass(frozen=True, slots=True)
class RowTable:
    """The requested columns of n rows. Row k is line k + 2 of the file.

    values: (n,) int64 by column name: flags, numbers, and packed language codes (``pack_language``).
    starts, ends: (n,) int64, the slices of ``data`` that hold the text column; empty if none was requested.
    """

    data: UInt8Array
    values: Mapping[str, Int64Array]
    starts: Int64Array
    ends: Int64Array

    def texts(self, rows: Int64Array) -> tuple[UInt8Array, Int64Array]:
        """Copy the texts of the given rows: their bytes one after another, and (rows + 1,) offsets."""
        starts, ends = self.starts[rows], self.ends[rows]
        offsets = offsets_from_lengths(ends - starts)
        return gather_rows(self.data, starts, offsets), offsets


def read_table(file: ReleaseFile, header: str, wanted: Mapping[str, ColumnKind]) -> RowTable:
    """Read the wanted columns of a file. ``header``: all its column names, separated by spaces.

    At most one wanted column may be a text. Raises EmptyOntologyError for an empty file, and SourceFormatError with the
    name of the file and the line: the file is not UTF-8, it has another header, a line has too few or too many columns,
    or a value does not match the kind of its column.
    """
    columns = header.split()
    raw = file.read()
    _check_encoding(file, raw)
    data = np.frombuffer(raw, np.uint8)
    start = _check_header(file, data, columns)
    _check_end(file, data, start)
    roles = np.array([ROLES[wanted[name]] if name in wanted else SKIPPED_COLUMN for name in columns])
    lines = count_lines(data, start)
    rows = tokenise(data, start, roles, lines)
    if rows.problem != FINE:
        raise SourceFormatError(_problem(file, rows, columns, wanted))
    kept = [name for name in columns if wanted.get(name, "text") != "text"]
    return RowTable(data, dict(zip(kept, rows.values, strict=True)), rows.starts, rows.ends)


def pack_language(language: str) -> int:
    """Pack a language code into an integer, as in ``RowTable.values``; integers sort like lower-case codes."""
    return int.from_bytes(language.lower().encode().ljust(8, b"\0"), "big")


def _problem(file: ReleaseFile, rows: TokenisedRows, columns: list[str], wanted: Mapping[str, ColumnKind]) -> str:
    line = f"{file.name}: line {rows.row + 2}"
    if rows.problem == MALFORMED:
        name = columns[rows.column]
        return f"{line}: {name} is not {EXPECTED[wanted[name]]}"
    count = f"only {rows.column}" if rows.problem == TOO_FEW else f"more than {len(columns)}"
    return f"{line} has {count} of {len(columns)} columns: the file is truncated or damaged"


def _check_encoding(file: ReleaseFile, data: memoryview) -> None:
    lines = 1
    for chunk in _chunks(data):
        try:
            chunk.decode()
        except UnicodeDecodeError as error:
            line = lines + chunk.count(b"\n", 0, error.start)
            raise SourceFormatError(f"{file.name}: line {line} is not UTF-8 text") from None
        lines += chunk.count(b"\n")


def _chunks(data: memoryview) -> Iterator[bytes]:
    """Yield the bytes in chunks of whole lines; the last chunk may lack the end of its line."""
    rest = b""
    for start in range(0, len(data), READ_CHUNK):
        head, newline, tail = (rest + bytes(data[start : start + READ_CHUNK])).rpartition(b"\n")
        yield head + newline
        rest = tail
    yield rest


def _check_header(file: ReleaseFile, data: UInt8Array, columns: list[str]) -> int:
    """Return the offset of the second line."""
    first = data[:HEADER_LIMIT].tobytes().split(b"\n", 1)[0]
    if not first:
        raise EmptyOntologyError(f"{file.name} is empty")
    names = first.decode("utf-8-sig", "replace").rstrip("\r").split("\t")
    if names != columns:
        raise SourceFormatError(f"{file.name}: the first line must be the {len(columns)} columns {', '.join(columns)}")
    return len(first) + 1


def _check_end(file: ReleaseFile, data: UInt8Array, start: int) -> None:
    """Detect a file that was cut off within the last column of its last line.

    Such a line has no newline, and its last column is shorter than that of the line before.
    """
    tail = data[start:][-LINE_LIMIT:].tobytes().split(b"\n")
    if len(tail) > 1 and tail[-1] and len(_last_column(tail[-1])) < len(_last_column(tail[-2])):
        raise SourceFormatError(f"{file.name}: its last line has no end: the file is truncated")


def _last_column(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\t")[2]
