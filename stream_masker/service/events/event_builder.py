"""Construction of events from columns: the inverse of reading values at the paths of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, JsonValue, NameStep, Path, Step

NO_FIELD: Final = object()
"""A cell without a value; its field is left out."""

BuildEvent: TypeAlias = Callable[[Sequence[Any]], Any]


@dataclass(slots=True)
class EventNode:
    """A node of an event: a value from ``column``, or an object or list of ``children``, all of one kind of step."""

    path: str = ""
    column: str | None = None
    children: dict[Step, EventNode] = field(default_factory=dict)

    @property
    def kind(self) -> type[Step] | None:
        return next((type(step) for step in self.children), None)

    def columns(self) -> Iterator[str]:
        """Yield the columns of this node and of those below it."""
        yield from () if self.column is None else (self.column,)
        for child in self.children.values():
            yield from child.columns()


def event_tree(paths: Mapping[str, Path]) -> EventNode:
    """Build the tree of events with each column at its path.

    Raises ConfigurationError for a filter, and for two paths that cannot both be written.
    """
    root = EventNode()
    for column, path in paths.items():
        _insert(root, column, path)
    return root


def _insert(root: EventNode, column: str, path: Path) -> None:
    node = root
    for step in path.steps:
        node = _child(node, step, path)
    if node.column is not None or node.children:
        raise ConfigurationError(f"{path.text!r} and {node.path!r} write the same field: use another path")
    node.column = column


def _child(node: EventNode, step: Step, path: Path) -> EventNode:
    if isinstance(step, FilterStep):
        raise ConfigurationError(f"{path.text!r} has a filter, which cannot be written: use names and indices")
    if node.column is not None or node.kind not in {None, type(step)}:
        raise ConfigurationError(f"{path.text!r} and {node.path!r} cannot both be written: use another path")
    child = node.children.setdefault(step, EventNode())
    child.path = child.path or path.text
    return child


def row_builder(tree: EventNode, columns: Sequence[str], *, lists: bool = False) -> BuildEvent:
    """Return a function from a row of cells, in the order of ``columns``, to an event.

    Fields with ``NO_FIELD`` cells and empty objects are left out; a list keeps its remaining elements. ``lists``:
    whether the cells of paths with ``[*]`` are lists, of a value for each element. Raises ConfigurationError for
    ``[*]`` if they are not.
    """
    build = _builder(tree, {column: i for i, column in enumerate(columns)}, lists)
    return lambda row: {} if (event := build(row)) is NO_FIELD else event


def _builder(node: EventNode, indices: Mapping[str, int], lists: bool) -> BuildEvent:
    if node.column is not None:
        index = indices[node.column]
        return lambda row: row[index]
    if node.kind is EachStep:
        if not lists:
            raise ConfigurationError(f"{node.path!r}: a column fills one element: use [0], [1], ... instead of [*]")
        return _elements_builder(next(iter(node.children.values())), indices)
    parts = [(step, _builder(child, indices, lists)) for step, child in node.children.items()]
    return _list_builder(parts) if node.kind is IndexStep else _object_builder(parts)


def _elements_builder(element: EventNode, indices: Mapping[str, int]) -> BuildEvent:
    columns = list(element.columns())
    places = [indices[column] for column in columns]
    build = _builder(element, {column: i for i, column in enumerate(columns)}, True)
    return lambda row: [build(cells) for cells in zip(*(row[place] for place in places), strict=True)]


def _object_builder(parts: Sequence[tuple[Step, BuildEvent]]) -> BuildEvent:
    fields = [(step.key, build) for step, build in parts if isinstance(step, NameStep)]

    def build_object(row: Sequence[Any]) -> JsonValue:
        return {key: value for key, build in fields if (value := build(row)) is not NO_FIELD} or NO_FIELD

    return build_object


def _list_builder(parts: Sequence[tuple[Step, BuildEvent]]) -> BuildEvent:
    elements = [build for _, build in sorted(parts, key=_position)]
    return lambda row: [value for build in elements if (value := build(row)) is not NO_FIELD]


def _position(part: tuple[Step, Any]) -> int:
    return part[0].position if isinstance(part[0], IndexStep) else 0
