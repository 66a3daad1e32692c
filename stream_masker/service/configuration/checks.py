"""Consistency checks between the values of a configuration: pure functions that yield the problems they find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.pipeline.transforms import date_pattern_problem
from stream_masker.service.configuration.errors import Location, Problem, did_you_mean, join_options
from stream_masker.service.configuration.masking import LevelSection
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.paths import POSITION, ConfiguredPaths

RESERVED_PROPERTIES = {
    "auto.offset.reset": "a group begins at its committed offsets, which kafka-consumer-groups.sh --reset-offsets sets",
    "bootstrap.servers": "use kafka.bootstrap_servers",
    "group.instance.id": "workers are no static members",
    "enable.auto.commit": "offsets commit in the transaction of their records",
    "enable.auto.offset.store": "offsets commit in the transaction of their records",
    "isolation.level": "only committed records are read",
    "transactional.id": "use worker.instance",
}
"""librdkafka properties that stream-masker sets itself, because its guarantees depend on them."""


def consistency_problems(configuration: Configuration) -> list[Problem]:
    """Return every problem between values that are valid on their own."""
    checks: Iterable[Iterable[Problem]] = (
        _service_problems(configuration),
        _topic_problems(configuration),
        _ontology_problems(configuration),
        _mechanism_problems(configuration),
        _format_problems(configuration),
        ConfiguredPaths(configuration).problems,
        _transform_problems(configuration),
    )
    return list(chain.from_iterable(checks))


def _service_problems(configuration: Configuration) -> Iterator[Problem]:
    for name in configuration.kafka.properties.keys() & RESERVED_PROPERTIES.keys():
        yield ("kafka", "properties", name), f"cannot be set: {RESERVED_PROPERTIES[name]}"
    window = configuration.calibration
    if window.min_records > window.window_records:
        yield (
            ("calibration", "min_records"),
            f"{window.min_records} is greater than window_records: use at most {window.window_records}",
        )


def _topic_problems(configuration: Configuration) -> Iterator[Problem]:
    """Topic names are distinct; otherwise a process would read its own output."""
    roles: dict[str, str] = {}
    for role, name in configuration.topics:
        if (other := roles.setdefault(name, role)) != role:
            yield ("topics", role), f"{name!r} is also topics.{other}: all topics must differ"


def _ontology_problems(configuration: Configuration) -> Iterator[Problem]:
    """The ontology of each attribute, and of each generalized field that has one, is defined in ``ontologies``."""
    known, generalize = list(configuration.ontologies), configuration.fields.generalize
    used: dict[Location, str] = {("attributes", name): each.ontology for name, each in configuration.attributes.items()}
    used |= {("fields", "generalize", p): s.ontology for p, s in generalize.items() if isinstance(s, LevelSection)}
    for place, name in used.items():
        if name not in known:
            advice = f"use {join_options(known)}{did_you_mean(name, known)}"
            yield (*place, "ontology"), f"{name!r} is not in ontologies: {advice}"


def _mechanism_problems(configuration: Configuration) -> Iterator[Problem]:
    """Noise levels and units are configured only for mechanisms that use them."""
    mechanism = configuration.mechanism
    for name, attribute in configuration.attributes.items():
        if attribute.alpha is not None and not mechanism.takes_alpha:
            yield ("attributes", name, "alpha"), f"{mechanism.name} has no noise level: remove it"
    if configuration.groups.unit is not None and not mechanism.kind.counts_units:
        counting = join_options(name for name, kind in MECHANISMS.items() if kind.counts_units)
        yield ("groups", "unit"), f"{mechanism.name} does not count units: remove it, or use {counting}"


def _format_problems(configuration: Configuration) -> Iterator[Problem]:
    """Keys are in the wire format only if values are, and HL7 v2 messages have no schema."""
    section = configuration.format
    if section.value == "json" and section.key != "plain":
        yield ("format", "key"), "keys are in the Confluent wire format only if values are: use value: confluent too"
    if configuration.records == "hl7v2" and configuration.fields.unlisted == "keep":
        yield ("fields", "unlisted"), "'keep' is not allowed with records: hl7v2: use drop, and list what to keep"
    if configuration.records == "hl7v2" and section.value != "json":
        yield ("format", "value"), "HL7 v2 messages have no schema: leave it out with records: hl7v2"


def _transform_problems(configuration: Configuration) -> Iterator[Problem]:
    """Shifts have a key, and the formats of dates can be read."""
    fields = configuration.fields
    for kind, rules in (("generalize", fields.generalize), ("shift", fields.shift)):
        for path, rule in rules.items():
            for pattern in getattr(rule, "formats", None) or ():
                if (problem := date_pattern_problem(pattern, partial=kind == "generalize")) is not None:
                    yield ("fields", kind, path, "formats"), problem
    for path, shift in fields.shift.items():
        if shift.key is None and configuration.noise_key == POSITION:
            remedy = "use key, with a path such as patient.id"
            yield (
                ("fields", "shift", path),
                f"noise_key is position, so the dates of a person would move apart: {remedy}",
            )
