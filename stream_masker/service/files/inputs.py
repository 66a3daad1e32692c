"""Input files of events: what a file is, seen from its content, and its bytes without compression.

Gzip and zstd are recognised by their first bytes, and so are Parquet, Avro and files of other kinds, which are named in
the error. A Protobuf file has no such bytes; its suffix says what it is. A text is a JSON array, JSON lines or a table
with delimiters (CSV). The suffix decides only about texts that could be both.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, cast

import cramjam
import orjson

from stream_masker.errors import ServiceError
from stream_masker.service.files.outputs import STANDARD_STREAM, uncompressed_name

FileKind: TypeAlias = Literal["lines", "array", "csv", "parquet", "avro", "protobuf"]

READABLE = "JSON lines, a JSON array, CSV, Parquet, Avro or Protobuf, also compressed with gzip or zstd"
DELIMITERS = ",;\t|"
PROTOBUF_SUFFIXES = (".pb", ".binpb")

_HEAD_BYTES = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP, _ZSTD, _PARQUET, _AVRO = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"Obj\x01"
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a]")
_BINARY = {".parquet": "Parquet", ".avro": "Avro"}
_OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"ORC": "an ORC file",
    b"ARROW1": "an Arrow file",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"<": "XML or HTML",
    b"%PDF": "a PDF file",
}


@dataclass(frozen=True, slots=True)
class InputFile:
    """An open file: its name for messages, its kind, its bytes without compression, and the file on disk.

    delimiter: of the cells of a CSV file.
    """

    name: str
    kind: FileKind
    stream: BinaryIO
    raw: BinaryIO
    size: int
    delimiter: str = ","

    @property
    def position(self) -> int:
        """The number of bytes read from the file on disk; 0 if it is a pipe."""
        return self.raw.tell() if self.raw.seekable() else 0


@contextmanager
def open_input(name: str) -> Iterator[InputFile]:
    """Open a file of events, or standard input for ``-``.

    A zstd file is held in memory; other files are read piece by piece. Raises ServiceError if the file cannot be read
    or is of another kind, and says which.
    """
    shown = "standard input" if name == STANDARD_STREAM else name
    with _opened(name) as file:
        raw = cast(BinaryIO, file)
        size = Path(name).stat().st_size if name != STANDARD_STREAM else 0
        stream = _decompressed(raw, shown)
        head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        kind = kind_of(head, shown)
        if head.startswith(_BYTE_ORDER_MARK) and kind != "protobuf":
            stream.read(len(_BYTE_ORDER_MARK))
        delimiter = delimiter_of(_text(head)) if kind == "csv" else ","
        yield InputFile(shown, kind, cast(BinaryIO, stream), raw, size, delimiter)


@contextmanager
def read_errors(name: str) -> Iterator[None]:
    """Raise ServiceError for a file that cannot be read to its end."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        what = (isinstance(error, OSError) and error.strerror) or "it is not a complete gzip file"
        raise ServiceError(f"{name} cannot be read to its end: {what}") from None


@contextmanager
def _opened(name: str) -> Iterator[object]:
    if name == STANDARD_STREAM:
        if sys.stdin is None:
            raise ServiceError("standard input is closed: name an input file")
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise ServiceError(f"{name} cannot be read: {error.strerror}") from None
        yield file


def _decompressed(raw: BinaryIO, name: str) -> io.BufferedReader[Any]:
    stream: io.BufferedReader[Any] = io.BufferedReader(_Unowned(raw), _HEAD_BYTES)
    with read_errors(name):
        head = stream.peek(4)
        if head.startswith(_GZIP):
            packed: io.BufferedReader[Any] = io.BufferedReader(gzip.GzipFile(fileobj=stream), _HEAD_BYTES)
            packed.peek(1)
            return packed
        if head.startswith(_ZSTD):
            return io.BufferedReader(io.BytesIO(_from_zstd(stream.read(), name)), _HEAD_BYTES)
    return stream


def _from_zstd(packed: bytes, name: str) -> bytes:
    try:
        return bytes(cramjam.zstd.decompress(packed))
    except cramjam.DecompressionError:
        raise ServiceError(f"{name} cannot be read to its end: it is not a complete zstd file") from None


class _Unowned(io.RawIOBase):
    """Reads from a stream that another owner closes."""

    def __init__(self, inner: BinaryIO) -> None:
        self._read = getattr(inner, "read1", inner.read)

    def readable(self) -> bool:
        return True

    def readinto(self, target: object) -> int:
        buffer = memoryview(target)  # type: ignore[arg-type]
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def kind_of(head: bytes, name: str) -> FileKind:
    """Return what a file is, by its first bytes without compression, and by its name if they leave it open.

    Raises ServiceError, with what the file is, if it is of a kind that cannot be read.
    """
    suffix = Path(uncompressed_name(name)).suffix.lower()
    if suffix in PROTOBUF_SUFFIXES:
        return "protobuf"
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith(_AVRO):
        return "avro"
    text = _text(head)
    _check_readable(head, text, name)
    if suffix in _BINARY:
        kind = _BINARY[suffix]
        raise ServiceError(f"{name} cannot be read as {kind}: it does not start like a file of this kind")
    if re.match(r"\[\s*(\{|\]\s*$|$)", text):
        return "array"
    if any(line.startswith("{") for line in text.splitlines()):
        return "lines"
    return "csv" if suffix in {".csv", ".tsv"} or _is_table(text) else "lines"


def _check_readable(head: bytes, text: str, name: str) -> None:
    kind = next((kind for start, kind in _OTHER_KINDS.items() if head.startswith(start)), None)
    if kind is None and text.startswith("{") and _is_open_document(text):
        kind = "a JSON document over several lines"
    if kind is None and _CONTROL.search(head) and not re.search(r"^[^\S\n]*[{\[]", text, re.MULTILINE):
        kind = "binary data of an unknown kind (the name of a Protobuf file ends in .pb or .binpb)"
    if kind is not None:
        raise ServiceError(f"{name} is {kind}: use {READABLE}")


def _is_open_document(text: str) -> bool:
    """Return whether the first line is the start of an object that later lines continue."""
    first, _, rest = text.partition("\n")
    if not rest.strip() or rest.lstrip().startswith("{") or not first.rstrip().endswith(("{", ",", "[")):
        return False
    try:
        orjson.loads(first)
    except orjson.JSONDecodeError:
        return True
    return False


def _text(head: bytes) -> str:
    return head.removeprefix(_BYTE_ORDER_MARK).decode(errors="replace").lstrip()


def _is_table(text: str) -> bool:
    """Return whether the first two lines have the same number of cells, and more than one."""
    rows = list(csv.reader(text.splitlines()[:2], delimiter=delimiter_of(text)))
    return len(rows) == 2 and len(rows[0]) == len(rows[1]) > 1 and all(cell.strip() for cell in rows[0])


def delimiter_of(text: str) -> str:
    """Return the delimiter of a table: the one that occurs most in its first line, the comma if there is none."""
    first = text.partition("\n")[0]
    return max(DELIMITERS, key=first.count)
