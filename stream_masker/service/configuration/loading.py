"""Loading: from a YAML file and the environment to a ``Configuration`` whose values fit each other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.errors import (
    Location,
    Problem,
    did_you_mean,
    format_location,
    join_options,
    model_problems,
    problem_report,
)
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.paths import POSITION, ConfiguredPaths

VARIABLE_PREFIX = "STREAM_MASKER__"
KEY_SEPARATOR = "__"
CLIENT_PROPERTIES: tuple[Location, ...] = (("kafka", "properties"), ("format", "registry", "properties"))
REQUIRED_SECTIONS = "a mapping with at least ontologies, attributes and fields"

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


def load_configuration(path: str | Path, environ: Mapping[str, str] = os.environ) -> Configuration:
    """Load a configuration file: parse the YAML, apply the overrides, validate.

    Raises ConfigurationError with one line per problem: where it is, what was given and what is allowed.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: the configuration cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: the configuration is not UTF-8 text (byte {error.start})") from None
    data = parse_yaml(text, name=str(path))
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{path}: the configuration is empty or no mapping: use {REQUIRED_SECTIONS}")
    return parse_configuration(data, environ=environ, folder=Path(path).parent, name=str(path))


def parse_configuration(
    data: Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    name: str = "configuration",
) -> Configuration:
    """Apply overrides to a configuration given as plain data and validate it; reads no file.

    ``folder``: base of relative file names. ``name``: prefix of error messages. Raises ConfigurationError.
    """
    merged, variables = apply_overrides(data, environ or {})
    try:
        configuration = Configuration.model_validate(merged, context=folder)
        problems = consistency_problems(configuration)
    except ValidationError as error:
        problems = model_problems(error, merged, Configuration)
    if problems:
        raise ConfigurationError(problem_report(name, problems, variables))
    return configuration


def apply_overrides(data: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, Any], dict[Location, str]]:
    """Return the configuration with the environment's overrides, and the variable that set each location.

    Names are case-insensitive. Keys that are not in the file get lower-case names; in the properties of clients an
    underscore stands for a dot. A value that is a list or a mapping in YAML is one; all others are text, which the
    model converts. Raises ConfigurationError for a variable that names a key of something that is no mapping.
    """
    result = deepcopy(dict(data))
    locations: dict[Location, str] = {}
    for variable in sorted(name for name in environ if name.startswith(VARIABLE_PREFIX)):
        location: Location = ()
        section: Any = result
        parts = variable.removeprefix(VARIABLE_PREFIX).lower().split(KEY_SEPARATOR)
        for depth, part in enumerate(parts, start=1):
            if not isinstance(section, dict):
                raise ConfigurationError(f"{variable}: {format_location(location)} is not a mapping")
            name = part.replace("_", ".") if location in CLIENT_PROPERTIES else part
            key = next((known for known in section if str(known).lower() == name), name)
            location = (*location, key)
            if depth == len(parts):
                section[key] = _value(variable, environ[variable])
            else:
                section = section.setdefault(key, {})
        locations[location] = variable
    return result, locations


def _value(variable: str, text: str) -> Any:
    """Return the list or mapping that a text is in YAML, otherwise the text."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return parse_yaml(text, name=variable)
    except ConfigurationError:
        return text


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which takes the last one of duplicate keys; here they are errors."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise ConstructorError(None, None, f"duplicate key {key.value}", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, *, name: str) -> Any:
    """Parse one YAML document; ``name`` is the prefix of error messages.

    Raises ConfigurationError with line and column. Except for duplicate keys, its message never contains content of the
    document, which may be a secret.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - derived from the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        quotes_content = error.problem is None or "'" in error.problem or '"' in error.problem
        problem = "not YAML" if quotes_content else error.problem
        raise ConfigurationError(f"{name}: {position}{problem}") from None
    except (yaml.YAMLError, RecursionError):
        raise ConfigurationError(f"{name}: not YAML: a character is not allowed, or it is nested too deeply") from None


def consistency_problems(configuration: Configuration) -> list[Problem]:
    """Return every problem between values that are valid on their own."""
    paths = ConfiguredPaths(configuration).problems
    return [*_service_problems(configuration), *_masking_problems(configuration), *paths]


def _service_problems(configuration: Configuration) -> Iterator[Problem]:
    """Properties of clients, sizes of the window, and topics: a process must not read its own output."""
    for name in configuration.kafka.properties.keys() & RESERVED_PROPERTIES.keys():
        yield ("kafka", "properties", name), f"cannot be set: {RESERVED_PROPERTIES[name]}"
    window, format_, roles = configuration.calibration, configuration.format, dict[str, str]()
    if window.min_records > window.window_records:
        said = f"{window.min_records} is greater than window_records: use at most {window.window_records}"
        yield ("calibration", "min_records"), said
    for role, name in configuration.topics:
        if (other := roles.setdefault(name, role)) != role:
            yield ("topics", role), f"{name!r} is also topics.{other}: all topics must differ"
    if configuration.records == "hl7v2" and format_.value != "json":
        yield ("format", "value"), "HL7 v2 messages have no schema: leave it out with records: hl7v2"


def _masking_problems(configuration: Configuration) -> Iterator[Problem]:
    """Ontologies that are not defined, and keys that do not fit the mechanism or the records."""
    mechanism, known = configuration.mechanism, list(configuration.ontologies)
    for name, attribute in configuration.attributes.items():
        if attribute.ontology not in known:
            advice = f"use {join_options(known)}{did_you_mean(attribute.ontology, known)}"
            yield ("attributes", name, "ontology"), f"{attribute.ontology!r} is not in ontologies: {advice}"
        if attribute.alpha is not None and not mechanism.takes_alpha:
            yield ("attributes", name, "alpha"), f"{mechanism.name} has no noise level: remove it"
    if configuration.records == "hl7v2" and configuration.fields.unlisted == "keep":
        yield ("fields", "unlisted"), "'keep' is not allowed with records: hl7v2: use drop, and list what to keep"
    for path, shift in configuration.fields.shift.items():
        if shift.key is None and configuration.noise_key == POSITION:
            remedy = "use key, with a path such as patient.id"
            said = f"noise_key is position, so the dates of a person would move apart: {remedy}"
            yield ("fields", "shift", path), said
