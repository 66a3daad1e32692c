"""The events of a text file: JSON lines, the elements of a JSON array, one JSON document, or HL7 v2 messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import BinaryIO, Final

import orjson

from stream_masker.errors import ServiceError
from stream_masker.service.files.inputs import FileEvent

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BATCH_SEGMENTS: Final = (b"FHS", b"BHS", b"BTS", b"FTS")


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
