"""The events of a text: JSON lines, the elements of a JSON array, or one JSON document, with their numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import orjson

from stream_masker.errors import ServiceError
from stream_masker.service.files.inputs import InputFile, read_errors

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


def array_elements(text: bytes, name: str) -> Iterator[bytes]:
    """Yield the elements of the array that ``text`` holds, with the numbers and texts that are written there.

    Raises ServiceError if the text is not one JSON array.
    """
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        raise ServiceError(f"{name} is not a complete JSON array") from None
    depth, start = 0, 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if depth == 1 and mark in b",]":
            yield from _element(text[start : token.start()])
        if mark in b"[{":
            depth += 1
        elif mark in b"]}":
            depth -= 1
        if depth == 1 and mark in b",[":
            start = token.end()


def document_line(text: bytes, name: str) -> bytes:
    """Return a JSON document as one line. Raises ServiceError if the text is not one document."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        raise ServiceError(f"{name} is not one complete JSON document") from None
    return text.translate(_LINE_BREAKS).strip()


def _element(text: bytes) -> Iterator[bytes]:
    """Yield the element, if it is one: an empty array has none."""
    if stripped := text.translate(_LINE_BREAKS).strip():
        yield stripped


NumberedLine: TypeAlias = tuple[int, bytes]
WriteLine: TypeAlias = Callable[[bytes], object]


def numbered_lines(file: InputFile) -> Iterator[NumberedLine]:
    """Yield (number from 1, event) for each non-blank line, or each element of a JSON array, or for a document.

    An array or a document is held in memory.

    Raises ServiceError for a file that cannot be read to its end.
    """
    with read_errors(file.name):
        if file.kind == "array":
            yield from enumerate(array_elements(file.stream.read(), file.name), start=1)
            return
        if file.kind == "document":
            yield 1, document_line(file.stream.read(), file.name)
            return
        for number, line in enumerate(file.stream, start=1):
            if stripped := line.strip(b"\r\n"):
                yield number, stripped
