"""Input files of events: recognised by their content, and without their compression.

The first bytes say whether a file is compressed with gzip, and whether it is Parquet, HL7 v2, JSON or a table with
delimiters (CSV). Text is UTF-8, or UTF-16 with its byte order mark; a table may have any encoding that is named.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.pipeline.reasons import RejectionCause
from stream_masker.service.files.outputs import COMPRESSED_SUFFIX, STANDARD_STREAM

FileKind: TypeAlias = Literal["json", "csv", "parquet", "hl7"]

READABLE: Final = "JSON, JSON lines, CSV, Parquet or HL7 v2, plain or compressed with gzip"
DELIMITERS: Final = ",;\t|"

_HEAD_BYTES: Final = 1 << 16
_GZIP: Final = b"\x1f\x8b"
_PARQUET: Final = b"PAR1"
_MARKS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HL7: Final = re.compile(r"[\x0b\s]*(?:MSH|FHS|BHS)[^\w\s][^\w\s]{3,4}")
_JSON_LINE: Final = re.compile(r"^[^\S\n]*[{\[]", re.MULTILINE)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1a]")


class FileEvent(NamedTuple):
    """An event of a file: its number, from 1, and its bytes, without a line break at the end.

    problem: why it is rejected before anything else reads it, such as a row with too many cells; None if it is not.
    """

    number: int
    value: bytes
    problem: RejectionCause | None = None


class Start(NamedTuple):
    """What a file is, its first text without a byte order mark, and the encoding of the whole file."""

    kind: FileKind
    text: str
    encoding: str


@contextmanager
def opened(name: str) -> Iterator[io.BufferedReader]:
    """Open a file without its compression, or standard input for ``-``. Raises ServiceError if it cannot be read."""
    if name == STANDARD_STREAM and sys.stdin is None:
        raise ServiceError("standard input is closed: name an input file")
    with ExitStack() as stack:
        with read_errors(name):
            raw: Any = (
                sys.stdin.buffer if name == STANDARD_STREAM else stack.enter_context(Path(name).open("rb", _HEAD_BYTES))
            )
            stream = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
            if stream.peek(len(_GZIP)).startswith(_GZIP):
                unpacked: Any = gzip.GzipFile(fileobj=stream)
                stream = io.BufferedReader(unpacked, _HEAD_BYTES)
        yield stream


@contextmanager
def read_errors(name: str) -> Iterator[None]:
    """Raise ServiceError for a file that cannot be read to its end."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ServiceError(f"{name} cannot be read to its end: it is not a complete gzip file") from None
    except OSError as error:
        raise ServiceError(f"{name} cannot be read: {error.strerror}") from None


def recognised(stream: io.BufferedReader, encoding: str, name: str) -> Start:
    """Return what a file is, by its first bytes.

    encoding: of a table, empty for UTF-8, or UTF-16 with a byte order mark. Raises ServiceError if it is nothing that
    is read, ConfigurationError for an encoding that is not known.
    """
    with read_errors(name):
        head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    encoding = encoding or next((of for mark, of in _MARKS.items() if head.startswith(mark)), "utf-8")
    try:
        text = head.decode(encoding, "replace").removeprefix("\ufeff")
    except LookupError:
        raise ConfigurationError(f"csv.encoding: {encoding!r} is no encoding: use one such as cp1252") from None
    kind = "parquet" if head.startswith(_PARQUET) else _kind_of(text, name)
    if kind in ("json", "hl7") and encoding == "utf-16":
        raise ServiceError(f"{name} is in UTF-16, which only tables may be: save it as UTF-8")
    return Start(kind, text, encoding)


def _kind_of(text: str, name: str) -> FileKind:
    is_named_so = Path(name.removesuffix(COMPRESSED_SUFFIX)).suffix.lower() in {".csv", ".tsv"}
    if _HL7.match(text):
        return "hl7"
    if _JSON_LINE.search(text) or not (is_named_so or text.strip()):
        return "json"
    if not _CONTROL.search(text) and (is_named_so or table_form(text)[1]):
        return "csv"
    raise ServiceError(f"{name} is no file of events that can be read: use {READABLE}")


def table_form(text: str) -> tuple[str, bool]:
    """Return the delimiter of a table, and whether it splits the first two lines into as many cells, and more than one.

    It is one that does so, because names of columns may contain others (``Diagnosis (ICD-10, coded)``), or else that of
    the most cells in the first line.
    """
    lines = text.splitlines()[:2]

    def fit(delimiter: str) -> tuple[bool, int]:
        cells = [len(row) for row in csv.reader(lines, delimiter=delimiter)] or [1]
        return len(cells) == 2 and cells[0] == cells[1] > 1, cells[0]

    best = max(DELIMITERS, key=fit)
    return best, fit(best)[0]
