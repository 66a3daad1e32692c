"""ClaML (EN 14463): classifications such as ICD-10 of the WHO, ICD-10-GM and OPS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final
from xml.etree.ElementTree import Element, ParseError, XMLParser, parse

from stream_masker.core.ontology.draft import OntologyDraft, add_common_root
from stream_masker.errors import DuplicateConceptError, SourceFormatError

SYNONYM_KINDS = ("inclusion", "preferredLong")

UNMODIFIED_KINDS = frozenset({"component", "chapter", "block"})
"""Classes whose modifiers make no codes, such as the qualifiers of ICF."""

_CATEGORY: Final = re.compile(r"[A-Z]\d\d")
"""A code of ICD-10 with three characters."""


@dataclass(slots=True)
class Classification:
    """The parts of a document that make concepts.

    draft: the classes; above: the classes that name a class as their subclass; modified: the modifiers of each class,
    in their order, each with the codes that are valid, none for all; modifiers: the codes and labels of each modifier,
    in the order of the document; excluded: classes with modifiers that do not apply to them.
    """

    draft: OntologyDraft = field(default_factory=OntologyDraft)
    above: dict[str, list[str]] = field(default_factory=dict)
    modified: dict[str, list[tuple[str, frozenset[str]]]] = field(default_factory=dict)
    modifiers: dict[str, dict[str, str]] = field(default_factory=dict)
    excluded: set[tuple[str, str]] = field(default_factory=set)


def read_claml(file: BinaryIO) -> OntologyDraft:
    """Read the classes with their superclasses, and the codes that modifiers make of them.

    * A class without a superclass is below the classes that name it as their subclass.
    * Label: the preferred rubric; synonyms: the long preferred one and inclusions.
    * A class with modifiers (``ModifiedBy``) gets a child for each code of the first one, each of these a child for
      each code of the second one, and so on, unless the document lists the class itself. A modifier without a dot of a
      category with three characters applies to its subclasses: ``I70.0`` and ``0`` make ``I70.00``. Without subclasses
      the dot is added (``W00.0``), and before a fifth character an X (``M45.X0``).
    * Several chapters get a common root, with the name in the document's title.

    Raises SourceFormatError, DuplicateConceptError.
    """
    try:
        root = parse(file, XMLParser()).getroot()  # noqa: S314 - expat limits the expansion of entities
    except ParseError as error:
        raise SourceFormatError(f"line {error.position[0]} is not well-formed XML") from None
    if root.tag != "ClaML":
        raise SourceFormatError("the XML is not ClaML: the document element must be ClaML")
    document = Classification()
    for element in root:
        _add(document, element)
    for concept, parents in document.draft.parents.items():
        if not parents:
            parents.extend(document.above.get(concept, ()))
    below: dict[str, list[str]] = {}
    for concept, parents in document.draft.parents.items():
        for parent in parents:
            below.setdefault(parent, []).append(concept)
    for concept, modifiers in document.modified.items():
        _expand(document, [concept], modifiers, below)
    title = root.find("Title")
    name = "ClaML" if title is None else title.get("name") or "ClaML"
    add_common_root(document.draft, name, "" if title is None else _content(title))
    return document.draft


def _add(document: Classification, element: Element) -> None:
    if element.tag == "Class":
        _add_class(document, element, _required(element, "code"))
    elif element.tag == "ModifierClass":
        codes = document.modifiers.setdefault(_required(element, "modifier"), {})
        codes[_required(element, "code")] = _rubric(element, "preferred")


def _add_class(document: Classification, element: Element, code: str) -> None:
    draft = document.draft
    if code in draft.parents:
        raise DuplicateConceptError("a class is given twice", culprits=[code])
    draft.parents[code] = list(dict.fromkeys(_required(above, "code") for above in element.iter("SuperClass")))
    for below in element.iter("SubClass"):
        document.above.setdefault(_required(below, "code"), []).append(code)
    draft.labels[code] = _rubric(element, "preferred")
    draft.synonyms[code] = [text for kind in SYNONYM_KINDS for text in _rubrics(element, kind)]
    document.excluded.update((code, _required(one, "code")) for one in element.iter("ExcludeModifier"))
    for modifier in () if element.get("kind") in UNMODIFIED_KINDS else element.iter("ModifiedBy"):
        valid = frozenset(_required(one, "code") for one in modifier.iter("ValidModifierClass"))
        document.modified.setdefault(code, []).append((_required(modifier, "code"), valid))


def _expand(
    document: Classification,
    concepts: list[str],
    modifiers: list[tuple[str, frozenset[str]]],
    below: Mapping[str, list[str]],
) -> None:
    """Add the codes of a class's modifiers, one level for each modifier. ``below``: the subclasses of classes."""
    draft = document.draft
    for modifier, valid in modifiers:
        new = []
        for concept in concepts:
            for code, label in document.modifiers.get(modifier, {}).items():
                if valid and code not in valid:
                    continue
                has_place = code.startswith(".") or not _CATEGORY.fullmatch(concept) or concept not in below
                for base in [concept] if has_place else below[concept]:
                    if (base, modifier) in document.excluded:
                        continue
                    child = _modified_code(base, code, modifier)
                    if child not in draft.parents:
                        draft.parents[child] = [base]
                        draft.labels[child] = ": ".join(part for part in (draft.labels[base], label) if part)
                    new.append(child)
        concepts = new


def _modified_code(base: str, code: str, modifier: str) -> str:
    if code.startswith(".") or not _CATEGORY.fullmatch(base):
        return base + code
    return f"{base}.{code}" if modifier.endswith("_4") else f"{base}.X{code}"


def _rubric(element: Element, kind: str) -> str:
    return next(_rubrics(element, kind), "")


def _rubrics(element: Element, kind: str) -> Iterator[str]:
    for rubric in element.iter("Rubric"):
        label = rubric.find("Label")
        if rubric.get("kind") == kind and label is not None and (text := _content(label)):
            yield text


def _content(element: Element) -> str:
    """Return the text of an element with spaces instead of line breaks, without references to other classes."""
    parts = [element.text or ""]
    for child in element:
        parts += ["" if child.tag == "Reference" else _content(child), child.tail or ""]
    return " ".join(" ".join(parts).split())


def _required(element: Element, name: str) -> str:
    value = element.get(name)
    if not value:
        raise SourceFormatError(f"the document is not valid ClaML: {element.tag} needs {name}")
    return value
