"""The scalar fields of sampled events: their paths, and counts of their values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stream_masker.pipeline.paths import JsonValue, quoted_step


@dataclass(frozen=True, slots=True)
class SampledPlace:
    """A place in events: its path, the path of the object around it, and the names on the way."""

    path: str = ""
    parent: str = ""
    names: tuple[str, ...] = ()

    def member(self, name: str) -> SampledPlace:
        """Return the place of a member of the object here."""
        step = quoted_step(name)
        dot = "." if self.path and not step.startswith("[") else ""
        return SampledPlace(f"{self.path}{dot}{step}", self.path, (*self.names, name))

    def element(self, step: str) -> SampledPlace:
        """Return the place of elements of the list here."""
        return SampledPlace(self.path + step, self.parent, self.names)


Scalars: TypeAlias = Iterator[tuple[SampledPlace, Any]]


@dataclass(slots=True)
class SampledField:
    """The values of one place in a sample: the number of events that have it, its texts and its kinds."""

    place: SampledPlace
    events: int = 0
    values: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def path(self) -> str:
        """The path of the field."""
        return self.place.path

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.place.names[-1]

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return set(self.kinds) <= {"int", "float"}

    @property
    def is_unique(self) -> bool:
        """Whether no two values are equal."""
        return len(self.values) == self.values.total()


def sampled_fields(events: Iterable[Scalars]) -> dict[str, SampledField]:
    """Return the scalar fields of events by path."""
    fields: dict[str, SampledField] = {}
    for event in events:
        seen: set[str] = set()
        for place, value in event:
            field = fields.setdefault(place.path, SampledField(place))
            field.kinds[type(value).__name__] += 1
            field.values[value if isinstance(value, str) else json.dumps(value)] += 1
            seen.add(place.path)
        for path in seen:
            fields[path].events += 1
    return fields


def json_scalars(value: JsonValue, place: SampledPlace = SampledPlace(), every: str = "") -> Scalars:
    """Yield the scalars of an event with their places.

    Elements of lists have ``[*]``, or a filter by ``system``, as in FHIR, if they have that field. ``every``: ``*`` if
    each of the filtered elements has a value of its own.
    """
    if isinstance(value, dict):
        for name, member in value.items():
            yield from json_scalars(member, place.member(name), every)
    elif isinstance(value, list):
        for element in value:
            system = element.get("system") if isinstance(element, dict) else None
            step = f"[{every}?system={system}]" if _is_plain_system(system) else "[*]"
            yield from json_scalars(element, place.element(step), every)
    elif value is not None:
        yield place, value


def _is_plain_system(system: JsonValue) -> bool:
    return isinstance(system, str) and bool(system) and system == system.strip() and not set(system) & set("[]'\"")


def fhir_scalars(message: dict[str, Any]) -> Scalars:
    """Yield the scalars of a FHIR resource, or of a Bundle and its resources, with paths that start with a type."""
    kind = message["resourceType"]
    members = {name: value for name, value in message.items() if name != "resourceType"}
    entries = members.pop("entry", None) or () if kind == "Bundle" else ()
    yield from json_scalars(members, SampledPlace(kind, "", (kind,)), "*")
    for entry in entries:
        inner = {name: value for name, value in entry.items() if name != "resource"}
        yield from json_scalars(inner, SampledPlace("Bundle.entry[*]", "Bundle", ("Bundle", "entry")), "*")
        if isinstance(resource := entry.get("resource"), dict) and isinstance(resource.get("resourceType"), str):
            yield from fhir_scalars(resource)
