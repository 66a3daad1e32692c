"""Documents in JSON: code systems of FHIR, and OBO Graphs."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, TypeAlias

import orjson

from stream_masker.core.ontology.draft import Draft
from stream_masker.core.ontology.formats.packages import GRAPH, read_obo
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
