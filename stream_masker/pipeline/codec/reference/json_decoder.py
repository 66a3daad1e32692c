"""A lossless JSON decoder, and the fields that control masking: noise key, unit, alpha and counted fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import orjson

from stream_masker.pipeline.codec.numbers import default_alpha, header_alpha, parse_alpha
from stream_masker.pipeline.codec.reference.matching import Matches, matcher
from stream_masker.pipeline.paths import JsonValue, Path, PathTrie
from stream_masker.pipeline.plan import AlphaSource, CountedField, RecordLimits
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import InputRecord

DIGITS_OF_64_BITS: Final = 19
"""The fewest digits of an integer that does not fit into 64 bits."""

_AS_ZEROS: Final = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
_MANY_DIGITS: Final = b"0" * DIGITS_OF_64_BITS
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NESTING: Final = np.zeros(256, np.int64)
_NESTING[[ord("{"), ord("[")]], _NESTING[[ord("}"), ord("]")]] = 1, -1


def decoder(limits: RecordLimits) -> Callable[[bytes], dict[str, Any]]:
    """Return a function from a record's value to its object. It raises RecordRejectedError for any other value.

    Numbers have their usual precision: integers of 64 bits are exact, all other numbers are 64-bit floats.
    """
    max_bytes, max_depth = limits.record_bytes, limits.depth

    def decode(value: bytes) -> dict[str, Any]:
        if len(value) > max_bytes:
            raise RecordRejectedError(Reason.TOO_LARGE)
        if value.count(b"{") + value.count(b"[") > max_depth and nesting(value) > max_depth:
            raise RecordRejectedError(Reason.TOO_DEEP)
        try:
            document = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise RecordRejectedError(_syntax_reason(value)) from None
        if type(document) is not dict:
            raise RecordRejectedError(Reason.NOT_AN_OBJECT)
        encoded = orjson.dumps(document)
        if encoded != value and not _is_lossless(value, encoded):
            _decode_strictly(value)
        return document

    return decode


def nesting(value: bytes) -> int:
    """Return the depth of objects and lists in the text of a JSON value. Brackets in strings do not count."""
    without_strings = np.frombuffer(_STRING.sub(b"", value), np.uint8)
    return int(np.cumsum(_NESTING[without_strings]).max(initial=0))


def _syntax_reason(value: bytes) -> Reason:
    try:
        value.decode()
    except UnicodeDecodeError:
        return Reason.NOT_UTF8
    return Reason.NOT_JSON


def _is_lossless(value: bytes, encoded: bytes) -> bool:
    r"""Return whether decoding certainly lost neither a member nor a digit. If False, only a strict decoder can decide.

    ``encoded``: the decoded value, encoded again. Decoding keeps one member of each key. Every member has a colon of
    its own; all other colons are in strings. So ``encoded`` has as many colons as ``value`` if no key occurs twice, and
    fewer otherwise. Only a colon that ``value`` writes as an escape (\u003a) could hide a lost one.
    """
    return (
        value.count(b":") == encoded.count(b":")
        and b"\\u003" not in value
        and _MANY_DIGITS not in value.translate(_AS_ZEROS)
    )


def _decode_strictly(value: bytes) -> None:
    """Raise RecordRejectedError if a key occurs twice, or an integer does not fit into 64 bits."""
    json.loads(value, object_pairs_hook=_check_unique, parse_int=_check_integer)


def _check_unique(members: Sequence[tuple[str, Any]]) -> None:
    if len(dict(members)) != len(members):
        raise RecordRejectedError(Reason.DUPLICATE_KEY)


def _check_integer(digits: str) -> None:
    if len(digits) > DIGITS_OF_64_BITS + 1 or not -(2**63) <= int(digits) < 2**64:
        raise RecordRejectedError(Reason.NUMBER_TOO_LARGE)


Document: TypeAlias = dict[str, Any]

_ABSENT: Final = object()


def noise_key_reader(path: Path) -> Callable[[Document], bytes]:
    """Return a function from a record to the text of its noise key in UTF-8. It raises like ``read_noise_key``."""
    match = matcher(PathTrie.of([(path, 0)]))
    return lambda document: read_noise_key(match(document), 0, path)


def read_noise_key(matches: Matches, number: int, path: Path) -> bytes:
    """Return the text of a record's noise key in UTF-8; number: that of the key's path among the matches.

    The text of a number is its JSON. Raises RecordRejectedError (missing_noise_key) for null, a truth value, an object,
    a list, and an empty or blank text.
    """
    key = _first_value(matches, number, path)
    if type(key) is int or type(key) is float:
        return orjson.dumps(key)
    if type(key) is str and not key.isspace() and key:
        return key.encode()
    raise RecordRejectedError(Reason.MISSING_NOISE_KEY, path.text)


def unit_reader(path: Path, limits: RecordLimits) -> Callable[[bytes], bytes]:
    """Return a function from the bytes of a record to the text of its unit.

    The text is formed like that of a noise key. The records must have been decoded before. All records without such a
    text belong to one unit, the empty text.
    """
    decode, read = decoder(limits), noise_key_reader(path)

    def unit(value: bytes) -> bytes:
        try:
            return read(decode(value))
        except RecordRejectedError:
            return b""

    return unit


def alpha_reader(source: AlphaSource, number: int | None) -> Callable[[Matches, InputRecord], float]:
    """Return a function from a record to its alpha, in [``source.least``, 10]; NaN for a record without one, if there
    is no default.

    number: that of the alpha's path among the matches; None if the alpha is in a header. The function raises
    RecordRejectedError (alpha_out_of_range) for a field or header that is not an alpha. A null counts as no alpha.
    """
    path = source.path
    if path is None or number is None:
        from_header = header_alpha(source)
        return lambda _, record: from_header(record)
    default = default_alpha(source)

    def read(matches: Matches, _: InputRecord) -> float:
        value = _first_value(matches, number, path)
        return default if value is _ABSENT else parse_alpha(value, path.text, least=source.least)

    return read


def kind_reader(fields: Sequence[CountedField], numbers: Sequence[int]) -> Callable[[Matches], list[int]]:
    """Return a function from a record to the kind of each counted field; never a rejection.

    numbers: those of the fields' paths among the matches. A field that is absent is of the other kind, as is one that
    has another shape than its path requires.
    """

    def read(matches: Matches) -> list[int]:
        values = [_first_value(matches, number, field.path) for number, field in zip(numbers, fields, strict=True)]
        return [field.other if v is _ABSENT else field.kind_of(v) for v, field in zip(values, fields, strict=True)]

    return read


def _first_value(matches: Matches, number: int, path: Path) -> JsonValue:
    """Return the first value that a path selects.

    Return ``_ABSENT`` if the path selects nothing, and None if a value has another shape than the path requires.
    """
    try:
        slots = matches.slots_of(number, path)
    except RecordRejectedError:
        return None
    return slots[0][0][slots[0][1]] if slots else _ABSENT
