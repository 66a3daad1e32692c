"""From bytes to JSON objects, exactly: what cannot be written back as it was read is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, Final

import orjson

from stream_masker.pipeline.plan import RecordLimits
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

DIGITS_OF_64_BITS: Final = 19
"""The fewest digits of an integer that is beyond 64 bits."""

_AS_ZEROS: Final = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
_MANY_DIGITS: Final = b"0" * DIGITS_OF_64_BITS
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NESTING: Final = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}


def decoder(limits: RecordLimits) -> Callable[[bytes], dict[str, Any]]:
    """A function from a record's value to its object; it raises Unfit for values that are not exactly one.

    Numbers are kept as JSON's usual readers keep them: integers of 64 bits exactly, all others as 64-bit floats.
    """
    most, depth = limits.record_bytes, limits.depth

    def decode(value: bytes) -> dict[str, Any]:
        if len(value) > most:
            raise RecordRejectedError(Reason.TOO_LARGE)
        if value.count(b"{") + value.count(b"[") > depth and nesting(value) > depth:
            raise RecordRejectedError(Reason.TOO_DEEP)
        try:
            document = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise RecordRejectedError(_why_not(value)) from None
        if type(document) is not dict:
            raise RecordRejectedError(Reason.NOT_AN_OBJECT)
        again = orjson.dumps(document)
        if again != value and not _same_members(value, again):
            _read_strictly(value)
        return document

    return decode


def nesting(value: bytes) -> int:
    """How deep objects and lists are nested in the text of a JSON value; brackets in strings do not count."""
    return max(accumulate(_NESTING.get(byte, 0) for byte in _STRING.sub(b"", value)), default=0)


def _why_not(value: bytes) -> Reason:
    try:
        value.decode()
    except UnicodeDecodeError:
        return Reason.NOT_UTF8
    return Reason.NOT_JSON


def _same_members(value: bytes, again: bytes) -> bool:
    """Whether decoding surely lost neither a member nor a digit; False where only a strict reading can tell.

    Reading keeps one member of each key. So the colons of ``again``, the text written back, are as many as those
    of ``value`` when no key was there twice, and fewer when one was: a member has a colon of its own, and the
    others stand in strings. Only a colon that ``value`` writes as an escape (\\u003a) could make up for a lost one.
    """
    return (
        value.count(b":") == again.count(b":")
        and b"\\u003" not in value
        and _MANY_DIGITS not in value.translate(_AS_ZEROS)
    )


def _read_strictly(value: bytes) -> None:
    """Raises Unfit for a key that is there twice, or an integer beyond 64 bits."""
    json.loads(value, object_pairs_hook=_unique, parse_int=_check_integer)


def _unique(members: Iterable[tuple[str, Any]]) -> None:
    keys = [key for key, _ in members]
    if len(keys) != len(set(keys)):
        raise RecordRejectedError(Reason.DUPLICATE_KEY)


def _check_integer(digits: str) -> None:
    if len(digits) > DIGITS_OF_64_BITS + 1 or not -(2**63) <= int(digits) < 2**64:
        raise RecordRejectedError(Reason.NUMBER_TOO_LARGE)
