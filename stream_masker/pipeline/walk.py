"""Finding in a decoded record what a path selects: paths compiled to functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import getitem
from typing import Any, TypeAlias

from stream_masker.pipeline.paths import Each, Index, Json, Name, Path, Step, Where
from stream_masker.pipeline.reasons import Reason, Unfit

Slot: TypeAlias = tuple[Any, Any]
"""Where a value stands: its container (an object or a list) and its key or position there."""

Select: TypeAlias = Callable[[Json], Iterable[Slot]]


def slots(path: Path, steps: Sequence[Step] | None = None) -> Callable[[Json], list[Slot]]:
    """A function from a value to all slots that the path (or these of its steps) selects in it, in order.

    What is not there, or below a null, is not found. Anything else of another shape than the path needs raises
    Unfit (wrong_shape, blaming the path).
    """
    selects = [_selector(step, path) for step in (path.steps if steps is None else steps)]
    if not selects:
        raise ValueError("a path has at least one step")

    def find(value: Json) -> list[Slot]:
        found = list(selects[0](value))
        for select in selects[1:]:
            found = [slot for container, key in found for slot in select(container[key])]
        return found

    return find


def names(steps: Sequence[Step]) -> tuple[str, ...] | None:
    """The names that the steps are; None when there are others among them."""
    keys = tuple(step.key for step in steps if isinstance(step, Name))
    return keys if len(keys) == len(steps) else None


def descend(keys: Sequence[str]) -> Callable[[Json], Json]:
    """A fast function for a path of names: ``value[k1][k2]…``; KeyError or TypeError where it does not lead on."""
    match tuple(keys):
        case ():
            return lambda value: value
        case (first,):
            return lambda value: value[first]
        case (first, second):
            return lambda value: value[first][second]
        case every:
            return lambda value: reduce(getitem, every, value)


def _selector(step: Step, path: Path) -> Select:
    match step:
        case Name(key):
            return _named(key, path.text)
        case Index(position):
            return _at(position, path.text)
        case Each():
            return _each(path.text)
        case Where():
            return _where(step, path.text)


def _named(key: str, blamed: str) -> Select:
    def select(value: Json) -> Iterable[Slot]:
        if type(value) is dict:
            return ((value, key),) if key in value else ()
        return _nothing(value, blamed)

    return select


def _at(position: int, blamed: str) -> Select:
    def select(value: Json) -> Iterable[Slot]:
        if type(value) is list:
            return ((value, position),) if position < len(value) else ()
        return _nothing(value, blamed)

    return select


def _each(blamed: str) -> Select:
    def select(value: Json) -> Iterable[Slot]:
        if type(value) is list:
            return [(value, position) for position in range(len(value))]
        return _nothing(value, blamed)

    return select


def _where(step: Where, blamed: str) -> Select:
    def select(value: Json) -> Iterable[Slot]:
        if type(value) is not list:
            return _nothing(value, blamed)
        if not all(type(element) is dict or element is None for element in value):
            raise Unfit(Reason.WRONG_SHAPE, blamed)
        return [(value, position) for position, element in enumerate(value) if step.matches(element)]

    return select


def _nothing(value: Json, blamed: str) -> tuple[()]:
    if value is None:
        return ()
    raise Unfit(Reason.WRONG_SHAPE, blamed)
