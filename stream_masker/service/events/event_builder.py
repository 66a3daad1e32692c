"""Events made of columns: the paths of a configuration turned round, to write where they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, JsonValue, NameStep, Path, Step

NO_FIELD: Final = object()
"""A cell without a value: its field is left out."""

Build: TypeAlias = Callable[[Sequence[Any]], Any]


@dataclass(slots=True)
class ShapeNode:
    """A place in an event: filled from ``column``, or an object or list of its ``children``, which share one kind."""

    path: str = ""
    column: str | None = None
    children: dict[Step, ShapeNode] = field(default_factory=dict)

    @property
    def kind(self) -> type[Step] | None:
        return next((type(step) for step in self.children), None)


@dataclass(frozen=True, slots=True)
class ColumnPath:
    """The values of one field of n events: ``values`` (n,), or with ``offsets`` (n + 1,) those of an array's elements.

    The elements of event i are ``values[offsets[i]:offsets[i + 1]]``.
    """

    values: list[Any]
    offsets: list[int] | None = None


def event_shape(paths: Mapping[str, Path]) -> ShapeNode:
    """The shape of events in which each column stands at its path.

    Raises ConfigurationError for a filter, and for two paths that cannot both be written.
    """
    root = ShapeNode()
    for column, path in paths.items():
        _place(root, column, path)
    return root


def _place(root: ShapeNode, column: str, path: Path) -> None:
    node = root
    for step in path.steps:
        node = _child(node, step, path)
    if node.column is not None or node.children:
        raise ConfigurationError(f"{path.text!r} and {node.path!r} write the same field: use another path")
    node.column = column


def _child(node: ShapeNode, step: Step, path: Path) -> ShapeNode:
    if isinstance(step, FilterStep):
        raise ConfigurationError(f"{path.text!r} has a filter, which cannot be written: use names and numbers")
    if node.column is not None or node.kind not in {None, type(step)}:
        raise ConfigurationError(f"{path.text!r} and {node.path!r} cannot both be written: one is no part of the other")
    child = node.children.setdefault(step, ShapeNode())
    child.path = child.path or path.text
    return child


def row_builder(shape: ShapeNode, columns: Sequence[str]) -> Build:
    """A function from a row of cells, in the order of ``columns``, to an event.

    Fields whose cells are ``NO_FIELD`` are left out, and so are objects with nothing in them; a list stays, with the
    elements that there are. Raises ConfigurationError for ``[*]``, which no row can fill.
    """
    place = {column: i for i, column in enumerate(columns)}
    build = _builder(shape, place)
    return lambda row: {} if (event := build(row)) is NO_FIELD else event


def _builder(node: ShapeNode, place: Mapping[str, int]) -> Build:
    if node.column is not None:
        at = place[node.column]
        return lambda row: row[at]
    if node.kind is EachStep:
        raise ConfigurationError(f"{node.path!r}: a column fills one element: use [0], [1], ... in place of [*]")
    parts = [(step, _builder(child, place)) for step, child in node.children.items()]
    return _list_builder(parts) if node.kind is IndexStep else _object_builder(parts)


def _object_builder(parts: Sequence[tuple[Step, Build]]) -> Build:
    fields = [(step.key, build) for step, build in parts if isinstance(step, NameStep)]

    def build_object(row: Sequence[Any]) -> JsonValue:
        return {key: value for key, build in fields if (value := build(row)) is not NO_FIELD} or NO_FIELD

    return build_object


def _list_builder(parts: Sequence[tuple[Step, Build]]) -> Build:
    elements = [build for _, build in sorted(parts, key=_position)]
    return lambda row: [value for build in elements if (value := build(row)) is not NO_FIELD]


def _position(part: tuple[Step, Any]) -> int:
    return part[0].position if isinstance(part[0], IndexStep) else 0


def assemble(shape: ShapeNode, columns: Mapping[str, ColumnPath]) -> list[JsonValue]:
    """n events from their columns at once, level by level: nothing is looked up for a single event."""
    return _assembled(shape, columns).values


def _assembled(node: ShapeNode, columns: Mapping[str, ColumnPath]) -> ColumnPath:
    if node.column is not None:
        return columns[node.column]
    if node.kind is EachStep:
        return _split(_assembled(next(iter(node.children.values())), columns))
    steps = sorted(node.children, key=lambda step: _position((step, None)))
    parts = [_assembled(node.children[step], columns) for step in steps]
    join = _lists if node.kind is IndexStep else _objects
    return ColumnPath(join(steps, [part.values for part in parts]), parts[0].offsets)


def _objects(steps: Sequence[Step], parts: Sequence[list[Any]]) -> list[JsonValue]:
    names = [step.key for step in steps if isinstance(step, NameStep)]
    made: list[JsonValue] = [{names[0]: value} for value in parts[0]]
    for name, values in zip(names[1:], parts[1:], strict=True):
        for event, value in zip(made, values, strict=True):
            event[name] = value
    return made


def _lists(steps: Sequence[Step], parts: Sequence[list[Any]]) -> list[JsonValue]:
    return [list(row) for row in zip(*parts, strict=True)]


def _split(elements: ColumnPath) -> ColumnPath:
    bounds = elements.offsets or []
    return ColumnPath([elements.values[start:end] for start, end in pairwise(bounds)])
