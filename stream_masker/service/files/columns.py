"""The columns of tables: the path of each column in an event, and which of them are written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, JsonValue, NameStep, Path, compile_path
from stream_masker.pipeline.plan import Plan
from stream_masker.service.configuration.fields.sections import ProduceSection
from stream_masker.service.files.treatments import Action, Treatments

NO_FIELD: Final = object()
"""A cell without a value; its field is left out."""


def column_paths(header: Sequence[str], settings: ProduceSection, used: Sequence[str] = ()) -> dict[str, Path]:
    """Return the path of each column: as ``produce.columns`` says, otherwise a field with the name of the column.

    used: further columns that the settings name. Raises ConfigurationError for a column that the file does not have,
    and for paths that cannot be written.
    """
    missing = sorted({repr(name) for name in (*settings.columns, *used) if name not in header})
    if missing:
        raise ConfigurationError(f"produce names columns that are not in the file: {', '.join(missing)}")
    if not settings.columns:
        return {column: Path(column, (NameStep(column),)) for column in header}
    paths = {column: compile_path(text) for column, text in settings.columns.items()}
    for path in paths.values():
        keys(path)
    check_writable(paths.values())
    return paths


def check_writable(paths: Collection[Path]) -> None:
    """Raise ConfigurationError for a path with a filter, and for two paths that cannot both be written."""
    for path in paths:
        if any(isinstance(step, FilterStep) for step in path.steps):
            raise ConfigurationError(f"{path.text!r} has a filter, which cannot be written: use names and indices")
        clashing = [other.text for other in paths if other is not path and _clash(path, other)]
        if clashing:
            raise ConfigurationError(f"{path.text!r} and {clashing[0]!r} cannot both be written: use another path")


def keys(path: Path) -> tuple[str | int, ...]:
    """Return the names and positions of a path. Raises ConfigurationError if it selects several values."""
    if not all(isinstance(step, NameStep | IndexStep) for step in path.steps):
        raise ConfigurationError(f"produce: {path.text!r} selects several values: use only names and indices")
    return tuple(step.key if isinstance(step, NameStep) else step.position for step in path.steps)  # type: ignore[union-attr]


def _clash(path: Path, other: Path) -> bool:
    """Return whether two paths write the same field, or one is in the other, or a list is an object, too."""
    for one, two in zip(path.steps, other.steps, strict=False):
        if type(one) is not type(two):
            return True
        if one != two:
            return False
    return True


def row_builder(paths: Mapping[str, Path], header: Sequence[str]) -> Callable[[Sequence[Any]], JsonValue]:
    """Return a function from a row of cells, in the order of ``header``, to an event.

    The cell of a path with ``[*]`` is a list, with a value for each element. Fields with ``NO_FIELD`` cells and empty
    objects are left out; a list keeps its remaining elements.
    """
    places = [(header.index(column), tuple(map(_key, path.steps))) for column, path in paths.items()]
    is_flat = all(len(keys) == 1 for _, keys in places)

    def build(cells: Sequence[Any]) -> JsonValue:
        event: dict[str, Any] = {}
        for index, keys in places:
            _put(event, keys, cells[index])
        return event if is_flat else _with_lists(event)

    return build


def _key(step: Any) -> str | int | None:
    """Return a name or a position; None for each element of a list."""
    return None if isinstance(step, EachStep) else step.key if isinstance(step, NameStep) else step.position


def _put(node: dict[Any, Any], keys: tuple[str | int | None, ...], value: Any) -> None:
    """Write a value at the keys below a node; nothing if it is ``NO_FIELD``."""
    key, rest = keys[0], keys[1:]
    if key is None:
        for position, element in enumerate(value):
            _put(node, (position, *rest), element)
    elif rest:
        _put(node.setdefault(key, {} if isinstance(rest[0], str) else _Elements()), rest, value)
    elif value is not NO_FIELD:
        node[key] = value


class _Elements(dict[Any, Any]):
    """The elements of a list by position, of which some may be missing."""


def _with_lists(node: dict[Any, Any]) -> JsonValue:
    """Return an object without empty objects, and with lists for elements by position."""
    built = {key: _with_lists(member) if isinstance(member, dict) else member for key, member in node.items()}
    left = {key: member for key, member in built.items() if member != {}}
    return [left[key] for key in sorted(left)] if isinstance(node, _Elements) else left


def value_at(event: JsonValue, path: Path) -> JsonValue:
    """Return the value at a path of names and indices; None if there is none."""
    for key in keys(path):
        try:
            event = event[key]
        except (LookupError, TypeError):
            return None
    return event


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column of the output: its path in an event, and whether its values become texts."""

    path: Path
    is_text: bool


def written_columns(columns: Mapping[str, Path], probes: Sequence[JsonValue], plan: Plan) -> dict[str, WrittenColumn]:
    """Return the columns that the field policy does not drop. ``probes``: for each a value of its shape."""
    treatments = Treatments(plan)
    written = {}
    for (name, path), probe in zip(columns.items(), probes, strict=True):
        event = row_builder({name: path}, [name])([probe])
        scalars = [t.action for _, value, t in treatments.places(event) if not isinstance(value, dict | list)]
        if any(action is not Action.DROP for action in scalars):
            is_text = not {Action.PSEUDONYMIZE, Action.TRANSFORM}.isdisjoint(scalars)
            written[name] = WrittenColumn(path, is_text and not isinstance(probe, dict | list))
    return written
