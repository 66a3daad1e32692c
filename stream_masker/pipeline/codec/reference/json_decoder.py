"""A JSON decoder that accepts only what can be written back without loss."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import orjson

from stream_masker.pipeline.plan import RecordLimits
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

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
