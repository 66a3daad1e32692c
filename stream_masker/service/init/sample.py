"""Samples of events: from a file, a topic, or the generator of synthetic events; and the fields that they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

import orjson
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.pipeline.paths import JsonValue, quoted_step
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.masking import ProduceSection
from stream_masker.service.events.synthetic import NESTED_EVENTS, SyntheticDischarges
from stream_masker.service.files.events import open_events
from stream_masker.service.kafka.clients import confluent_properties, connect_consumer
from stream_masker.service.kafka.errors import check_topics, require_broker

SILENT_SECONDS: Final = 5.0
"""A sample of a topic ends when nothing has arrived for this time."""


@dataclass(frozen=True, slots=True)
class EventSample:
    """Events, and the sections of a configuration that say how they were read."""

    events: list[bytes]
    sections: Mapping[str, Any] = field(default_factory=dict)


def file_sample(name: str, size: int, encoding: str = "") -> EventSample:
    """Return the first events of a file. ``encoding``: of a CSV file. Raises like ``open_events``."""
    section = {"encoding": encoding} if encoding else {}
    with open_events(name, ProduceSection.model_validate(section)) as source:
        if source.kind == "hl7":
            raise ServiceError(f"{name} has HL7 v2 messages: start from the configuration of examples/hl7v2")
        events = [event.value for event in islice(source.events, size) if event.problem is None]
        return EventSample(events, {"produce": section} if section else {})


def simulated_sample(size: int) -> EventSample:
    """Return generated events."""
    discharges = SyntheticDischarges(parse_configuration(NESTED_EVENTS))
    return EventSample([orjson.dumps(event) for event in discharges.events(size)])


def topic_sample(kafka: Mapping[str, Any], topic: str, size: int) -> EventSample:
    """Return the first events of a topic, from all partitions; commits nothing. Raises ServiceError."""
    sections: dict[str, Any] = {"kafka": {key: value for key, value in kafka.items() if value}}
    sections["topics"] = {"input": topic, "output": f"{topic}.masked", "rejected": f"{topic}.rejected"}
    properties = {
        **confluent_properties(parse_configuration({**NESTED_EVENTS, **sections})),
        "group.id": "stream-masker.sample",
        "enable.auto.commit": False,
        "enable.partition.eof": False,
    }
    require_broker(properties)
    consumer, values = connect_consumer(properties), list[bytes]()
    try:
        metadata = consumer.list_topics(topic, timeout=SILENT_SECONDS).topics[topic]
        check_topics({topic: metadata.error}, str(properties.get("sasl.username", "")))
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in metadata.partitions])
        while len(values) < size and (messages := consumer.consume(size - len(values), timeout=SILENT_SECONDS)):
            values += [value for m in messages if m.error() is None and (value := m.value()) is not None]
    finally:
        consumer.close()
    if not values:
        raise ServiceError(f"topic {topic} has no records to sample")
    if all(value.startswith(b"\0") for value in values):
        raise ServiceError(
            f"the records of topic {topic} are probably in the Confluent wire format: write some of them to a file as "
            "JSON lines, and name it with --events"
        )
    return EventSample(values, sections)


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
