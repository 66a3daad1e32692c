"""What FHIR R4 demands of a Provenance resource, for the elements that provenance events have, and readers of these.

Written from the definitions of R4 (http://hl7.org/fhir/R4/provenance.html), not from the schema of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

ELEMENTS = {
    "Provenance": {
        *("resourceType", "id", "meta", "implicitRules", "language", "text", "contained", "extension"),
        *("modifierExtension", "target", "occurredPeriod", "occurredDateTime", "recorded", "policy", "location"),
        *("reason", "activity", "agent", "entity", "signature"),
    },
    "agent": {"id", "extension", "modifierExtension", "type", "role", "who", "onBehalfOf"},
    "entity": {"id", "extension", "modifierExtension", "role", "what", "agent"},
    "Reference": {"id", "extension", "reference", "type", "identifier", "display"},
    "Identifier": {"id", "extension", "use", "type", "system", "value", "period", "assigner"},
    "CodeableConcept": {"id", "extension", "coding", "text"},
    "Coding": {"id", "extension", "system", "version", "code", "display", "userSelected"},
}
ENTITY_ROLES = {"derivation", "revision", "quotation", "source", "removal"}
ACTIVITIES = {"LA", "ANONY", "DEID", "MASK", "LABEL", "PSEUD", "CREATE", "DELETE", "UPDATE", "APPEND", "NULLIFY"}
"""Codes of the value set provenance-activity-type, without those of ParticipationType."""

INSTANT = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"(Z|[+-]((0[0-9]|1[0-3]):[0-5][0-9]|14:00))"
)
CODE, URI = re.compile(r"[^\s]+(\s[^\s]+)*"), re.compile(r"[a-z]+:\S+")
VALUES: Mapping[str, Any] = {
    "valuePositiveInt": lambda x: type(x) is int and 1 <= x < 2**31,
    "valueUnsignedInt": lambda x: type(x) is int and 0 <= x < 2**31,
    "valueDecimal": lambda x: type(x) in (int, float),
    "valueString": lambda x: isinstance(x, str) and x.strip() != "",
    "valueCode": lambda x: isinstance(x, str) and CODE.fullmatch(x) is not None,
}


def problems(resource: Mapping[str, Any]) -> list[str]:
    """Return what R4 does not allow in a Provenance resource."""
    return [*_resource(resource)]


def _resource(resource: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown("Provenance", resource)
    if resource.get("resourceType") != "Provenance":
        yield "resourceType"
    if not INSTANT.fullmatch(resource.get("recorded", "")):
        yield "recorded: 1..1, an instant"
    if not resource.get("target") or not resource.get("agent"):
        yield "target and agent: 1..*"
    for reference in resource.get("target", []):
        yield from _reference("target", reference)
    for uri in resource.get("policy", []):
        yield from [] if URI.fullmatch(uri) else ["policy"]
    yield from _concept("activity", resource.get("activity", {}))
    if {coding["code"] for coding in resource.get("activity", {}).get("coding", [])} - ACTIVITIES:
        yield "activity: not in the value set"
    for agent in resource.get("agent", []):
        yield from _unknown("agent", agent)
        yield from _concept("agent.type", agent.get("type", {}))
        yield from _reference("agent.who: 1..1", agent.get("who", {}))
    for entity in resource.get("entity", []):
        yield from _unknown("entity", entity)
        yield from [] if entity.get("role") in ENTITY_ROLES else ["entity.role: 1..1, a code of the value set"]
        yield from _reference("entity.what: 1..1", entity.get("what", {}))
    for extension in resource.get("extension", []):
        yield from _extension(extension, URI)


def _unknown(kind: str, given: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{kind} has no element {name}" for name in given.keys() - ELEMENTS[kind])
    yield from (f"{kind}.{name} is empty" for name, value in given.items() if value in ("", [], {}, None))


def _reference(place: str, reference: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown("Reference", reference)
    if not {"reference", "identifier", "display"} & reference.keys():
        yield f"{place} refers to nothing"
    identifier = reference.get("identifier", {})
    yield from _unknown("Identifier", identifier)
    if "system" in identifier and not URI.fullmatch(identifier["system"]):
        yield f"{place}.identifier.system"


def _concept(place: str, concept: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown("CodeableConcept", concept)
    for coding in concept.get("coding", []):
        yield from _unknown("Coding", coding)
        if not (URI.fullmatch(coding["system"]) and CODE.fullmatch(coding["code"])):
            yield place


def _extension(extension: Mapping[str, Any], url: re.Pattern[str]) -> Iterator[str]:
    """An extension has a url, absolute at the top, and either a value or parts (ext-1)."""
    if not url.fullmatch(extension.get("url", "")):
        yield "extension.url"
    (kind,) = extension.keys() - {"url"}
    if kind == "extension":
        for part in extension["extension"]:
            yield from _extension(part, CODE)
    elif kind not in VALUES or not VALUES[kind](extension[kind]):
        yield f"extension {extension['url']}: {kind}"


class Range(NamedTuple):
    """The input records of an event, and their numbers by outcome."""

    topic: str
    partition: int
    first: int
    last: int
    counts: dict[str, int]


def details(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of the extension that are no attributes, by name."""
    parts = [part for part in resource["extension"][0]["extension"] if part["url"] != "attribute"]
    return {part["url"]: next(value for key, value in part.items() if key != "url") for part in parts}


def range_of(resource: Mapping[str, Any]) -> Range:
    """Return the range of an event, which its target and its source name alike."""
    topic, partition, offsets = resource["entity"][0]["what"]["identifier"]["value"].split(":")
    assert all(one["identifier"]["value"].endswith(f":{partition}:{offsets}") for one in resource["target"])
    first, last = map(int, offsets.split("-"))
    counts = {name: details(resource)[name] for name in ("masked", "tombstones", "rejected")}
    return Range(topic, int(partition), first, last, counts)
