"""What a plan does to the values of an event, by their places: masked, kept, pseudonymized, transformed or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, JsonValue, NameStep, Path, Step
from stream_masker.pipeline.plan import Plan

_TRANSFORM_WORDS: Final = {
    "pseudonyms": "pseudonymized with a prefix",
    "references": "pseudonymized as a reference",
    "generalize": "generalized",
    "shift": "shifted by days",
    "constant": "replaced by a constant",
}


class Action(IntEnum):
    """The kinds of treatments; of several paths of equal length that select a value, the greatest applies."""

    KEEP = 0
    PSEUDONYMIZE = 1
    TRANSFORM = 2
    DROP = 3
    MASK = 4


@dataclass(frozen=True, slots=True)
class Treatment:
    """What happens to the values that a path selects. ``text``: of the path, empty for values that none selects."""

    action: Action
    words: str
    text: str = ""


_Rule: TypeAlias = tuple[tuple[Step, ...], Treatment]
"""The steps of a path that are left below a place, and the treatment."""


class Treatments:
    """The treatments of a plan, by the places of an event."""

    def __init__(self, plan: Plan) -> None:
        self._rules: list[_Rule] = [(path.steps, treatment) for path, treatment in _configured(plan)]
        kept = plan.fields.unlisted == "keep"
        self._unlisted = Treatment(Action.KEEP if kept else Action.DROP, f"{'kept' if kept else 'dropped'}: not listed")

    @property
    def texts(self) -> list[str]:
        """The texts of the configured paths."""
        return list(dict.fromkeys(treatment.text for _, treatment in self._rules))

    def places(self, value: JsonValue) -> Iterator[tuple[str, JsonValue, Treatment]]:
        """Yield each object, list and scalar of an event with its place, such as ``a.b[*]``, and its treatment."""
        return _places(value, self._rules, "", self._unlisted)


def _places(
    value: JsonValue, rules: Sequence[_Rule], place: str, inherited: Treatment
) -> Iterator[tuple[str, JsonValue, Treatment]]:
    here = [treatment for steps, treatment in rules if not steps]
    treatment = max(here, key=lambda one: one.action, default=inherited)
    yield place, value, treatment
    if isinstance(value, dict):
        for name, member in value.items():
            below = [(s[1:], t) for s, t in rules if s and isinstance(s[0], NameStep) and s[0].key == name]
            yield from _places(member, below, f"{place}.{name}" if place else name, treatment)
    elif isinstance(value, list):
        for position, element in enumerate(value):
            below = [(s[1:], t) for s, t in rules if s and selects(s[0], position, element)]
            yield from _places(element, below, f"{place}[*]", treatment)


def selects(step: Step, position: int, element: JsonValue) -> bool:
    """Return whether a step of a path selects the element of a list at a position."""
    match step:
        case EachStep():
            return True
        case IndexStep(index):
            return index == position
        case FilterStep():
            return step.matches(element)
    return False


def _configured(plan: Plan) -> Iterator[tuple[Path, Treatment]]:
    """Yield the configured paths with their treatments."""
    for attribute in plan.attributes:
        for place in attribute.places:
            yield _masked(place.path, f"the code of {attribute.name}")
            if place.label is not None:
                yield _masked(place.label, f"the label of {attribute.name}")
            yield from (_masked(copy, f"a copy of the code of {attribute.name}") for copy in place.copies)
    yield from (_masked(number.path, f"the number {number.name}") for number in plan.numeric)
    yield from ((path, Treatment(Action.KEEP, "kept", path.text)) for path in plan.fields.keep)
    yield from ((path, Treatment(Action.DROP, "dropped", path.text)) for path in plan.fields.drop)
    words = "pseudonymized"
    yield from ((path, Treatment(Action.PSEUDONYMIZE, words, path.text)) for path in plan.fields.pseudonymize)
    for kind, paths in plan.fields.transforms.items():
        words = _TRANSFORM_WORDS.get(kind, "transformed")
        yield from ((path, Treatment(Action.TRANSFORM, words, path.text)) for path in paths)


def _masked(path: Path, what: str) -> tuple[Path, Treatment]:
    return path, Treatment(Action.MASK, f"masked: {what}", path.text)
