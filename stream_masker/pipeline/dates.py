"""Dates and times as texts: ISO 8601, and patterns such as ``%d.%m.%Y``.

A text is read and written in the same form: only the digits of year, month and day are replaced, the time behind them
stays as it is. Patterns of months and years, such as ``%m/%Y``, are read only.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from stream_masker.pipeline.paths import JsonValue

_ISO: Final = re.compile(r"(?P<Y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})(T.*)?", re.ASCII | re.DOTALL)
_DIRECTIVE: Final = re.compile(r"%(.)")
_FORMS: Final = {"Y": r"\d{4}", "y": r"\d{2}", "f": r"\d{1,9}", "z": r"Z|[+-]\d{2}:?\d{2}", "p": "[AaPp][Mm]"}
_TWO_DIGITS: Final = "mdHIMS"
_LIMITS: Final = {"H": 24, "I": 13, "M": 60, "S": 61}
_LATEST_CENTURY: Final = 69
"""Two digits of a year above it are of the 20th century, as in POSIX."""

DATE_DIRECTIVES: Final = frozenset({*_FORMS, *_TWO_DIGITS})
"""The directives of a pattern, as in ``strptime``."""


@dataclass(frozen=True, slots=True)
class FoundDate:
    """A date in a value: a text, a number of digits, or a date or instant itself.

    spans: the start and end of the digits of its year, month and day, as far as it has them. The date of a month or a
    year is its first day.
    """

    date: datetime.date
    value: JsonValue
    spans: tuple[tuple[int, int], ...]

    def moved(self, days: int) -> JsonValue:
        """Return the value of a day with another date, in the same form. Raises OverflowError."""
        if isinstance(self.value, datetime.date):
            return self.value + datetime.timedelta(days)
        date = self.date + datetime.timedelta(days)
        text = str(self.value)
        for (start, end), number in sorted(zip(self.spans, (date.year, date.month, date.day), strict=True))[::-1]:
            width = end - start
            digits = f"{number % 100 if width == 2 else number:0{width}d}"
            text = text[:start] + digits + text[end:]
        return int(text) if isinstance(self.value, int) else text


def find_date(value: JsonValue, patterns: Sequence[str] = ()) -> FoundDate | None:
    """Return the date of a text in ISO 8601 or in one of the patterns, None if there is none.

    With patterns, a whole number is read as its digits, such as 20240131.
    """
    if isinstance(value, datetime.date):
        return FoundDate(datetime.date(value.year, value.month, value.day), value, ((0, 4), (5, 7), (8, 10)))
    if isinstance(value, str):
        return _iso_date(value) or _first(value, patterns)
    return _first(value, patterns) if isinstance(value, int) and not isinstance(value, bool) else None


def date_pattern_problem(pattern: str, *, partial: bool) -> str | None:
    """Return what is wrong with a pattern; None if it has one year, month and day, and only allowed directives.

    partial: whether the day, or the month and the day, may be left out.
    """
    directives = _DIRECTIVE.findall(pattern)
    year, month, day = (sum(directive in kind for directive in directives) for kind in ("Yy", "m", "d"))
    whole = (month, day) == (1, 1) or (partial and (month, day) in {(1, 0), (0, 0)})
    if year == 1 and whole and len(set(directives)) == len(directives) and set(directives) <= DATE_DIRECTIVES:
        return None
    return (
        f"{pattern!r} is not a date format: use %Y (or %y), %m and %d once, as in %d.%m.%Y, and for the time %H, %I, "
        "%M, %S, %f, %p, %z" + ("; %d, or %m and %d, may be left out" if partial else "")
    )


def _iso_date(text: str) -> FoundDate | None:
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return _date_of(match, text)


def _first(value: str | int, patterns: Sequence[str]) -> FoundDate | None:
    for pattern in patterns:
        match = _compiled(pattern).fullmatch(str(value))
        if match is not None and _has_time(match) and (date := _date_of(match, value)) is not None:
            return date
    return None


def _date_of(match: re.Match[str], value: str | int) -> FoundDate | None:
    year = "Y" if "Y" in match.re.groupindex else "y"
    number = int(match[year])
    number += (2000 if number < _LATEST_CENTURY else 1900) if year == "y" else 0
    given = [name for name in (year, "m", "d") if name in match.re.groupindex]
    month, day = (int(match[name]) if name in given else 1 for name in "md")
    try:
        date = datetime.date(number, month, day)
    except ValueError:
        return None
    return FoundDate(date, value, tuple(map(match.span, given)))


def _has_time(match: re.Match[str]) -> bool:
    return all(int(match[name]) < limit for name, limit in _LIMITS.items() if name in match.re.groupindex)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern. Digits that no other character separates have a fixed width."""
    parts = _DIRECTIVE.split(pattern)
    texts, names = parts[::2], parts[1::2]
    expression = re.escape(texts[0])
    for k, name in enumerate(names):
        is_fixed = (k > 0 and not texts[k]) or (k + 1 < len(names) and not texts[k + 1])
        digits = r"\d{2}" if is_fixed else r"\d{1,2}"
        expression += f"(?P<{name}>{_FORMS.get(name, digits)}){re.escape(texts[k + 1])}"
    return re.compile(expression, re.ASCII)
