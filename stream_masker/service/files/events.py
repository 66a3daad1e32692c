"""Files of events: recognised and read by their content, and written by their names.

The first bytes of a file, without its compression, say whether it is Parquet, HL7 v2, JSON or a table with delimiters
(CSV). Text is UTF-8, or UTF-16 with its byte order mark; a table may have any encoding that is named. JSON is lines, an
array or one document.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.pipeline.plan import Plan
from stream_masker.service.configuration.masking import CsvSection
from stream_masker.service.files import FileEvent
from stream_masker.service.files.fields import written_columns
from stream_masker.service.files.streams import (
    COMPRESSED_SUFFIX,
    HEAD_BYTES,
    STANDARD_STREAM,
    WriteLine,
    file_errors,
    open_input,
    open_output,
)
from stream_masker.service.files.tables import CsvTable, ParquetTable, table_form

FileKind: TypeAlias = Literal["json", "csv", "parquet", "hl7"]

_WRITTEN: Final[dict[str, FileKind]] = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    ".hl7": "hl7",
    ".parquet": "parquet",
}
_MARKS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HL7: Final = re.compile(r"[\x0b\s]*(?:MSH|FHS|BHS)[^\w\s][^\w\s]{3,4}")
_BATCH_SEGMENTS: Final = (b"FHS", b"BHS", b"BTS", b"FTS")
_JSON_LINE: Final = re.compile(r"^[^\S\n]*[{\[]", re.MULTILINE)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1a]")


@dataclass(frozen=True, slots=True)
class EventFile:
    """An open file of events: what it is, its events, and the table if it is one.

    Iterating raises ServiceError for a file that cannot be read to its end, with the number of the row that is the
    cause, if one is.
    """

    kind: FileKind
    events: Iterator[FileEvent]
    table: CsvTable | ParquetTable | None = None


@contextmanager
def open_events(name: str, settings: CsvSection, records: str = "") -> Iterator[EventFile]:
    """Open a file of events, or standard input for ``-``.

    settings: the section ``csv``; records: what the configuration calls them, ``hl7v2`` for HL7 v2 messages; empty
    if there is none yet. Raises ServiceError if the file cannot be read, is no file of events or has other records,
    ConfigurationError if the settings do not fit its columns, or for an encoding that is not known.
    """
    shown = "standard input" if name == STANDARD_STREAM else name
    table: CsvTable | ParquetTable | None = None
    with ExitStack() as stack:
        with file_errors(shown, "read"):
            stream = stack.enter_context(open_input(name))
            head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
            encoding = settings.encoding or next((of for mark, of in _MARKS.items() if head.startswith(mark)), "utf-8")
            try:
                text = head.decode(encoding, "replace").removeprefix("\ufeff")
            except LookupError:
                raise ConfigurationError(f"csv.encoding: {encoding!r} is no encoding: use one such as cp1252") from None
            kind = "parquet" if head.startswith(b"PAR1") else _kind_of(text, shown)
            if kind in ("json", "hl7") and encoding == "utf-16":
                raise ServiceError(f"{shown} is in UTF-16, which only tables may be: save it as UTF-8")
            if records and kind == "hl7" and records != "hl7v2":
                raise ServiceError(f"{shown} has HL7 v2 messages: use records: hl7v2, with paths such as DG1[*].3.1")
            if records == "hl7v2" and kind != "hl7":
                raise ServiceError(f"{shown} has no HL7 v2 messages, which start with MSH, but records is hl7v2")
            if kind == "csv":
                table = CsvTable(shown, stream, text, encoding, settings)
            elif kind == "parquet":
                table = ParquetTable(shown, stream)
            rows = None if table is None else table.events()
            events = rows or (hl7_events(stream) if kind == "hl7" else json_events(stream, text, shown))
        yield EventFile(kind, _to_the_end(events, shown), table)


def _to_the_end(events: Iterator[FileEvent], name: str) -> Iterator[FileEvent]:
    with file_errors(name, "read"):
        yield from events


def _kind_of(text: str, name: str) -> FileKind:
    is_named_so = Path(name.removesuffix(COMPRESSED_SUFFIX)).suffix.lower() in {".csv", ".tsv"}
    if _HL7.match(text):
        return "hl7"
    if _JSON_LINE.search(text) or not (is_named_so or text.strip()):
        return "json"
    if not _CONTROL.search(text) and (is_named_so or table_form(text)[1]):
        return "csv"
    readable = "JSON, JSON lines, CSV, Parquet or HL7 v2, plain or compressed with gzip"
    raise ServiceError(f"{name} is no file of events that can be read: use {readable}")


def json_events(stream: BinaryIO, head: str, name: str) -> Iterator[FileEvent]:
    """Yield the non-blank lines of a file, or the elements of an array, or a document of many lines.

    An array or a document is held in memory. head: the first text of the file. Raises ServiceError if an array or a
    document is not complete.
    """
    first, _, rest = (part.strip() for part in head.strip().partition("\n"))
    is_open = first.startswith("{") and not first.endswith("}") and rest != "" and not rest.startswith("{")
    lines: Iterable[bytes] = stream
    if is_open or first.startswith("["):
        try:
            document = json.loads(stream.read())
        except (ValueError, RecursionError):
            raise ServiceError(f"{name} is not one complete JSON document") from None
        lines = (json.dumps(element).encode() for element in (document if isinstance(document, list) else [document]))
    for number, line in enumerate(lines, start=1):
        if event := line.strip(b"\r\n").removeprefix(codecs.BOM_UTF8):
            yield FileEvent(number, event)


def hl7_events(stream: BinaryIO) -> Iterator[FileEvent]:
    """Return the messages of a file, which is held in memory: one after the other, or in the frames of MLLP.

    The frames, and the headers and trailers of files and batches, are left out.
    """
    lines = stream.read().removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)
    kept = [text for line in lines if (text := line.strip(b"\x0b\x1c")).strip() and text[:3] not in _BATCH_SEGMENTS]
    starts = [index for index, text in enumerate(kept) if text.startswith(b"MSH") or not index]
    messages = (b"".join(kept[start:end]) for start, end in pairwise([*starts, len(kept)]))
    return map(FileEvent, count(1), messages)


@contextmanager
def open_writer(name: str, source: EventFile, plan: Plan) -> Iterator[WriteLine]:
    """Open a file for the masked events of another one: of the kind that its suffix says, JSON lines without one.

    HL7 v2 messages stay messages. A table has the columns of its input that the field policy does not drop. Raises
    ServiceError if the file cannot be written, for another suffix, or if the input is not of this kind.
    """
    suffix = Path(name.removesuffix(COMPRESSED_SUFFIX)).suffix.lower()
    kind, usual = _WRITTEN.get(suffix), "hl7" if source.kind == "hl7" else "json"
    if suffix and kind not in (source.kind, usual):
        fitting = [one for one, written in _WRITTEN.items() if written in (source.kind, usual)]
        raise ServiceError(f"{name}: {source.kind} events are not written to files {suffix}: use {', '.join(fitting)}")
    with open_output(name) as stream:
        if source.table is not None and kind == source.kind:
            with source.table.writer(stream, written_columns(source.table.names, plan)) as write:
                yield write
        elif usual == "json":
            yield stream.write
        else:
            # A message ends as its segments do, without the line feed of a line.
            yield lambda line: stream.write(line[:-1] if line.endswith((b"\r\n", b"\n\n")) else line[:-1] + b"\r")
