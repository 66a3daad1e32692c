"""A literal twin of the codec: what becomes of one document, decided for each place in it by all paths of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson

from stream_masker.pipeline.paths import (
    EachStep,
    FilterStep,
    IndexStep,
    NameStep,
    Path,
    Step,
    first_values,
    selects,
)
from stream_masker.pipeline.plan import Action, policy
from stream_masker.pipeline.transforms import DROPPED, Pseudonyms, key_text
from tests.pipeline.conftest import SECRET

Place: TypeAlias = tuple[Any, ...]
"""The keys and positions on the way to a value."""


class Misshapen(Exception):
    """A value has another shape than a path requires."""


AT_THE_DOOR = {"not_json", "not_utf8", "not_an_object", "too_large", "too_deep", "number_too_large"}


def check_record(on_bench: Any, value: bytes) -> Any:
    """Mask a record, and assert that its outcome is that of the twin; return the outcome."""
    (outcome,) = on_bench.mask(value)
    if getattr(outcome, "reason", None) in AT_THE_DOOR:
        return outcome
    twin = Twin(on_bench, orjson.loads(value))
    if twin.causes:
        assert {(outcome.reason, outcome.field), (outcome.reason, None)} & twin.causes
    else:
        assert orjson.loads(outcome.value) == twin.masked
    return outcome


class Twin:
    """The outcome of a document, literally. ``causes``: all reasons and paths for which it may be rejected."""

    def __init__(self, on_bench: Any, document: dict[str, Any]) -> None:
        self.plan, self.mechanism, self.document = on_bench.plan, on_bench.mechanism, document
        self.pseudonyms = Pseudonyms(SECRET)
        self.actions = policy(self.plan)
        self.causes: set[tuple[str, str | None]] = set()
        self.written: dict[Place, Any] = {}
        self.masked: Any = None
        if self.plan.noise_key is not None and not key_text(*first_values([document], self.plan.noise_key)):
            self.causes.add(("missing_noise_key", self.plan.noise_key.text))
        for number, attribute in enumerate(self.plan.attributes):
            self.mask_codes(number, attribute)
        if not self.causes:
            self.masked = self.treated(
                document, (), Action.KEEP if self.plan.fields.unlisted == "keep" else Action.DROP
            )

    def mask_codes(self, number: int, attribute: Any) -> None:
        try:
            codes = [dict(self.elements(place.path.steps)) for place in attribute.places]
            written = [
                [(path, dict(self.elements(path.steps))) for path in place.written] for place in attribute.places
            ]
        except Misshapen:
            self.causes.add(("wrong_shape", None))
            return
        if not attribute.is_array:  # the places have one code together
            codes = [{(): [place for found in codes for place in found.get((), [])]}] * len(codes)
        elif not any(True for place in attribute.places for _ in self.lists(place.path.steps)):
            self.reject_missing(attribute, attribute.path)
        for place, found, paths in zip(attribute.places, codes, written, strict=True):
            of = place.path if attribute.is_array else attribute.path
            masks = {element: self.mask_of(number, attribute, of, at) for element, at in found.items()}
            for path, elements in paths:
                for element, places in elements.items():
                    code, label = masks.get(element, (None, None))
                    for at in places:
                        text = label if path == place.label else code
                        self.written[at] = None if value_at(self.document, at) is None else text

    def mask_of(self, number: int, attribute: Any, path: Path, found: list[Place]) -> tuple[Any, Any]:
        """The masked code and label of the first code in an element."""
        values = [value_at(self.document, place) for place in found]
        if attribute.missing == "keep" or (len(attribute.places) > 1 and not attribute.is_array):
            values = [value for value in values if value is not None]
        if not values:
            self.reject_missing(attribute, path)
            return None, None
        text, concepts = values[0], attribute.concepts
        if type(text) is not str or (not text.strip() and attribute.missing == "reject"):
            self.causes.add(("empty" if type(text) is str else "not_a_code", path.text))
            return None, None
        position = concepts.find(text).position if text.strip() else -2
        if position < 0:
            if text.strip() and concepts.unknown != "suppress":
                self.causes.add(("unknown_code", path.text))
            return None, None
        mask = int(self.mechanism._tables[number][position])
        return concepts.taxonomy.ids[mask], concepts.taxonomy.labels[mask] or None

    def reject_missing(self, attribute: Any, path: Path) -> None:
        if attribute.missing == "reject":
            self.causes.add(("missing", path.text))

    def elements(self, steps: tuple[Step, ...], place: Place = ()) -> Iterator[tuple[Place, list[Place]]]:
        """The elements of the ``[*]`` of a path by their ranks, with the places that it selects in each."""
        ends = [k for k, step in enumerate(steps, 1) if isinstance(step, EachStep)]
        if not ends:
            yield (), list(self.places(steps, place))
            return
        for rank, element in enumerate(self.places(steps[: ends[0]], place)):
            for ranks, found in self.elements(steps[ends[0] :], element):
                yield (rank, *ranks), found

    def lists(self, steps: tuple[Step, ...]) -> Iterator[Place]:
        """The lists in which the last ``[*]`` of a path selects."""
        end = max(k for k, step in enumerate(steps) if isinstance(step, EachStep))
        yield from (place for place in self.places(steps[:end]) if value_at(self.document, place) is not None)

    def places(self, steps: tuple[Step, ...], place: Place = ()) -> Iterator[Place]:
        """The places that steps select, from a place on. Raises Misshapen."""
        if not steps:
            yield place
            return
        value, step = value_at(self.document, place), steps[0]
        if value is None:
            return
        if not isinstance(value, dict if isinstance(step, NameStep) else list):
            raise Misshapen
        if isinstance(step, FilterStep) and not all(element is None or isinstance(element, dict) for element in value):
            raise Misshapen
        for key in value if isinstance(value, dict) else range(len(value)):
            if step_selects(step, key, value[key]):
                yield from self.places(steps[1:], (*place, key))

    def treated(self, value: Any, place: Place, inherited: Action) -> Any:
        """What becomes of a value; DROPPED if nothing."""
        here = [(path, action) for path, action in self.actions if leads_through(path.steps, self.document, place)]
        ended = [(path, action) for path, action in here if len(path.steps) == len(place)]
        further = [(path, action) for path, action in here if len(path.steps) > len(place)]
        action = max((action for _, action in ended), default=inherited)
        if action is Action.MASKED:
            return self.written[place]
        if not further:
            return self.leaf(value, action, [path for path, one in ended if one is Action.TRANSFORM])
        action = Action.DROP if action is Action.TRANSFORM else action
        steps = [path.steps[len(place)] for path, _ in further]
        names = {step.key for step in steps if isinstance(step, NameStep)}
        if value is None:
            return None
        if isinstance(value, dict) and names:
            return self.treated_object(value, place, action, names)
        if isinstance(value, list) and any(not isinstance(step, NameStep) for step in steps):
            elements = [self.treated(element, (*place, k), action) for k, element in enumerate(value)]
            return without_dropped(elements, counted=any(isinstance(step, IndexStep) for step in steps))
        strictest = max([action, *(Action.KEEP if one is Action.MASKED else one for _, one in here)])
        return self.leaf(value, Action.DROP if strictest is Action.TRANSFORM else strictest, [])

    def treated_object(self, value: dict[str, Any], place: Place, action: Action, names: set[str]) -> dict[str, Any]:
        treated = {}
        for name, member in value.items():
            if name in names:
                treated[name] = self.treated(member, (*place, name), action)
            elif action is Action.PSEUDONYMIZE:
                treated[self.pseudonyms.of_value(name)] = self.pseudonyms.of_value(member)
            elif action is Action.KEEP:
                treated[name] = member
        return {name: member for name, member in treated.items() if member is not DROPPED}

    def leaf(self, value: Any, action: Action, transformed: list[Path]) -> Any:
        if action is Action.TRANSFORM and len(transformed) == 1:
            return self.plan.fields.transformed[transformed[0]].of_value(value, self.pseudonyms)
        if action is Action.PSEUDONYMIZE:
            return self.pseudonyms.of_value(value)
        return value if action is Action.KEEP else DROPPED


def without_dropped(elements: list[Any], *, counted: bool) -> list[Any]:
    while counted and elements and elements[-1] is DROPPED:
        elements.pop()
    return [None if element is DROPPED else element for element in elements if counted or element is not DROPPED]


def leads_through(steps: tuple[Step, ...], document: Any, place: Place) -> bool:
    """Whether the steps select a place, or an object or list around what they select."""
    value = document
    for step, key in zip(steps, place, strict=False):
        if not isinstance(value, dict if isinstance(step, NameStep) else list):
            return False
        if not step_selects(step, key, value[key]):
            return False
        value = value[key]
    return len(steps) >= len(place)


def step_selects(step: Step, key: Any, value: Any) -> bool:
    return step.key == key if isinstance(step, NameStep) else selects(step, key, value)


def value_at(document: Any, place: Place) -> Any:
    for key in place:
        document = document[key]
    return document
