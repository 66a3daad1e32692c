"""Environment overrides: ``STREAM_MASKER__SECTION__KEY=value``, with the value parsed as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.problems import schema_alternatives, schema_at
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
    found: Any = data
    for key in location:
        found = found.get(key) if isinstance(found, Mapping) else None
    return list(found) if isinstance(found, Mapping) else []


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
