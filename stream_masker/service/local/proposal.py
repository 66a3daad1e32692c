"""A proposal of a configuration for a sample of events: attributes, ontologies, fields and the noise key.

A path is an attribute if most of its texts are codes or labels of an ontology. Other fields are treated by their names
and values, with the stricter treatment in doubt. Each line says why; values are not shown.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any

import orjson

from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ServiceError
from stream_masker.pipeline.paths import JsonValue
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan

LEAST_MATCH = 0.8
"""The least share of a path's values that must be concepts of an ontology."""

LEAST_DISTINCT = 3
TESTED_VALUES = 300
KEPT_VALUES = 50
"""A text with more different values than this is not kept."""

_PLAIN_NAME = re.compile(r"[^.\[\]\s?=\\\"']+")
_PERSON = re.compile(r"patient|subject|person|member|beneficiary|mrn|insured|client", re.IGNORECASE)
_IDENTIFIER = re.compile(r"(^|[_.-])(id|nbr|number|no|key|uuid|identifier|reference|mrn|ssn)$|Id$|ID$", re.IGNORECASE)
_PRIVATE = re.compile(
    r"name|phone|mail|fax|street|address|line|city|text|note|comment|ssn|license|url|birthplace|contact"
    r"|desc|display|label|title|diagnos|reason",
    re.IGNORECASE,
)
_POSTCODE = re.compile(r"zip|postal|postcode|plz", re.IGNORECASE)
_AGE = re.compile(r"(.*_)?age(_.*)?", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")


@dataclass(slots=True)
class SampledField:
    """The values of one path in a sample: the number of events that have it, its texts and its kinds."""

    path: str
    events: int = 0
    values: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """The last name of the path."""
        return re.sub(r"\[[^\]]*\]", "", self.path).rpartition(".")[2]

    @property
    def parent(self) -> str:
        """The path of the object that holds the field."""
        return re.sub(r"\.?[^.\[\]]*$", "", self.path)

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return set(self.kinds) <= {"int", "float"}


@dataclass(frozen=True, slots=True)
class CodedField:
    """A field whose values are concepts: the name of the ontology, the share of concepts, and whether by labels."""

    field: SampledField
    ontology: str
    share: float
    by_label: bool


def sampled_fields(events: Iterable[JsonValue]) -> tuple[int, dict[str, SampledField]]:
    """Return the number of events, and their scalar fields by path.

    Elements of lists have ``[*]``, or a filter by ``system``, as in FHIR, if they have that field. Names that a path
    cannot express are left out.
    """
    fields: dict[str, SampledField] = {}
    number = 0
    for event in events:
        number += 1
        seen: set[str] = set()
        for path, value in _scalars(event, ""):
            found = fields.setdefault(path, SampledField(path))
            found.kinds[type(value).__name__] += 1
            found.values[value if isinstance(value, str) else json.dumps(value)] += 1
            seen.add(path)
        for path in seen:
            fields[path].events += 1
    return number, fields


def _scalars(value: JsonValue, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, member in value.items():
            if _PLAIN_NAME.fullmatch(name):
                yield from _scalars(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for element in value:
            system = element.get("system") if isinstance(element, dict) else None
            step = f"[?system={system}]" if isinstance(system, str) and "]" not in system else "[*]"
            yield from _scalars(element, path + step)
    elif value is not None:
        yield path, value


def coded_fields(fields: Iterable[SampledField], ontologies: Mapping[str, Ontology]) -> list[CodedField]:
    """Return the fields whose texts are concepts of an ontology, with the ontology that has most of them.

    A text that no two events share is no code, and the values of a field whose name is that of an identifier must be
    codes as they stand in the ontology.
    """
    maps = {name: ConceptMap(o.taxonomy(), ontology=o) for name, o in ontologies.items()}
    found = []
    for one in fields:
        unique = len(one.values) == one.values.total() > KEPT_VALUES
        if one.path.count("[*]") > 1 or one.kinds.keys() - {"str"} or len(one.values) < LEAST_DISTINCT or unique:
            continue
        best = max((_coded(one, name, concepts) for name, concepts in maps.items()), key=lambda coded: coded.share)
        if best.share >= LEAST_MATCH:
            found.append(best)
    return found


def _coded(one: SampledField, name: str, concepts: ConceptMap) -> CodedField:
    tested = one.values.most_common(TESTED_VALUES)
    total = sum(count for _, count in tested)
    how = Counter[str]()
    for value, count in tested:
        how[concepts.find(value).how] += count
    # Numbered ids look like codes in another form: v123 is V12.3.
    matched = how["exact"] if _IDENTIFIER.search(one.name) else total - how["unknown"]
    return CodedField(one, name, matched / total, by_label=how["label"] > matched / 2)


BESIDE_CODE: tuple[str, Any, str] = ("drop", None, "it stands beside a code and may tell it")


def container(path: str) -> str:
    """Return the path of the object around a field, without the filters of lists: other codings of a code are beside
    it."""
    return re.sub(r"\[\?[^\]]*\]", "", path).rpartition(".")[0]


def treatment(one: SampledField, events: int) -> tuple[str, Any, str]:
    """Return the key below ``fields``, its value for the path, and why."""
    by_name = _by_name(one)
    if by_name is not None:
        return by_name
    distinct = len(one.values)
    if all(_DATE.fullmatch(value) for value in islice(one.values, TESTED_VALUES)):
        return "generalize", {"date": "year"}, "the values are dates"
    if distinct > KEPT_VALUES and (_IDENTIFIER.search(one.name) or distinct > events / 2):
        return "pseudonymize", None, f"{distinct:,} different values: it identifies events"
    if one.is_number or distinct <= KEPT_VALUES:
        return "keep", None, f"{distinct:,} different values"
    return "drop", None, f"{distinct:,} different texts"


def _by_name(one: SampledField) -> tuple[str, Any, str] | None:
    """Return the treatment of a field whose name tells what it is."""
    rules = (
        (_PERSON.search(one.path) and _IDENTIFIER.search(one.path), "pseudonymize", None, "a person's id"),
        (_POSTCODE.search(one.name), "generalize", {"characters": 3}, "a postcode"),
        (not one.is_number and _PRIVATE.search(one.path), "drop", None, "a private field or a description"),
        (one.is_number and _AGE.fullmatch(one.name), "generalize", {"width": 5, "top": 90}, "an age"),
    )
    found = next((rule for rule in rules if rule[0]), None)
    return None if found is None else (found[1], found[2], f"the name is that of {found[3]}")


def noise_key(fields: Sequence[SampledField], events: int) -> tuple[str, str]:
    """Return the noise key, and why: the person's id that all events have, and several of them share."""
    named = [
        one
        for one in fields
        if one.events == events and "[" not in one.path and _PERSON.search(one.path) and _IDENTIFIER.search(one.path)
    ]
    repeated = max(named, key=lambda one: (len(one.values) < events, -len(one.path)), default=None)
    if repeated is None:
        return "position", "no field is the id of a person that every event has; give the path of one if there is"
    return repeated.path, "every event has it: equal codes of a person get the same mask"


def proposed_configuration(
    lines: Iterable[bytes],
    ontologies: Mapping[str, str],
    sections: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return a configuration as YAML for a sample of events, with the reasons as comments.

    ``ontologies``: sources by name. ``sections``: other sections of the configuration, as the sample needed them.
    Raises ServiceError if no event is JSON, or no field has codes of an ontology.
    """
    events, fields = sampled_fields(event for line in lines if (event := _parsed(line)) is not None)
    if not events:
        raise ServiceError("the sample has no event that is a JSON object")
    coded = coded_fields(fields.values(), {name: Ontology.load(source) for name, source in ontologies.items()})
    attributes = _attributes(coded)
    if not attributes:
        raise ServiceError(
            f"no field of {events:,} events has codes of {', '.join(ontologies)}: name an ontology with --ontology; "
            f"the fields are {', '.join(fields) or 'none'}"
        )
    taken = {path for settings, _ in attributes.values() for path in settings.values()}
    others = [one for one in fields.values() if one.path not in taken]
    beside = {container(settings["path"]) for settings, _ in attributes.values()} - {""}
    used = {settings["ontology"] for settings, _ in attributes.values()}
    data = {**sections, "ontologies": {name: {"source": ontologies[name]} for name in ontologies if name in used}}
    text = _Text(data, events)
    text.attributes(attributes)
    text.fields({one.path: BESIDE_CODE if container(one.path) in beside else treatment(one, events) for one in others})
    text.noise_key(*noise_key(others, events))
    return text.checked()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return event if isinstance(event, dict) else None


Attributes = Mapping[str, tuple[dict[str, str], str]]
"""The settings of each attribute, and why it is one."""


def _attributes(coded: Sequence[CodedField]) -> dict[str, tuple[dict[str, str], str]]:
    """Return the attributes of coded fields: a label beside a code belongs to it; a label alone is an attribute
    itself."""
    codes = [one for one in coded if not one.by_label]
    labels = {one.field.parent: one.field.path for one in coded if one.by_label}
    alone = [one for one in coded if one.by_label and one.field.parent not in {c.field.parent for c in codes}]
    found: dict[str, tuple[dict[str, str], str]] = {}
    for one in [*codes, *alone]:
        settings = {"path": one.field.path, "ontology": one.ontology}
        label = labels.get(one.field.parent)
        if label is not None and label != one.field.path and one in codes and one.field.parent:
            settings["label"] = label
        why = f"{one.share:.0%} of the values are concepts of {one.ontology}"
        found[_attribute_name(one.field.path, found)] = (settings, why)
    return found


def _attribute_name(path: str, taken: Iterable[str]) -> str:
    """Return a name from the path: its last names that are not ``code`` or ``coding``."""
    names = re.sub(r"\[[^\]]*\]", "", path).split(".")
    telling = [name for name in names if name not in {"code", "coding", "value"}] or names
    name = re.sub(r"[^A-Za-z0-9_-]", "_", telling[-1]) or "attribute"
    name = name if re.match(r"[A-Za-z_]", name) else f"a_{name}"
    numbered = (name if k == 1 else f"{name}_{k}" for k in range(1, 1000))
    return next(one for one in numbered if one not in set(taken))


class _Text:
    """The proposal as lines of YAML with comments, and as data to check it."""

    def __init__(self, data: dict[str, Any], events: int) -> None:
        self._data = data
        self._lines = [f"# Proposed for a sample of {events:,} events by stream-masker config init. Check every line."]
        self._lines += [f"{key}: {_flow(value)}" for key, value in data.items()]

    def attributes(self, attributes: Attributes) -> None:
        self._data["attributes"] = {name: settings for name, (settings, _) in attributes.items()}
        self._lines.append("attributes:")
        self._lines += [f"  {name}: {_flow(settings)}  # {why}" for name, (settings, why) in attributes.items()]

    def fields(self, treatments: Mapping[str, tuple[str, Any, str]]) -> None:
        fields: dict[str, Any] = {}
        self._lines.append("fields:")
        for key in ("keep", "pseudonymize", "generalize", "drop"):
            chosen = {path: (value, why) for path, (kind, value, why) in treatments.items() if kind == key}
            if chosen:
                mapped = key == "generalize"
                fields[key] = {path: value for path, (value, _) in chosen.items()} if mapped else list(chosen)
                self._lines.append(f"  {key}:")
                self._lines += [
                    f"    {f'{_flow(path)}: {_flow(value)}' if mapped else f'- {_flow(path)}'}  # {why}"
                    for path, (value, why) in chosen.items()
                ]
        self._data["fields"] = {**fields, "unlisted": "drop"}
        self._lines.append("  unlisted: drop")

    def noise_key(self, path: str, why: str) -> None:
        self._data["noise_key"] = path
        self._lines.append(f"noise_key: {_flow(path)}  # {why}")

    def checked(self) -> str:
        """Return the text with the secret. Raises ConfigurationError if it cannot be used."""
        configuration = parse_configuration(self._data)
        build_plan(configuration)
        build_mechanism(configuration)
        return "\n".join([*self._lines, "secret: {file: secret}", ""])


def _flow(value: Any) -> str:
    """Return a value as YAML in one line; JSON is YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", value)
    words = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
    return value if plain and str(value).lower() not in words else json.dumps(value, ensure_ascii=False)
