"""The errors of a configuration, one line each: where it is, what was given, what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from operator import eq
from typing import Any, Final, TypeAlias, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Location: TypeAlias = tuple[str | int, ...]
"""A location in the configuration: keys and list indices from the top."""

Problem: TypeAlias = tuple[Location, str]
"""A location, and what is wrong with its value."""

SHOWS_NOTHING: Final = "secret"
"""The type of errors whose message says all."""

HIDDEN: Final = frozenset({"kafka", "registry", "previous_secrets"})
"""Keys at and below which no value is shown: it may be a secret."""

KEY_ITSELF: Final = ("[key]",)
"""The end of pydantic's location of an error of a key, not of its value."""

WORDS: Final = (
    (r"^Input should be |^Value error, ", ""),
    (r", unable to parse.*|, got a number.*| after validation, not \d+$| or instance of \w+$", ""),
    (r"^(\w+) should have ", ""),
    (r"^greater than or equal to", "a number of at least"),
    (r"^less than or equal to", "a number of at most"),
    (r"^(greater|less) than", r"a number \1 than"),
    (r"^a valid integer$", "a whole number"),
    (r"^a valid number$", "a number"),
    (r"^a valid boolean$", "true or false"),
    (r"^a valid string$", "text"),
    (r"^a valid (tuple|list)$", "a list"),
    (r"^a valid dictionary$", "a mapping"),
    (r"^Keys should be strings$", "text as a key, in quotes"),
)
"""Patterns in pydantic's messages, and what takes their place so that ``use`` can stand before them."""


def model_problems(error: ValidationError, data: Any, model: type[BaseModel]) -> list[Problem]:
    """Return all problems that the model finds in the data.

    Where alternatives are tried, those of one value are one problem, and problems inside a value leave out that the
    value is none of the other alternatives.
    """
    found: dict[Location, list[ErrorDetails]] = {}
    for one in error.errors(include_url=False):
        found.setdefault(_location(one, data), []).append(one)
    outer = {at[:depth] for at in found for depth in range(len(at))}
    problems = []
    for location, errors in found.items():
        of_value = [one for one in errors if _own_text(one, model) is None]
        problems += [(location, text) for one in errors if (text := _own_text(one, model)) is not None]
        if of_value and location not in outer:
            problems.append((location, _value_text(location, of_value)))
    return problems


def _location(error: ErrorDetails, data: Any) -> Location:
    """Return the location of an error: pydantic's, without the names of the alternatives that it has tried."""
    location: list[str | int] = []
    for depth, key in enumerate(error["loc"], start=1):
        if isinstance(data, Mapping) and key in data:
            data = data[key]
        elif isinstance(data, list | tuple) and isinstance(key, int):
            data = data[key] if key < len(data) else None
        elif error["type"] != "missing" or depth < len(error["loc"]):
            continue
        location.append(key)
    return (*location, "name") if error["type"] == "union_tag_invalid" else tuple(location)


def _own_text(error: ErrorDetails, model: type[BaseModel]) -> str | None:
    """Return the text of an error that is not about the form of a value, otherwise None."""
    *above, key = error["loc"] or ("",)
    fields = _section(model, above).model_fields
    if error["type"] == SHOWS_NOTHING:
        return error["msg"]
    if error["loc"][-1:] == KEY_ITSELF:
        return f"the key is not allowed: use {_allowed(error)}"
    if error["type"] == "extra_forbidden":
        return f"unknown key: use {join_options(fields)}{did_you_mean(str(key), fields)}"
    if error["type"] == "missing":
        meaning, _, _ = " ".join(str(fields[str(key)].description).split()).partition(". ")
        return f"required: {meaning[:1].lower()}{meaning[1:].removesuffix('.')}"
    return None


def _section(model: type[BaseModel], location: Iterable[str | int]) -> type[BaseModel]:
    """Return the section at pydantic's location of an error, which has the name of each alternative."""
    sections = [model]
    for key in location:
        fields = [one.model_fields[key] for one in sections if isinstance(key, str) and key in one.model_fields]
        below = [one for field in fields for one in _sections(field.annotation)]
        sections = [one for one in sections if one.__name__ == key] or below or sections
    return sections[0]


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections in a type of a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections(part)]


def _value_text(location: Location, errors: Sequence[ErrorDetails]) -> str:
    """Return the text of the errors of one value, which is none of its alternatives."""
    given = errors[0]["input"]
    if location[-1:] == ("name",) and isinstance(given, Mapping):
        given = given.get("name")
    options = dict.fromkeys(map(_allowed, errors))
    return f"{_shown(given, location)} is not allowed: use {' or '.join(options)}{_advice(given, errors)}"


def _allowed(error: ErrorDetails) -> str:
    """Return what is allowed, in the words of the configuration instead of Python's."""
    text = error.get("ctx", {}).get("expected_tags") or error["msg"]
    for pattern, words in WORDS:
        text = re.sub(pattern, words, text)
    return text.replace("'", "")


def _advice(given: Any, errors: Sequence[ErrorDetails]) -> str:
    """Return which option may be meant, or that quotes make a number, a date or null text."""
    if isinstance(given, str):
        options = " ".join(_allowed(one) for one in errors if one["type"] in {"literal_error", "union_tag_invalid"})
        return did_you_mean(given, re.findall(r"\w+", options))
    is_scalar = not isinstance(given, Mapping | list | tuple)
    return "; quotes make it text" if is_scalar and all(one["type"] == "string_type" for one in errors) else ""


def _shown(value: Any, location: Location) -> str:
    """Return what was given: scalars that are not secret, truncated."""
    if isinstance(value, Mapping | list | tuple):
        return f"a {'mapping' if isinstance(value, Mapping) else 'list'} of {len(value)}"
    if value is None:
        return "no value (null)"
    if HIDDEN.intersection(map(str, location)):
        return "what is given"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def problem_report(name: str, problems: Iterable[Problem], variables: Mapping[Location, str]) -> str:
    """Return one message with all problems; ``variables``: the environment variables that set locations."""
    lines = dict.fromkeys(f"  {format_location(at)}{_from_variable(at, variables)}: {text}" for at, text in problems)
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return "\n".join([f"{name}: the configuration has {count}", *lines])


def _from_variable(location: Location, variables: Mapping[Location, str]) -> str:
    """Return the last variable that sets the location, something around it or inside it; empty if none does."""
    setting = [name for at, name in variables.items() if location and all(map(eq, at, location))]
    return f" (from {setting[-1]})" if setting else ""


def format_location(location: Location) -> str:
    """Format a location, such as ``attributes.principal.copies[0]``; the empty location is the whole configuration."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in location)
    return text.removeprefix(".") or "configuration"


def join_options(options: Iterable[str]) -> str:
    """Join options as ``a, b or c``."""
    *most, last = list(options)
    return f"{', '.join(most)} or {last}" if most else last


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return ``; did you mean 'reject'?`` for a similar option, otherwise an empty text."""
    close = get_close_matches(word, list(options), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
