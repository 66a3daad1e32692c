"""What was given and what is allowed, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

from stream_masker.service.configuration.schema import resolved
from stream_masker.service.configuration.types import MEANINGS

ConfigurationPlace: TypeAlias = tuple[str | int, ...]
"""Where in the configuration: keys and list indices from the top."""

SECRETS: tuple[ConfigurationPlace, ...] = (("secret",), ("kafka", "properties"))
"""Places whose values are never printed."""

TYPE_NAMES = {"string": "text", "boolean": "true or false", "array": "a list", "null": "nothing"}


def dotted(place: ConfigurationPlace) -> str:
    """``attributes.principal.copies[0]``; the empty place is the whole configuration."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    return text.removeprefix(".") or "configuration"


def is_secret(place: ConfigurationPlace) -> bool:
    """Whether a value given at this place may hold (or be mistaken for) a secret."""
    return any(place[: len(s)] == s[: len(place)] for s in SECRETS)


def refusal(value: Any, place: ConfigurationPlace) -> str:
    """Says of what stands at a place that it is not allowed; shows the value if it is simple, short and no secret."""
    return "nothing is given" if value is None else f"{_given(value, place)} is not allowed"


def _given(value: Any, place: ConfigurationPlace) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return "what is given" if is_secret(place) else simple(value)


def simple(value: str | float) -> str:
    """A scalar as YAML writes it, cut to 60 characters."""
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def listed_words(options: Iterable[str]) -> str:
    """``a, b or c``."""
    *most, last = list(options)
    return f"{', '.join(most)} or {last}" if most else last


def hint(word: str, options: Iterable[str]) -> str:
    """``; did you mean 'reject'?`` where one of the options is close, else nothing."""
    close = get_close_matches(word, list(options), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def allowed(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """What a schema takes."""
    schema = resolved(schema, root)
    if "anyOf" in schema:
        return listed_words(allowed(option, root) for option in schema["anyOf"])
    if "oneOf" in schema:
        return "a mapping with name, and what that mechanism takes"
    if options := choices(schema):
        return listed_words(options)
    if meaning := MEANINGS.get(schema.get("pattern", "")):
        return meaning
    return _kind(schema, root)


def choices(schema: Mapping[str, Any]) -> list[str]:
    """The values of an enumeration."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return [str(value) for value in values]


def _kind(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    kind = schema["type"]
    if kind in {"integer", "number"}:
        return f"a {'whole ' if kind == 'integer' else ''}number{bounds(schema)}"
    if kind == "object":
        return f"a mapping{_keys(schema)}"
    if kind == "array":
        return f"a list{_items(schema, root)}"
    return f"{TYPE_NAMES[kind]}{' that is not empty' if schema.get('minLength') else ''}"


def _keys(schema: Mapping[str, Any]) -> str:
    return f" with {listed_words(schema['properties'])}" if "properties" in schema else ""


def _items(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    parts: Sequence[Mapping[str, Any]] = schema.get("prefixItems", [])
    if parts:
        return f" of {len(parts)}: each {allowed(parts[0], root)}"
    return f" of {allowed(schema['items'], root)}" if "items" in schema else ""


def bounds(schema: Mapping[str, Any]) -> str:
    """`` from 0 to 10``, `` of at least 1``, `` above 0 and at most 10``."""
    if {"minimum", "maximum"} <= schema.keys():
        return f" from {schema['minimum']} to {schema['maximum']}"
    words = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    found = [f"{word} {schema[key]}" for key, word in words.items() if key in schema]
    return "".join(f" {part}" for part in [" and ".join(found)] if part)
