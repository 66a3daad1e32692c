"""The problems of a configuration, one line each: where it is, what was given, what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import getitem
from typing import Any

from jsonschema.exceptions import ValidationError as SchemaError
from pydantic import ValidationError as ModelError

from stream_masker.service.configuration.schema import resolve_reference, schema_validator
from stream_masker.service.configuration.wording import (
    CHOICES,
    ConfigurationLocation,
    allowed_values,
    did_you_mean,
    enumeration,
    format_location,
    join_options,
    not_allowed,
)

CONFIGURATION_SCHEMA = "configuration"


def schema_problems(data: Any) -> list[tuple[ConfigurationLocation, str]]:
    """Return the violations of the configuration's JSON Schema with their locations, in file order."""
    errors = schema_validator(CONFIGURATION_SCHEMA).iter_errors(data)
    found = [problem for error in errors for problem in _problems_of(error)]
    return sorted(found, key=lambda problem: _file_order(problem[0], data))


def _file_order(location: ConfigurationLocation, data: Any) -> list[int]:
    """Return the sort key of a location by its order in the file; missing keys come last."""
    ranks = []
    for key in location:
        keys = list(data) if isinstance(data, Mapping) else list(range(len(data))) if isinstance(data, list) else []
        ranks.append(keys.index(key) if key in keys else len(keys))
        data = data[key] if key in keys else None
    return ranks


def model_problems(error: ModelError, data: Any) -> list[tuple[ConfigurationLocation, str]]:
    """Return the problems that only the model detects, such as a duration of 0 or a line break in a name."""
    found = [(_without_union_members(data, e["loc"]), e["msg"]) for e in error.errors(include_input=False)]
    return [(location, _rejected_by_model(data, location, message)) for location, message in found]


def _without_union_members(data: Any, pydantic_location: Sequence[str | int]) -> ConfigurationLocation:
    """Return the location without the names of union members, which pydantic inserts between the keys."""
    location: ConfigurationLocation = ()
    for key in pydantic_location:
        keys = range(len(data)) if isinstance(data, list | tuple) else data if isinstance(data, Mapping) else ()
        if key in keys:
            location, data = (*location, key), data[key]
    return location


def _rejected_by_model(data: Any, location: ConfigurationLocation, message: str) -> str:
    schema = schema_at(location)
    value = reduce(getitem, location, data) if schema else None
    return f"{not_allowed(value, location)}: use {allowed_values(schema, _root())}" if schema else message


def _root() -> Mapping[str, Any]:
    root = schema_validator(CONFIGURATION_SCHEMA).schema
    assert isinstance(root, Mapping)
    return root


def schema_at(location: Sequence[str | int]) -> Mapping[str, Any] | None:
    """Return the schema of the values at a location of the configuration; None if there is no such location."""
    schema: Mapping[str, Any] | None = _root()
    for key in location:
        schema = schema and _child_schema(schema, key)
    return schema


def _child_schema(schema: Mapping[str, Any], key: str | int) -> Mapping[str, Any] | None:
    for option in schema_alternatives(schema):
        if isinstance(key, int):
            found = option.get("items")
        else:
            found = option.get("properties", {}).get(key) or option.get("additionalProperties")
        if found:
            return resolve_reference(found, _root())
    return None


def schema_alternatives(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a schema, or the schema itself if it has none."""
    found = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [resolve_reference(option, _root()) for option in found]


def _problems_of(error: SchemaError) -> Iterator[tuple[ConfigurationLocation, str]]:
    location: ConfigurationLocation = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        yield from _unknown_keys(error, location)
    elif error.validator == "required":
        yield from _missing_keys(error, location)
    elif error.validator == "anyOf" and isinstance(error.instance, Mapping):
        yield from _nearest_alternative(error, location)
    elif error.validator == "oneOf" and isinstance(error.instance, Mapping):
        yield from _named_alternative(error, location)
    elif "propertyNames" in error.absolute_schema_path:
        yield (
            (*location, str(error.instance)),
            f"the key is not allowed: use {allowed_values(_schema_of(error), _root())}",
        )
    else:
        yield location, _rejected_by_schema(error, location)


def _schema_of(error: SchemaError) -> Mapping[str, Any]:
    assert isinstance(error.schema, Mapping)
    return resolve_reference(error.schema, _root())


def _instance_of(error: SchemaError) -> Mapping[str, Any]:
    assert isinstance(error.instance, Mapping)
    return error.instance


def _unknown_keys(error: SchemaError, location: ConfigurationLocation) -> Iterator[tuple[ConfigurationLocation, str]]:
    known = list(_schema_of(error)["properties"])
    yield from (unknown_key(location, key, known) for key in _instance_of(error) if key not in known)


def unknown_key(location: ConfigurationLocation, key: str, known: Sequence[str]) -> tuple[ConfigurationLocation, str]:
    """Return the problem of an unknown key. It does not show a key of ``secret``, which may be the secret itself."""
    if location[:1] == ("secret",):
        return location, f"has an unknown key: use {join_options(known)}"
    return (*location, key), f"unknown key: use {join_options(known)}{did_you_mean(key, known)}"


def _missing_keys(error: SchemaError, location: ConfigurationLocation) -> Iterator[tuple[ConfigurationLocation, str]]:
    schema = _schema_of(error)
    missing = [key for key in schema["required"] if key not in _instance_of(error)]
    for key in missing:
        advice = CHOICES.get((*location, key)) or f" use {allowed_values(schema['properties'][key], _root())}"
        yield (*location, key), f"required:{advice}"


def _nearest_alternative(
    error: SchemaError, location: ConfigurationLocation
) -> Iterator[tuple[ConfigurationLocation, str]]:
    tried = [list(group) for _, group in groupby(error.context, key=lambda e: e.schema_path[0])]
    mappings = [errors for errors in tried if not any(e.validator == "type" and not e.path for e in errors)]
    if not mappings:
        yield location, _rejected_by_schema(error, location)
        return
    nearest = min(
        mappings, key=lambda errors: (any(e.validator == "additionalProperties" for e in errors), len(errors))
    )
    yield from (problem for e in nearest for problem in _problems_of(e))


def _named_alternative(
    error: SchemaError, location: ConfigurationLocation
) -> Iterator[tuple[ConfigurationLocation, str]]:
    """Return the problems of the alternative that the instance's ``name`` selects."""
    names = [option["properties"]["name"] for option in schema_alternatives(_schema_of(error))]
    known = [name["const"] for name in names]
    given = _instance_of(error)["name"]
    if given in known:
        chosen = known.index(given)
        yield from (p for e in error.context if e.schema_path[0] == chosen for p in _problems_of(e))
    else:
        advice = did_you_mean(given, known) if isinstance(given, str) else ""
        yield (*location, "name"), f"{not_allowed(given, (*location, 'name'))}: use {join_options(known)}{advice}"


def _rejected_by_schema(error: SchemaError, location: ConfigurationLocation) -> str:
    schema = _schema_of(error)
    if error.validator == "minProperties":
        return "empty: add at least one"
    advice = _advice(error.instance, schema)
    return f"{not_allowed(error.instance, location)}: use {allowed_values(schema, _root())}{advice}"


def _advice(value: Any, schema: Mapping[str, Any]) -> str:
    if isinstance(value, str):
        return did_you_mean(value, enumeration(schema))
    if schema.get("type") != "string" or not isinstance(value, bool | int | float | None):
        return ""
    why = _UNQUOTED[value] if value is None or isinstance(value, bool) else ""
    return f"; {why}quotes make it text"


_UNQUOTED = {
    True: "YAML reads yes, on and true as a truth value: ",
    False: "YAML reads no, off and false as a truth value: ",
    None: "YAML reads null, ~ and nothing as no value: ",
}
"""Why a text that is not quoted is another value."""


def problem_report(
    name: str, problems: Iterable[tuple[ConfigurationLocation, str]], variables: Mapping[ConfigurationLocation, str]
) -> str:
    """Return one message with all problems; ``variables`` maps locations to the environment variables that set them."""
    lines = list(
        dict.fromkeys(
            f"  {format_location(location)}{_variable_suffix(location, variables)}: {text}"
            for location, text in problems
        )
    )
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return "\n".join([f"{name}: the configuration has {count}", *lines])


def _variable_suffix(location: ConfigurationLocation, variables: Mapping[ConfigurationLocation, str]) -> str:
    found = [variable for start, variable in variables.items() if location[: len(start)] == start]
    return f" (from {found[-1]})" if found else ""
