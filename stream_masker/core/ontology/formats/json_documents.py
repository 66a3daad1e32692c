"""Ontologies in JSON: OBO Graphs (https://github.com/geneontology/obographs), code systems and value sets of FHIR."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO, TypeAlias, TypeVar

from stream_masker.core.ontology.draft import OntologyDraft, add_common_root
from stream_masker.core.ontology.formats.obo import curie
from stream_masker.errors import DuplicateConceptError, SourceFormatError

GraphObject: TypeAlias = Mapping[str, Any]
GraphValue = TypeVar("GraphValue")

IS_A_PREDICATES = ("is_a", "http://www.w3.org/2000/01/rdf-schema#subClassOf")
ALTERNATIVE_ID = "http://www.geneontology.org/formats/oboInOwl#hasAlternativeId"


def read_graph(lines: TextIO) -> OntologyDraft:
    """Read the classes that are not deprecated, with labels, synonyms of every scope, and is_a links.

    Alternative ids are synonyms. Identifiers are those of OBO files (``curie``). Nodes that are not classes, and the
    links from them, are ignored. Raises SourceFormatError, DuplicateConceptError.
    """
    document = _parsed(lines)
    if document.get("resourceType") in RESOURCE_TYPES:
        return read_resource(document)
    draft = OntologyDraft()
    graphs = [_object(graph, "a graph") for graph in _list(document, "graphs")]
    for graph in graphs:
        for node in _list(graph, "nodes"):
            _add_node(draft, _object(node, "a node"))
    for graph in graphs:
        for edge in _list(graph, "edges"):
            _add_edge(draft, _object(edge, "an edge"))
    return draft


def _parsed(lines: TextIO) -> GraphObject:
    try:
        document = json.load(lines)
    except json.JSONDecodeError as error:
        raise SourceFormatError(f"line {error.lineno} is not valid JSON: {error.msg}") from None
    except RecursionError:
        raise SourceFormatError("the JSON is nested too deeply") from None
    if not isinstance(document, dict) or not ("graphs" in document or document.get("resourceType") in RESOURCE_TYPES):
        raise SourceFormatError(
            "the JSON is not an OBO Graph, which is an object with a list of graphs, and no CodeSystem or ValueSet of "
            "FHIR"
        )
    return document


def _add_node(draft: OntologyDraft, node: GraphObject) -> None:
    meta = _object(node.get("meta") or {}, "meta")
    if node.get("type") != "CLASS" or meta.get("deprecated"):
        return
    concept = curie(_text(node, "id"))
    if concept in draft.parents:
        raise DuplicateConceptError("a node is given twice", culprits=[concept])
    draft.parents[concept] = []
    draft.labels[concept] = _text(node, "lbl", "")
    draft.synonyms[concept] = [*_values(meta, "synonyms"), *_values(meta, "basicPropertyValues", ALTERNATIVE_ID)]


def _add_edge(draft: OntologyDraft, edge: GraphObject) -> None:
    if _text(edge, "pred") not in IS_A_PREDICATES:
        return
    concept, parent = curie(_text(edge, "sub")), curie(_text(edge, "obj"))
    if parent not in draft.parents.get(concept, [parent]):
        draft.parents[concept].append(parent)


def _values(meta: GraphObject, name: str, predicate: str | None = None) -> Iterator[str]:
    """Yield the values of a list of properties: all, or those of one predicate."""
    for item in _list(meta, name):
        value = _object(item, name)
        if predicate is None or value.get("pred") == predicate:
            yield _text(value, "val")


def _list(parent: GraphObject, name: str) -> list[Any]:
    return _of_type(parent.get(name) or [], list, f"{name} must be a list")


def _object(value: Any, description: str) -> GraphObject:
    return _of_type(value, dict, f"{description} must be an object")


def _text(parent: GraphObject, name: str, default: str | None = None) -> str:
    return _of_type(parent.get(name) or default, str, f"{name} must be a string")


def _of_type(value: Any, kind: type[GraphValue], message: str) -> GraphValue:
    if not isinstance(value, kind):
        raise SourceFormatError(f"the JSON is not an OBO Graph: {message}")
    return value


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
            _add_concept(draft, concept, _fhir_text(code, "code"), parent)
        _add_concepts(draft, _objects(concept, nested), nested, parent if code is None else code)


def _add_concept(draft: OntologyDraft, concept: FhirResource, code: str, parent: str | None) -> None:
    if code in draft.labels:
        raise DuplicateConceptError("a code is given twice", culprits=[code])
    draft.labels[code] = _fhir_text(concept.get("display", ""), "display")
    draft.synonyms[code] = [_fhir_text(one.get("value", ""), "value") for one in _objects(concept, "designation")]
    above = draft.parents.setdefault(code, [])
    above += [] if parent is None else [parent]
    for item in _objects(concept, "property"):
        value = item.get("valueCode")
        if value is not None and item.get("code") in {"parent", "subsumedBy"}:
            above.append(_fhir_text(value, "valueCode"))
        elif value is not None and item.get("code") == "child":
            draft.parents.setdefault(_fhir_text(value, "valueCode"), []).append(code)


def _objects(resource: FhirResource, name: str) -> list[FhirResource]:
    objects = resource.get(name) or []
    if not isinstance(objects, list) or not all(isinstance(one, Mapping) for one in objects):
        raise SourceFormatError(f"the resource is not valid FHIR: {name} must be a list of objects")
    return objects


def _fhir_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise SourceFormatError(f"the resource is not valid FHIR: {name} must be a text")
    return value
