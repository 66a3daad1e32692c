"""Formats of records: how a record is opened as a document of dicts and lists, and written back.

A record is bounded here, before anything else reads it: its size, its depth, and that JSON can hold its values.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec
import orjson

from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.paths import Document, Path
from stream_masker.pipeline.records import Reason, RecordRejectedError

Write: TypeAlias = Callable[[Any], bytes]
"""Writes a masked document. Raises RecordRejectedError if it does not fit its schema."""

Opened: TypeAlias = tuple[Document, Write]
"""The document of a record, and what writes it."""

Form: TypeAlias = Callable[[bytes], Opened]
"""Opens a record. Raises RecordRejectedError."""

encode_json: Final = msgspec.json.Encoder().encode
"""Writes structs and dicts alike."""

MAX_DEPTH: Final = 64
"""The maximum depth of a record. An object without objects or lists has depth 1."""


class RecordFormat(ABC):
    """A format of the values of records. By default nothing is needed to decode a value.

    Its functions raise RecordRejectedError for a record that is not in the format, and FormatUnavailableError while
    they cannot obtain what they need to decide that.
    """

    def prepare(self, values: Iterable[bytes]) -> None:  # noqa: B027
        """Obtain together what decoding these values needs. Raises only FormatUnavailableError."""

    def reading(self, paths: Iterable[Path]) -> RecordFormat:
        """Return the format for readers of these paths alone, who drop the rest of a record."""
        return self

    @abstractmethod
    def decode(self, value: bytes) -> tuple[bytes | Document, Write]:
        """Return a record as JSON or as a document, and what writes it once it is masked."""


class FormatUnavailableError(StreamMaskerError):
    """Records cannot be decoded or encoded now, for a reason outside of them. Mask them again later."""


LONG: Final = 19
"""The fewest digits of an integer that does not fit into 64 bits."""

_MANY_DIGITS: Final = b"0" * LONG
_CAUSES: Final = {"depth": Reason.TOO_DEEP, "not valid UTF-8": Reason.NOT_UTF8}
"""Why a text is not read as JSON, by the words of orjson's message."""

_MARKS: Final = bytes.maketrans(b"123456789{", b"0" * 9 + b"[")
"""Makes all digits equal, and all beginnings of objects and lists."""


def record_form(record_format: RecordFormat | None, most_bytes: int = 1 << 62) -> Form:
    """Return what opens records in a format, None for JSON; most_bytes: the maximum size of a record.

    If a name occurs twice in an object of JSON, the last member counts. Integers of 64 bits are exact, and larger ones
    are rejected; all other numbers are 64-bit floats.
    """
    decode = None if record_format is None else record_format.decode

    def open_record(value: bytes) -> Opened:
        if len(value) > most_bytes:
            raise RecordRejectedError(Reason.TOO_LARGE)
        content, write = (value, encode_json) if decode is None else decode(value)
        document = _parsed(content) if isinstance(content, bytes) else content
        if type(document) is not dict:
            raise RecordRejectedError(Reason.NOT_AN_OBJECT)
        if document is content:
            _check(document)
        return document, write

    return open_record


def _parsed(text: bytes) -> Any:
    """Return the value of JSON. Raises RecordRejectedError."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        reason = next((reason for words, reason in _CAUSES.items() if words in error.msg), Reason.NOT_JSON)
        raise RecordRejectedError(reason) from None
    marks = text.translate(_MARKS)
    if marks.count(b"[") > MAX_DEPTH:
        _check(value)
    if _MANY_DIGITS in marks:
        json.loads(text, parse_int=lambda digits: _check_number(int(digits[: 2 * LONG])))
    return value


def _check(document: Any) -> None:
    """Raise RecordRejectedError for a document that is nested too deep, or has an integer beyond 64 bits."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        values = list(chain.from_iterable(inner))
        for number in [value for value in values if type(value) is int]:
            _check_number(number)
        level = [value for value in values if isinstance(value, (dict, list))]
        if not level:
            return
    raise RecordRejectedError(Reason.TOO_DEEP)


def _check_number(number: int) -> None:
    if not -(2**63) <= number < 2**64:
        raise RecordRejectedError(Reason.NUMBER_TOO_LARGE)
