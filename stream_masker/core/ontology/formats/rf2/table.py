"""Files of SNOMED CT's release format 2: UTF-8 text, one row a line, columns between tabs, names in the first line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt8Array
from stream_masker.core.ontology.arrays import offsets_from_lengths
from stream_masker.core.ontology.formats.rf2 import kernels
from stream_masker.core.ontology.formats.rf2.kernels import (
    FINE,
    FLAG,
    LANGUAGE,
    MALFORMED,
    NUMBER,
    SKIPPED,
    TEXT,
    TOO_FEW,
)
from stream_masker.errors import EmptyOntologyError, SourceFormatError

ColumnKind: TypeAlias = Literal["flag", "number", "text", "language"]

ROLES: Final[Mapping[str, int]] = {"flag": FLAG, "number": NUMBER, "text": TEXT, "language": LANGUAGE}
EXPECTED: Final[Mapping[str, str]] = {
    "flag": "0 or 1",
    "number": "a number of at most 18 digits",
    "text": "a text",
    "language": "a language code of two to eight letters",
}

READ_CHUNK: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class File:
    """A file of a release: its name in messages, and how to get its bytes (mapped, or unpacked)."""

    name: str
    read: Callable[[], memoryview]


@dataclass(frozen=True, slots=True)
class RowTable:
    """The columns asked for, of n rows. Row k is line k + 2.

    values: by column name, (n,) int64: flags, numbers, and language codes packed into one (``packed_names``).
    starts, ends: (n,) int64 of the column of texts, which lie in ``data``; empty without such a column.
    """

    data: UInt8Array
    values: Mapping[str, Int64Array]
    starts: Int64Array
    ends: Int64Array

    def texts(self, rows: Int64Array) -> tuple[UInt8Array, Int64Array]:
        """The texts of these rows, copied one after another, and where each starts; the last one's end."""
        starts, ends = self.starts[rows], self.ends[rows]
        offsets = offsets_from_lengths(ends - starts)
        return kernels.gather_rows(self.data, starts, offsets), offsets


def read_table(file: File, header: str, wanted: Mapping[str, ColumnKind]) -> RowTable:
    """Reads a file with this header (names separated by spaces), of which only the wanted columns are kept.

    At most one of them may be of texts. Raises SourceFormatError that names the file and the line: no UTF-8, another
    header, a line with too few or too many columns, a value that is not what its column holds; EmptyOntologyError.
    """
    columns = header.split()
    raw = file.read()
    _check_encoding(file, raw)
    data = np.frombuffer(raw, np.uint8)
    start = _check_header(file, data, columns)
    _check_end(file, data, start)
    roles = np.array([ROLES[wanted[name]] if name in wanted else SKIPPED for name in columns])
    lines = kernels.count_lines(data, start)
    values, starts, ends, row, column, problem = kernels.tokenise(data, start, roles, lines)
    if problem != FINE:
        raise SourceFormatError(_problem(file, row + 2, column, problem, columns, wanted))
    kept = [name for name in columns if wanted.get(name, "text") != "text"]
    return RowTable(data, dict(zip(kept, values, strict=True)), starts, ends)


def packed_names(language: str) -> int:
    """A language code as the number that stands for it in a table: ordered like codes in small letters."""
    return int.from_bytes(language.lower().encode().ljust(8, b"\0"), "big")


def _problem(
    file: File, line: int, column: int, problem: int, columns: list[str], wanted: Mapping[str, ColumnKind]
) -> str:
    if problem == MALFORMED:
        name = columns[column]
        return f"{file.name}: line {line}: {name} is not {EXPECTED[wanted[name]]}"
    count = f"only {column}" if problem == TOO_FEW else f"more than {len(columns)}"
    return f"{file.name}: line {line} has {count} of {len(columns)} columns: the file is truncated or damaged"


def _check_encoding(file: File, data: memoryview) -> None:
    lines = 1
    for chunk in _chunks(data):
        try:
            chunk.decode()
        except UnicodeDecodeError as error:
            line = lines + chunk.count(b"\n", 0, error.start)
            raise SourceFormatError(f"{file.name}: line {line} is not UTF-8 text") from None
        lines += chunk.count(b"\n")


def _chunks(data: memoryview) -> Iterator[bytes]:
    """Pieces that end with a line (the last one perhaps without)."""
    rest = b""
    for start in range(0, len(data), READ_CHUNK):
        head, newline, tail = (rest + bytes(data[start : start + READ_CHUNK])).rpartition(b"\n")
        yield head + newline
        rest = tail
    yield rest


def _check_header(file: File, data: UInt8Array, columns: list[str]) -> int:
    first = data[: 1 << 12].tobytes().split(b"\n", 1)[0]
    if not first:
        raise EmptyOntologyError(f"{file.name} is empty")
    names = first.decode("utf-8-sig", "replace").rstrip("\r").split("\t")
    if names != columns:
        raise SourceFormatError(f"{file.name}: the first line must be the {len(columns)} columns {', '.join(columns)}")
    return len(first) + 1


def _check_end(file: File, data: UInt8Array, start: int) -> None:
    """A file that ends within a line was cut off there, though the line may have all its columns."""
    tail = data[start:][-(1 << 16) :].tobytes().split(b"\n")
    if len(tail) > 1 and tail[-1] and len(_last(tail[-1])) < len(_last(tail[-2])):
        raise SourceFormatError(f"{file.name}: its last line has no end: the file is truncated")


def _last(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\t")[2]
