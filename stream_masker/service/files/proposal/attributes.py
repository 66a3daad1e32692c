"""The attributes of a proposal: the fields whose texts are codes or labels of an ontology."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from stream_masker.core.ontology import ConceptMap
from stream_masker.service.files.proposal.sample import SampledField
from stream_masker.service.files.proposal.treatment import IDENTIFIER_NAMES

LEAST_MATCH: Final = 0.8
"""The least share of a path's values that must be concepts of an ontology."""

LEAST_DISTINCT: Final = 2
"""The least number of different codes in a field. A single one cannot be masked."""

MATCHED_VALUES: Final = 300
_MARKS: Final = re.compile(r"(?<=[0-9])[GVAZRLB†*+!#]{1,2}$")
MOST_UNIQUE: Final = 50
SHORTEST_NUMBER: Final = 3
"""Numbers with fewer digits, and single letters, are counts and flags, also where an ontology has such chapters."""


@dataclass(frozen=True, slots=True)
class CodedField:
    """A field whose values are concepts: the name of the ontology, the share of concepts, and whether by labels."""

    field: SampledField
    ontology: str
    share: float
    by_label: bool


def coded_fields(fields: Iterable[SampledField], concepts: Mapping[str, ConceptMap]) -> list[CodedField]:
    """Return the fields whose texts are concepts of an ontology, with the ontology that has most of them.

    A text that no two events share is no code, and the values of a field whose name is that of an identifier must be
    codes as they stand in the ontology.
    """
    coded = []
    for field in fields:
        unique = field.is_unique and len(field.values) > MOST_UNIQUE
        if all(map(is_flag, field.values)):
            continue
        few = len(field.values) < LEAST_DISTINCT
        if field.kinds.keys() - {"str"} or few or unique:
            continue
        best = max((_coded(field, name, known) for name, known in concepts.items()), key=lambda coded: coded.share)
        if best.share >= LEAST_MATCH:
            coded.append(best)
    return coded


def is_flag(text: str) -> bool:
    """Return whether a text is a count or a flag: a letter, or a number with fewer digits than ``SHORTEST_NUMBER``."""
    return len(text) < (SHORTEST_NUMBER if text.isdigit() else 2)


def _coded(field: SampledField, name: str, concepts: ConceptMap) -> CodedField:
    tested = field.values.most_common(MATCHED_VALUES)
    total = sum(count for _, count in tested)
    how = Counter[str]()
    for value, count in tested:
        match = concepts.find(value).how
        how["exact" if match == "unknown" and _is_marked(value, concepts) else match] += count
    # Numbered ids look like codes in another form: v123 is V12.3.
    matched = how["exact"] if IDENTIFIER_NAMES.fits(field.name) else total - how["unknown"]
    return CodedField(field, name, matched / total, by_label=how["label"] > matched / 2)


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
    codes = [code for code in coded if not code.by_label]
    parents = {code.field.place.parent for code in codes}
    alone = [code for code in coded if code.by_label and code.field.place.parent not in parents]
    labels = {code.field.place.parent: code.field for code in coded if code.by_label}
    proposed: ProposedAttributes = {}
    if joined:
        for name in dict.fromkeys(code.ontology for code in codes):
            codes_of_ontology = [code for code in codes if code.ontology == name]
            proposed[_attribute_name(codes_of_ontology[0].field, proposed)] = _joined(codes_of_ontology, labels)
        return proposed
    for code in [*codes, *alone]:
        label = labels.get(code.field.place.parent) if code in codes and code.field.place.parent else None
        proposed[_attribute_name(code.field, proposed)] = _single(code, label)
    return proposed


def _single(code: CodedField, label: SampledField | None) -> ProposedAttribute:
    settings: dict[str, Any] = {"path": code.field.path, "ontology": code.ontology}
    if label is not None:
        settings["label"] = label.path
    return ProposedAttribute(settings, _why(code), frozenset({code.field.path, *([label.path] if label else [])}))


def _joined(codes: Sequence[CodedField], labels: Mapping[str, SampledField]) -> ProposedAttribute:
    first, *others = (code.field.path for code in codes)
    beside = [label for code in codes if (label := labels.get(code.field.place.parent)) is not None]
    settings: dict[str, Any] = {"path": first, **({"also": others} if others else {}), "ontology": codes[0].ontology}
    if beside:
        settings["label"] = f".{beside[0].name}"
    masked = frozenset({first, *others, *(label.path for label in beside)})
    return ProposedAttribute(settings, _why(min(codes, key=lambda code: code.share)), masked)


def _why(code: CodedField) -> str:
    return f"{code.share:.0%} of the values are concepts of {code.ontology}"


def _attribute_name(field: SampledField, taken: Collection[str]) -> str:
    """Return a name from the path: its last names that are not ``code`` or ``coding``."""
    names = field.place.names
    telling = [name for name in names if name not in {"code", "coding", "value"} and not name.isdigit()] or names
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", telling[-1]).strip("_")[:90] or "attribute"
    name = name if re.match(r"[A-Za-z_]", name) else f"a_{name}"
    numbered = (name if k == 1 else f"{name}_{k}" for k in range(1, 1000))
    return next(name for name in numbered if name not in taken)
