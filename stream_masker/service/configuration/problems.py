"""The problems of a configuration, one line each: where it is, what was given, what is allowed.

The model finds them; the JSON Schema that is generated from the model says what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from stream_masker.service.configuration.schema import configuration_schema
from stream_masker.service.configuration.wording import (
    CHOICES,
    REMOVED,
    ConfigurationLocation,
    allowed_values,
    did_you_mean,
    enumeration,
    format_location,
    join_options,
    not_allowed,
    resolve_reference,
)

ConfigurationProblem: TypeAlias = tuple[ConfigurationLocation, str]

OTHER_KINDS = {"none_required", "literal_error"}
"""Types of errors, beside those that end with ``_type``, of a value that is of another kind than an alternative."""


KEY_ITSELF = ("[key]",)
"""The end of pydantic's location of an error of a key, not of its value."""


class ModelError(NamedTuple):
    """An error of the model at or below a value.

    path: the rest of pydantic's location, from the value on. kind: pydantic's type of the error.
    """

    path: tuple[str | int, ...]
    kind: str

    def below(self) -> ModelError:
        """Return the error from the next value of its path on."""
        return ModelError(self.path[1:], self.kind)


def model_problems(error: ValidationError, data: Any) -> list[ConfigurationProblem]:
    """Return all problems that the model finds in the data, in file order."""
    errors = [ModelError(e["loc"], e["type"]) for e in error.errors(include_input=False, include_url=False)]
    problems = _problems_at((), data, _root(), errors)
    return sorted(problems, key=lambda problem: _file_order(problem[0], data))


def _file_order(location: ConfigurationLocation, data: Any) -> list[int]:
    """Return the sort key of a location by its order in the file; missing keys come last."""
    ranks = []
    for key in location:
        keys = list(data) if isinstance(data, Mapping) else list(range(len(data))) if isinstance(data, list) else []
        ranks.append(keys.index(key) if key in keys else len(keys))
        data = data[key] if key in keys else None
    return ranks


def _problems_at(
    location: ConfigurationLocation, value: Any, schema: Mapping[str, Any], errors: Sequence[ModelError]
) -> Iterator[ConfigurationProblem]:
    """Yield the problems of a value and of the values in it. ``schema``: what is allowed at the location."""
    known = schema.get("properties", {})
    inside = [r for r in errors if r.path and r.path[0] in _keys(value)]
    absent = [r for r in errors if r.path and r.path[0] in known and r not in inside]
    tagged = [r for r in errors if r.path and r not in inside and r not in absent]
    if tagged and (alternative := _nearest_alternative(location, value, schema, tagged)) is not None:
        yield from alternative
        return
    for key, same in groupby(inside, key=lambda r: r.path[0]):
        yield from _problems_of_key(location, value, schema, key, [r.below() for r in same])
    yield from _missing_keys(location, schema, [str(r.path[0]) for r in absent if r.kind == "missing"])
    if not inside:
        yield from _refused_defaults(location, schema, [str(r.path[0]) for r in absent if r.kind != "missing"])
    is_too_short = isinstance(value, tuple | list) and len(value) < schema.get("minItems", 0)
    if (not inside or is_too_short) and any(not r.path or r in tagged for r in errors):
        yield from _rejected(location, value, schema)


def _keys(value: Any) -> Sequence[str | int]:
    return list(value) if isinstance(value, Mapping) else range(len(value)) if isinstance(value, list | tuple) else ()


def _problems_of_key(
    location: ConfigurationLocation,
    value: Any,
    schema: Mapping[str, Any],
    key: str | int,
    errors: Sequence[ModelError],
) -> Iterator[ConfigurationProblem]:
    kinds = {r.kind for r in errors if not r.path}
    if "extra_forbidden" in kinds:
        yield unknown_key(location, str(key), list(schema["properties"]))
        return
    of_value = [r for r in errors if r.path != KEY_ITSELF]
    if len(of_value) < len(errors):
        yield (*location, key), f"the key is not allowed: use {allowed_values(schema['propertyNames'], _root())}"
    if of_value:
        yield from _problems_at((*location, key), value[key], _child_schema(schema, key) or {}, of_value)


def _nearest_alternative(
    location: ConfigurationLocation, value: Any, schema: Mapping[str, Any], errors: Sequence[ModelError]
) -> list[ConfigurationProblem] | None:
    """Return the problems of the alternative that the value is most like; None if it is of another kind than each.

    Pydantic inserts the name of an alternative into the locations of its errors.
    """
    tried = []
    for tag, same in groupby(errors, key=lambda r: r.path[0]):
        below = [r.below() for r in same]
        if isinstance(value, Mapping | list | tuple) and not any(_is_other_kind(r) for r in below):
            tried.append(list(_problems_at(location, value, _alternative(schema, str(tag), value), below)))
    nearest = [(any(text.startswith("unknown key") for _, text in problems), len(problems)) for problems in tried]
    return tried[nearest.index(min(nearest))] if tried else None


def _is_other_kind(error: ModelError) -> bool:
    return not error.path and (error.kind.endswith("_type") or error.kind in OTHER_KINDS)


def _alternative(schema: Mapping[str, Any], tag: str, value: Any) -> Mapping[str, Any]:
    """Return the alternative of a schema by its name in pydantic's locations."""
    options = schema_alternatives(schema)
    names = [str(option.get("$ref", "")).rpartition("/")[2] for option in _alternatives(schema)]
    kind = "object" if isinstance(value, Mapping) else "array"
    for option, name in zip(options, names, strict=True):
        if tag == name or option.get("properties", {}).get("name", {}).get("const") == tag:
            return option
    return schema if "oneOf" in schema else next((o for o in options if o.get("type") == kind), schema)


def _missing_keys(
    location: ConfigurationLocation, schema: Mapping[str, Any], keys: Sequence[str]
) -> Iterator[ConfigurationProblem]:
    for key in keys:
        advice = CHOICES.get((*location, key)) or f" use {allowed_values(schema['properties'][key], _root())}"
        yield (*location, key), f"required:{advice}"


def _refused_defaults(
    location: ConfigurationLocation, schema: Mapping[str, Any], keys: Sequence[str]
) -> Iterator[ConfigurationProblem]:
    """Yield the problems of values that the model derives from others, such as the names of output topics."""
    for key in keys:
        allowed = allowed_values(schema["properties"][key], _root())
        yield (*location, key), f"the default is not allowed here: use {allowed}"


def _rejected(location: ConfigurationLocation, value: Any, schema: Mapping[str, Any]) -> Iterator[ConfigurationProblem]:
    if isinstance(value, Mapping) and "oneOf" in schema:
        yield _unknown_name(location, value.get("name"), schema)
    elif isinstance(value, Mapping) and not value and schema.get("minProperties"):
        yield location, "empty: add at least one"
    else:
        advice = _advice(value, schema)
        yield location, f"{not_allowed(value, location)}: use {allowed_values(schema, _root())}{advice}"


def _unknown_name(location: ConfigurationLocation, given: Any, schema: Mapping[str, Any]) -> ConfigurationProblem:
    known = [option["properties"]["name"]["const"] for option in schema_alternatives(schema)]
    advice = did_you_mean(given, known) if isinstance(given, str) else ""
    location = (*location, "name")
    return location, f"{not_allowed(given, location)}: use {join_options(known)}{advice}"


def unknown_key(location: ConfigurationLocation, key: str, known: Sequence[str]) -> tuple[ConfigurationLocation, str]:
    """Return the problem of an unknown key. It does not show a key of ``secret``, which may be the secret itself."""
    if location[:1] == ("secret",):
        return location, f"has an unknown key: use {join_options(known)}"
    advice = REMOVED.get((*location, key)) or f"use {join_options(known)}{did_you_mean(key, known)}"
    return (*location, key), f"unknown key: {advice}"


@cache
def _root() -> Mapping[str, Any]:
    return configuration_schema()


def schema_at(location: Sequence[str | int]) -> Mapping[str, Any] | None:
    """Return the schema of the values at a location of the configuration; None if there is no such location."""
    schema: Mapping[str, Any] | None = _root()
    for key in location:
        schema = schema and _child_schema(schema, key)
    return schema


def _child_schema(schema: Mapping[str, Any], key: str | int) -> Mapping[str, Any] | None:
    for option in schema_alternatives(schema):
        if isinstance(key, int):
            child = option.get("items")
        else:
            child = option.get("properties", {}).get(key) or option.get("additionalProperties")
        if child:
            return resolve_reference(child, _root())
    return None


def schema_alternatives(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a schema, or the schema itself if it has none."""
    return [resolve_reference(option, _root()) for option in _alternatives(schema)]


def _alternatives(schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return schema.get("anyOf") or schema.get("oneOf") or [schema]


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
    given = [variable for start, variable in variables.items() if location[: len(start)] == start]
    return f" (from {given[-1]})" if given else ""
