"""Files in Release Format 2: UTF-8 text, one row per line, tab-separated columns, and their names in the first line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Int64Array, UInt8Array
from stream_masker.core.ontology.formats.rf2 import kernels
from stream_masker.core.ontology.formats.rf2.kernels import (
    FINE,
    FLAG_COLUMN,
    LANGUAGE_COLUMN,
    MALFORMED,
    NUMBER_COLUMN,
    SKIPPED_COLUMN,
    TEXT_COLUMN,
    TOO_FEW,
    TokenisedRows,
)
from stream_masker.errors import EmptyOntologyError, SourceFormatError

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
        return kernels.gather_rows(self.data, starts, offsets), offsets


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
    lines = kernels.count_lines(data, start)
    rows = kernels.tokenise(data, start, roles, lines)
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
