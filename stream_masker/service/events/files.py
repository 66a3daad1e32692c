"""Events of files to publish: their values and message keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from stream_masker.pipeline.hl7v2 import Hl7Format, hl7_path
from stream_masker.pipeline.paths import JsonValue, Path, compile_path
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.files.columns import keys
from stream_masker.service.files.csv_table import BAD_ROW
from stream_masker.service.files.text import NumberedLine

GetKey: TypeAlias = Callable[[JsonValue], bytes | None]


@dataclass(frozen=True, slots=True)
class FileEvent:
    """An event to publish."""

    value: bytes
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A line that is not an event: its number, from 1, and the reason, without its content."""

    line: int
    reason: str


def file_events(
    lines: Iterable[NumberedLine], key: str | None, *, hl7: bool = False
) -> Iterator[FileEvent | MalformedLine]:
    """Yield the events of a file with their message keys, and the lines that are none.

    key: the path of the message key, None for no key; hl7: whether the lines are HL7 v2 messages. Raises
    ConfigurationError for a path that selects several values.
    """
    if hl7:
        get = key_getter(None if key is None else hl7_path(compile_path(key), first=True))
        yield from (FileEvent(message, _key(message, get)) for _, message in lines)
        return
    get = key_getter(key)
    for number, line in lines:
        text = line.strip()
        try:
            event = orjson.loads(text)
        except orjson.JSONDecodeError:
            yield MalformedLine(number, "its cells do not fit the header" if line == BAD_ROW else "not JSON")
            continue
        yield FileEvent(text, get(event)) if isinstance(event, dict) else MalformedLine(number, "not a JSON object")


def key_getter(path: Path | str | None) -> GetKey:
    """Return a function that reads an event's message key; None if the event has no value there, or without a path.

    Raises ConfigurationError if the path selects several values.
    """
    if path is None:
        return lambda _: None
    steps = keys(compile_path(path) if isinstance(path, str) else path)

    def get(event: JsonValue) -> bytes | None:
        for step in steps:
            try:
                event = event[step]
            except (LookupError, TypeError):
                return None
        return event.encode() if isinstance(event, str) else None if event is None else orjson.dumps(event)

    return get


def _key(message: bytes, get: GetKey) -> bytes | None:
    try:
        return get(Hl7Format().decode(message)[0])
    except RecordRejectedError:
        return None
