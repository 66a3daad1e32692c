"""FHIR resources CodeSystem and ValueSet in JSON (R4, R5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from stream_masker.core.ontology.draft import OntologyDraft, add_common_root
from stream_masker.errors import DuplicateConceptError, SourceFormatError

FhirResource: TypeAlias = Mapping[str, Any]

RESOURCE_TYPES = ("CodeSystem", "ValueSet")


def read_resource(resource: FhirResource) -> OntologyDraft:
    """Read a CodeSystem with its concepts, or a ValueSet with its expansion or its listed concepts.

    The hierarchy is that of nested concepts and of the properties ``parent`` and ``child``. ``display`` is the label,
    designations are synonyms. Abstract entries of an expansion without a code are left out, and what they contain
    takes their place. Several concepts without a parent get a common root, named like the resource. Raises
    SourceFormatError, DuplicateConceptError.
    """
    draft = OntologyDraft()
    if resource["resourceType"] == "CodeSystem":
        _add_concepts(draft, _objects(resource, "concept"), "concept", None)
    else:
        _add_value_set(draft, resource)
    if not draft.parents:
        raise SourceFormatError(f"the {resource['resourceType']} lists no concepts: use a complete or expanded one")
    for concept, parents in draft.parents.items():
        draft.parents[concept] = list(dict.fromkeys(parents))
    add_common_root(draft, _name(resource), str(resource.get("title", "")))
    return draft


def _name(resource: FhirResource) -> str:
    return str(resource.get("name") or resource.get("id") or resource["resourceType"])


def _add_value_set(draft: OntologyDraft, resource: FhirResource) -> None:
    expansion = resource.get("expansion")
    if isinstance(expansion, Mapping):
        _add_concepts(draft, _objects(expansion, "contains"), "contains", None)
        return
    compose = resource.get("compose")
    for include in _objects(compose, "include") if isinstance(compose, Mapping) else ():
        _add_concepts(draft, _objects(include, "concept"), "concept", None)


def _add_concepts(draft: OntologyDraft, concepts: Iterable[FhirResource], nested: str, parent: str | None) -> None:
    """Add concepts and what is nested in them. The nesting of JSON is limited, so recursion is too."""
    for concept in concepts:
        code = concept.get("code")
        if code is not None:
            _add_concept(draft, concept, _text(code, "code"), parent)
        _add_concepts(draft, _objects(concept, nested), nested, parent if code is None else code)


def _add_concept(draft: OntologyDraft, concept: FhirResource, code: str, parent: str | None) -> None:
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


def _objects(resource: FhirResource, name: str) -> list[FhirResource]:
    objects = resource.get(name) or []
    if not isinstance(objects, list) or not all(isinstance(one, Mapping) for one in objects):
        raise SourceFormatError(f"the resource is not valid FHIR: {name} must be a list of objects")
    return objects


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise SourceFormatError(f"the resource is not valid FHIR: {name} must be a text")
    return value
