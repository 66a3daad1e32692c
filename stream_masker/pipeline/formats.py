"""Formats of records: how a record is opened as a document of dicts and lists, and written back.

A record is bounded here, before anything else reads it: its size, its depth, and that JSON can hold its values.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import orjson

from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.paths import Document
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import Rejected
from stream_masker.pipeline.transforms import Cache, Pseudonyms

Write: TypeAlias = Callable[[Document], bytes]
Form: TypeAlias = Callable[[bytes], tuple[Document, Write]]
"""Opens a record: returns its document, and what writes it. Raises RecordRejectedError."""

EncodeRecord: TypeAlias = Callable[[Any], bytes]
"""Encodes a masked record, given as a document. Raises RecordRejectedError if it does not fit its schema."""

MAX_DEPTH: Final = 64
"""The maximum depth of a record. An object without objects or lists has depth 1."""

KEY_FIELD: Final = "message.key"
"""The configured path that a rejection names if the record's key is the cause."""


class RecordFormat(ABC):
    """A format of the values of records, and perhaps of their keys. By default keys are bytes, and nothing is needed to
    decode a value.

    Its functions raise RecordRejectedError for a record that is not in the format, and FormatUnavailableError while
    they cannot obtain what they need to decide that.
    """

    records: ClassVar[str]
    """What records in the format are called in log lines."""
    is_bounded: ClassVar[bool] = False
    """Whether the format itself bounds the depth and the numbers of its documents."""
    decodes_keys: bool = False
    """Whether keys are in the format too; if not, a key is bytes."""

    def prepare(self, messages: Iterable[bytes]) -> None:  # noqa: B027
        """Obtain together what decoding these values or keys needs. Raises only FormatUnavailableError."""

    @abstractmethod
    def decode(self, value: bytes) -> tuple[bytes | Document, EncodeRecord]:
        """Return a record as JSON or as a document, and the function that encodes it once it is masked."""

    def decode_key(self, key: bytes) -> tuple[Any, EncodeRecord]:
        """Return a key as JSON or as what JSON stands for, and the function that encodes it once it is masked."""
        raise RecordRejectedError(Reason.NOT_IN_FORMAT)


class FormatUnavailableError(StreamMaskerError):
    """Records cannot be decoded or encoded now, for a reason outside of them. Mask them again later."""


class UnwritableRecordsError(StreamMaskerError):
    """Masked records do not fit the schema that they are written with. rejected: their rejections, by index."""

    def __init__(self, rejected: Mapping[int, Rejected]) -> None:
        super().__init__(f"{len(rejected)} masked records do not fit their schema")
        self.rejected = rejected


def json_form(most_bytes: int) -> Form:
    """Return what opens JSON objects. If a name occurs twice in an object, the last member counts.

    Integers of 64 bits are exact, and larger ones are rejected; all other numbers are 64-bit floats.
    """
    most_deep, loads, dumps = MAX_DEPTH, orjson.loads, orjson.dumps

    def open_record(value: bytes) -> tuple[Document, Write]:
        if len(value) > most_bytes:
            raise RecordRejectedError(Reason.TOO_LARGE)
        if value.count(b"{") + value.count(b"[") > most_deep and nesting(value) > most_deep:
            raise RecordRejectedError(Reason.TOO_DEEP)
        try:
            document = loads(value)
        except orjson.JSONDecodeError:
            raise RecordRejectedError(Reason.NOT_JSON if _is_utf8(value) else Reason.NOT_UTF8) from None
        if type(document) is not dict:
            raise RecordRejectedError(Reason.NOT_AN_OBJECT)
        if _MANY_DIGITS in value.translate(_AS_ZEROS):
            json.loads(value, parse_int=_check_integer)
        return document, dumps

    return open_record


DIGITS_OF_64_BITS: Final = 19
"""The fewest digits of an integer that does not fit into 64 bits."""

_AS_ZEROS: Final = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
_MANY_DIGITS: Final = b"0" * DIGITS_OF_64_BITS
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NESTING: Final = np.zeros(256, np.int64)
_NESTING[[ord("{"), ord("[")]], _NESTING[[ord("}"), ord("]")]] = 1, -1


def nesting(value: bytes) -> int:
    """Return the depth of objects and lists in the text of a JSON value. Brackets in strings do not count."""
    without_strings = _STRING.sub(b"", value) if b"\\" in value else b"".join(value.split(b'"')[::2])
    return int(np.cumsum(_NESTING[np.frombuffer(without_strings, np.uint8)]).max(initial=0))


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_integer(digits: str) -> None:
    if len(digits) > DIGITS_OF_64_BITS + 1 or not -(2**63) <= int(digits) < 2**64:
        raise RecordRejectedError(Reason.NUMBER_TOO_LARGE)


def record_form(record_format: RecordFormat | None, most_bytes: int) -> Form:
    """Return what opens records in a format; None for JSON."""
    open_json = json_form(most_bytes)
    if record_format is None:
        return open_json

    def open_record(value: bytes) -> tuple[Document, Write]:
        if len(value) > most_bytes:
            raise RecordRejectedError(Reason.TOO_LARGE)
        content, encode = record_format.decode(value)
        if isinstance(content, bytes):
            return open_json(content)[0], encode
        if not isinstance(content, dict):
            raise RecordRejectedError(Reason.NOT_AN_OBJECT)
        if not record_format.is_bounded:
            _check_document(content, MAX_DEPTH)
        return content, encode

    return open_record


def document_of(record_format: RecordFormat | None, value: bytes) -> Any:
    """Return the content of a record as JSON has it, also of one that is no object; None as the format stands for JSON.

    Raises RecordRejectedError, and orjson.JSONDecodeError for what is not JSON.
    """
    content: Any = value if record_format is None else record_format.decode(value)[0]
    return orjson.loads(content if isinstance(content, bytes) else orjson.dumps(content, default=str))


def _check_document(value: Any, depth: int) -> None:
    """Raise RecordRejectedError for a document that is nested too deep, or has an integer beyond 64 bits."""
    if type(value) is int:
        if not -(2**63) <= value < 2**64:
            raise RecordRejectedError(Reason.NUMBER_TOO_LARGE)
    elif isinstance(value, dict | list):
        if depth == 0:
            raise RecordRejectedError(Reason.TOO_DEEP)
        for inner in value.values() if isinstance(value, dict) else value:
            _check_document(inner, depth - 1)


class FormattedKeys:
    """Masks keys in a format: each text, number and truth value in a key, at any depth. Null and the names of members
    stay."""

    def __init__(self, record_format: RecordFormat, pseudonyms: Pseudonyms) -> None:
        self._format = record_format
        self._pseudonyms = pseudonyms
        self._outcomes = Cache(self._outcome)

    def masked(self, keys: Sequence[bytes | None]) -> tuple[list[bytes | None], dict[int, Reason]]:
        """Return the masked keys, and the reasons why records cannot be masked because of their keys, by index.

        Raises FormatUnavailableError.
        """
        self._format.prepare(key for key in keys if key is not None)
        outcomes = [None if key is None else self._outcomes[key] for key in keys]
        refused = {index: outcome for index, outcome in enumerate(outcomes) if isinstance(outcome, Reason)}
        return [None if isinstance(outcome, Reason) else outcome for outcome in outcomes], refused

    def _outcome(self, key: bytes) -> bytes | Reason:
        try:
            content, encode = self._format.decode_key(key)
            return encode(self._treated(orjson.loads(content) if isinstance(content, bytes) else content))
        except RecordRejectedError as error:
            return error.reason
        except orjson.JSONDecodeError:
            return Reason.NOT_IN_FORMAT

    def _treated(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._treated(member) for name, member in value.items()}
        if isinstance(value, list):
            return list(map(self._treated, value))
        return self._pseudonyms.of_value(value)
