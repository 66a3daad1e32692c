"""Files of events: opened for reading by their content, and for writing by their names.

Text has JSON lines, a JSON array, one JSON document, or HL7 v2 messages; tables have modules of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from stream_masker.errors import ServiceError
from stream_masker.pipeline.plan import Plan
from stream_masker.service.configuration.masking import CsvSection
from stream_masker.service.files.fields import written_columns
from stream_masker.service.files.inputs import FileEvent, FileKind, opened, read_errors, recognised
from stream_masker.service.files.outputs import COMPRESSED_SUFFIX, STANDARD_STREAM, WriteLine, open_output
from stream_masker.service.files.tables import CsvTable, ParquetTable

_WRITTEN: Final[dict[str, FileKind]] = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    ".hl7": "hl7",
    ".parquet": "parquet",
}
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BATCH_SEGMENTS: Final = (b"FHS", b"BHS", b"BTS", b"FTS")


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
    if there is none yet. Raises ServiceError if the file cannot be read or has other records, ConfigurationError if the
    settings do not fit its columns.
    """
    shown = "standard input" if name == STANDARD_STREAM else name
    with opened(name) as stream:
        start = recognised(stream, settings.encoding, shown)
        is_hl7, table = start.kind == "hl7", None
        if records and is_hl7 and records != "hl7v2":
            raise ServiceError(f"{name} has HL7 v2 messages: use records: hl7v2, with paths such as DG1[*].3.1")
        if records == "hl7v2" and not is_hl7:
            raise ServiceError(f"{name} has no HL7 v2 messages, which start with MSH, but records is hl7v2")
        with read_errors(shown):
            if start.kind in ("csv", "parquet"):
                is_csv = start.kind == "csv"
                table = CsvTable(shown, stream, start, settings) if is_csv else ParquetTable(shown, stream)
                events = table.events()
            else:
                events = hl7_events(stream) if is_hl7 else json_events(stream, start.text, shown)
        yield EventFile(start.kind, _to_the_end(events, shown), table)


def _to_the_end(events: Iterator[FileEvent], name: str) -> Iterator[FileEvent]:
    with read_errors(name):
        yield from events


def json_events(stream: BinaryIO, head: str, name: str) -> Iterator[FileEvent]:
    """Yield the non-blank lines of a file, or the elements of an array, or a document of many lines.

    An array or a document is held in memory. head: the first text of the file. Raises ServiceError if an array or a
    document is not complete.
    """
    if not _spans_lines(head):
        for number, line in enumerate(stream, start=1):
            stripped = line.strip(b"\r\n")
            if event := stripped.removeprefix(_BYTE_ORDER_MARK) if number == 1 else stripped:
                yield FileEvent(number, event)
        return
    try:
        document = json.loads(stream.read())
    except (ValueError, RecursionError):
        raise ServiceError(f"{name} is not one complete JSON document") from None
    for number, element in enumerate(document if isinstance(document, list) else [document], start=1):
        yield FileEvent(number, json.dumps(element).encode())


def _spans_lines(head: str) -> bool:
    """Return whether the first line starts an array, or an object that later lines continue."""
    first, _, rest = head.lstrip().partition("\n")
    if first.startswith("[") or not (first.startswith("{") and rest.strip()) or rest.lstrip().startswith("{"):
        return first.startswith("[")
    try:
        orjson.loads(first)
    except orjson.JSONDecodeError:
        return True
    return False


def hl7_events(stream: BinaryIO) -> Iterator[FileEvent]:
    """Return the messages of a file, which is held in memory: one after the other, or in the frames of MLLP.

    The frames, and the headers and trailers of files and batches, are left out.
    """
    messages: list[bytes] = []
    for line in stream.read().removeprefix(_BYTE_ORDER_MARK).splitlines(keepends=True):
        text = line.strip(b"\x0b\x1c")
        if not text.strip() or text[:3] in _BATCH_SEGMENTS:
            continue
        if text.startswith(b"MSH") or not messages:
            messages.append(text)
        else:
            messages[-1] += text
    return map(FileEvent, count(1), messages)


@contextmanager
def open_writer(name: str, source: EventFile, plan: Plan) -> Iterator[WriteLine]:
    """Open a file for the masked events of another one: of the kind that its suffix says, JSON lines without one.

    HL7 v2 messages stay messages. A table has the columns of its input that the field policy does not drop. Raises
    ServiceError if the file cannot be written, for another suffix, or if the input is not of this kind.
    """
    is_hl7, table = source.kind == "hl7", source.table
    suffix = Path(name.removesuffix(COMPRESSED_SUFFIX)).suffix.lower()
    kind, usual = _WRITTEN.get(suffix), "hl7" if is_hl7 else "json"
    if suffix and kind not in (source.kind, usual):
        fitting = [one for one, written in _WRITTEN.items() if written in (source.kind, usual)]
        raise ServiceError(f"{name}: {source.kind} events are not written to files {suffix}: use {', '.join(fitting)}")
    with open_output(name) as stream:
        if is_hl7:
            # A message ends as its segments do, without the line feed of a line.
            yield lambda line: stream.write(line[:-1] if line.endswith((b"\r\n", b"\n\n")) else line[:-1] + b"\r")
        elif table is None or kind != source.kind:
            yield stream.write
        else:
            with table.writer(stream, written_columns(table.names, plan)) as write:
                yield write
