"""Finding in a decoded record what a path selects: paths compiled to functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any, TypeAlias

from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, JsonValue, NameStep, Path, Step
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

Slot: TypeAlias = tuple[Any, Any]
"""Where a value stands: its container (an object or a list) and its key or position there."""

Select: TypeAlias = Callable[[JsonValue], Iterable[Slot]]


def matching_slots(path: Path, steps: Sequence[Step] | None = None) -> Callable[[JsonValue], list[Slot]]:
    """A function from a value to all slots that the path (or these of its steps) selects in it, in order.

    What is not there, or below a null, is not found. Anything else of another shape than the path needs raises
    Unfit (wrong_shape, blaming the path).
    """
    selects = [_selector(step, path) for step in (path.steps if steps is None else steps)]
    if not selects:
        raise ValueError("a path has at least one step")

    def find(value: JsonValue) -> list[Slot]:
        found = list(selects[0](value))
        for select in selects[1:]:
            found = [slot for container, key in found for slot in select(container[key])]
        return found

    return find


def descend(steps: Sequence[Step]) -> Callable[[JsonValue], JsonValue]:
    """A fast function to the one value that steps without ``[*]`` select.

    KeyError or TypeError where they do not lead on, lead on by several ways, or meet another shape than they need.
    """
    match tuple(_quick(step) for step in steps):
        case ():
            return lambda value: value
        case (first,):
            return first
        case (first, second):
            return lambda value: second(first(value))
        case every:
            return lambda value: reduce(_call, every, value)


def _call(value: JsonValue, step: Callable[[JsonValue], JsonValue]) -> JsonValue:
    return step(value)


def _quick(step: Step) -> Callable[[JsonValue], JsonValue]:
    match step:
        case NameStep(key):
            return itemgetter(key)
        case IndexStep(position):
            return lambda value: listed_elements(value)[position] if position < len(value) else _astray()
        case FilterStep():
            return _the_one(step)
        case EachStep():
            raise ValueError("[*] selects several values")


def _the_one(step: FilterStep) -> Callable[[JsonValue], JsonValue]:
    matches, only_objects = step.matches, {dict}.issuperset

    def find(value: JsonValue) -> JsonValue:
        found = [element for element in listed_elements(value) if matches(element)]
        return found[0] if len(found) == 1 and only_objects(map(type, value)) else _astray()

    return find


def listed_elements(value: JsonValue) -> list[JsonValue]:
    """The value, which is a list. TypeError if it is none."""
    if type(value) is not list:
        raise TypeError
    return value


def _astray() -> JsonValue:
    raise KeyError


def _selector(step: Step, path: Path) -> Select:
    match step:
        case NameStep(key):
            return _named(key, path.text)
        case IndexStep(position):
            return _at(position, path.text)
        case EachStep():
            return _each(path.text)
        case FilterStep():
            return _where(step, path.text)


def _named(key: str, blamed: str) -> Select:
    def select(value: JsonValue) -> Iterable[Slot]:
        if type(value) is dict:
            return ((value, key),) if key in value else ()
        return _nothing(value, blamed)

    return select


def _at(position: int, blamed: str) -> Select:
    def select(value: JsonValue) -> Iterable[Slot]:
        if type(value) is list:
            return ((value, position),) if position < len(value) else ()
        return _nothing(value, blamed)

    return select


def _each(blamed: str) -> Select:
    def select(value: JsonValue) -> Iterable[Slot]:
        if type(value) is list:
            return [(value, position) for position in range(len(value))]
        return _nothing(value, blamed)

    return select


def _where(step: FilterStep, blamed: str) -> Select:
    def select(value: JsonValue) -> Iterable[Slot]:
        if type(value) is not list:
            return _nothing(value, blamed)
        if not all(type(element) is dict or element is None for element in value):
            raise RecordRejectedError(Reason.WRONG_SHAPE, blamed)
        return [(value, position) for position, element in enumerate(value) if step.matches(element)]

    return select


def _nothing(value: JsonValue, blamed: str) -> tuple[()]:
    if value is None:
        return ()
    raise RecordRejectedError(Reason.WRONG_SHAPE, blamed)
