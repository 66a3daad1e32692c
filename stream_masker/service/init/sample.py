"""Samples of events: from a file, or the generator of synthetic events; and the fields that they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

import orjson

from stream_masker.errors import ServiceError
from stream_masker.pipeline.paths import JsonValue, quoted_step
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.masking import ProduceSection
from stream_masker.service.events.synthetic import NESTED_EVENTS, SyntheticDischarges
from stream_masker.service.files.events import open_events

CHANGE: Final = frozenset({"before", "after", "op"})
"""The members of an event of Debezium: the row before and after a change, either of which may be null, and its kind."""


def file_sample(name: str, size: int, encoding: str = "") -> list[bytes]:
    """Return the first events of a file. ``encoding``: of a CSV file. Raises like ``open_events``."""
    with open_events(name, ProduceSection.model_validate({"encoding": encoding})) as source:
        if source.kind == "hl7":
            raise ServiceError(f"{name} has HL7 v2 messages: start from the configuration of examples/hl7v2")
        return [event.value for event in islice(source.events, size) if event.problem is None]


def simulated_sample(size: int) -> list[bytes]:
    """Return generated events."""
    discharges = SyntheticDischarges(parse_configuration(NESTED_EVENTS))
    return [orjson.dumps(event) for event in discharges.events(size)]


@dataclass(frozen=True, slots=True)
class Envelope:
    """Where the rows of events stand.

    prefixes: of the paths in a row: ``payload.`` of Kafka Connect, ``after.`` or else ``before.`` of Debezium, or an
    empty text for events that are rows. kept, dropped: the other members that are kept, and why others are not.
    """

    prefixes: Sequence[str] = ("",)
    kept: Sequence[str] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Sequence[Mapping[str, Any]]) -> Envelope:
        """Return the envelope of most events."""
        is_wrapped = 2 * sum(event.keys() == {"schema", "payload"} for event in events) > len(events)
        inner = [event.get("payload") for event in events] if is_wrapped else events
        has_changes = 2 * sum(isinstance(one, dict) and one.keys() >= CHANGE for one in inner) > len(events)
        outer, rows = "payload." if is_wrapped else "", ("after.", "before.") if has_changes else ("",)
        dropped = {"schema": "it does not fit the masked payload: read with schemas.enable=false"} if is_wrapped else {}
        dropped |= {f"{outer}source and the like": "parts of the envelope: keep what is needed"} if has_changes else {}
        return cls([f"{outer}{row}" for row in rows], [f"{outer}op"] if has_changes else (), dropped)

    def row(self, event: Any) -> dict[str, Any] | None:
        """Return the first row of an event; None if it has none, as a heartbeat."""
        for prefix in self.prefixes:
            place = event
            for name in filter(None, prefix.split(".")):
                place = place.get(name) if isinstance(place, dict) else None
            if isinstance(place, dict):
                return place
        return None

    def paths(self, path: str) -> list[str]:
        """Return the paths of events for the path of a row, in the order in which they count."""
        return [f"{prefix.removesuffix('.') if path.startswith('[') else prefix}{path}" for prefix in self.prefixes]

    def path(self, path: str) -> str:
        """Return the path of events of which the first with a value counts."""
        return " | ".join(self.paths(path))

    def attribute(self, attribute: Mapping[str, Any]) -> dict[str, Any]:
        """Return an attribute of rows as one of events."""
        first, *others = self.paths(attribute["path"])
        if others and "[*" in first:
            return {**attribute, "path": first, "also": others}
        return {**attribute, "path": self.path(attribute["path"])}


@dataclass(frozen=True, slots=True)
class Place:
    """A place in events: its path, the path of the object around it, and the names on the way."""

    path: str = ""
    parent: str = ""
    names: tuple[str, ...] = ()

    def member(self, name: str) -> Place:
        """Return the place of a member of the object here."""
        step = quoted_step(name)
        dot = "." if self.path and not step.startswith("[") else ""
        return Place(f"{self.path}{dot}{step}", self.path, (*self.names, name))

    def element(self, step: str) -> Place:
        """Return the place of elements of the list here."""
        return Place(self.path + step, self.parent, self.names)


Scalars: TypeAlias = Iterator[tuple[Place, Any]]


@dataclass(slots=True)
class SampledField:
    """The values of one place in a sample: the number of events that have it, its texts, and its numbers as texts."""

    place: Place
    events: int = 0
    texts: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)

    @property
    def path(self) -> str:
        """The path of the field."""
        return self.place.path

    @property
    def values(self) -> Counter[str]:
        """All values as texts."""
        return self.texts + self.others


def sampled_fields(events: Iterable[Scalars]) -> dict[str, SampledField]:
    """Return the scalar fields of events by path."""
    fields: dict[str, SampledField] = {}
    for event in events:
        seen: set[str] = set()
        for place, value in event:
            found = fields.setdefault(place.path, SampledField(place))
            if isinstance(value, str):
                found.texts[value] += 1
            else:
                found.others[orjson.dumps(value).decode()] += 1
            seen.add(place.path)
        for path in seen:
            fields[path].events += 1
    return fields


def scalars(value: JsonValue, place: Place = Place(), every: str = "") -> Scalars:
    """Yield the scalars of an event with their places.

    Elements of lists have ``[*]``, or a filter by ``system``, as in FHIR, if they have that field. ``every``: ``*`` if
    each of the filtered elements has a value of its own.
    """
    if isinstance(value, dict):
        for name, member in value.items():
            yield from scalars(member, place.member(name), every)
    elif isinstance(value, list):
        for element in value:
            system = element.get("system") if isinstance(element, dict) else None
            step = f"[{every}?system={system}]" if _is_plain_system(system) else "[*]"
            yield from scalars(element, place.element(step), every)
    elif value is not None:
        yield place, value


def _is_plain_system(system: JsonValue) -> bool:
    return isinstance(system, str) and bool(system) and system == system.strip() and not set(system) & set("[]'\"")


def fhir_scalars(message: Mapping[str, Any]) -> Scalars:
    """Yield the scalars of a FHIR resource, or of a Bundle and its resources, with paths that start with a type."""
    kind = message["resourceType"]
    members = {name: value for name, value in message.items() if name != "resourceType"}
    entries = members.pop("entry", None) if kind == "Bundle" else None
    yield from scalars(members, Place(kind, "", (kind,)), "*")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        inner = {name: value for name, value in entry.items() if name != "resource"}
        yield from scalars(inner, Place("Bundle.entry[*]", "Bundle", ("Bundle", "entry")), "*")
        if isinstance(resource := entry.get("resource"), dict) and isinstance(resource.get("resourceType"), str):
            yield from fhir_scalars(resource)
