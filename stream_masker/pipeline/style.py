"""The style of codes and labels: masked ones are written in the style of those that they replace.

The style of a code is how its text differs from the concept's id: a set of traits, bits of one integer. A text shows
only some traits. "I10" does not show whether its source writes dots; such traits are taken from the other codes of the
record (``borrow``). Traits that no code shows are those of the ontology's ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson

from stream_masker.core.dtypes import Int64Array

if TYPE_CHECKING:
    from stream_masker.core.ontology import ConceptMap


STYLE_BITS: Final = 8


LOWER: Final = 1
"""In lower case, unlike the concept's id."""
UPPER: Final = 2
"""In upper case, unlike the concept's id."""
OWN_CASE: Final = 4
"""In the case of the concept's id."""
DOTLESS: Final = 8
"""Without the dot of the concept's id."""
DOTTED: Final = 16
"""With the dot of the concept's id."""
STRIPPED: Final = 32
"""Without the leading zeros of the concept's id (ICD-9)."""
PADDED: Final = 64
"""With the leading zeros of the concept's id."""
NAME_STYLE: Final = 128
"""The concept's label or a synonym instead of a code."""

OPPOSITES: Final = (LOWER | UPPER | OWN_CASE, DOTLESS | DOTTED, STRIPPED | PADDED)
"""Groups of traits, of which a text shows at most one each."""

_CHANGES: Final = LOWER | UPPER | DOTLESS | STRIPPED | NAME_STYLE
"""A code without any of these traits is written as the concept's id."""

_LEADING_ZEROS: Final = re.compile(r"([VE]?)0+(?=\d)", re.IGNORECASE)
_RANGE: Final = re.compile(r"[A-Z]?\d\w{0,2}-[A-Z]?\d\w{0,2}")


def style_of(text: str, concept: str, how: str) -> int:
    """The style of a text that stands for a concept. how: ``Match.how``."""
    if how == "mapping":
        return 0
    if how == "label":
        return NAME_STYLE | letter_case(text)
    text = text.strip()
    return _case(text, concept) | _dot(text, concept, how) | _zeros(text, concept)


def letter_case(text: str) -> int:
    """LOWER or UPPER for a text in that case, otherwise OWN_CASE."""
    if text.isupper():
        return UPPER
    return LOWER if text.islower() else OWN_CASE


def in_case(text: str, style: int) -> str:
    """The text in the case of a style, unchanged for OWN_CASE or no case."""
    if style & OWN_CASE:
        return text
    if style & UPPER:
        return text.upper()
    return text.lower() if style & LOWER else text


def borrow(own: Int64Array, others: Int64Array) -> Int64Array:
    """Styles with the traits that they do not show taken from ``others``. Both (n,) int64. Names take none."""
    code = (own & NAME_STYLE) == 0
    borrowed = own.copy()
    for trait in OPPOSITES:
        lacking = code & ((own & trait) == 0)
        borrowed[lacking] |= others[lacking] & trait
    return borrowed


def styled(styles: Int64Array) -> Int64Array:
    """The traits that other styles may borrow: those of codes, but not of names."""
    return np.where(styles & NAME_STYLE, 0, styles)


class Codes(dict[int, bytes]):
    """Codes as JSON, by ``position << STYLE_BITS | style``; a code is written on first use.

    A code is written in a style only if the attribute's ``ConceptMap`` finds the concept by that text. (Without dot and
    zeros, 008.45 would be 845, another code.) Ranges and chapters are not codes, and are written as their ids.
    """

    def __init__(self, concepts: ConceptMap) -> None:
        super().__init__()
        self._concepts = concepts

    def __missing__(self, key: int) -> bytes:
        text = self[key] = self.text(key)
        return text

    def text(self, key: int) -> bytes:
        """A code as JSON, without keeping it."""
        return self.texts([key])[0]

    def texts(self, keys: Sequence[int]) -> list[bytes]:
        """Codes as JSON, without keeping them."""
        ids = self._concepts.taxonomy.ids
        if keys and not 0 <= min(keys) <= max(keys) < len(ids) << STYLE_BITS:
            raise IndexError("a position outside the taxonomy")
        return [orjson.dumps(self._write(ids[key >> STYLE_BITS], key)) for key in keys]

    def _write(self, concept: str, key: int) -> str:
        position, style = key >> STYLE_BITS, key & ((1 << STYLE_BITS) - 1)
        if not style & _CHANGES or position == 0 or _RANGE.fullmatch(concept):
            return concept
        candidates = self._candidates(concept, position, style)
        return next((text for text in candidates if self._leads_back(text, position)), concept)

    def _candidates(self, concept: str, position: int, style: int) -> Iterator[str]:
        if style & NAME_STYLE:
            yield in_case(self._concepts.taxonomy.labels[position], style)
            return
        yield in_case(_undotted(_unpadded(concept, style), style), style)
        yield in_case(_undotted(concept, style), style)
        yield in_case(_unpadded(concept, style), style)
        yield in_case(concept, style)

    def _leads_back(self, text: str, position: int) -> bool:
        match = self._concepts.find(text)
        return match.position == position and match.how != "ancestor"


class Labels(dict[int, bytes]):
    """Labels as JSON, by ``position << STYLE_BITS | style``, written on first use; null for a concept without one."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self._labels = labels

    def __missing__(self, key: int) -> bytes:
        text = self[key] = self.text(key)
        return text

    def text(self, key: int) -> bytes:
        """A label as JSON, without keeping it."""
        return self.texts([key])[0]

    def texts(self, keys: Sequence[int]) -> list[bytes]:
        """Labels as JSON, without keeping them."""
        return [orjson.dumps(in_case(self._labels[key >> STYLE_BITS], key) or None) for key in keys]


def _case(text: str, concept: str) -> int:
    if text.islower() and not concept.islower():
        return LOWER
    if text.isupper() and not concept.isupper():
        return UPPER
    return OWN_CASE if text.lower() != text.upper() else 0


def _dot(text: str, concept: str, how: str) -> int:
    if "." in text:
        return DOTTED
    longer = how == "ancestor" and len(text) > len(concept)
    return DOTLESS if "." in concept or longer else 0


def _zeros(text: str, concept: str) -> int:
    zeros = _LEADING_ZEROS.match(concept)
    if zeros is None:
        return 0
    return PADDED if text.upper().startswith(zeros[0].upper()) else STRIPPED


def _undotted(concept: str, style: int) -> str:
    dotless = style & DOTLESS and not style & DOTTED
    return concept.replace(".", "") if dotless else concept


def _unpadded(concept: str, style: int) -> str:
    stripped = style & STRIPPED and not style & PADDED
    return _LEADING_ZEROS.sub(r"\1", concept, count=1) if stripped else concept
