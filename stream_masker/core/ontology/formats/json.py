"""Documents in JSON: code systems of FHIR, and OBO Graphs."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, TypeAlias

import orjson

from stream_masker.core.ontology.draft import Draft
from stream_masker.core.ontology.formats.packages import read_obo
from stream_masker.errors import OntologyError

Resource: TypeAlias = Mapping[str, Any]


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
        return read_obo(io.BytesIO(content), "an OBO Graph")
    raise OntologyError("the JSON is no OBO Graph, and no CodeSystem of FHIR")


def _code_system(resource: Resource) -> Draft:
    """Read the concepts of a CodeSystem.

    The hierarchy is that of nested concepts and of the properties ``parent``, ``subsumedBy`` and ``child``. ``display``
    is the label, designations are synonyms. Several concepts without a parent get a common root, named like the
    resource.
    """
    name = str(resource.get("name") or resource.get("id") or "CodeSystem")
    draft = Draft(root=name, root_label=str(resource.get("title", "")))
    _add_concepts(draft, _objects(resource, "concept"), [])
    if not draft.parents:
        raise OntologyError("the CodeSystem lists no concepts: use a complete one")
    for concept, parents in draft.parents.items():
        draft.parents[concept] = list(dict.fromkeys(parents))
    return draft


def _add_concepts(draft: Draft, concepts: Iterable[Resource], parents: list[str]) -> None:
    """Add concepts and what is nested in them. The nesting of JSON is limited when it is read, so recursion is too."""
    for concept in concepts:
        code = _text(concept, "code")
        if code in draft.labels:
            raise OntologyError("a concept is given twice", culprits=[code])
        draft.labels[code] = _text(concept, "display", "")
        draft.synonyms[code] = [_text(one, "value", "") for one in _objects(concept, "designation")]
        draft.parents.setdefault(code, []).extend(parents)
        for item in _objects(concept, "property"):
            if item.get("code") in {"parent", "subsumedBy"} and "valueCode" in item:
                draft.parents[code].append(_text(item, "valueCode"))
            elif item.get("code") == "child" and "valueCode" in item:
                draft.parents.setdefault(_text(item, "valueCode"), []).append(code)
        _add_concepts(draft, _objects(concept, "concept"), [code])


def _objects(resource: Resource, name: str) -> list[Resource]:
    objects = resource.get(name) or []
    if not isinstance(objects, list) or not all(isinstance(one, Mapping) for one in objects):
        raise OntologyError(f"the resource is not valid FHIR: {name} must be a list of objects")
    return objects


def _text(resource: Resource, name: str, default: str | None = None) -> str:
    value = resource.get(name, default)
    if not isinstance(value, str):
        raise OntologyError(f"the resource is not valid FHIR: {name} must be a text")
    return value
