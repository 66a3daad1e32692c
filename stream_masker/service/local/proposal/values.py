"""What the values of a field are, from their form: codes, dates, ages, categories or free text."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import product
from typing import Final

from stream_masker.pipeline.dates import find_date

LEAST_CODES: Final = 0.3
"""The least share of a field's different values that look like codes of a kind. Below it, they do so by chance."""

LEAST_DATES: Final = 0.9
LEAST_SEVERAL: Final = 2
LEAST_SHARE_OF_SEVERAL: Final = 0.05
"""The least number and share of a field's different values with several codes, for all of them to be lists."""

LONGEST_CATEGORY: Final = 24
MOST_CATEGORIES: Final = 20
_SEPARATORS: Final = re.compile(r"[;,|/\s~]+")
_BAND: Final = re.compile(r"[\[(]?\d{1,3}\s*(?:-|–|bis|to|a)\s*\d{1,3}[\])]?|[<>≥≤]=?\s*\d{1,3}|\d{1,3}\+")
_SEXES: Final = """
m f w d x u o h v k male female other unknown männlich weiblich divers unbekannt homme femme hombre mujer man vrouw
maschio femmina masculino feminino mann kvinne
"""

_SHAPES: Final = {
    "LOINC": re.compile(r"\d{2,7}-\d"),
    "OPS": re.compile(r"\d-\d{2}[0-9A-Z](?:\.[0-9A-Z]{1,3})?(?::?[RLB])?"),
    "CCAM": re.compile(r"[A-Z]{4}\d{3}"),
    "ATC": re.compile(r"[A-DGHJLMNPRSV]\d{2}[A-Z]{2}\d{2}"),
    "DRG": re.compile(r"[A-Z]\d{2}[A-Z]"),
    "HCPCS or CPT": re.compile(r"[A-V]\d{4}|\d{4}[FTU]|\d{5}-\d{2}"),
    "GHM": re.compile(r"\d{2}[CMKZH]\d{2}[1-4A-EJTZ]"),
    "NDC": re.compile(r"\d{4,5}-\d{3,4}-\d{1,2}"),
    "ICD": re.compile(r"[A-TV-Z]\d[0-9AB](?:\.?[0-9A-Z]{1,4}|\.-)?[GVAZRLB†*+!#]{0,2}"),
    "HPO, Orphanet or OMIM": re.compile(r"(?:HP|ORPHA|MONDO|OMIM|DOID)[:_]\d{2,}"),
    "ICD-10-PCS": re.compile(r"(?=[0-9A-Z]*\d)[0-9BCDFGHX][0-9A-HJ-NP-Z]{6}"),
}
_NUMBERS: Final = {
    "SNOMED CT": re.compile(r"([1-9]\d{5,17})(?:\s*\|.*)?"),
    "CPT": re.compile(r"\d{5}"),
    "ICD-O": re.compile(r"[89]\d{3}/\d"),
    "ICD-9 or DRG": re.compile(r"\d{3}(?:\.\d{1,2})?|[VE]\d{2,3}(?:\.\d{1,2})?"),
}
"""Codes that are numbers; only a field whose values all look like them has such codes."""

_DAYS: Final = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y"),
    *("%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d"),
)
_TIMES: Final = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M")
DATE_FORMATS: Final = (
    *(day + time for day, time in product(_DAYS, _TIMES)),
    *("%Y-%m-%d" + time for time in (" %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %H:%M:%S%z", " %H:%M:%S.%f%z")),
    *("%Y%m%d" + time for time in ("", "%H%M", "%H%M%S", "%H%M%z", "%H%M%S%z", "%H%M%S.%f", "%H%M%S.%f%z")),
)
"""The formats of dates that are looked for, beside ISO 8601."""

MONTH_FORMATS: Final = ("%m/%Y", "%m.%Y", "%m-%Y", "%Y-%m", "%Y/%m")
DIGIT_FORMATS: Final = ("%Y%m", "%Y")
"""The formats of months and years without separators, which only a field with the name of a date or a year has."""

_LOINC_YEAR: Final = re.compile(r"\d{4}-\d")
"""A code of LOINC that could be a month: 2093-3."""


def code_shape(values: Collection[str]) -> str | None:
    """Return the kind of codes that values look like, also several in one text; None if they do not."""
    matches = {kind: sum(_is_coded(shape, value) for value in values) for kind, shape in _SHAPES.items()}
    best = max(matches, key=lambda kind: matches[kind])
    if matches[best] >= LEAST_CODES * len(values):
        return best
    for kind, shape in _NUMBERS.items():
        if all(shape.fullmatch(value.strip()) for value in values) and (kind != "SNOMED CT" or _checked(values)):
            return kind
    return None


def codes_separator(values: Collection[str]) -> str | None:
    """Return what stands between the codes of texts that have several, most often; None if few have several codes."""
    shape = _SHAPES.get(code_shape(values) or "")
    separators, several = Counter[str](), 0
    for value in map(str.strip, values):
        between = _SEPARATORS.findall(value)
        if shape is not None and between and _all_match(shape, value):
            separators.update(between)
            several += 1
    if several < max(LEAST_SEVERAL, LEAST_SHARE_OF_SEVERAL * len(values)):
        return None
    return separators.most_common(1)[0][0]


def _is_coded(shape: re.Pattern[str], text: str) -> bool:
    """Return whether a text has codes only, or a code before its label or after ``|``."""
    start, *label = re.split(r"[\s:]+", text.strip().upper(), maxsplit=1)
    ends = [start] * bool(label) + text.upper().split("|")[1:][-1:]
    return _all_match(shape, text) or any(shape.fullmatch(end.strip()) for end in ends)


def _all_match(shape: re.Pattern[str], text: str) -> bool:
    parts = [part for part in _SEPARATORS.split(text.strip().upper()) if part]
    return bool(parts) and all(shape.fullmatch(part) for part in parts)


def _checked(values: Iterable[str]) -> bool:
    return all(_verhoeff(value.partition("|")[0].strip()) for value in values)


def _verhoeff(digits: str) -> bool:
    """Return whether the last digit is the check digit of Verhoeff, as in SNOMED CT."""
    state = 0
    for place, digit in enumerate(map(int, reversed(digits))):
        state = _DIHEDRAL[state][_permuted(place % 8, digit)]
    return state == 0


_DIHEDRAL: Final = tuple(
    tuple((i + j) % 5 + 5 * (j > 4) if i < 5 else (i - j) % 5 + 5 * (j < 5) for j in range(10)) for i in range(10)
)
_PERMUTATION: Final = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def _permuted(times: int, digit: int) -> int:
    for _ in range(times):
        digit = _PERMUTATION[digit]
    return digit


def date_formats(values: Sequence[str], *, is_named: bool = False) -> tuple[str, ...] | None:
    """Return the formats of dates beside ISO 8601; None if less than ``LEAST_DATES`` of the values are dates.

    is_named: whether the field has the name of a date or a year, so that ``DIGIT_FORMATS`` are looked for, too.
    """
    known = DATE_FORMATS + MONTH_FORMATS + DIGIT_FORMATS * is_named
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


def are_bands(values: Iterable[str]) -> bool:
    """Return whether texts are bands of numbers, such as ``[60-70)`` or ``90+``."""
    return all(_BAND.fullmatch(value.strip()) for value in values)


def are_sexes(values: Collection[str]) -> bool:
    """Return whether texts are words for the sex of a person."""
    return all(value.strip().casefold() in _SEXES.split() for value in values)


def are_categories(values: Collection[str]) -> bool:
    """Return whether texts are few and short."""
    return len(values) <= MOST_CATEGORIES and all(
        len(value) <= LONGEST_CATEGORY and len(value.split()) <= 3 for value in values
    )


def have_numbers(values: Iterable[str]) -> bool:
    """Return whether a text has three digits that are not those of a year."""
    return any(re.search(r"\d{3}", re.sub(r"(?:19|20)\d\d", "", value)) for value in values)


def are_tokens(values: Iterable[str]) -> bool:
    """Return whether no text has a space: numbers and other identifiers."""
    return not any(re.search(r"\s", value.strip()) for value in values)
