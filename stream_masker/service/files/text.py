"""The events of a text file: JSON lines, the elements of a JSON array, one JSON document, or HL7 v2 messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final

import orjson

from stream_masker.errors import ServiceError
from stream_masker.service.files.inputs import NumberedLine, WriteLine

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LINE_BREAKS: Final = str.maketrans("\r\n", "  ")
_ARRAY: Final = re.compile(r"\s*\[\s*(\{|\]\s*$|$)")
_BLANK: Final = re.compile(r"[ \t\r\n]*")

_MLLP_START, _MLLP_END = b"\x0b", b"\x1c\r"
_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BATCH_SEGMENTS: Final = (b"FHS", b"BHS", b"BTS", b"FTS")
_CHUNK: Final = 1 << 16


def json_events(stream: BinaryIO, head: str, name: str) -> Iterator[NumberedLine]:
    """Yield the non-blank lines of a file with their numbers, or the elements of an array, or a document of many lines.

    An array or a document is held in memory; numbers keep their digits. head: the first text of the file. Raises
    ServiceError if an array or a document is not complete.
    """
    if _ARRAY.match(head) or _is_document(head):
        yield from enumerate(_elements(stream.read(), name), start=1)
        return
    for number, line in enumerate(stream, start=1):
        stripped = line.strip(b"\r\n")
        if event := stripped.removeprefix(_BYTE_ORDER_MARK) if number == 1 else stripped:
            yield number, event


def _is_document(head: str) -> bool:
    """Return whether the first line is the start of an object that later lines continue."""
    first, _, rest = head.lstrip().partition("\n")
    if not first.rstrip().endswith(("{", ",", "[")) or not rest.strip() or rest.lstrip().startswith("{"):
        return False
    try:
        orjson.loads(first)
    except orjson.JSONDecodeError:
        return first.startswith("{")
    return False


def _elements(content: bytes, name: str) -> Iterator[bytes]:
    decoder = json.JSONDecoder()
    try:
        text = content.decode("utf-8-sig").strip()
        if not isinstance(json.loads(text), list):
            yield text.translate(_LINE_BREAKS).encode()
            return
    except (ValueError, RecursionError):
        raise ServiceError(f"{name} is not one complete JSON document") from None
    start = _blank_end(text, 1)
    while text[start] != "]":
        _, end = decoder.raw_decode(text, start)
        yield text[start:end].translate(_LINE_BREAKS).encode()
        start = _blank_end(text, end)
        if text[start] == ",":
            start = _blank_end(text, start + 1)


def _blank_end(text: str, start: int) -> int:
    match = _BLANK.match(text, start)
    return start if match is None else match.end()


def hl7_messages(stream: BinaryIO) -> Iterator[NumberedLine]:
    """Yield the messages of a file with their numbers: one after the other, or in the frames of MLLP.

    The headers and trailers of files and batches are left out.
    """
    return enumerate(_messages(stream), start=1)


def _messages(stream: BinaryIO) -> Iterator[bytes]:
    message: list[bytes] = []
    for line in _lines(stream):
        text = line.removeprefix(_BYTE_ORDER_MARK).lstrip(b"\x0b\x1c").rstrip(b"\x1c")
        if not text.strip() or text[:3] in _BATCH_SEGMENTS:
            continue
        if text.startswith(b"MSH") and message:
            yield b"".join(message)
            message = []
        message.append(text)
    if message:
        yield b"".join(message)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a stream, which end with CR, LF or both, with their ends."""
    rest = b""
    while chunk := stream.read(_CHUNK):
        *whole, rest = _LINE.findall(rest + chunk)
        yield from whole
    yield from _LINE.findall(rest)


def message_writer(write: WriteLine, *, framed: bool) -> WriteLine:
    """Return a function that writes a masked line, which is a message and a line feed, as messages stand in files."""

    def write_message(line: bytes) -> object:
        message = line[:-1]
        if framed:
            return write(_MLLP_START + message.rstrip(b"\r\n") + b"\r" + _MLLP_END)
        return write(message if message.endswith((b"\r", b"\n")) else message + b"\r")

    return write_message
