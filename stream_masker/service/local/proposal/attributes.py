"""The attributes of a proposal: the fields whose texts are codes or labels of an ontology."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from stream_masker.core.ontology import ConceptMap
from stream_masker.service.local.proposal.names import CLINICAL_NAMES, IDENTIFIER_NAMES
from stream_masker.service.local.proposal.sample import SampledField

LEAST_MATCH: Final = 0.8
"""The least share of a path's values that must be concepts of an ontology."""

LEAST_DISTINCT: Final = 3
LEAST_OF_NAMED: Final = 2
"""The least number of different codes in a field whose name is one of codes. A single one cannot be masked."""

MATCHED_VALUES: Final = 300
_MARKS: Final = re.compile(r"(?<=[0-9])[GVAZRLB†*+!#]{1,2}$")
MOST_UNIQUE: Final = 50
SHORTEST_NUMBER: Final = 3
"""Numbers with fewer digits are counts and flags, also where an ontology has chapters of such names."""


@dataclass(frozen=True, slots=True)
class CodedField:
    """A field whose values are concepts: the name of the ontology, the share of concepts, and whether by labels."""

    field: SampledField
    ontology: str
    share: float
    by_label: bool


def coded_fields(fields: Iterable[SampledField], concepts: Mapping[str, ConceptMap]) -> list[CodedField]:
    """Return the fields whose texts are concepts of an ontology, with the ontology that has most of them.

    A text that no two events share is no code, few different ones are codes only in a field with the name of one, and
    the values of a field whose name is that of an identifier must be codes as they stand in the ontology.
    """
    found = []
    for one in fields:
        unique = one.is_unique and len(one.values) > MOST_UNIQUE
        if all(map(is_short_number, one.values)):
            continue
        is_named = one.place.is_coded or CLINICAL_NAMES.fits(one.name)
        few = len(one.values) < (LEAST_OF_NAMED if is_named else LEAST_DISTINCT)
        if one.kinds.keys() - {"str"} or few or unique:
            continue
        best = max((_coded(one, name, own) for name, own in concepts.items()), key=lambda coded: coded.share)
        if best.share >= LEAST_MATCH:
            found.append(best)
    return found


def is_short_number(text: str) -> bool:
    """Return whether a text is a count or a flag: a number with fewer than ``SHORTEST_NUMBER`` digits."""
    return text.isdigit() and len(text) < SHORTEST_NUMBER


def has_single_code(one: SampledField, concepts: Iterable[ConceptMap]) -> bool:
    """Return whether a field whose name is that of codes has one code only, which has the form of an ontology."""
    named = one.place.is_coded or CLINICAL_NAMES.fits(one.name)
    return named and len(one.values) == 1 and any(own.find(*one.values).how == "exact" for own in concepts)


def _coded(one: SampledField, name: str, concepts: ConceptMap) -> CodedField:
    tested = one.values.most_common(MATCHED_VALUES)
    total = sum(count for _, count in tested)
    how = Counter[str]()
    for value, count in tested:
        found = concepts.find(value).how
        how["exact" if found == "unknown" and _is_marked(value, concepts) else found] += count
    # Numbered ids look like codes in another form: v123 is V12.3.
    matched = how["exact"] if IDENTIFIER_NAMES.fits(one.name) else total - how["unknown"]
    return CodedField(one, name, matched / total, by_label=how["label"] > matched / 2)


def _is_marked(value: str, concepts: ConceptMap) -> bool:
    """Return whether a text is a code with the marks of ICD-10-GM, such as E11.90G for a certain diagnosis."""
    plain = _MARKS.sub("", value.strip())
    return plain != value and concepts.find(plain).how == "exact"


@dataclass(frozen=True, slots=True)
class ProposedAttribute:
    """The settings of an attribute, why it is one, and the paths that it masks."""

    settings: dict[str, Any]
    why: str
    masked: frozenset[str]


ProposedAttributes: TypeAlias = dict[str, ProposedAttribute]


def proposed_attributes(coded: Sequence[CodedField], *, joined: bool) -> ProposedAttributes:
    """Return the attributes of coded fields: a label beside a code belongs to it; a label alone is an attribute itself.

    joined: whether all codes of an ontology are one attribute, as in FHIR, where a code has many places.
    """
    codes = [one for one in coded if not one.by_label]
    parents = {one.field.place.parent for one in codes}
    alone = [one for one in coded if one.by_label and one.field.place.parent not in parents]
    labels = {one.field.place.parent: one.field for one in coded if one.by_label}
    found: ProposedAttributes = {}
    if joined:
        for name in dict.fromkeys(one.ontology for one in codes):
            own = [one for one in codes if one.ontology == name]
            found[_attribute_name(own[0].field, found)] = _joined(own, labels)
        return found
    for one in [*codes, *alone]:
        label = labels.get(one.field.place.parent) if one in codes and one.field.place.parent else None
        found[_attribute_name(one.field, found)] = _single(one, label)
    return found


def _single(one: CodedField, label: SampledField | None) -> ProposedAttribute:
    settings: dict[str, Any] = {"path": one.field.path, "ontology": one.ontology}
    if label is not None:
        settings["label"] = label.path
    return ProposedAttribute(settings, _why(one), frozenset({one.field.path, *([label.path] if label else [])}))


def _joined(own: Sequence[CodedField], labels: Mapping[str, SampledField]) -> ProposedAttribute:
    first, *others = (one.field.path for one in own)
    beside = [label for one in own if (label := labels.get(one.field.place.parent)) is not None]
    settings: dict[str, Any] = {"path": first, **({"also": others} if others else {}), "ontology": own[0].ontology}
    if beside:
        settings["label"] = f".{beside[0].name}"
    masked = frozenset({first, *others, *(label.path for label in beside)})
    return ProposedAttribute(settings, _why(min(own, key=lambda one: one.share)), masked)


def _why(one: CodedField) -> str:
    return f"{one.share:.0%} of the values are concepts of {one.ontology}"


def _attribute_name(one: SampledField, taken: Collection[str]) -> str:
    """Return a name from the path: its last names that are not ``code`` or ``coding``."""
    names = one.place.names
    telling = [name for name in names if name not in {"code", "coding", "value"} and not name.isdigit()] or names
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", telling[-1]).strip("_")[:90] or "attribute"
    name = name if re.match(r"[A-Za-z_]", name) else f"a_{name}"
    numbered = (name if k == 1 else f"{name}_{k}" for k in range(1, 1000))
    return next(one for one in numbered if one not in taken)
