"""Path matching in decoded records: paths compiled to functions that find the values they select."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, JsonValue, NameStep, Path, Step
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

Slot: TypeAlias = tuple[Any, Any]
"""The place of a value in a record: its container (an object or a list), and its key or position there."""

Select: TypeAlias = Callable[[JsonValue], Sequence[Slot]]
"""A function from a value to the slots in it that a step, or several steps, select."""


def matching_slots(path: Path, steps: Sequence[Step] | None = None) -> Select:
    """A function from a value to the slots that the path selects in it, in order.

    ``steps``: use these steps of the path instead of all. A value that is absent, or below a null, is not selected.
    The function raises RecordRejectedError (wrong_shape, with the path) where a value has another shape than the path
    requires.
    """
    first, *rest = _selectors(path.steps if steps is None else steps, path.text)
    if not rest:
        return first

    def find(value: JsonValue) -> Sequence[Slot]:
        found = first(value)
        for select in rest:
            found = [slot for container, key in found for slot in select(container[key])]
        return found

    return find


def _selectors(steps: Sequence[Step], text: str) -> Iterator[Select]:
    """One function for each step; consecutive names share one."""
    for is_name, group in groupby(steps, lambda step: isinstance(step, NameStep)):
        if is_name:
            yield _select_member([step.key for step in group if isinstance(step, NameStep)], text)
        else:
            yield from (_selector(step, text) for step in group)


def _selector(step: Step, text: str) -> Select:
    match step:
        case NameStep(key):
            return _select_member([key], text)
        case IndexStep(position):
            return _select_position(position, text)
        case EachStep():
            return _select_all(text)
        case FilterStep():
            return _select_matching(step, text)


def _select_member(keys: Sequence[str], text: str) -> Select:
    """Selects a member of an object, of its member, and so on."""
    *outer, last = keys

    def select(value: JsonValue) -> Sequence[Slot]:
        for key in outer:
            if type(value) is not dict:
                return _require_null(value, text)
            value = value.get(key)
        if type(value) is not dict:
            return _require_null(value, text)
        return ((value, last),) if last in value else ()

    return select


def _select_position(position: int, text: str) -> Select:
    def select(value: JsonValue) -> Sequence[Slot]:
        if type(value) is list:
            return ((value, position),) if position < len(value) else ()
        return _require_null(value, text)

    return select


def _select_all(text: str) -> Select:
    def select(value: JsonValue) -> Sequence[Slot]:
        if type(value) is list:
            return [(value, position) for position in range(len(value))]
        return _require_null(value, text)

    return select


def _select_matching(step: FilterStep, text: str) -> Select:
    def select(value: JsonValue) -> Sequence[Slot]:
        if type(value) is not list:
            return _require_null(value, text)
        if not all(type(element) is dict or element is None for element in value):
            raise RecordRejectedError(Reason.WRONG_SHAPE, text)
        return [(value, position) for position, element in enumerate(value) if step.matches(element)]

    return select


def _require_null(value: JsonValue, text: str) -> tuple[()]:
    if value is None:
        return ()
    raise RecordRejectedError(Reason.WRONG_SHAPE, text)
