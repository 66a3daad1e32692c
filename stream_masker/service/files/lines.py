"""The events of a text: JSON lines, the elements of a JSON array, or one JSON document, with their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from stream_masker.service.files.inputs import InputFile, read_errors
from stream_masker.service.files.json_array import array_elements, document_line

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
