"""Paths into JSON objects: dotted names, ``[0]``, ``[*]`` and filters.

    path     = name step*
    step     = "." name | "[" number "]" | "[*]" | filter | every | quoted
    filter   = "[?" field "=" value "]"
    every    = "[*?" field "=" value "]"                  each match has a value of its own, as with "[*]"
    quoted   = "['any name']" or '["any name"]'           a name with dots or brackets; may come first
    field    = name ("." name)*                           of the element, an object
    value    = anything up to "]", or quoted by ' or "    if quoted, it matches strings only

Inside quotes, a backslash escapes the next character. The value of a filter may have dots and slashes
(``code.coding[?system=http://hl7.org/fhir/sid/icd-10-cm].code``). An unquoted value also matches the number, ``true``
or ``false`` with this text in JSON.

In a ``PathTrie``, paths that begin with the same steps share nodes. The field policy keeps its actions in such a trie,
and the codecs the roles of the paths that they read. The root stands for the record; every other node stands for the
values that the steps on the way to it select.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, TypeAlias, TypeVar

import orjson

from stream_masker.errors import ConfigurationError

T = TypeVar("T")
JsonValue: TypeAlias = Any
"""A decoded JSON value."""
Document: TypeAlias = dict[str, Any]
"""A record as dicts and lists."""


@dataclass(frozen=True, slots=True)
class NameStep:
    """The member of an object with the name ``key``."""

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
    """The elements of a list that are objects whose ``field`` (one name, or several nested ones) is ``value``.

    every: whether each of them has a value of its own (``[*?field=value]``); otherwise all further ones are copies of
    the first.
    """

    field: tuple[str, ...]
    value: str
    quoted: bool = False
    every: bool = False

    def matches(self, element: JsonValue) -> bool:
        """Return whether the filter selects ``element``."""
        for key in self.field:
            if type(element) is not dict:
                return False
            element = element.get(key)
        return element == self.value if type(element) is str else not self.quoted and self._written(element)

    def _written(self, element: JsonValue) -> bool:
        return isinstance(element, int | float) and orjson.dumps(element).decode() == self.value


Step: TypeAlias = NameStep | IndexStep | EachStep | FilterStep


@dataclass(frozen=True)
class Path:
    """A parsed path: ``text`` as configured, and its steps. Two paths are equal if their steps are."""

    text: str
    steps: tuple[Step, ...]
    alternative: Path | None = None
    """The path of a key that counts where this one selects nothing or null."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and self.steps == other.steps

    def __hash__(self) -> int:
        return hash(self.steps)

    def __str__(self) -> str:
        return self.text

    @cached_property
    def arrays(self) -> int:
        """The number of ``[*]`` and ``[*?field=value]`` in the path."""
        return sum(1 for _ in self.array_steps)

    @property
    def array_steps(self) -> Iterator[Step]:
        """The steps ``[*]`` and ``[*?field=value]``."""
        return (step for step in self.steps if isinstance(step, EachStep) or _is_every(step))

    @property
    def parent(self) -> Path:
        """The path without its last step."""
        return Path(self.text, self.steps[:-1])

    def filter_fields(self) -> Iterator[Path]:
        """Yield the paths of the fields that the path's filters compare."""
        for end, step in enumerate(self.steps, start=1):
            if isinstance(step, FilterStep):
                yield Path(self.text, (*self.steps[:end], *map(NameStep, step.field)))

    def may_meet(self, other: Path) -> bool:
        """Return whether there may be a record in which one path selects the other's value, or a part of it."""
        return all(_may_be_same(a, b) for a, b in zip(self.steps, other.steps, strict=False))


def compile_path(text: str) -> Path:
    """Parse a path. Raises ConfigurationError with the error and the character, counted from 1."""
    return Path(text, tuple(_Reader(text).steps()))


def alternatives(text: str) -> list[str]:
    """Return the paths in the text of a key: ``after.id | before.id`` has two. A name with ``|`` is quoted."""
    return [part.strip() for part in re.split(r"\|(?![^\[\]]*\])", text)]


NOTHING: Final = object()
"""What a path without a value reads."""

Read: TypeAlias = Callable[[JsonValue], JsonValue]


def reader(path: Path) -> Read:
    """Return a function from a document to the first value that a path selects.

    It returns ``NOTHING`` if the path selects none, and None where a value has another shape than the path requires.
    """
    read: Read = lambda value: value  # noqa: E731 - the end of the path
    for step in reversed(path.steps):
        read = _member_reader(step.key, read) if isinstance(step, NameStep) else _element_reader(step, read)
    return read if path.alternative is None else _either(read, reader(path.alternative))


def _either(first: Read, second: Read) -> Read:
    def read(document: JsonValue) -> JsonValue:
        value = first(document)
        return second(document) if value is NOTHING or value is None else value

    return read


def _member_reader(name: str, rest: Read) -> Read:
    def read(value: JsonValue) -> JsonValue:
        if type(value) is dict:
            return rest(value[name]) if name in value else NOTHING
        return NOTHING if value is None else None

    return read


def _element_reader(step: Step, rest: Read) -> Read:
    def read(value: JsonValue) -> JsonValue:
        if type(value) is not list:
            return NOTHING if value is None else None
        found = (rest(element) for k, element in enumerate(value) if selects(step, k, element))
        return next((one for one in found if one is not NOTHING), NOTHING)

    return read


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
        return step.matches(element)
    return isinstance(step, EachStep) or step == IndexStep(position)


def quoted_step(name: str) -> str:
    """Return the step of a name in a path: the name itself, or quoted if it would not be read as one name."""
    if _NAME.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def _is_every(step: Step) -> bool:
    return isinstance(step, FilterStep) and step.every


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
    """A parser that reads from left to right. at: the index of the next character."""

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
        raise self._error("'.' or '[' is expected")

    def _name(self) -> NameStep:
        return NameStep(self._match(_NAME, "a name is expected (quote names with dots or brackets: ['a.b'])"))

    def _bracket(self) -> Step:
        every = self._take("*")
        if self._take("?"):
            return self._closed(self._where(every))
        if every:
            return self._closed(EachStep())
        if self._peek() in ("'", '"'):
            return NameStep(self._closed(self._quoted("a quoted name is expected")))
        position = self._match(_NUMBER, "a number, *, ?field=value or a quoted name is expected")
        return self._closed(IndexStep(int(position)))

    def _where(self, every: bool) -> FilterStep:
        field = tuple(self._match(_FIELD, "a filter needs a field: [?field=value]").split("."))
        if not self._take("="):
            raise self._error("a filter needs '=' after its field: [?field=value]")
        if self._peek() in ("'", '"'):
            return FilterStep(field, self._quoted("the quoted value is not closed"), quoted=True, every=every)
        return FilterStep(field, self._match(_BARE, "a filter needs a value: [?field=value]"), every=every)

    def _quoted(self, complaint: str) -> str:
        match = _QUOTED.match(self.text, self.at)
        if match is None:
            raise self._error(complaint)
        self.at = match.end()
        return re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2], flags=re.DOTALL)

    def _closed(self, step: T) -> T:
        if not self._take("]"):
            raise self._error("']' is expected")
        return step

    def _match(self, pattern: re.Pattern[str], complaint: str) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self._error(complaint)
        self.at = match.end()
        return match[0]

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, expected: str) -> bool:
        taken = self._peek() == expected
        self.at += taken
        return taken

    def _error(self, complaint: str) -> ConfigurationError:
        return ConfigurationError(f"path {self.text!r}, character {self.at + 1}: {complaint}")


ItemT = TypeVar("ItemT")


@dataclass(eq=False, slots=True)
class PathTrie(Generic[ItemT]):
    """A node and everything below it.

    items: of the paths that end at this node. The children, by the next step of the path: ``members`` by name,
    ``indices`` by position in a list, ``each`` for ``[*]``, ``filters`` by filter.
    """

    items: list[ItemT] = field(default_factory=list)
    members: dict[str, PathTrie[ItemT]] = field(default_factory=dict)
    indices: dict[int, PathTrie[ItemT]] = field(default_factory=dict)
    each: PathTrie[ItemT] | None = None
    filters: dict[FilterStep, PathTrie[ItemT]] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[tuple[Path, ItemT]]) -> PathTrie[ItemT]:
        """Return the trie of paths, each with an item; a path may occur several times."""
        root = cls()
        for path, item in entries:
            root.at(path).items.append(item)
        return root

    def at(self, path: Path) -> PathTrie[ItemT]:
        """Return the node at the end of a path; it is created if there is none."""
        node = self
        for step in path.steps:
            node = node.child(step)
        return node

    def children(self) -> Iterator[PathTrie[ItemT]]:
        yield from self.members.values()
        yield from self.indices.values()
        yield from () if self.each is None else (self.each,)
        yield from self.filters.values()

    def child(self, step: Step) -> PathTrie[ItemT]:
        """Return the node below a step; it is created if there is none."""
        match step:
            case NameStep(key):
                return self.members.setdefault(key, PathTrie())
            case IndexStep(position):
                return self.indices.setdefault(position, PathTrie())
            case EachStep():
                self.each = self.each or PathTrie()
                return self.each
            case FilterStep():
                return self.filters.setdefault(step, PathTrie())

    def element(self, position: int, matches: Callable[[FilterStep], bool]) -> Iterator[PathTrie[ItemT]]:
        """Yield the nodes for the element of a list at ``position``; ``matches``: whether a filter selects the
        element."""
        nodes = (self.each, self.indices.get(position), *(node for step, node in self.filters.items() if matches(step)))
        yield from (node for node in nodes if node is not None)
