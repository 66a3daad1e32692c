"""What replaces the values of fields: keyed pseudonyms, and generalized, shifted and constant values.

A transform is a function of the value, the secret's pseudonyms and, for dates, a key of the record. A value that it
cannot transform, such as an invalid date, an object or a list, is dropped: nothing passes unchanged by accident. Null
stays null.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

import orjson

from stream_masker.core.random import Secret
from stream_masker.pipeline.paths import JsonValue, Path

PSEUDONYM_DIGITS: Final = 32
MOST_CACHED: Final = 100_000
LONGEST_CACHED: Final = 256


class Cache(dict[Any, Any]):
    """A function of one argument of which the results are kept, but not those of long texts."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: Any) -> Any:
        result = self._function(key)
        if not isinstance(key, str | bytes) or len(key) <= LONGEST_CACHED:
            if len(self) >= MOST_CACHED:
                self.clear()
            self[key] = result
        return result


class Pseudonyms:
    """32 hexadecimal digits for a text, derived from its keyed hash (``core.random``).

    They do not depend on the text's place, so joins on a patient's id still work. Without the secret, nobody can
    reverse a pseudonym or check it against a guess.
    """

    def __init__(self, secret: bytes | Secret) -> None:
        """Raises ParameterError for a secret of less than 16 bytes."""
        self.secret = secret if isinstance(secret, Secret) else Secret(secret)
        self.of_bytes = Cache(lambda text: self.of_texts([text])[0]).__getitem__
        """Returns the pseudonym of a text in UTF-8."""
        self.offset_hashes = Cache(lambda key: self._of([key], b"masker-offset"))
        """16 bytes for the key of a record's dates, independent of its pseudonym."""

    def of_texts(self, texts: Sequence[bytes]) -> list[str]:
        """Return the pseudonyms of texts in UTF-8; much faster than one by one."""
        digits = self._of(texts, b"masker-pseudonym").hex()
        return [digits[start : start + PSEUDONYM_DIGITS] for start in range(0, len(digits), PSEUDONYM_DIGITS)]

    def _of(self, texts: Sequence[bytes], purpose: bytes) -> bytes:
        """Return 16 bytes for each text, one after another."""
        return self.secret.words(purpose, self.secret.digests(texts)).tobytes()


def masked_keys(treatment: str, keys: Sequence[bytes | None], pseudonyms: Pseudonyms) -> Sequence[bytes | None]:
    """Return the keys of messages, which are kept, dropped or replaced by pseudonyms; None stays None.

    A text has the same pseudonym in a key and in a field.
    """
    if treatment != "pseudonymize":
        return keys if treatment == "keep" else [None] * len(keys)
    new = iter(pseudonyms.of_texts([key for key in keys if key is not None]))
    return [None if key is None else next(new).encode() for key in keys]


def text_of(value: JsonValue) -> bytes:
    """Return the text of a value that is neither an object nor a list: of numbers and truth values their JSON."""
    if isinstance(value, str | UUID | Decimal | datetime.date | datetime.time):
        return str(value).encode()
    return value if isinstance(value, bytes) else orjson.dumps(value)


def key_text(value: JsonValue) -> bytes:
    """Return the text of a key, such as a patient's id; an empty one for what is no key. That of a number is its
    JSON."""
    if type(value) is str:
        return b"" if value.isspace() else value.encode()
    return text_of(value) if type(value) in (int, float, UUID) else b""


DROPPED: Final = object()
"""The result for a value that is dropped."""


class FieldTransform:
    """A transform of the values at a path. A kind overrides ``transform``; null stays null.

    key: the path of the record's key that the transform needs; None if it needs none.
    """

    __slots__ = ()
    key: Path | None = None

    def of_values(
        self, values: Sequence[JsonValue], pseudonyms: Pseudonyms, keys: Sequence[bytes] | None
    ) -> list[JsonValue]:
        """Return the transformed values; keys: those of their records, None if the transform needs none."""
        if keys is not None:
            return list(map(self.of_value, values, repeat(pseudonyms), keys))
        if not {*map(type, values)} <= {str, int}:
            return [self.of_value(value, pseudonyms) for value in values]
        known = {value: self.of_value(value, pseudonyms) for value in set(values)}
        return list(map(known.__getitem__, values))

    def of_value(self, value: JsonValue, pseudonyms: Pseudonyms, key: bytes | None = None) -> Any:
        """Return the transformed value; ``DROPPED`` for a value that cannot be transformed. ``key``: the record's."""
        return None if value is None else self.transform(value, pseudonyms, key)

    def transform(self, value: JsonValue, pseudonyms: Pseudonyms, key: bytes | None) -> Any:
        """Return the transformed value of one that is not null; ``DROPPED`` if there is none."""
        return DROPPED


@dataclass(frozen=True, slots=True)
class Pseudonym(FieldTransform):
    """The pseudonym of a text, number or truth value, or its first ``digits``; 42 and "42" have the same one."""

    digits: int = PSEUDONYM_DIGITS

    def of_values(
        self, values: Sequence[JsonValue], pseudonyms: Pseudonyms, keys: Sequence[bytes] | None
    ) -> list[JsonValue]:
        if {*map(type, values)} != {str}:
            return [self.of_value(value, pseudonyms) for value in values]
        return [digits[: self.digits] for digits in pseudonyms.of_texts(list(map(str.encode, values)))]

    def transform(self, value: JsonValue, pseudonyms: Pseudonyms, key: bytes | None) -> Any:
        if isinstance(value, dict | list):
            return DROPPED
        return pseudonyms.of_bytes(text_of(value))[: self.digits]


@dataclass(frozen=True, slots=True)
class Constant(FieldTransform):
    """The same value in all records, also in place of null."""

    value: str | int | float | bool | None

    def of_value(self, value: JsonValue, pseudonyms: Pseudonyms, key: bytes | None = None) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class NumberBands(FieldTransform):
    """The band of a number as text: ``40-49`` for 47 and a width of 10; from ``top`` on ``90+``, below 0 it is dropped.

    Numbers may also stand as text, as in tables.
    """

    width: int
    top: int | None = None

    def transform(self, value: JsonValue, pseudonyms: Pseudonyms, key: bytes | None) -> Any:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            return DROPPED
        if not 0 <= number < math.inf:
            return DROPPED
        if self.top is not None and number >= self.top:
            return f"{self.top}+"
        start = int(number // self.width) * self.width
        end = start + self.width - 1
        return f"{start}-{end if self.top is None else min(end, self.top - 1)}"


_BAND: Final = re.compile(r"(\d+)(?:-\d+|\+)", re.ASCII)


def least_number(value: JsonValue) -> JsonValue:
    """Return the least number of a band (``40-49``, ``90+``) as text; any other value as it is."""
    band = _BAND.fullmatch(value) if isinstance(value, str) else None
    return value if band is None else band[1]


_DATE: Final = r"(\d{4}-\d\d-\d\d|\d{8}|\d\d\.\d\d\.\d{4})"
_TIME: Final = r"(?:[T ]?\d\d:?\d\d(?::?\d\d(?:[.,]\d{1,9})?)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
_DATE_AND_TIME: Final = re.compile(f"{_DATE}({_TIME})", re.ASCII)


class WrittenDate(NamedTuple):
    """A date in a text: ``1980-03-14``, ``19800314`` or ``14.03.1980``, with or without a time behind it."""

    date: datetime.date
    separator: str = ""
    time: str = ""


def find_date(value: JsonValue) -> WrittenDate | None:
    """Return the date of a text, or of a whole number such as 19800314; None if it has none."""
    if isinstance(value, datetime.date):
        return WrittenDate(value)
    text = str(value) if type(value) is int else value
    return _parsed(text) if type(text) is str and len(text) <= LONGEST_CACHED else None


@lru_cache(maxsize=1 << 16)
def _parsed(text: str) -> WrittenDate | None:
    if (match := _DATE_AND_TIME.fullmatch(text)) is None:
        return None
    separator = next((mark for mark in "-." if mark in match[1]), "")
    with suppress(ValueError):
        return WrittenDate(datetime.date.fromisoformat("-".join(reversed(match[1].split(".")))), separator, match[2])
    return None


@dataclass(frozen=True, slots=True)
class DateUnit(FieldTransform):
    """The month or year of a date or time: ``1980-03`` or ``1980`` for ``1980-03-14``."""

    unit: Literal["month", "year"]

    def transform(self, value: JsonValue, pseudonyms: Pseudonyms, key: bytes | None) -> Any:
        found = find_date(value)
        return DROPPED if found is None else found.date.isoformat()[: 4 if self.unit == "year" else 7]


@dataclass(frozen=True, slots=True)
class DateShift(FieldTransform):
    """A date or time, moved by whole days: from 1 to ``days`` in either direction, the same for equal keys.

    key: the path of the record's key. Intervals between the dates of a key are preserved. A record without the key
    loses the value.
    """

    days: int
    key: Path

    def transform(self, value: JsonValue, pseudonyms: Pseudonyms, key: bytes | None) -> Any:
        found = find_date(value)
        if found is None or not key:
            return DROPPED
        try:
            date = found.date + datetime.timedelta(self.offset(key, pseudonyms))
        except OverflowError:
            return DROPPED
        if found.date is value:
            return date
        parts = date.isoformat().split("-")
        return type(value)(found.separator.join(parts[::-1] if found.separator == "." else parts) + found.time)

    def offset(self, key: bytes, pseudonyms: Pseudonyms) -> int:
        """Return the number of days for a key: uniform in -days, …, -1, 1, …, days, except for a bias below 2⁻⁴⁰."""
        number = int.from_bytes(pseudonyms.offset_hashes[key][:8]) % (2 * self.days)
        return number - self.days if number < self.days else number - self.days + 1


@dataclass(frozen=True, slots=True)
class LeadingCharacters(FieldTransform):
    """The first characters of a text or a number, such as the first three digits of a postcode."""

    characters: int

    def transform(self, value: JsonValue, pseudonyms: Pseudonyms, key: bytes | None) -> Any:
        text = str(value) if type(value) is int else value
        return text[: self.characters] if isinstance(text, str) else DROPPED
