"""The style of an attribute's codes: how their texts differ from the concepts' ids.

An attribute has one ``Style``, and each concept has one text in it, so that a written code reveals nothing about the
code that it replaces. The style is learned: ``styles_of`` finds the styles in which an observed text is the concept's,
``StyleCounts`` counts them, and the style of most texts of a window becomes that of the next statistics version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stream_masker.core.arrays import Int64Array

if TYPE_CHECKING:
    from stream_masker.core.ontology import ConceptMap
    from stream_masker.core.ontology.concepts import Match

_LEADING_ZEROS: Final = re.compile(r"^([VE]?)0+(?=\d)", re.IGNORECASE)
_RANGE: Final = re.compile(r"[A-Z]?\d\w{0,2}-[A-Z]?\d\w{0,2}")


class Style(StrEnum):
    """How the codes of an attribute are written. The order of the styles is that of their counts and bits."""

    ID = "id"
    """As the concepts' ids."""
    UNPADDED = "unpadded"
    """Without leading zeros."""
    DOTLESS = "dotless"
    """Without the dot."""
    BARE = "bare"
    """Without leading zeros and dot."""
    LABEL = "label"
    """As the concepts' labels."""


STYLES: Final = tuple(Style)
STYLE_BITS: Final = len(STYLES)

StyleCounts: TypeAlias = tuple[int, ...]
"""The number of observed texts that fit each of ``STYLES``; empty without texts."""


def count_styles(fitting: Int64Array) -> StyleCounts:
    """Return the counts of texts, (m,) int64, each with the styles that it fits as bits."""
    sets, counts = np.unique(fitting, return_counts=True)
    return tuple((counts @ (sets[:, None] >> np.arange(STYLE_BITS) & 1)).tolist()) if len(sets) else ()


def add_styles(parts: Iterable[Sequence[StyleCounts]]) -> tuple[StyleCounts, ...]:
    """Return the counts of each attribute, added up over all parts that have counts."""
    columns = zip(*(part for part in parts if part), strict=True)
    return tuple(tuple(map(sum, zip_longest(*column, fillvalue=0))) for column in columns)


def learned_styles(
    attributes: Iterable[str], counts: Sequence[StyleCounts], earlier: Mapping[str, Style]
) -> dict[str, Style]:
    """Return the style of most texts of each attribute, of several the first one; where no text fits any, the earlier
    one, or that of the ontology. counts: one for each attribute, or empty.
    """
    styles = {name: earlier.get(name, Style.ID) for name in attributes}
    for name, texts in zip([*styles], counts, strict=False):
        if any(texts):
            styles[name] = STYLES[int(np.argmax(texts))]
    return styles


def styles_of(concepts: ConceptMap, text: str, match: Match) -> int:
    """Return the styles, as bits, in which a text is what is written of its concept, or begins with it.

    match: the concept that the text stands for. A text that a mapping file translates fits none.
    """
    if match.how in ("label", "mapping"):
        return 1 << STYLES.index(Style.LABEL) if match.how == "label" else 0
    text, concept = text.strip(), concepts.taxonomy.ids[match.position]
    fits = text.startswith if match.how == "ancestor" else text.__eq__
    return sum(fits(_in_style(concept, style)) << number for number, style in enumerate(STYLES[:-1]))


def written_code(concepts: ConceptMap, style: Style, position: int) -> str:
    """Return the text of a concept in a style: one by which the attribute's ``ConceptMap`` finds the concept.

    (Without dot and zeros, 008.45 would be 845, another code.) If there is none in the style, fewer parts of the id are
    removed; the last resort is the id, which is also that of ranges, chapters and the root.
    """
    concept = concepts.taxonomy.ids[position]
    if style is Style.ID or position == 0 or _RANGE.fullmatch(concept):
        return concept
    texts = [
        _in_style(concept, one) for one in ([style, Style.DOTLESS, Style.UNPADDED] if style is Style.BARE else [style])
    ]
    for text in [concepts.taxonomy.labels[position]] if style is Style.LABEL else texts:
        match = concepts.find(text)
        if match.position == position and match.how != "ancestor":
            return text
    return concept


def _in_style(concept: str, style: Style) -> str:
    if style in (Style.UNPADDED, Style.BARE):
        concept = _LEADING_ZEROS.sub(r"\1", concept, count=1)
    return concept.replace(".", "") if style in (Style.DOTLESS, Style.BARE) else concept
