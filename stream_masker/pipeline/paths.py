"""Paths into JSON objects: dotted names, ``[0]``, ``[*]`` and filters.

    path     = name step*
    step     = "." name | "[" number "]" | "[*]" | "[?" field "=" value "]" | quoted
    quoted   = "['any name']" or '["any name"]'           a name that holds dots or brackets; may come first
    field    = name ("." name)*                           of the element, an object
    value    = anything up to "]", or quoted by ' or "    quoted, it matches strings only

In quotes a backslash takes the next character as it is. A filter's value may hold dots and slashes
(``code.coding[?system=http://hl7.org/fhir/sid/icd-10-cm].code``); unquoted, it also matches the number, ``true`` or
``false`` that JSON writes so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import orjson

from stream_masker.errors import ConfigurationError

T = TypeVar("T")
JsonValue: TypeAlias = Any
"""A decoded JSON value."""


@dataclass(frozen=True, slots=True)
class NameStep:
    """The value of an object under ``key``."""

    key: str


@dataclass(frozen=True, slots=True)
class IndexStep:
    """The element of a list at ``position``, from 0."""

    position: int


@dataclass(frozen=True, slots=True)
class EachStep:
    """Every element of a list: ``[*]``."""


@dataclass(frozen=True, slots=True)
class FilterStep:
    """The elements of a list, objects, whose ``field`` (one name or several, nested) is ``value``."""

    field: tuple[str, ...]
    value: str
    quoted: bool = False

    def matches(self, element: JsonValue) -> bool:
        """Whether ``element`` is an object that has the value in the field."""
        for key in self.field:
            if type(element) is not dict:
                return False
            element = element.get(key)
        return element == self.value if type(element) is str else not self.quoted and self._written(element)

    def _written(self, element: JsonValue) -> bool:
        return isinstance(element, int | float) and orjson.dumps(element).decode() == self.value


Step: TypeAlias = NameStep | IndexStep | EachStep | FilterStep


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path: ``text`` as it was configured, and its steps. Two paths are equal when their steps are."""

    text: str
    steps: tuple[Step, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and self.steps == other.steps

    def __hash__(self) -> int:
        return hash(self.steps)

    def __str__(self) -> str:
        return self.text

    @property
    def arrays(self) -> int:
        """The number of ``[*]`` in the path."""
        return sum(isinstance(step, EachStep) for step in self.steps)

    @property
    def parent(self) -> Path:
        """The path without its last step."""
        return Path(self.text, self.steps[:-1])

    def filter_fields(self) -> Iterator[Path]:
        """The paths of the fields that the path's filters compare."""
        for end, step in enumerate(self.steps, start=1):
            if isinstance(step, FilterStep):
                yield Path(self.text, (*self.steps[:end], *map(NameStep, step.field)))

    def may_meet(self, other: Path) -> bool:
        """Whether there can be a record in which one path selects the other's value, or a part of it."""
        return all(_may_be_same(a, b) for a, b in zip(self.steps, other.steps, strict=False))


def compile_path(text: str) -> Path:
    """Parses a path. Raises ConfigurationError that says what is wrong and at which character (from 1)."""
    return Path(text, tuple(_Reader(text).steps()))


def _may_be_same(a: Step, b: Step) -> bool:
    if isinstance(a, NameStep) or isinstance(b, NameStep) or type(a) is type(b) is IndexStep:
        return a == b
    if isinstance(a, FilterStep) and isinstance(b, FilterStep):
        return a.field != b.field or a.value == b.value
    return True


_NAME = re.compile(r"[^.\[\]\s'\"](?:[^.\[\]'\"]*[^.\[\]\s'\"])?")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_FIELD = re.compile(r"[^.\[\]\s'\"=]+(?:\.[^.\[\]\s'\"=]+)*")
_BARE = re.compile(r"[^\]\[\s'\"](?:[^\]\[]*[^\]\[\s])?")
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)


class _Reader:
    """Reads a path from left to right; ``at`` is the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def steps(self) -> Iterator[Step]:
        yield self._first()
        while self.at < len(self.text):
            yield self._next()

    def _first(self) -> Step:
        if not self.text.startswith("["):
            return self._name()
        self.at = 1
        return NameStep(self._closed(self._quoted("a path starts with a name")))

    def _next(self) -> Step:
        if self._take("."):
            return self._name()
        if self._take("["):
            return self._bracket()
        raise self._error("'.' or '[' is due")

    def _name(self) -> NameStep:
        return NameStep(self._match(_NAME, "a name is due (quote names that hold dots or brackets: ['a.b'])"))

    def _bracket(self) -> Step:
        if self._take("*"):
            return self._closed(EachStep())
        if self._take("?"):
            return self._closed(self._where())
        if self._peek() in ("'", '"'):
            return NameStep(self._closed(self._quoted("a quoted name is due")))
        return self._closed(IndexStep(int(self._match(_NUMBER, "a number, *, ?field=value or a quoted name is due"))))

    def _where(self) -> FilterStep:
        field = tuple(self._match(_FIELD, "a filter needs a field: [?field=value]").split("."))
        if not self._take("="):
            raise self._error("a filter needs '=' after its field: [?field=value]")
        if self._peek() in ("'", '"'):
            return FilterStep(field, self._quoted("the quoted value has no end"), quoted=True)
        return FilterStep(field, self._match(_BARE, "a filter needs a value: [?field=value]"))

    def _quoted(self, complaint: str) -> str:
        found = _QUOTED.match(self.text, self.at)
        if found is None:
            raise self._error(complaint)
        self.at = found.end()
        return re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2], flags=re.DOTALL)

    def _closed(self, step: T) -> T:
        if not self._take("]"):
            raise self._error("']' is due")
        return step

    def _match(self, pattern: re.Pattern[str], complaint: str) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self._error(complaint)
        self.at = found.end()
        return found[0]

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, expected: str) -> bool:
        taken = self._peek() == expected
        self.at += taken
        return taken

    def _error(self, complaint: str) -> ConfigurationError:
        return ConfigurationError(f"path {self.text!r}, character {self.at + 1}: {complaint}")
