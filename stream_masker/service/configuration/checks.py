"""Consistency checks between the values of a configuration: pure functions that return the problems they find."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from stream_masker.service.configuration.attributes import AttributeSection
from stream_masker.service.configuration.errors import Location, Problem, did_you_mean, join_options
from stream_masker.service.configuration.field_paths import path_problems
from stream_masker.service.configuration.fields.sections import LevelSection
from stream_masker.service.configuration.fields.transforms import transform_problems
from stream_masker.service.configuration.mechanisms import SemanticTransportSection, takes_alpha
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.topics import section_problems

Problems: TypeAlias = Iterable[Problem]

RESERVED_PROPERTIES = {
    "bootstrap.servers": "use kafka.bootstrap_servers",
    "group.instance.id": "use worker.static_member",
    "enable.auto.commit": "offsets commit in the transaction of their records",
    "enable.auto.offset.store": "offsets commit in the transaction of their records",
    "isolation.level": "only committed records are read",
    "transactional.id": "use worker.instance",
}
"""librdkafka properties that stream-masker sets itself, because its guarantees depend on them."""


def consistency_problems(configuration: Configuration) -> list[Problem]:
    """Return every problem between values that are valid on their own, in the order of ``CHECKS``."""
    return [problem for check in CHECKS for problem in check(configuration)]


def distinct_topics(configuration: Configuration) -> Problems:
    """Topic names are distinct; otherwise a process would read its own output."""
    yield from ((("topics", role), text) for role, text in section_problems(configuration.topics))


def unreserved_properties(configuration: Configuration) -> Problems:
    """Properties that stream-masker sets itself are not configured."""
    for name in configuration.kafka.properties.keys() & RESERVED_PROPERTIES.keys():
        yield ("kafka", "properties", name), f"cannot be set: {RESERVED_PROPERTIES[name]}"


def static_member_instance(configuration: Configuration) -> Problems:
    """A static member has an instance name, which stays the same across restarts."""
    worker = configuration.worker
    if worker.static_member and not worker.instance:
        yield ("worker", "static_member"), "needs worker.instance, a name that is unique to each worker"


def defined_ontologies(configuration: Configuration) -> Problems:
    """The ontology of each attribute, and of each generalized field that has one, is defined in ``ontologies``."""
    known = list(configuration.ontologies)
    used: dict[Location, str] = {
        ("attributes", name): attribute.ontology for name, attribute in configuration.attributes.items()
    }
    for path, section in configuration.fields.generalize.items():
        if isinstance(section, LevelSection):
            used["fields", "generalize", path] = section.ontology
    for place, name in used.items():
        if name not in known:
            yield (
                (*place, "ontology"),
                f"{name!r} is not in ontologies: use {join_options(known)}{did_you_mean(name, known)}",
            )


def supported_attributes(configuration: Configuration) -> Problems:
    """Noise levels are used only with mechanisms that have one."""
    given = configuration.mechanism
    for name, attribute in configuration.attributes.items():
        if attribute.alpha != AttributeSection.model_fields["alpha"].default and not takes_alpha(given):
            problem = "has an alpha of its own" if isinstance(given, SemanticTransportSection) else "has no noise level"
            yield ("attributes", name, "alpha"), f"{given.name} {problem}: remove it"


def sufficient_window(configuration: Configuration) -> Problems:
    """The window can hold ``min_records``; otherwise the first statistics would never be computed."""
    settings = configuration.calibration
    if settings.min_records > settings.window_records:
        yield (
            ("calibration", "min_records"),
            f"{settings.min_records} is greater than window_records: use at most {settings.window_records}",
        )


def one_registry_login(configuration: Configuration) -> Problems:
    """The registry has a password or a token, and keys are in the wire format only if values are."""
    section = configuration.format
    if section.registry.credentials is not None and section.registry.token is not None:
        yield ("format", "registry", "token"), "use either credentials or token"
    if section.value == "json" and section.key != "plain":
        yield ("format", "key"), "keys are in the Confluent wire format only if values are: use value: confluent too"


def supported_unit(configuration: Configuration) -> Problems:
    """A unit is configured only for mechanisms that count units."""
    from stream_masker.core.mechanisms import MECHANISMS

    if configuration.groups.unit is not None and not MECHANISMS[configuration.mechanism.name].counts_units:
        counting = [name for name, kind in MECHANISMS.items() if kind.counts_units]
        yield (
            ("groups", "unit"),
            f"{configuration.mechanism.name} does not count units: remove it, or use {join_options(counting)}",
        )


CHECKS: tuple[Callable[[Configuration], Problems], ...] = (
    unreserved_properties,
    static_member_instance,
    distinct_topics,
    defined_ontologies,
    supported_attributes,
    supported_unit,
    path_problems,
    transform_problems,
    sufficient_window,
    one_registry_login,
)
