"""A literal twin of the codec: what becomes of one document, decided for each value in it by all paths of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import orjson

from stream_masker.pipeline.paths import FilterStep, IndexStep, NameStep, Path, Step, first_values, selects
from stream_masker.pipeline.plan import Action, policy
from stream_masker.pipeline.transforms import DROPPED, Pseudonyms, key_text
from tests.pipeline.conftest import SECRET

At: TypeAlias = tuple[Any, ...]
"""The keys and positions on the way to a value."""
Rest: TypeAlias = tuple[tuple[Step, ...], Path, Action]
"""The steps of a path that go on from a value."""


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
        self.causes: set[tuple[str, str | None]] = set()
        self.written: dict[At, Any] = {}
        self.masked: Any = None
        key = self.plan.noise_key
        if key is not None and not key_text(*first_values([document], key)):
            self.causes.add(("missing_noise_key", key.text))
        for number, attribute in enumerate(self.plan.attributes):
            try:
                self.mask_codes(number, attribute)
            except Misshapen:
                self.causes.add(("wrong_shape", None))
        if not self.causes:
            rests = [(path.steps, path, action) for path, action, _ in policy(self.plan)]
            unlisted = Action.KEEP if self.plan.fields.unlisted == "keep" else Action.DROP
            self.masked = self.treated(document, (), rests, unlisted)

    def mask_codes(self, number: int, attribute: Any) -> None:
        """Note the masks of an attribute. An element is known by its place and its positions in the ``[*]``."""
        written, lists = [], 0
        elements: dict[At, list[Any]] = {}
        for k, place in enumerate(attribute.places):
            of = k if attribute.is_array else 0
            entered = place.path.elements.steps
            elements = {(of, *positions(entered, at)): [] for at in self.places(entered)} | elements
            lists += sum(value_at(self.document, at) is not None for at in self.places(entered[:-1]))
            for path in place.written:
                found = [((of, *positions(path.steps, at)), at) for at in self.places(path.steps)]
                written += [(element, at, path == place.label) for element, at in found]
                for element, at in found if path == place.path else ():
                    elements[element].append(value_at(self.document, at))
        if attribute.is_array and not lists:
            self.reject_missing(attribute, attribute.path)
        masks = {
            element: self.mask_of(number, attribute, attribute.places[element[0]].path, found)
            for element, found in elements.items()
        }
        for element, at, is_label in written:
            mask = masks.get(element, (None, None))[is_label]
            self.written[at] = None if value_at(self.document, at) is None else mask

    def mask_of(self, number: int, attribute: Any, path: Path, values: list[Any]) -> tuple[Any, Any]:
        """The masked code and label of an element with these codes, of which the first one counts."""
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

    def places(self, steps: tuple[Step, ...], at: At = ()) -> Iterator[At]:
        """The places that steps select, from a place on. Raises Misshapen."""
        value = value_at(self.document, at)
        if not steps or value is None:
            yield from () if steps else (at,)
            return
        if not isinstance(value, dict if isinstance(steps[0], NameStep) else list):
            raise Misshapen
        if isinstance(steps[0], FilterStep) and not all(element is None or type(element) is dict for element in value):
            raise Misshapen
        for key in keys_of(value):
            if leads_to(steps[0], key, value[key]):
                yield from self.places(steps[1:], (*at, key))

    def treated(self, value: Any, at: At, rests: Sequence[Rest], inherited: Action) -> Any:
        """What becomes of a value from which these paths go on; DROPPED if nothing."""
        ended = [(path, action) for steps, path, action in rests if not steps]
        further = [steps[0] for steps, _, _ in rests if steps]
        action = max((action for _, action in ended), default=inherited)
        if action is Action.MASKED:
            return self.written[at]
        if not further:
            return self.leaf(value, action, [path for path, one in ended if one is Action.TRANSFORM])
        action = Action.DROP if action is Action.TRANSFORM else action
        names = [isinstance(step, NameStep) for step in further]
        if value is None:
            return None
        if not (isinstance(value, dict) and any(names)) and not (isinstance(value, list) and not all(names)):
            strictest = max([action, *(one for _, _, one in rests if one is not Action.MASKED)])
            return self.leaf(value, Action.DROP if strictest is Action.TRANSFORM else strictest, [])
        parts = {}
        for key in keys_of(value):
            below = [(steps[1:], *rest) for steps, *rest in rests if steps and leads_to(steps[0], key, value[key])]
            parts[key] = self.treated(value[key], (*at, key), below, action)
        if isinstance(value, dict):
            return {name: part for name, part in parts.items() if part is not DROPPED}
        return without_dropped(list(parts.values()), counted=any(isinstance(step, IndexStep) for step in further))

    def leaf(self, value: Any, action: Action, transformed: list[Path]) -> Any:
        if action is Action.TRANSFORM and len(transformed) == 1:
            (rule,) = (paths[transformed[0]] for paths in self.plan.fields.lists.values() if transformed[0] in paths)
            return rule.of_value(value, self.pseudonyms)
        return value if action is Action.KEEP else DROPPED


def without_dropped(elements: list[Any], *, counted: bool) -> list[Any]:
    while counted and elements and elements[-1] is DROPPED:
        elements.pop()
    return [None if element is DROPPED else element for element in elements if counted or element is not DROPPED]


def positions(steps: tuple[Step, ...], at: At) -> At:
    return tuple(key for step, key in zip(steps, at, strict=True) if has_own_codes(step))


def has_own_codes(step: Step) -> bool:
    """Whether each element that a step selects has a code of its own: ``[*]`` and ``[*?field=value]``."""
    return getattr(step, "every", not isinstance(step, NameStep | IndexStep))


def keys_of(value: Any) -> Any:
    return value if isinstance(value, dict) else range(len(value))


def leads_to(step: Step, key: Any, value: Any) -> bool:
    """Whether a step selects the value at a key of an object, or at a position of a list."""
    if isinstance(step, NameStep) or isinstance(key, str):
        return isinstance(step, NameStep) and step.key == key
    return selects(step, key, value)


def value_at(document: Any, at: At) -> Any:
    for key in at:
        document = document[key]
    return document
