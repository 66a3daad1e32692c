"""Samples of events of a file, and what their fields are: codes of an ontology, the id of a person, or others."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import orjson

from stream_masker.core.ontology import ConceptMap
from stream_masker.errors import ServiceError
from stream_masker.pipeline.fhir import BUNDLE, R4_TYPES
from stream_masker.pipeline.formats import record_form
from stream_masker.pipeline.paths import Document, JsonValue, NameStep, compile_path, quoted_step
from stream_masker.pipeline.records import RecordRejectedError
from stream_masker.service.configuration.masking import CsvSection
from stream_masker.service.files import FileEvent
from stream_masker.service.files.events import FileKind, open_events
from stream_masker.service.files.fields import RESOURCE

ROWS: Final = ("after", "before")
"""The members of an envelope of changes, as of Debezium, that hold a row in its two states."""

_PLAIN: Final = re.compile(r"[\w:/.-]+")

LEAST_SHARE: Final = 0.8
"""The least share of a field's values that are concepts, for it to be an attribute."""

LEAST_ICD9: Final = 0.1
"""The least share of a field's values that look like codes of ICD-9, for the others to be, too."""

TESTED_VALUES: Final = 300
"""The number of a field's most frequent values that are looked up."""

MOST_UNIQUE: Final = 50
"""A field of more values, no two of which are equal, has no codes."""

MISSING_MARKS: Final = frozenset({"NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", ".", "-", "?", "-9", "-99"})
"""The texts that may stand for a missing code."""

LEAST_PERSONS, MOST_EVENTS = 20, 50
"""Without a name of a person's id: the least number of its values, and the most events that share one on average."""

_PERSON: Final = re.compile(
    r"(pat|patid|patnr|pid|mrn|kvnr|nhs)$|.*(patient|pa[cz]i?ent|person|subject|member|bene|enrol|participant|uniquep)"
)
_ID: Final = re.compile(r".*(ids?|nr|nbr|no|num|number|nummer|numero|key|identifier|reference|mrn|kvnr)$")
"""The names of persons' ids, and how the name of an id or a number ends."""

_ICD9: Final = re.compile(r"\d{3}\.\d{1,2}|V\d\d.*|E\d{3}.*")
"""The codes of ICD-9 that are no mere numbers."""

ICD9_TEXT: Final = (
    "codes of ICD-9-CM, which is not shipped: make a table with the header concept,parent,label of the codes of CMS "
    "(CMS32_DESC_LONG_DX.txt), and name it with --ontology icd9=FILE"
)


class Sample(NamedTuple):
    """Events of a file; ``encoding``: of a CSV file, empty for the default."""

    kind: FileKind
    events: list[FileEvent]
    encoding: str = ""

    def documents(self) -> tuple[dict[int, Document], bool]:
        """Return the events that are objects, by their numbers, and whether they are resources of FHIR: only these are
        returned if there are any."""
        form, found = record_form(None), dict[int, Document]()
        for event in self.events:
            with suppress(RecordRejectedError):
                found[event.number], _ = form(event.value)
        resources = {number: document for number, document in found.items() if type_of(document)}
        return resources or found, bool(resources)


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
    def reference(self) -> str:
        """The path in ``fields.references`` of an id or a reference of FHIR; empty for another field."""
        kind, *names = self.place.names
        if names[-1:] == ["reference"]:
            return self.place.parent
        return self.place.path if names == ["id"] or (kind, *names) == (BUNDLE, "entry", "fullUrl") else ""


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


@dataclass(frozen=True, slots=True)
class Coding:
    """How many of a field's values are codes of an ontology, in [0, 1].

    ``share``: of all values; ``icd9``: of values that are none, and look like codes of ICD-9. ``marks``: the texts that
    stand for missing codes, which are not among the values. ``concepts``: those of the ontology.
    """

    field: SampledField
    ontology: str
    concepts: ConceptMap
    share: float
    icd9: float
    marks: frozenset[str]

    @property
    def why(self) -> str:
        """The share as text."""
        return f"{self.share:.0%} of the values are concepts of {self.ontology}"

    @property
    def problem(self) -> str | None:
        """Why the field is no attribute; None if it is one."""
        values, is_coded, is_icd9 = self.field.values, self.share >= LEAST_SHARE, self.icd9 >= LEAST_ICD9
        is_number = 2 * self.field.others > values.total()
        is_short = all(len(text) < (3 if text.isdigit() else 2) for text in values)
        reasons = (
            (is_short, "letters or short numbers, which are no codes"),
            (is_number and is_coded, "numbers, which are codes: quote them, or read the column as text"),
            (is_number and is_icd9, f"numbers, which look like {ICD9_TEXT}, and quote them"),
            (is_number, "numbers"),
            (len(values) == 1, "a single value, which cannot be masked"),
            (MOST_UNIQUE < len(values) == values.total(), f"{len(values):,} values, no two of which are equal"),
            (not is_coded and is_icd9, f"it looks like {ICD9_TEXT}"),
            (not is_coded, self.why),
        )
        return next((reason for holds, reason in reasons if holds), None)


def best_coding(field: SampledField, concepts: Mapping[str, ConceptMap]) -> Coding:
    """Return the coding of a field in the ontology that has most of its values.

    ``MISSING_MARKS`` stand for missing codes where fewer than half of the values are one of them.
    """
    marks = {value for value in field.values if value.strip() in MISSING_MARKS}
    if 2 * sum(field.values[mark] for mark in marks) >= field.values.total():
        marks = set()
    values = Counter({value: n for value, n in field.values.items() if value.strip() and value not in marks})
    tested = dict(values.most_common(TESTED_VALUES))
    total, codings = max(1, sum(tested.values())), []
    for name, known in concepts.items():
        how = {value: known.find(value).how for value in tested}
        coded = sum(count for value, count in tested.items() if how[value] in ("exact", "normalised"))
        others = (value for value in tested if how[value] in ("unknown", "ancestor") and _ICD9.fullmatch(value.strip()))
        icd9 = sum(tested[value] for value in others)
        codings.append(Coding(field, name, known, coded / total, icd9 / total, frozenset(marks)))
    return max(codings, key=lambda coding: coding.share)


def person_id(fields: Iterable[SampledField], coded: Set[int]) -> tuple[SampledField, str] | None:
    """Return the field that has the id of a person in every event with a code, and why; None if there is none.

    A name of a person's id counts most. Without one, it is the id that comes again in other events, and of which there
    are most.
    """
    found, events = [], len(coded)
    for one in fields:
        values, paths = one.values, map(compile_path, one.place.paths)
        is_scalar = all(isinstance(step, NameStep) for path in paths for step in path.steps)
        if not (is_scalar and one.events >= coded) or any(re.search(r"\s|\d-\d\d-\d", value) for value in values):
            continue
        *_, last = names = [_plain(name) for name in one.place.names]
        is_id = _ID.match(last) is not None
        named = any((_PERSON.fullmatch(last), is_id and _PERSON.match("".join(names))))
        repeats = LEAST_PERSONS <= len(values) < events <= MOST_EVENTS * len(values)
        if named or (is_id and repeats):
            found.append((named, len(values) < events, len(values), one))
    if not found:
        return None
    named, _, number, best = max(found, key=lambda one: one[:3])
    why = "the name is that of a person's id" if named else "CHECK: its values repeat as those of a person's id"
    return best, f"{why}; {number:,} in {events:,} events: equal codes of a person get the same mask"


def _plain(name: str) -> str:
    """Return the letters of a name in lower case, without accents."""
    return re.sub(r"[^a-z]", "", unicodedata.normalize("NFKD", name).lower())
