"""Environment overrides: ``STREAM_MASKER__SECTION__KEY=value``, the value read as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.problems import options, schema_at
from stream_masker.service.configuration.wording import ConfigurationPlace, dotted, hint, listed_words
from stream_masker.service.configuration.yaml import parse_yaml

VARIABLE_PREFIX = "STREAM_MASKER__"
KEY_SEPARATOR = "__"
LIBRDKAFKA: ConfigurationPlace = ("kafka", "properties")


def overridden(
    data: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], dict[ConfigurationPlace, str]]:
    """The configuration with the environment's overrides in it, and which variable set which place.

    Names are compared without regard to case. Attributes, ontologies and columns that the file does not name get
    names in lower case; in ``kafka.properties`` an underscore stands for a dot, and values stay text. Where only text
    is allowed, the value is taken as it is. Raises ConfigurationError that names every variable that fits no key.
    """
    result = deepcopy(dict(data))
    places: dict[ConfigurationPlace, str] = {}
    problems: list[str] = []
    for variable in sorted(name for name in environ if name.startswith(VARIABLE_PREFIX)):
        try:
            place = _place(variable, result)
            _put(result, place, _value(variable, environ[variable], place), variable)
            places[place] = variable
        except ConfigurationError as error:
            problems.append(str(error))
    if problems:
        raise ConfigurationError("\n".join(problems))
    return result, places


def _place(variable: str, data: Mapping[str, Any]) -> ConfigurationPlace:
    place: ConfigurationPlace = ()
    for part in variable.removeprefix(VARIABLE_PREFIX).split(KEY_SEPARATOR):
        place = (*place, _key(variable, part.lower(), place, data))
    return place


def _key(variable: str, part: str, place: ConfigurationPlace, data: Mapping[str, Any]) -> str:
    """The key that a part of a variable's name means below a place."""
    word = part.replace("_", ".") if place == LIBRDKAFKA else part
    schemas = options(schema_at(place) or {})
    known = [key for schema in schemas for key in schema.get("properties", ())]
    free = any(isinstance(schema.get("additionalProperties"), Mapping) for schema in schemas)
    match = next((key for key in [*known, *_keys_at(data, place)] if key.lower() == word), None)
    if match is None and not (free and word):
        raise ConfigurationError(f"{variable}: {_no_key(word, place, known)}")
    return word if match is None else match


def _no_key(word: str, place: ConfigurationPlace, known: Iterable[str]) -> str:
    options = list(known)
    if not word:
        return f"the name ends without a key of {dotted(place)}"
    if not options:
        return f"{dotted(place)} has no keys"
    return f"{dotted(place)} has no key {word!r}: use {listed_words(options)}{hint(word, options)}"


def _keys_at(data: Mapping[str, Any], place: ConfigurationPlace) -> list[str]:
    found: Any = data
    for key in place:
        found = found.get(key) if isinstance(found, Mapping) else None
    return list(found) if isinstance(found, Mapping) else []


def _value(variable: str, text: str, place: ConfigurationPlace) -> Any:
    if place[:-1] == LIBRDKAFKA or (schema_at(place) or {}).get("type") == "string":
        return text
    return parse_yaml(text, name=variable)


def _put(data: dict[str, Any], place: ConfigurationPlace, value: Any, variable: str) -> None:
    *sections, last = place
    for depth, key in enumerate(sections, start=1):
        if not isinstance(data.setdefault(str(key), {}), dict):
            raise ConfigurationError(f"{variable}: {dotted(place[:depth])} is no mapping in the file")
        data = data[str(key)]
    data[str(last)] = value
