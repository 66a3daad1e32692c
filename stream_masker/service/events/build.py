"""Nested events from columns: each value is written at the path of its column."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import EachStep, FilterStep, JsonValue, NameStep, Path


def check_writable(paths: Collection[Path]) -> None:
    """Raise ConfigurationError for a path with a filter, and for two paths that cannot both be written."""
    for path in paths:
        if any(isinstance(step, FilterStep) for step in path.steps):
            raise ConfigurationError(f"{path.text!r} has a filter, which cannot be written: use names and indices")
        clashing = [other.text for other in paths if other is not path and _clash(path, other)]
        if clashing:
            raise ConfigurationError(f"{path.text!r} and {clashing[0]!r} cannot both be written: use another path")


def _clash(path: Path, other: Path) -> bool:
    """Return whether two paths write the same field, or one is in the other, or a list is an object, too."""
    for one, two in zip(path.steps, other.steps, strict=False):
        if type(one) is not type(two):
            return True
        if one != two:
            return False
    return True


def event_builder(paths: Mapping[str, Path]) -> Callable[[Sequence[Any]], JsonValue]:
    """Return a function from values, in the order of the paths, to an event.

    The value of a path with ``[*]`` is a list, with a value for each element.
    """
    places = [tuple(map(_key, path.steps)) for path in paths.values()]

    def build(values: Sequence[Any]) -> JsonValue:
        event: dict[Any, Any] = {}
        for keys, value in zip(places, values, strict=True):
            _put(event, keys, value)
        return _with_lists(event)

    return build


def _key(step: Any) -> str | int | None:
    """Return a name or a position; None for each element of a list."""
    return None if isinstance(step, EachStep) else step.key if isinstance(step, NameStep) else step.position


class _Elements(dict[Any, Any]):
    """The elements of a list by position."""


def _put(node: dict[Any, Any], keys: tuple[str | int | None, ...], value: Any) -> None:
    """Write a value at the keys below a node."""
    key, rest = keys[0], keys[1:]
    if key is None:
        for position, element in enumerate(value):
            _put(node, (position, *rest), element)
    elif rest:
        _put(node.setdefault(key, {} if isinstance(rest[0], str) else _Elements()), rest, value)
    else:
        node[key] = value


def _with_lists(node: dict[Any, Any]) -> JsonValue:
    """Return an object with lists for elements by position."""
    built = {key: _with_lists(member) if isinstance(member, dict) else member for key, member in node.items()}
    return [built[key] for key in sorted(built)] if isinstance(node, _Elements) else built
