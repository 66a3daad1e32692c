"""Input files of events: what a file is, seen from its content, and its bytes without compression.

Gzip and zstd are recognised by their first bytes, and so are Parquet, Avro and files of other kinds, which are named in
the error. A Protobuf file has no such bytes; its suffix says what it is. A text is JSON, HL7 v2 messages or a table
with delimiters (CSV). The suffix decides only about texts that could be both.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, cast

import cramjam
import orjson

from stream_masker.errors import ServiceError
from stream_masker.service.files.hl7 import is_framed, starts_hl7
from stream_masker.service.files.outputs import STANDARD_STREAM, uncompressed_name
from stream_masker.service.files.schemas import schema_kind

log = logging.getLogger(__name__)

FileKind: TypeAlias = Literal["lines", "array", "document", "csv", "parquet", "avro", "protobuf", "hl7"]

READABLE = "JSON, JSON lines, CSV, Parquet, Avro, Protobuf or HL7 v2, also compressed with gzip or zstd"
DELIMITERS = ",;\t|"
PROTOBUF_SUFFIXES = (".pb", ".binpb")

_HEAD_BYTES = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP, _ZSTD, _PARQUET, _AVRO = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"Obj\x01"
_JSON_LINE = re.compile(r"^[^\S\n]*[{\[]", re.MULTILINE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a]")
_BINARY = {".parquet": "Parquet", ".avro": "Avro"}
EXCEL = "an Excel workbook, of which each sheet can be saved as CSV"
_WORKBOOKS = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls"), EXCEL),
    ".ods": "an OpenDocument workbook, of which each sheet can be saved as CSV",
}
_OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive",
    b"\xd0\xcf\x11\xe0": EXCEL,
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"ORC": "an ORC file",
    b"ARROW1": "an Arrow file",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "text in UTF-16, which can be saved as UTF-8",
    b"\xfe\xff": "text in UTF-16, which can be saved as UTF-8",
    b"<": "XML or HTML",
    b"%PDF": "a PDF file",
}

_DECLARED_DELIMITER = re.compile(rb"(?:\xef\xbb\xbf)?\"?sep=([;,\t|])\"?\r?\n")
"""The first line by which Excel knows the delimiter of a table."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """An open file: its name for messages, its kind, its bytes without compression, and the file on disk.

    delimiter: of the cells of a CSV file; encoding: of its text; is_framed: whether HL7 v2 messages have the frames of
    MLLP.
    """

    name: str
    kind: FileKind
    stream: BinaryIO
    raw: BinaryIO
    size: int
    delimiter: str = ","
    encoding: str = "utf-8-sig"
    is_framed: bool = False

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
        declared = _DECLARED_DELIMITER.match(head)
        if declared is not None:
            stream.read(declared.end())
            head = head[declared.end() :]
        kind = kind_of(head, shown)
        if head.startswith(_BYTE_ORDER_MARK) and kind != "protobuf":
            stream.read(len(_BYTE_ORDER_MARK))
        is_table = kind == "csv"
        delimiter = declared[1].decode() if declared else delimiter_of(_text(head)) if is_table else ","
        encoding = encoding_of(raw, head, shown) if is_table else "utf-8-sig"
        yield InputFile(shown, kind, cast(BinaryIO, stream), raw, size, delimiter, encoding, is_framed(head))


def encoding_of(raw: BinaryIO, head: bytes, name: str) -> str:
    """Return the encoding of a table: UTF-8, or Windows-1252 if the file is not UTF-8, which a warning says.

    Of a compressed file or a pipe, only the start is looked at.
    """
    if _is_utf8([head]) and (head[:2] == _GZIP or not raw.seekable() or _is_utf8(_whole(raw))):
        return "utf-8-sig"
    _warn_of_encoding(name)
    return "cp1252"


@cache
def _warn_of_encoding(name: str) -> None:
    """Warn once of each file, also if it is read several times."""
    log.warning("%s is not UTF-8: it is read as Windows-1252, and what is written is UTF-8", name)


def _whole(raw: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a file on disk, and go back to where it was; nothing of a compressed one."""
    position = raw.tell()
    raw.seek(0)
    start = raw.read(4)
    if not start.startswith((_GZIP, _ZSTD)):
        yield start
        yield from iter(lambda: raw.read(_HEAD_BYTES), b"")
    raw.seek(position)


def _is_utf8(parts: Iterable[bytes]) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for part in parts:
            decoder.decode(part)
    except UnicodeDecodeError:
        return False
    return True


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
    if (schema := schema_kind(name, head)) is not None:
        raise ServiceError(f"{name} is {schema}")
    magic: tuple[tuple[bool, FileKind], ...] = (
        (head.startswith(_PARQUET), "parquet"),
        (head.startswith(_AVRO), "avro"),
        (starts_hl7(head), "hl7"),
    )
    if (named := next((kind for starts, kind in magic if starts), None)) is not None:
        return named
    text = _text(head)
    _check_readable(head, text, name)
    if suffix in _BINARY:
        kind = _BINARY[suffix]
        raise ServiceError(f"{name} cannot be read as {kind}: it does not start like a file of this kind")
    json_kind = _json_kind(text)
    if json_kind is None and (suffix in {".csv", ".tsv"} or _is_table(text)):
        return "csv"
    if not text:
        return "lines"
    if json_kind is None:
        raise ServiceError(f"{name} is text without columns, and no line of it is a JSON object: use {READABLE}")
    return json_kind


def _json_kind(text: str) -> FileKind | None:
    """Return the kind of JSON that a text starts with; None if it does not look like JSON."""
    if re.match(r"\[\s*(\{|\]\s*$|$)", text):
        return "array"
    if text.startswith("{") and _is_open_document(text):
        return "document"
    return "lines" if _JSON_LINE.search(text) else None


def _check_readable(head: bytes, text: str, name: str) -> None:
    kind = next((kind for start, kind in _OTHER_KINDS.items() if head.startswith(start)), None)
    if kind is not None:
        kind = _WORKBOOKS.get(Path(name).suffix.lower(), kind)
    if kind is None and _CONTROL.search(head) and not _JSON_LINE.search(text):
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
    """Return the delimiter of a table, or the comma if there is none: the one of the most cells in the first line.

    A delimiter that splits the first two lines into the same number of cells comes first, as names of columns may
    contain others: ``Diagnosis (ICD-10, coded)``.
    """
    lines = text.splitlines()[:2]

    def fit(delimiter: str) -> tuple[bool, int]:
        cells = [len(row) for row in csv.reader(lines, delimiter=delimiter)] or [1]
        return len(set(cells)) == 1 and cells[0] > 1, cells[0]

    return max(DELIMITERS, key=fit)
