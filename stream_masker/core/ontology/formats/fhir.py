"""Code systems and value sets of FHIR, in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from stream_masker.core.ontology.formats import Draft
from stream_masker.errors import DuplicateConceptError, SourceFormatError

Resource: TypeAlias = Mapping[str, Any]

RESOURCE_TYPES: Final = ("CodeSystem", "ValueSet")


def read_resource(resource: Resource) -> Draft:
    """Read a CodeSystem with its concepts, or a ValueSet with its expansion or its listed concepts.

    The hierarchy is that of nested concepts and of the properties ``parent``, ``subsumedBy`` and ``child``. ``display``
    is the label, designations are synonyms. Abstract entries of an expansion without a code are left out, and what they
    contain takes their place. Several concepts without a parent get a common root, named like the resource. Raises
    SourceFormatError, DuplicateConceptError.
    """
    kind = resource["resourceType"]
    name = str(resource.get("name") or resource.get("id") or kind)
    draft = Draft(root=name, root_label=str(resource.get("title", "")))
    if kind == "CodeSystem":
        _add_concepts(draft, _objects(resource, "concept"), "concept", None)
    elif isinstance(resource.get("expansion"), Mapping):
        _add_concepts(draft, _objects(resource["expansion"], "contains"), "contains", None)
    elif isinstance(resource.get("compose"), Mapping):
        for include in _objects(resource["compose"], "include"):
            _add_concepts(draft, _objects(include, "concept"), "concept", None)
    if not draft.parents:
        raise SourceFormatError(f"the {kind} lists no concepts: use a complete or expanded one")
    for concept, parents in draft.parents.items():
        draft.parents[concept] = list(dict.fromkeys(parents))
    return draft


def _add_concepts(draft: Draft, concepts: Iterable[Resource], nested: str, parent: str | None) -> None:
    """Add concepts and what is nested in them. The nesting of JSON is limited when it is read, so recursion is too."""
    for concept in concepts:
        code = concept.get("code")
        if code is not None:
            _add_concept(draft, concept, _text(code, "code"), parent)
        _add_concepts(draft, _objects(concept, nested), nested, parent if code is None else code)


def _add_concept(draft: Draft, concept: Resource, code: str, parent: str | None) -> None:
    if code in draft.labels:
        raise DuplicateConceptError("a code is given twice", culprits=[code])
    draft.labels[code] = _text(concept.get("display", ""), "display")
    draft.synonyms[code] = [_text(one.get("value", ""), "value") for one in _objects(concept, "designation")]
    above = draft.parents.setdefault(code, [])
    above += [] if parent is None else [parent]
    for item in _objects(concept, "property"):
        value = item.get("valueCode")
        if value is not None and item.get("code") in {"parent", "subsumedBy"}:
            above.append(_text(value, "valueCode"))
        elif value is not None and item.get("code") == "child":
            draft.parents.setdefault(_text(value, "valueCode"), []).append(code)


def _objects(resource: Resource, name: str) -> list[Resource]:
    objects = resource.get(name) or []
    if not isinstance(objects, list) or not all(isinstance(one, Mapping) for one in objects):
        raise SourceFormatError(f"the resource is not valid FHIR: {name} must be a list of objects")
    return objects


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise SourceFormatError(f"the resource is not valid FHIR: {name} must be a text")
    return value
