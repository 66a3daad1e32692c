"""Phrases of configuration error messages: what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

from stream_masker.service.configuration.base import PATTERN_MEANINGS

ConfigurationLocation: TypeAlias = tuple[str | int, ...]
"""A location in the configuration: keys and list indices from the top."""

SECRET_LOCATIONS: tuple[ConfigurationLocation, ...] = (("secret",), ("kafka", "properties"))
"""Locations whose values are never printed."""

CHOICES: Mapping[ConfigurationLocation, str] = {
    ("noise_key",): """
    position: fresh noise for each record; repeated records of a person can be averaged
    patient.id, or another field: one mask for equal codes of a person; averaging them gains nothing""",
}
"""The explanation of required keys, one line for each choice that the user has."""

REMOVED: Mapping[ConfigurationLocation, str] = {
    ("worker", "profile"): "remove it; batches adapt to the load",
}
"""The advice for keys of earlier versions."""

TYPE_NAMES = {"string": "text", "boolean": "true or false", "array": "a list", "null": "nothing"}


def format_location(location: ConfigurationLocation) -> str:
    """Format a location, such as ``attributes.principal.copies[0]``; the empty location is the whole configuration."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in location)
    return text.removeprefix(".") or "configuration"


def is_secret(location: ConfigurationLocation) -> bool:
    """Return whether a value at this location may be a secret or contain one, even if it is not valid there."""
    return any(location[: len(s)] == s[: len(location)] for s in SECRET_LOCATIONS)


def not_allowed(value: Any, location: ConfigurationLocation) -> str:
    """Say that the value at a location is not allowed. Show only scalars that are not secret, truncated."""
    return "nothing is given" if value is None else f"{_describe_given(value, location)} is not allowed"


def _describe_given(value: Any, location: ConfigurationLocation) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return "what is given" if is_secret(location) else format_scalar(value)


def format_scalar(value: str | float) -> str:
    """Format a scalar as in YAML, truncated to 60 characters."""
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def join_options(options: Iterable[str]) -> str:
    """Join options as ``a, b or c``."""
    *most, last = list(options)
    return f"{', '.join(most)} or {last}" if most else last


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return ``; did you mean 'reject'?`` for a similar option, otherwise an empty text."""
    close = get_close_matches(word, list(options), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def allowed_values(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Describe the values that a schema allows."""
    schema = resolve_reference(schema, root)
    if "anyOf" in schema:
        return join_options(allowed_values(option, root) for option in schema["anyOf"])
    if "oneOf" in schema:
        return "a mapping with name and the parameters of that mechanism"
    if options := enumeration(schema):
        return join_options(options)
    if meaning := PATTERN_MEANINGS.get(schema.get("pattern", "")):
        return meaning
    return _describe_type(schema, root)


def enumeration(schema: Mapping[str, Any]) -> list[str]:
    """Return the values of an enumeration."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return [str(value) for value in values]


def _describe_type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    kind = schema["type"]
    if kind in {"integer", "number"}:
        return f"a {'whole ' if kind == 'integer' else ''}number{numeric_bounds(schema)}"
    if kind == "object":
        return f"a mapping{_describe_keys(schema)}"
    if kind == "array":
        return f"a list{_describe_items(schema, root)}"
    return f"{TYPE_NAMES[kind]}{' that is not empty' if schema.get('minLength') else ''}"


def _describe_keys(schema: Mapping[str, Any]) -> str:
    return f" with {join_options(schema['properties'])}" if "properties" in schema else ""


def _describe_items(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    parts: Sequence[Mapping[str, Any]] = schema.get("prefixItems", [])
    if parts:
        return f" of {len(parts)}: each {allowed_values(parts[0], root)}"
    return f" of {allowed_values(schema['items'], root)}" if "items" in schema else ""


def numeric_bounds(schema: Mapping[str, Any]) -> str:
    """Describe numeric bounds: `` from 0 to 10``, `` of at least 1``, `` above 0 and at most 10``."""
    if {"minimum", "maximum"} <= schema.keys():
        return f" from {schema['minimum']} to {schema['maximum']}"
    words = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    bounds = [f"{word} {schema[key]}" for key, word in words.items() if key in schema]
    return "".join(f" {part}" for part in [" and ".join(bounds)] if part)


def resolve_reference(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema, or what its ``$ref`` refers to in the root's ``$defs``."""
    reference = schema.get("$ref")
    return root["$defs"][reference.removeprefix("#/$defs/")] if reference else schema
