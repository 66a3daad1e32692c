"""The style of an attribute's codes: how their texts differ from the concepts' ids.

An attribute has one style, and each concept has one text in it, so that a written code reveals nothing about the code
that it replaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from stream_masker.core.ontology import ConceptMap

Style: TypeAlias = Literal["id", "unpadded", "dotless", "bare", "label"]
"""How codes are written: as the concepts' ids; as these without leading zeros, without the dot, or without both; or as
the concepts' labels."""

_LEADING_ZEROS: Final = re.compile(r"^([VE]?)0+(?=\d)", re.IGNORECASE)
_RANGE: Final = re.compile(r"[A-Z]?\d\w{0,2}-[A-Z]?\d\w{0,2}")


def written_code(concepts: ConceptMap, style: Style, position: int) -> str:
    """Return the text of a concept in a style: one by which the attribute's ``ConceptMap`` finds the concept.

    (Without dot and zeros, 008.45 would be 845, another code.) If there is none in the style, fewer parts of the id are
    removed; the last resort is the id, which is also that of ranges, chapters and the root.
    """
    concept = concepts.taxonomy.ids[position]
    if style == "id" or position == 0 or _RANGE.fullmatch(concept):
        return concept
    styles: list[Style] = ["bare", "dotless", "unpadded"] if style == "bare" else [style]
    labels, texts = concepts.taxonomy.labels, [_in_style(concept, one) for one in styles]
    for text in [labels[position]] if style == "label" else texts:
        match = concepts.find(text)
        if match.position == position and match.how != "ancestor":
            return text
    return concept


def most_used(concepts: ConceptMap, texts: Mapping[str, int]) -> Style:
    """Return the style in which most codes are written, of several the first one; texts: how often each occurs."""
    found = {text: position for text in texts if (position := concepts.find(text).position) >= 0}
    fitting: dict[Style, int] = {}
    for style in get_args(Style):
        written = {text: written_code(concepts, style, position) for text, position in found.items()}
        fitting[style] = sum(texts[text] for text in found if text.strip().casefold() == written[text].casefold())
    return max(fitting, key=fitting.__getitem__)


def _in_style(concept: str, style: Style) -> str:
    if style in ("unpadded", "bare"):
        concept = _LEADING_ZEROS.sub(r"\1", concept, count=1)
    return concept.replace(".", "") if style in ("dotless", "bare") else concept
