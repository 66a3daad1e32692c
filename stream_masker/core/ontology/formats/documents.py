"""Documents in XML and JSON: ClaML (EN 14463), code systems of FHIR, and OBO Graphs."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, BinaryIO, Final, TypeAlias
from xml.etree.ElementTree import Element, ParseError, XMLParser, parse

import orjson

from stream_masker.core.ontology.draft import Draft
from stream_masker.core.ontology.formats.packages import GRAPH, read_obo
from stream_masker.errors import OntologyError

Resource: TypeAlias = Mapping[str, Any]

NAME_KINDS: Final = ("preferred", "inclusion", "preferredLong")
"""The rubrics with names: the label first."""

UNMODIFIED_KINDS: Final = frozenset({"component", "chapter", "block"})
"""Classes whose modifiers make no codes, such as the qualifiers of ICF."""

_CATEGORY: Final = re.compile(r"[A-Z]\d\d")
"""A code of ICD-10 with three characters."""


def read_claml(file: BinaryIO) -> Draft:
    """Read a classification such as ICD-10 of the WHO, ICD-10-GM or OPS: the classes with their superclasses, and the
    codes that modifiers make of them.

    * A class without a superclass is below the classes that name it as their subclass.
    * Label: the preferred rubric; synonyms: the long preferred one and inclusions.
    * A class with modifiers (``ModifiedBy``) gets a child for each code of the first one, each of these a child for
      each code of the second one, and so on, unless the document lists the class itself. A modifier without a dot of a
      category with three characters applies to its subclasses: ``I70.0`` and ``0`` make ``I70.00``. Without subclasses
      the dot is added (``W00.0``), and before a fifth character an X (``M45.X0``).
    * Several chapters get a common root, with the name in the document's title.

    Raises OntologyError.
    """
    try:
        document = parse(file, XMLParser()).getroot()  # noqa: S314 - expat limits the expansion of entities
    except ParseError as error:
        raise OntologyError(f"line {error.position[0]} is not well-formed XML") from None
    if document.tag != "ClaML":
        raise OntologyError("the XML is not ClaML: the document element must be ClaML")
    title = document.find("Title")
    draft = Draft("ClaML") if title is None else Draft(title.get("name") or "ClaML", _text(title))
    classes: dict[str, Element] = {}
    for element in document.iter("Class"):
        code = _required(element, "code")
        classes[code] = element
        names = [text for kind in NAME_KINDS for text in _rubrics(element, kind)]
        draft.add(code, _codes(element, "SuperClass"), names)
    for code, element in classes.items():
        for below in _codes(element, "SubClass"):
            if below in classes and not _codes(classes[below], "SuperClass"):
                draft.add(below, [code])
    modifiers: dict[str, dict[str, str]] = {}
    for element in document.iter("ModifierClass"):
        codes = modifiers.setdefault(_required(element, "modifier"), {})
        codes[_required(element, "code")] = next(_rubrics(element, "preferred"), "")
    _add_modified(draft, classes, modifiers)
    return draft


def _add_modified(draft: Draft, classes: dict[str, Element], modifiers: dict[str, dict[str, str]]) -> None:
    """Add the codes that modifiers make of classes, one level for each modifier; ``modifiers``: labels by code."""
    below: dict[str, list[str]] = {}
    for concept, parents in draft.parents.items():
        for parent in parents:
            below.setdefault(parent, []).append(concept)
    excluded = {concept: _codes(element, "ExcludeModifier") for concept, element in classes.items()}
    for concept, element in classes.items():
        bases = [concept]
        for modified in () if element.get("kind") in UNMODIFIED_KINDS else element.iter("ModifiedBy"):
            name, valid, made = _required(modified, "code"), _codes(modified, "ValidModifierClass"), []
            for base, (code, text) in product(bases, modifiers.get(name, {}).items()):
                if valid and code not in valid:
                    continue
                has_place = code.startswith(".") or not _CATEGORY.fullmatch(base) or base not in below
                places = [one for one in ([base] if has_place else below[base]) if name not in excluded.get(one, ())]
                made += [_add_code(draft, place, code, name, text) for place in places]
            bases = made


def _add_code(draft: Draft, base: str, code: str, modifier: str, text: str) -> str:
    """Add the code that a modifier makes of a class, unless the document lists it; return it."""
    if code.startswith(".") or not _CATEGORY.fullmatch(base):
        concept = base + code
    else:
        concept = f"{base}.{code}" if modifier.endswith("_4") else f"{base}.X{code}"
    if concept not in draft.parents:
        draft.add(concept, [base], [": ".join([*draft.names[base][:1], *([text] if text else [])])])
    return concept


def _codes(element: Element, tag: str) -> list[str]:
    return [_required(one, "code") for one in element.iter(tag)]


def _rubrics(element: Element, kind: str) -> Iterator[str]:
    for rubric in element.iter("Rubric"):
        label = rubric.find("Label")
        if rubric.get("kind") == kind and label is not None and (text := _text(label)):
            yield text


def _text(element: Element) -> str:
    """Return the text of an element with spaces instead of line breaks, without references to other classes."""
    parts = [element.text or ""]
    for child in element:
        parts += ["" if child.tag == "Reference" else _text(child), child.tail or ""]
    return " ".join(" ".join(parts).split())


def _required(element: Element, name: str) -> str:
    value = element.get(name)
    if not value:
        raise OntologyError(f"the document is not valid ClaML: {element.tag} needs {name}")
    return value


def read_json(file: BinaryIO) -> Draft:
    """Read a CodeSystem of FHIR, or an OBO Graph. Raises OntologyError."""
    content = file.read().removeprefix(codecs.BOM_UTF8)
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise OntologyError(f"line {error.lineno} is not valid JSON: {error.msg}") from None
    if isinstance(document, dict) and document.get("resourceType") == "CodeSystem":
        return _code_system(document)
    if isinstance(document, dict) and document.get("graphs") and isinstance(document["graphs"], list):
        return read_obo(io.BytesIO(content), GRAPH)
    raise OntologyError("the JSON is no OBO Graph, and no CodeSystem of FHIR")


def _code_system(resource: Resource) -> Draft:
    """Read the concepts of a CodeSystem.

    The hierarchy is that of nested concepts and of the properties ``parent``, ``subsumedBy`` and ``child``. ``display``
    is the label, designations are synonyms. Several concepts without a parent get a common root, named like the
    resource.
    """
    name = str(resource.get("name") or resource.get("id") or "CodeSystem")
    draft = Draft(name, str(resource.get("title", "")))
    try:
        _add_concepts(draft, resource.get("concept", ()), [])
    except (AttributeError, KeyError, TypeError) as error:
        raise OntologyError(f"the CodeSystem is not valid FHIR: {type(error).__name__}: {error}") from None
    if not draft.parents:
        raise OntologyError("the CodeSystem lists no concepts: use a complete one")
    return draft


def _add_concepts(draft: Draft, concepts: Iterable[Resource], parents: list[str]) -> None:
    """Add concepts and what is nested in them. The nesting of JSON is limited when it is read, so recursion is too."""
    for concept in concepts:
        code, designations = concept["code"], concept.get("designation", ())
        draft.add(code, parents, [concept.get("display", ""), *(one["value"] for one in designations)])
        for item in concept.get("property", ()):
            match item:
                case {"code": "parent" | "subsumedBy", "valueCode": parent}:
                    draft.add(code, [parent])
                case {"code": "child", "valueCode": child}:
                    draft.add(child, [code])
        _add_concepts(draft, concept.get("concept", ()), [code])
