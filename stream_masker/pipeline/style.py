"""The style of an attribute's codes: how their texts differ from the concepts' ids.

An attribute has one ``Style``, and each concept has one text in it, so that a written code reveals nothing about the
code that it replaces. The style is configured, or learned: ``style_of`` finds the traits that an observed text shows,
``StyleCounts`` counts them, and the majority of a window becomes the style of the next statistics version.

A text shows only some traits: "I10" does not show whether its source writes dots. Only texts that show a trait count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.errors import ParameterError

if TYPE_CHECKING:
    from stream_masker.core.ontology import ConceptMap

Part: TypeAlias = Literal["keep", "remove"]
Case: TypeAlias = Literal["keep", "upper", "lower"]
WrittenText: TypeAlias = Literal["code", "label"]

STYLE_BITS: Final = 8

LABEL_TRAIT, LOWER, UPPER, OWN_CASE, DOTLESS, DOTTED, STRIPPED, PADDED = (1 << bit for bit in range(STYLE_BITS))
"""The traits of a text, bits of one integer: a label or synonym instead of a code; in lower case or upper case, unlike
the concept's id, or in its case; without or with the dot of the id; without or with its leading zeros (ICD-9)."""

_BITS: Final = np.arange(1 << STYLE_BITS)[:, None] >> np.arange(STYLE_BITS) & 1
"""(256, 8): the traits of each combination."""

_LEADING_ZEROS: Final = re.compile(r"([VE]?)0+(?=\d)", re.IGNORECASE)
_RANGE: Final = re.compile(r"[A-Z]?\d\w{0,2}-[A-Z]?\d\w{0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How the codes of an attribute are written; by default as the concepts' ids.

    dot, leading_zeros: keep or remove those of the id; case: keep that of the id, or convert the text; text: write the
    code, or the concept's label.
    """

    dot: Part = "keep"
    leading_zeros: Part = "keep"
    case: Case = "keep"
    text: WrittenText = "code"

    def __post_init__(self) -> None:
        for name, allowed in STYLE_CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(f"{name} is {getattr(self, name)!r}; allowed are {', '.join(allowed)}")


STYLE_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "dot": get_args(Part),
    "leading_zeros": get_args(Part),
    "case": get_args(Case),
    "text": get_args(WrittenText),
}
"""The parts of a style, and the allowed values of each."""

CANONICAL: Final = Style()
"""The style of the concepts' ids."""


@dataclass(frozen=True, slots=True)
class StyleCounts:
    """The number of observed texts that show each trait. ``codes``: of those that are not labels."""

    codes: int = 0
    labels: int = 0
    lower: int = 0
    upper: int = 0
    own_case: int = 0
    dotless: int = 0
    dotted: int = 0
    stripped: int = 0
    padded: int = 0

    def __add__(self, other: StyleCounts) -> StyleCounts:
        return StyleCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @classmethod
    def of(cls, traits: Int64Array) -> StyleCounts:
        """Return the counts of texts with the given traits, (m,) int64."""
        labels, *shown = (np.bincount(traits, minlength=1 << STYLE_BITS) @ _BITS).tolist()
        return cls(len(traits) - labels, labels, *shown)

    def majority(self, otherwise: Style) -> Style:
        """Return the majority of the texts for each trait, that of the id in a tie; ``otherwise`` if there are no
        texts."""
        if not self.codes + self.labels:
            return otherwise
        return Style(
            dot="remove" if self.dotless > self.dotted else "keep",
            leading_zeros="remove" if self.stripped > self.padded else "keep",
            case=self._case,
            text="label" if self.labels > self.codes else "code",
        )

    @property
    def _case(self) -> Case:
        cases: dict[Case, int] = {"keep": self.own_case, "upper": self.upper, "lower": self.lower}
        return max(cases, key=cases.__getitem__)


def add_styles(parts: Iterable[Sequence[StyleCounts]]) -> tuple[StyleCounts, ...]:
    """Return the counts of each attribute, added up over all parts that have counts."""
    columns = zip(*(part for part in parts if part), strict=True)
    return tuple(reduce(add, column) for column in columns)


def learned_styles(
    attributes: Iterable[str], counts: Sequence[StyleCounts], earlier: Mapping[str, Style]
) -> dict[str, Style]:
    """Return each attribute's majority style; where nothing was counted, the earlier one, or that of the ontology.

    counts: one for each attribute, or empty.
    """
    previous = {name: earlier.get(name, CANONICAL) for name in attributes}
    if not counts:
        return previous
    return {name: c.majority(style) for (name, style), c in zip(previous.items(), counts, strict=True)}


def style_of(text: str, concept: str, how: str) -> int:
    """Return the traits that are shown by a text that stands for a concept. how: ``Match.how``."""
    if how == "mapping":
        return 0
    if how == "label":
        return LABEL_TRAIT
    text = text.strip()
    return _case(text, concept) | _dot(text, concept, how) | _zeros(text, concept)


def written_code(concepts: ConceptMap, style: Style, position: int) -> str:
    """Return the text of a concept in a style: one by which the attribute's ``ConceptMap`` finds the concept.

    (Without dot and zeros, 008.45 would be 845, another code.) If there is none in the style, fewer parts of the id are
    removed; the last resort is the id. Ranges, chapters and the root are not codes, and are written as their ids.
    """
    concept = concepts.taxonomy.ids[position]
    if style == CANONICAL or position == 0 or _RANGE.fullmatch(concept):
        return concept
    matches = ((text, concepts.find(text)) for text in _candidates(concept, concepts.taxonomy.labels[position], style))
    found = (text for text, match in matches if match.position == position and match.how != "ancestor")
    return next(found, concept)


def _candidates(concept: str, label: str, style: Style) -> list[str]:
    if style.text == "label":
        return [label]
    unpadded = _LEADING_ZEROS.sub(r"\1", concept, count=1) if style.leading_zeros == "remove" else concept
    undotted = [text.replace(".", "") if style.dot == "remove" else text for text in (unpadded, concept)]
    conversions: dict[str, Callable[[str], str]] = {"keep": str, "upper": str.upper, "lower": str.lower}
    return list(map(conversions[style.case], (*undotted, unpadded, concept)))


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
