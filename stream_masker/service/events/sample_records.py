"""Made-up records that any configuration can read: the codes that a plan asks for, where it looks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from stream_masker.core.numeric import Numeric
from stream_masker.pipeline.paths import EachStep, IndexStep, JsonValue, NameStep, Path, Step
from stream_masker.pipeline.plan import AttributePlan, Plan

ELEMENTS: Final = 2
"""How many elements an array has that a path goes through with ``[*]``."""

STRIDE: Final = 7919
"""A prime: how far apart, in the taxonomy, the codes of one record and the next one are."""

NUMBER_SPAN: Final = 100.0
STEPS: Final = 8


def sample_records(plan: Plan, size: int) -> list[bytes]:
    """So many records as JSON, with different codes as far as the taxonomies go."""
    return [orjson.dumps(_event(plan, k)) for k in range(size)]


def _event(plan: Plan, k: int) -> JsonValue:
    event: JsonValue = None
    for path, values in _contents(plan, k):
        event = _planted(event, path.steps, values)
    return event


def _contents(plan: Plan, k: int) -> Iterator[tuple[Path, Sequence[JsonValue]]]:
    """Every path that the plan names, with the values to be found there: one, or one for each element of an array."""
    for place, attribute in enumerate(plan.attributes, 1):
        codes = [_code(attribute, place * k + j) for j in range(ELEMENTS)]
        yield attribute.path, codes
        yield from ((copy, codes) for copy in attribute.copies)
        if attribute.label is not None:
            yield attribute.label, ["a label"] * ELEMENTS
    for numeric in plan.numeric:
        yield numeric.path, [_number(numeric.kind, k)]
    if plan.alpha is not None and plan.alpha.path is not None:
        yield plan.alpha.path, [1.0]
    fields = (*plan.fields.pseudonymize, *plan.fields.keep, *plan.fields.drop)
    named = fields if plan.noise_key is None else (plan.noise_key, *fields)
    yield from ((path, [f"{k}"] * ELEMENTS) for path in named)


def _code(attribute: AttributePlan, k: int) -> str:
    tau = attribute.concepts.taxonomy
    return tau.ids[k * STRIDE % len(tau)]


def _number(kind: Numeric, k: int) -> float:
    """Numbers of at most a hundred units, in the middle of those that the attribute takes."""
    low = kind.minimum if kind.minimum is not None else (kind.maximum or NUMBER_SPAN) - NUMBER_SPAN
    high = kind.maximum if kind.maximum is not None else low + NUMBER_SPAN
    number = low + min(high - low, NUMBER_SPAN) * (k % STEPS) / STEPS
    return int(number) if kind.integer else number


def _planted(found: JsonValue, steps: Sequence[Step], values: Sequence[JsonValue]) -> JsonValue:
    """``found`` (None: nothing yet) with values below it; what is there already stays."""
    if not steps:
        return values[0] if found is None else found
    step, rest = steps[0], steps[1:]
    if isinstance(step, NameStep):
        inside = found if isinstance(found, dict) else {}
        return inside | {step.key: _planted(inside.get(step.key), rest, values)}
    elements: list[JsonValue] = list(found) if isinstance(found, list) else []
    if isinstance(step, EachStep):
        elements += [None] * (ELEMENTS - len(elements))
        return [_planted(element, rest, values[j : j + 1] or values) for j, element in enumerate(elements)]
    if isinstance(step, IndexStep):
        place = step.position
    else:
        place = next((j for j, element in enumerate(elements) if step.matches(element)), len(elements))
    elements += [None] * (place + 1 - len(elements))
    if not isinstance(step, IndexStep):
        elements[place] = _planted(elements[place], [*map(NameStep, step.field)], [step.value])
    elements[place] = _planted(elements[place], rest, values)
    return elements
