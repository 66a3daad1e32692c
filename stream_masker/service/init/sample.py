"""Samples of events of a file, and the fields that they have."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import orjson

from stream_masker.errors import ServiceError
from stream_masker.pipeline.fhir import BUNDLE, R4_TYPES
from stream_masker.pipeline.formats import record_form
from stream_masker.pipeline.paths import Document, JsonValue, compile_path, quoted_step
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.configuration.masking import CsvSection
from stream_masker.service.files.events import open_events
from stream_masker.service.files.fields import RESOURCE
from stream_masker.service.files.inputs import FileEvent, FileKind

ROWS: Final = ("after", "before")
"""The members of an envelope of changes, as of Debezium, that hold a row in its two states."""

_PLAIN: Final = re.compile(r"[\w:/.-]+")


class Sample(NamedTuple):
    """Events of a file; ``encoding``: of a CSV file, empty for the default."""

    kind: FileKind
    events: list[FileEvent]
    encoding: str = ""

    def documents(self) -> dict[int, Document]:
        """Return the events that are objects, by their numbers; if there are resources of FHIR, only these."""
        form, found = record_form(None, sys.maxsize), dict[int, Document]()
        for event in self.events:
            with suppress(RecordRejectedError):
                found[event.number], _ = form(event.value)
        return {number: document for number, document in found.items() if type_of(document)} or found


def file_sample(name: str, size: int, encoding: str = "") -> Sample:
    """Return the first events of a file. Raises like ``open_events``, and for HL7 v2 messages."""
    with open_events(name, CsvSection.model_validate({"encoding": encoding})) as source:
        if source.kind == "hl7":
            raise ServiceError(f"{name} has HL7 v2 messages: start from the configuration of examples/hl7v2")
        return Sample(source.kind, [*islice(source.events, size)], encoding)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in events: its paths, the text of those of the object around it, and the names on the way.

    There are two paths in an envelope of changes: that of a row after the change, and that before it.
    """

    paths: tuple[str, ...] = ("",)
    parent: str = ""
    names: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The paths as one text."""
        return " | ".join(self.paths)

    def member(self, name: str) -> Place:
        """Return the place of a member of the object here."""
        return Place(self._below(name), self.path, (*self.names, name))

    def rows(self) -> Place:
        """Return the place of both rows of the envelope here."""
        return Place(tuple(path for row in ROWS for path in self._below(row)), self.parent, (*self.names, ROWS[0]))

    def _below(self, name: str) -> tuple[str, ...]:
        step = quoted_step(name)
        return tuple(f"{path}{'.' if path and not step.startswith('[') else ''}{step}" for path in self.paths)

    def element(self, element: JsonValue) -> Place:
        """Return the place of an element of the list here. Codings of FHIR have a place for each system."""
        system = element.get("system") if isinstance(element, dict) and self.names[-1:] == ("coding",) else None
        is_named = isinstance(system, str) and _PLAIN.fullmatch(system) is not None
        step = f"[*?system={system}]" if is_named else "[*]"
        return Place(tuple(f"{path}{step}" for path in self.paths), self.parent, self.names)

    def holds(self, other: Place) -> bool:
        """Return whether a path of all codings here meets another one of those of one system."""
        path, narrower = compile_path(self.paths[0]), compile_path(other.paths[0])
        return other != self and "[*?" not in self.path and path.may_meet(narrower)


def scalars(value: JsonValue, place: Place = Place()) -> Iterator[tuple[Place, JsonValue]]:
    """Yield the scalars of an event with their places. That of a resource of FHIR, also in a Bundle, is its type."""
    if isinstance(value, dict):
        if place.path in ("", RESOURCE) and (kind := type_of(value)):
            place, value = Place((kind,), names=(kind,)), {k: v for k, v in value.items() if k != "resourceType"}
        has_rows = value.keys() >= {*ROWS}
        for name, member in value.items():
            yield from scalars(member, place.rows() if has_rows and name in ROWS else place.member(name))
    elif isinstance(value, list):
        for element in value:
            yield from scalars(element, place.element(element))
    elif value is not None:
        yield place, value


def type_of(event: Mapping[str, JsonValue]) -> str:
    """Return the type of a resource of FHIR, empty for another object."""
    kind = event.get("resourceType")
    return kind if isinstance(kind, str) and kind in R4_TYPES else ""


@dataclass(slots=True)
class SampledField:
    """The values of one place in a sample as texts, how many are none, and the numbers of the events that have it."""

    place: Place
    values: Counter[str] = field(default_factory=Counter)
    others: int = 0
    events: set[int] = field(default_factory=set)

    @property
    def path(self) -> str:
        """The path of the field."""
        return self.place.path

    @property
    def reference(self) -> str:
        """The path in ``fields.references`` of an id or a reference of FHIR; empty for another field."""
        kind, *names = self.place.names
        if names[-1:] == ["reference"]:
            return self.place.parent
        return self.path if names == ["id"] or (kind, *names) == (BUNDLE, "entry", "fullUrl") else ""


def sampled_fields(documents: Mapping[int, Document]) -> dict[str, SampledField]:
    """Return the scalar fields of events by path."""
    fields: dict[str, SampledField] = {}
    for number, document in documents.items():
        for place, value in scalars(document):
            found, is_text = fields.setdefault(place.path, SampledField(place)), isinstance(value, str)
            found.values[value if is_text else orjson.dumps(value).decode()] += 1
            found.others += not is_text
            found.events.add(number)
    return fields
