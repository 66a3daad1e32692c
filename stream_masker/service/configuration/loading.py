"""Loading: from a YAML file and the environment to a checked ``Configuration``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.checks import consistency_problems
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.parameters.defaults import with_default_mechanism
from stream_masker.service.configuration.problems import model_problems, problem_report, schema_alternatives, schema_at
from stream_masker.service.configuration.strict_yaml import parse_yaml
from stream_masker.service.configuration.wording import (
    ConfigurationLocation,
    did_you_mean,
    format_location,
    join_options,
)

VARIABLE_PREFIX = "STREAM_MASKER__"
KEY_SEPARATOR = "__"
KAFKA_PROPERTIES: ConfigurationLocation = ("kafka", "properties")


def apply_overrides(
    data: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], dict[ConfigurationLocation, str]]:
    """Return the configuration with the environment's overrides, and the variable that set each location.

    Names are case-insensitive. Attributes, ontologies and columns that are not in the file get lower-case names. In
    ``kafka.properties`` an underscore stands for a dot and values stay text. Where the schema allows only text, the
    value is not parsed; where it also allows a list, only a list is parsed. Raises ConfigurationError, which names
    every variable that matches no key.
    """
    result = deepcopy(dict(data))
    locations: dict[ConfigurationLocation, str] = {}
    problems: list[str] = []
    for variable in sorted(name for name in environ if name.startswith(VARIABLE_PREFIX)):
        try:
            location = _location(variable, result)
            _assign(result, location, _value(variable, environ[variable], location), variable)
            locations[location] = variable
        except ConfigurationError as error:
            problems.append(str(error))
    if problems:
        raise ConfigurationError("\n".join(problems))
    return result, locations


def _location(variable: str, data: Mapping[str, Any]) -> ConfigurationLocation:
    location: ConfigurationLocation = ()
    for part in variable.removeprefix(VARIABLE_PREFIX).split(KEY_SEPARATOR):
        location = (*location, _key(variable, part.lower(), location, data))
    return location


def _key(variable: str, part: str, location: ConfigurationLocation, data: Mapping[str, Any]) -> str:
    """Return the configuration key that one part of a variable's name stands for."""
    name = part.replace("_", ".") if location == KAFKA_PROPERTIES else part
    schemas = schema_alternatives(schema_at(location) or {})
    known = [key for schema in schemas for key in schema.get("properties", ())]
    free = any(isinstance(schema.get("additionalProperties"), Mapping) for schema in schemas)
    match = next((key for key in [*known, *_keys_at(data, location)] if key.lower() == name), None)
    if match is None and not (free and name):
        raise ConfigurationError(f"{variable}: {_unknown_key_message(name, location, known)}")
    return name if match is None else match


def _unknown_key_message(name: str, location: ConfigurationLocation, known: Iterable[str]) -> str:
    keys = list(known)
    if not name:
        return f"the name ends before a key of {format_location(location)}"
    if not keys:
        return f"{format_location(location)} has no keys"
    return f"{format_location(location)} has no key {name!r}: use {join_options(keys)}{did_you_mean(name, keys)}"


def _keys_at(data: Mapping[str, Any], location: ConfigurationLocation) -> list[str]:
    section: Any = data
    for key in location:
        section = section.get(key) if isinstance(section, Mapping) else None
    return list(section) if isinstance(section, Mapping) else []


def _value(variable: str, text: str, location: ConfigurationLocation) -> Any:
    kinds = [schema.get("type") for schema in schema_alternatives(schema_at(location) or {})]
    if location[:-1] == KAFKA_PROPERTIES or kinds == ["string"]:
        return text
    value = parse_yaml(text, name=variable)
    only_text = all(kind in ("string", "array") for kind in kinds)
    return text if only_text and "string" in kinds and not isinstance(value, list) else value


def _assign(data: dict[str, Any], location: ConfigurationLocation, value: Any, variable: str) -> None:
    *sections, last = location
    for depth, key in enumerate(sections, start=1):
        if not isinstance(data.setdefault(str(key), {}), dict):
            raise ConfigurationError(f"{variable}: {format_location(location[:depth])} is not a mapping in the file")
        data = data[str(key)]
    data[str(last)] = value


def load_configuration(path: str | Path, environ: Mapping[str, str] = os.environ) -> Configuration:
    """Load a configuration file: parse the YAML, apply the overrides, validate.

    Raises ConfigurationError with one line per problem: where it is, what was given and what is allowed.
    """
    data = _mapping(parse_yaml(_text(Path(path)), name=str(path)), str(path))
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
    complete, default_reason = with_default_mechanism(merged)
    configuration = _validated(complete, name, variables)
    if problems := consistency_problems(configuration):
        raise ConfigurationError(problem_report(name, problems, variables))
    return configuration.loaded(folder or Path(), default_reason)


def _validated(data: Mapping[str, Any], name: str, variables: Mapping[ConfigurationLocation, str]) -> Configuration:
    try:
        return Configuration.model_validate(_with_tuples(data), strict=True)
    except ValidationError as error:
        problems = model_problems(error, data)
    raise ConfigurationError(problem_report(name, problems, variables))


def _with_tuples(data: Any) -> Any:
    """Return the data with tuples for lists, as the strict model requires."""
    if isinstance(data, Mapping):
        return {key: _with_tuples(value) for key, value in data.items()}
    return tuple(map(_with_tuples, data)) if isinstance(data, list | tuple) else data


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: the configuration cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: the configuration is not UTF-8 text (byte {error.start})") from None


def _mapping(data: Any, name: str) -> Mapping[str, Any]:
    if data is None:
        raise ConfigurationError(f"{name}: the configuration is empty: use {REQUIRED_SECTIONS}")
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{name}: the configuration is not a mapping: use {REQUIRED_SECTIONS}")
    return data


REQUIRED_SECTIONS = "a mapping with at least ontologies, attributes and fields"
