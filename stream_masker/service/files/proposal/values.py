"""What the values of a field are, from their form: codes, dates, ages, categories or free text."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import product
from typing import Final

from stream_masker.pipeline.dates import find_date

LEAST_CODES: Final = 0.3
"""The least share of a field's different values that look like codes. Below it, they do so by chance."""

LEAST_DATES: Final = 0.9
LONGEST_CATEGORY: Final = 24
MOST_CATEGORIES: Final = 20
_BAND: Final = re.compile(r"[\[(]?\d{1,3}\s*(?:-|–|bis|to|a)\s*\d{1,3}[\])]?|[<>≥≤]=?\s*\d{1,3}|\d{1,3}\+")
_SEXES: Final = """
m f w d x u o h v k male female other unknown männlich weiblich divers unbekannt homme femme hombre mujer man vrouw
maschio femmina masculino feminino mann kvinne
"""
_CODE: Final = re.compile(
    r"(?=\S{3,16}(?:\s|$))(?:[A-Z]{1,6}[:_]?\d|\d{1,8}[-./]\d|\d{2}[A-Z]\d|\d(?=[0-9A-Z]*[A-Z]))\S*"
)
"""The first word of a text with a code: a few letters and digits, such as E11.9, 5-470.11, 2093-3, HP:0001250."""

_NUMBER_CODE: Final = re.compile(r"[1-9]\d{2}(?:\.\d{1,2})?|\d{5}|[1-9]\d{5,17}")
"""Codes that are numbers, of ICD-9, CPT and SNOMED CT; only a field of which all values look so has such codes."""

_SEPARATORS: Final = re.compile(r"[;,|/~]\s*|\s+")
_DAYS: Final = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y"),
    *("%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d"),
)
_TIMES: Final = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M")
DATE_FORMATS: Final = (
    *(day + time for day, time in product(_DAYS, _TIMES)),
    *("%Y-%m-%d" + time for time in (" %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %H:%M:%S%z", " %H:%M:%S.%f%z")),
    *("%Y%m%d" + time for time in ("", "%H%M", "%H%M%S", "%H%M%z", "%H%M%S%z", "%H%M%S.%f", "%H%M%S.%f%z")),
    *("%m/%Y", "%m.%Y", "%m-%Y", "%Y-%m", "%Y/%m"),
)
"""The formats of dates and months that are looked for, beside ISO 8601."""

DIGIT_FORMATS: Final = ("%Y%m", "%Y")
"""The formats of months and years without separators, which only a field with the name of a date or a year has."""

_LOINC_YEAR: Final = re.compile(r"\d{4}-\d")
"""A code of LOINC that could be a month: 2093-3."""


def look_coded(values: Collection[str]) -> bool:
    """Return whether values look like codes of a classification, alone, before a label, or several in one text."""
    matching = sum(_CODE.match(value.rpartition("|")[2].strip().upper()) is not None for value in values)
    if matching >= LEAST_CODES * len(values):
        return True
    return all(_NUMBER_CODE.fullmatch(value.partition("|")[0].strip()) for value in values)


def separators(text: str) -> list[str]:
    """Return what may stand between the codes of a text that has several."""
    return _SEPARATORS.findall(text.strip())


def date_formats(values: Sequence[str], *, is_named: bool = False) -> tuple[str, ...] | None:
    """Return the formats of dates beside ISO 8601; None if less than ``LEAST_DATES`` of the values are dates.

    is_named: whether the field has the name of a date or a year, so that ``DIGIT_FORMATS`` are looked for, too.
    """
    known = DATE_FORMATS + DIGIT_FORMATS * is_named
    rest = [value for value in values if not _is_date(value, ())]
    formats: list[str] = []
    while rest:
        best = max(known, key=lambda form: sum(_is_date(value, (form,)) for value in rest))
        left = [value for value in rest if not _is_date(value, (best,))]
        if len(left) == len(rest):
            break
        rest, formats = left, [*formats, best]
    return tuple(formats) if values and len(rest) <= (1 - LEAST_DATES) * len(values) else None


def _is_date(value: str, formats: Sequence[str]) -> bool:
    date = find_date(value, formats)
    return date is not None and 1850 <= date.date.year <= 2150 and _LOINC_YEAR.fullmatch(value) is None


def are_in_future(values: Iterable[str], formats: Sequence[str]) -> bool:
    """Return whether some dates with two digits of the year are in the future, as births before 1969 are (``%y``)."""
    short = [form for form in formats if "%y" in form]
    dates = (find_date(value, short) for value in values) if short else ()
    return any(date is not None and date.date > datetime.date.today() for date in dates)


def are_numbers(values: Iterable[str], low: float, high: float) -> bool:
    """Return whether texts are numbers in a range."""
    try:
        return all(low <= float(value) <= high for value in values)
    except ValueError:
        return False


def are_bands(values: Iterable[str]) -> bool:
    """Return whether texts are bands of numbers, such as ``[60-70)`` or ``90+``."""
    return all(_BAND.fullmatch(value.strip()) for value in values)


def are_sexes(values: Iterable[str]) -> bool:
    """Return whether texts are words for the sex of a person."""
    return all(value.strip().casefold() in _SEXES.split() for value in values)


def are_categories(values: Collection[str]) -> bool:
    """Return whether texts are few and short, without three digits that are not those of a year."""
    few = len(values) <= MOST_CATEGORIES
    short = all(len(value) <= LONGEST_CATEGORY and len(value.split()) <= 3 for value in values)
    return few and short and not any(re.search(r"\d{3}", re.sub(r"(?:19|20)\d\d", "", value)) for value in values)


def are_tokens(values: Iterable[str]) -> bool:
    """Return whether no text has a space: numbers and other identifiers."""
    return not any(re.search(r"\s", value.strip()) for value in values)
