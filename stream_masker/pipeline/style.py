"""The style of an attribute's codes: how their texts differ from the concepts' ids.

An attribute has one style, and each concept has one text in it, so that a written code reveals nothing about the code
that it replaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from stream_masker.core.ontology import ConceptMap

Style: TypeAlias = Literal["id", "dotless", "label"]
"""How codes are written: as the concepts' ids, as these without the dot, or as the concepts' labels."""


def written_code(concepts: ConceptMap, style: Style, position: int) -> str:
    """Return the text of a concept in a style, by which the attribute's ``ConceptMap`` finds the concept.

    (Without its dot, a code may be another one.) If it finds another concept, or none, the text is the id.
    """
    concept = concepts.taxonomy.ids[position]
    if style == "id":
        return concept
    text = concepts.taxonomy.labels[position] if style == "label" else concept.replace(".", "")
    match = concepts.find(text)
    return text if match.position == position and match.how != "ancestor" else concept


def most_used(concepts: ConceptMap, texts: Mapping[str, int]) -> Style:
    """Return the style in which most codes are written, of several the first one; texts: how often each occurs."""
    found = {text: position for text in texts if (position := concepts.find(text).position) >= 0}
    fitting: dict[Style, int] = {}
    for style in get_args(Style):
        written = {text: written_code(concepts, style, position) for text, position in found.items()}
        fitting[style] = sum(texts[text] for text in found if text.strip().casefold() == written[text].casefold())
    return max(fitting, key=fitting.__getitem__)
