"""Samples of events: from a file, or the generator of synthetic events; and the fields that they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

import orjson

from stream_masker.errors import ServiceError
from stream_masker.pipeline.fhir import R4_TYPES
from stream_masker.pipeline.paths import JsonValue, quoted_step
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.masking import ProduceSection
from stream_masker.service.events.synthetic import NESTED_EVENTS, SyntheticDischarges
from stream_masker.service.files.events import open_events


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


def objects_of(events: Iterable[bytes]) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the events that are JSON objects, with their content. Raises ServiceError for a resource of FHIR."""
    for record in events:
        try:
            event = orjson.loads(record)
        except orjson.JSONDecodeError:
            continue
        if isinstance(event, dict):
            if str(event.get("resourceType")) in R4_TYPES:
                raise ServiceError(
                    "the sample has FHIR resources: start from the configuration of examples/fhir-bundle"
                )
            yield record, event


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

    def elements(self) -> Place:
        """Return the place of the elements of the list here."""
        return Place(f"{self.path}[*]", self.parent, self.names)


Scalars: TypeAlias = Iterator[tuple[Place, Any]]


def scalars(value: JsonValue, place: Place = Place()) -> Scalars:
    """Yield the scalars of an event with their places."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from scalars(member, place.member(name))
    elif isinstance(value, list):
        for element in value:
            yield from scalars(element, place.elements())
    elif value is not None:
        yield place, value


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


def sampled_fields(events: Iterable[JsonValue]) -> dict[str, SampledField]:
    """Return the scalar fields of events by path."""
    fields: dict[str, SampledField] = {}
    for event in events:
        seen: set[str] = set()
        for place, value in scalars(event):
            found = fields.setdefault(place.path, SampledField(place))
            if isinstance(value, str):
                found.texts[value] += 1
            else:
                found.others[orjson.dumps(value).decode()] += 1
            seen.add(place.path)
        for path in seen:
            fields[path].events += 1
    return fields
