"""Paths into JSON objects: dotted names, ``[0]``, ``[*]`` and filters.

    path     = name step*
    step     = "." name | "[" number "]" | "[*]" | filter | every | quoted
    filter   = "[?" field "=" value "]"
    every    = "[*?" field "=" value "]"                  each match has a value of its own, as with "[*]"
    quoted   = "['any name']" or '["any name"]'           a name with dots or brackets; may come first
    field    = name ("." name)*                           of the element, an object
    value    = anything up to "]", or quoted by ' or "

Inside quotes, a backslash escapes the next character. The value of a filter may have dots and slashes
(``code.coding[?system=http://hl7.org/fhir/sid/icd-10-cm].code``). It also matches the number, ``true`` or ``false``
with this text in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
from msgspec import UNSET, Struct

from stream_masker.errors import ConfigurationError

JsonValue: TypeAlias = Any
"""A decoded JSON value."""

Document: TypeAlias = Any
"""A record as dicts and lists, or as structs (``pipeline.structs``) and lists."""


class NameStep(NamedTuple):
    """The member of an object with the name ``key``."""

    key: str


class IndexStep(NamedTuple):
    """The element of a list at ``position``, from 0."""

    position: int


class EachStep(NamedTuple):
    """Every element of a list: ``[*]``."""


@dataclass(frozen=True, slots=True)
class FilterStep:
    """The elements of a list that are objects whose ``field`` (one name, or several nested ones) is ``value``.

    every: whether each of them has a value of its own (``[*?field=value]``); otherwise all further ones are copies of
    the first.
    """

    field: tuple[str, ...]
    value: str
    every: bool = False

    def matching(self, values: Sequence[JsonValue]) -> list[bool]:
        """Return which values of ``field`` the filter selects."""
        return [value == self.value if type(value) is str else self._is_written_so(value) for value in values]

    def _is_written_so(self, value: JsonValue) -> bool:
        return isinstance(value, int | float) and orjson.dumps(value).decode() == self.value


Step: TypeAlias = NameStep | IndexStep | EachStep | FilterStep


@dataclass(frozen=True)
class Path:
    """A parsed path: ``text`` as configured, and its steps. Paths that select the same values are equal."""

    text: str = field(compare=False)
    steps: tuple[Step, ...]
    alternative: Path | None = None
    """The path of a key that counts where this one selects nothing or null."""

    @property
    def ways(self) -> Iterator[Path]:
        """The path itself, and its alternatives."""
        yield self
        yield from () if self.alternative is None else self.alternative.ways

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Which of the lists that the path enters have a value for each element, counted from 1."""
        lists = enumerate((step for step in self.steps if not isinstance(step, NameStep)), start=1)
        return tuple(level for level, step in lists if _is_each(step))

    @property
    def arrays(self) -> int:
        """The number of ``[*]`` and ``[*?field=value]`` in the path."""
        return len(self.levels)

    @property
    def elements(self) -> Path:
        """The path of what the last ``[*]`` or ``[*?field=value]`` selects; that of the record without any."""
        end = max((end for end, step in enumerate(self.steps, start=1) if _is_each(step)), default=0)
        return Path(self.text, self.steps[:end])

    @property
    def around(self) -> Path:
        """The path of what is around the selected values."""
        return Path(self.text, self.steps[:-1])

    def filter_fields(self) -> Iterator[Path]:
        """Yield the paths of the fields that filters compare, except for one at the end, which selects elements."""
        for end, step in enumerate(self.steps[:-1], start=1):
            if isinstance(step, FilterStep):
                yield Path(self.text, (*self.steps[:end], *map(NameStep, step.field)))

    def may_meet(self, other: Path) -> bool:
        """Return whether there may be a record in which one path selects the other's value, or a part of it."""
        return all(_may_be_same(a, b) for a, b in zip(self.steps, other.steps, strict=False))


def alternatives(text: str) -> list[str]:
    """Return the paths in the text of a key: ``after.id | before.id`` has two. A name with ``|`` is quoted."""
    return [part.strip() for part in re.split(r"\|(?![^\[\]]*\])", text)]


def first_values(documents: Sequence[Document], path: Path) -> Sequence[JsonValue]:
    """Return the first value that a path selects in each document; None for none."""
    values: Sequence[JsonValue] = documents
    for position, step in enumerate(path.steps):
        if not isinstance(step, NameStep):
            values = [next(selected(value, path.steps[position:]), None) for value in values]
            break
        values = members(values, (step.key,))
    if path.alternative is None:
        return values
    others = first_values(documents, path.alternative)
    return [other if value is None else value for value, other in zip(values, others, strict=True)]


def members(values: Sequence[JsonValue], names: Iterable[str]) -> Sequence[JsonValue]:
    """Return the value at nested names in each value; None for none."""
    for name in names:
        kind: Any = type(values[0]) if values else None
        if {*map(type, values)} == {kind} and issubclass(kind, Struct) and name in kind.fields:
            values = list(map(attrgetter(kind.fields[name]), values))
            values = [None if value is UNSET else value for value in values] if UNSET in values else values
        else:
            values = [value.get(name) if hasattr(value, "get") else None for value in values]
    return values


def selected(value: JsonValue, steps: Sequence[Step]) -> Iterator[JsonValue]:
    """Yield the values that steps select in a value; none where it has another shape than the steps require."""
    if not steps:
        yield value
    elif isinstance(steps[0], NameStep):
        if type(value) is dict and steps[0].key in value:
            yield from selected(value[steps[0].key], steps[1:])
    elif type(value) is list:
        for position, element in enumerate(value):
            if selects(steps[0], position, element):
                yield from selected(element, steps[1:])


def selects(step: Step, position: int, element: JsonValue) -> bool:
    """Return whether a step selects an element of a list."""
    if isinstance(step, FilterStep):
        return step.matching(members([element], step.field))[0]
    return isinstance(step, EachStep) or step == IndexStep(position)


def quoted_step(name: str) -> str:
    """Return the step of a name in a path: the name itself, or quoted if it would not be read as one name."""
    if _NAME.fullmatch(name) and "|" not in name:
        return name
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def _is_each(step: Step) -> bool:
    return isinstance(step, EachStep) or (isinstance(step, FilterStep) and step.every)


def _may_be_same(a: Step, b: Step) -> bool:
    if isinstance(a, NameStep) or isinstance(b, NameStep) or type(a) is type(b) is IndexStep:
        return a == b
    if isinstance(a, FilterStep) and isinstance(b, FilterStep):
        return a.field != b.field or a.value == b.value
    return True


_NAME: Final = re.compile(r"[^.\[\]\s'\"](?:[^.\[\]'\"]*[^.\[\]\s'\"])?")
_FIELD: Final = r"[^.\[\]\s'\"=]+(?:\.[^.\[\]\s'\"=]+)*"
_QUOTED: Final = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_VALUE: Final = r"[^\]\[\s'\"](?:[^\]\[]*[^\]\[\s])?"
_STEP: Final = re.compile(
    rf"""\.?(?P<name>{_NAME.pattern})
    | \[ (?: (?P<index>0|[1-9][0-9]{{0,8}}) | (?P<each>\*) | (?P<key>{_QUOTED})
           | (?P<every>\*?)\?(?P<field>{_FIELD})=(?:(?P<quoted>{_QUOTED})|(?P<value>{_VALUE})) ) \]""",
    re.DOTALL | re.VERBOSE,
)


def compile_path(text: str) -> Path:
    """Parse a path. Raises ConfigurationError with the character of the error, counted from 1."""
    steps, at = list[Step](), 0
    while at < len(text) or not steps:
        match = _STEP.match(text, at)
        is_name = match is not None and (match["name"] or match["key"]) is not None
        if match is None or (not steps and not is_name) or (match["name"] and (text[at] == ".") != bool(steps)):
            expected = ".name, [0], [*], [?field=value] or ['any name']" if steps else "a name"
            raise ConfigurationError(f"path {text!r}, character {at + 1}: {expected} is expected")
        steps.append(_step(match))
        at = match.end()
    return Path(text, tuple(steps))


def _step(match: re.Match[str]) -> Step:
    if (key := match["name"] or _unquoted(match["key"])) is not None:
        return NameStep(key)
    if match["index"] is not None:
        return IndexStep(int(match["index"]))
    if match["each"] is not None:
        return EachStep()
    value = match["value"] or _unquoted(match["quoted"]) or ""
    return FilterStep(tuple(match["field"].split(".")), value, every=bool(match["every"]))


def _unquoted(text: str | None) -> str | None:
    return None if text is None else re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
