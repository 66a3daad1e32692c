"""What is wrong with a configuration, one line for each problem: where, what was given, what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import getitem
from typing import Any

from jsonschema.exceptions import ValidationError as SchemaError
from pydantic import ValidationError as ModelError

from stream_masker.service.configuration.schema import resolved, validator
from stream_masker.service.configuration.wording import (
    ConfigurationPlace,
    allowed,
    choices,
    dotted,
    hint,
    listed_words,
    refusal,
)

SECTION = "configuration"


def schema_problems(data: Any) -> list[tuple[ConfigurationPlace, str]]:
    """Everything that the configuration's JSON Schema finds wrong, with its place, in the order of the file."""
    errors = validator(SECTION).iter_errors(data)
    found = [problem for error in errors for problem in _explained(error)]
    return sorted(found, key=lambda problem: _order(problem[0], data))


def _order(place: ConfigurationPlace, data: Any) -> list[int]:
    """Where a place stands in the file; what is missing stands last."""
    ranks = []
    for key in place:
        keys = list(data) if isinstance(data, Mapping) else list(range(len(data))) if isinstance(data, list) else []
        ranks.append(keys.index(key) if key in keys else len(keys))
        data = data[key] if key in keys else None
    return ranks


def model_problems(error: ModelError, data: Any) -> list[tuple[ConfigurationPlace, str]]:
    """What the model finds wrong beyond the schema (a duration of 0, a line break after a name), with its place."""
    found = [(_within(data, e["loc"]), e["msg"]) for e in error.errors(include_input=False)]
    return [(place, _unfit(data, place, message)) for place, message in found]


def _within(data: Any, location: Sequence[str | int]) -> ConfigurationPlace:
    """A location without the names of alternatives that pydantic puts between the keys of the data."""
    place: ConfigurationPlace = ()
    for key in location:
        there = range(len(data)) if isinstance(data, list | tuple) else data if isinstance(data, Mapping) else ()
        if key in there:
            place, data = (*place, key), data[key]
    return place


def _unfit(data: Any, place: ConfigurationPlace, message: str) -> str:
    schema = schema_at(place)
    value = reduce(getitem, place, data) if schema else None
    return f"{refusal(value, place)}: use {allowed(schema, _root())}" if schema else message


def _root() -> Mapping[str, Any]:
    root = validator(SECTION).schema
    assert isinstance(root, Mapping)
    return root


def schema_at(place: Sequence[str | int]) -> Mapping[str, Any] | None:
    """The schema of the values at a place of the configuration, or None where there is no such place."""
    schema: Mapping[str, Any] | None = _root()
    for key in place:
        schema = schema and _below(schema, key)
    return schema


def _below(schema: Mapping[str, Any], key: str | int) -> Mapping[str, Any] | None:
    for option in options(schema):
        if isinstance(key, int):
            found = option.get("items")
        else:
            found = option.get("properties", {}).get(key) or option.get("additionalProperties")
        if found:
            return resolved(found, _root())
    return None


def options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schema itself, or the alternatives that it consists of."""
    found = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [resolved(option, _root()) for option in found]


def _explained(error: SchemaError) -> Iterator[tuple[ConfigurationPlace, str]]:
    place: ConfigurationPlace = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        yield from _unknown_keys(error, place)
    elif error.validator == "required":
        yield from _missing_keys(error, place)
    elif error.validator == "anyOf" and isinstance(error.instance, Mapping):
        yield from _nearest_alternative(error, place)
    elif error.validator == "oneOf" and isinstance(error.instance, Mapping):
        yield from _named_alternative(error, place)
    elif "propertyNames" in error.absolute_schema_path:
        yield (*place, str(error.instance)), f"the key is not allowed: use {allowed(_schema(error), _root())}"
    else:
        yield place, _refused(error, place)


def _schema(error: SchemaError) -> Mapping[str, Any]:
    assert isinstance(error.schema, Mapping)
    return resolved(error.schema, _root())


def _instance(error: SchemaError) -> Mapping[str, Any]:
    assert isinstance(error.instance, Mapping)
    return error.instance


def _unknown_keys(error: SchemaError, place: ConfigurationPlace) -> Iterator[tuple[ConfigurationPlace, str]]:
    known = list(_schema(error)["properties"])
    yield from (unknown_key(place, key, known) for key in _instance(error) if key not in known)


def unknown_key(place: ConfigurationPlace, key: str, known: Sequence[str]) -> tuple[ConfigurationPlace, str]:
    """The problem of a key that is not known at a place. A key of ``secret`` may be a secret itself."""
    if place[:1] == ("secret",):
        return place, f"holds an unknown key: use {listed_words(known)}"
    return (*place, key), f"unknown key: use {listed_words(known)}{hint(key, known)}"


def _missing_keys(error: SchemaError, place: ConfigurationPlace) -> Iterator[tuple[ConfigurationPlace, str]]:
    schema = _schema(error)
    missing = [key for key in schema["required"] if key not in _instance(error)]
    for key in missing:
        yield (*place, key), f"required: use {allowed(schema['properties'][key], _root())}"


def _nearest_alternative(error: SchemaError, place: ConfigurationPlace) -> Iterator[tuple[ConfigurationPlace, str]]:
    tried = [list(group) for _, group in groupby(error.context, key=lambda e: e.schema_path[0])]
    mappings = [errors for errors in tried if not any(e.validator == "type" and not e.path for e in errors)]
    if not mappings:
        yield place, _refused(error, place)
        return
    nearest = min(mappings, key=len)
    yield from (problem for e in nearest for problem in _explained(e))


def _named_alternative(error: SchemaError, place: ConfigurationPlace) -> Iterator[tuple[ConfigurationPlace, str]]:
    """The problems of the alternative that the instance's ``name`` names, or by default is."""
    names = [option["properties"]["name"] for option in options(_schema(error))]
    default = next(name["default"] for name in names if "default" in name)
    known = [name["const"] for name in names]
    given = _instance(error).get("name", default)
    if given in known:
        chosen = known.index(given)
        yield from (p for e in error.context if e.schema_path[0] == chosen for p in _explained(e))
    else:
        advice = hint(given, known) if isinstance(given, str) else ""
        yield (*place, "name"), f"{refusal(given, (*place, 'name'))}: use {listed_words(known)}{advice}"


def _refused(error: SchemaError, place: ConfigurationPlace) -> str:
    schema = _schema(error)
    if error.validator == "minProperties":
        return "empty: name at least one"
    advice = _advice(error.instance, schema)
    return f"{refusal(error.instance, place)}: use {allowed(schema, _root())}{advice}"


def _advice(value: Any, schema: Mapping[str, Any]) -> str:
    if isinstance(value, str):
        return hint(value, choices(schema))
    is_scalar = isinstance(value, bool | int | float)
    return "; quotes make it text" if is_scalar and schema.get("type") == "string" else ""


def report(
    name: str, problems: Iterable[tuple[ConfigurationPlace, str]], variables: Mapping[ConfigurationPlace, str]
) -> str:
    """One message of all problems; ``variables``: the environment variables that set some of the places."""
    lines = list(dict.fromkeys(f"  {dotted(place)}{_origin(place, variables)}: {text}" for place, text in problems))
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return "\n".join([f"{name}: the configuration has {count}", *lines])


def _origin(place: ConfigurationPlace, variables: Mapping[ConfigurationPlace, str]) -> str:
    found = [variable for start, variable in variables.items() if place[: len(start)] == start]
    return f" (from {found[-1]})" if found else ""
