"""The errors of a configuration, one line each: where it is, what was given, what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

Location: TypeAlias = tuple[str | int, ...]
"""A location in the configuration: keys and list indices from the top."""

Problem: TypeAlias = tuple[Location, str]
"""A location, and what is wrong with its value."""

ALLOWED: Final = "allowed"
"""The type of our own errors whose message says what is allowed."""

PROBLEM: Final = "problem"
"""The type of our own errors whose message says all."""

SECRET_KEYS: Final = frozenset({"secret", "previous_secrets", "token", "credentials", "kafka"})
"""Keys at and below which no value is shown."""

Context: TypeAlias = Mapping[str, Any]

KEY_ITSELF: Final = ("[key]",)
"""The end of pydantic's location of an error of a key, not of its value."""

ALLOWED_BY_TYPE: Final[Mapping[str, Callable[[Context], str]]] = {
    "literal_error": lambda ctx: ctx["expected"].replace("'", ""),
    "int_type": lambda _: "a whole number",
    "int_parsing": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "float_type": lambda _: "a number",
    "float_parsing": lambda _: "a number",
    "finite_number": lambda _: "a finite number",
    "bool_type": lambda _: "true or false",
    "bool_parsing": lambda _: "true or false",
    "string_type": lambda _: "text",
    "tuple_type": lambda _: "a list",
    "dict_type": lambda _: "a mapping",
    "model_type": lambda _: "a mapping",
    "model_attributes_type": lambda _: "a mapping",
    "greater_than": lambda ctx: f"a number above {ctx['gt']:g}",
    "greater_than_equal": lambda ctx: f"a number of at least {ctx['ge']:g}",
    "less_than_equal": lambda ctx: f"a number of at most {ctx['le']:g}",
    "string_too_short": lambda _: "text that is not empty",
    "string_too_long": lambda ctx: f"at most {ctx['max_length']} characters",
    "string_pattern_mismatch": lambda ctx: f"text like {ctx['pattern']}",
    "too_short": lambda ctx: f"{ctx['min_length']} or more entries",
    "too_long": lambda ctx: f"at most {ctx['max_length']} entries",
    "missing": lambda _: "a list of more values",
    "union_tag_invalid": lambda ctx: join_options(ctx["expected_tags"].replace("'", "").split(", ")),
}
"""What is allowed where pydantic finds an error of a type."""


def model_problems(error: ValidationError, data: Any) -> list[Problem]:
    """Return all problems that the model finds in the data, in the order of the file."""
    found: dict[Location, list[ErrorDetails]] = {}
    for one in error.errors(include_url=False):
        found.setdefault(_location(one, data), []).append(one)
    outer = [at for at in found if any(len(other) > len(at) and other[: len(at)] == at for other in found)]
    inner = {at: errors for at, errors in found.items() if at not in outer or _says_all(errors)}
    problems = [(at, text) for at, errors in inner.items() for text in _texts(at, errors)]
    return sorted(problems, key=lambda problem: _file_order(problem[0], data))


def _says_all(errors: Sequence[ErrorDetails]) -> bool:
    """Return whether an error tells more than that a value is of none of several kinds."""
    return any(one["type"] in {PROBLEM, "too_short"} or one["loc"][-1:] == KEY_ITSELF for one in errors)


def _location(error: ErrorDetails, data: Any) -> Location:
    """Return the location of an error: pydantic's, without the names of the alternatives that it has tried."""
    location: list[str | int] = []
    for key in error["loc"]:
        if isinstance(data, Mapping) and key in data:
            data = data[key]
        elif isinstance(data, list | tuple) and isinstance(key, int):
            data = data[key] if key < len(data) else None
        elif key != error["loc"][-1] or error["type"] != PROBLEM:
            continue
        location.append(key)
    if error["type"] == "union_tag_invalid":
        location.append("name")
    return tuple(location)


def _texts(location: Location, errors: Sequence[ErrorDetails]) -> Iterable[str]:
    """Yield the texts of the errors of one value: those of alternatives as one."""
    yield from (one["msg"] for one in errors if one["type"] == PROBLEM)
    of_keys = [one for one in errors if one["loc"][-1:] == KEY_ITSELF]
    yield from (f"the key is not allowed: use {_allowed(one)}" for one in of_keys)
    of_values = [one for one in errors if one["type"] != PROBLEM and one not in of_keys]
    if of_values:
        given = of_values[0]["input"]
        if location[-1:] == ("name",) and isinstance(given, Mapping):
            given = given.get("name")
        options = list(dict.fromkeys(map(_allowed, of_values)))
        yield f"{_shown(given, location)} is not allowed: use {join_options(options)}{_advice(given, of_values)}"


def _allowed(error: ErrorDetails) -> str:
    known = ALLOWED_BY_TYPE.get(error["type"])
    return error["msg"] if known is None else known(error.get("ctx", {}))


def _advice(given: Any, errors: Sequence[ErrorDetails]) -> str:
    if isinstance(given, str):
        tags = [one.get("ctx", {}) for one in errors]
        options = ", ".join(str(ctx.get("expected") or ctx.get("expected_tags") or "") for ctx in tags)
        return did_you_mean(given, options.replace("'", "").replace(" or ", ", ").split(", "))
    is_text = all(one["type"] in {"string_type", ALLOWED} for one in errors)
    return "; quotes make it text" if is_text and isinstance(given, bool | int | float) else ""


def _shown(value: Any, location: Location) -> str:
    """Return what was given: scalars that are not secret, truncated."""
    if isinstance(value, Mapping | list | tuple):
        return f"a {'mapping' if isinstance(value, Mapping) else 'list'} of {len(value)}"
    if value is None:
        return "nothing"
    if SECRET_KEYS.intersection(map(str, location)):
        return "what is given"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _file_order(location: Location, data: Any) -> list[int]:
    """Return the sort key of a location by its order in the file; missing keys come last."""
    ranks = []
    for key in location:
        keys = list(data) if isinstance(data, Mapping) else list(range(len(data))) if isinstance(data, list) else []
        ranks.append(keys.index(key) if key in keys else len(keys))
        data = data[key] if key in keys else None
    return ranks


def problem_report(name: str, problems: Iterable[Problem], variables: Mapping[Location, str]) -> str:
    """Return one message with all problems; ``variables``: the environment variables that set locations."""
    lines = list(
        dict.fromkeys(
            f"  {format_location(location)}{_from_variable(location, variables)}: {text}" for location, text in problems
        )
    )
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return "\n".join([f"{name}: the configuration has {count}", *lines])


def _from_variable(location: Location, variables: Mapping[Location, str]) -> str:
    above = [variable for start, variable in variables.items() if location[: len(start)] == start]
    below = [variable for at, variable in variables.items() if location and at[: len(location)] == location]
    return f" (from {(above or below)[-1]})" if above or below else ""


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
