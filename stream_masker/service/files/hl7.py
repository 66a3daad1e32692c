"""HL7 v2 messages in files: one after the other, one in a file, or in the frames of MLLP."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

MLLP_START, MLLP_END = b"\x0b", b"\x1c\r"

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BATCH_SEGMENTS = (b"FHS", b"BHS", b"BTS", b"FTS")
_CHUNK = 1 << 16


def starts_hl7(head: bytes) -> bool:
    """Return whether a file starts like one of HL7 v2 messages."""
    start = head.removeprefix(codecs.BOM_UTF8).lstrip(b"\x0b\r\n \t")
    return re.match(rb"(?:MSH|FHS|BHS)[^\w\s][^\w\s]{3,4}", start) is not None


def is_framed(head: bytes) -> bool:
    """Return whether messages have the frames of MLLP."""
    return head.lstrip().startswith(MLLP_START) or head.startswith(MLLP_START)


def hl7_messages(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the messages of a file without frames; headers and trailers of files and batches are left out."""
    message: list[bytes] = []
    for line in _lines(stream):
        text = line.lstrip(b"\x0b\x1c").rstrip(b"\x1c")
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


def message_writer(write: Callable[[bytes], object], *, framed: bool) -> Callable[[bytes], object]:
    """Return a function that writes a masked line, which is a message and a line feed, as messages stand in files."""

    def write_message(line: bytes) -> object:
        message = line[:-1]
        if framed:
            return write(MLLP_START + message.rstrip(b"\r\n") + b"\r" + MLLP_END)
        return write(message if message.endswith((b"\r", b"\n")) else message + b"\r")

    return write_message
