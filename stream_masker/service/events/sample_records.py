"""Sample records for any configuration: valid codes at the paths of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from stream_masker.core.numeric import Numeric
from stream_masker.pipeline.fhir.messages import BUNDLE
from stream_masker.pipeline.paths import EachStep, IndexStep, JsonValue, NameStep, Path, Step
from stream_masker.pipeline.plan import AttributePlan, Plan

SAMPLE_ELEMENTS: Final = 2
"""The number of elements of each array that a path traverses with ``[*]``."""

CODE_STRIDE: Final = 7919
"""The distance in the taxonomy between the codes of consecutive records; a prime."""

SAMPLE_SPAN: Final = 100.0
SAMPLE_STEPS: Final = 8

RECORDS_OF_A_CODE: Final = 4
"""The number of consecutive records, each of another person, that have the same codes. Semantic transport writes no
codes of a single person by default."""


def sample_records(plan: Plan, size: int) -> list[bytes]:
    """Return JSON records with many different codes, each in several records."""
    return [orjson.dumps(_event(plan, k)) for k in range(size)]


def _event(plan: Plan, k: int) -> JsonValue:
    event: JsonValue = None
    for path, values in _path_values(plan, k):
        event = _inserted(event, path.steps, values)
    return event if plan.fhir is None else _bundle(event, k)


def _bundle(event: JsonValue, k: int) -> JsonValue:
    """Return the Bundle of the resources of an event, with its patient."""
    patient = {"resource": {"resourceType": "Patient", "id": f"{k}"}}
    return {**event, "resourceType": BUNDLE, "entry": [*event["entry"], patient]}


def _path_values(plan: Plan, k: int) -> Iterator[tuple[Path, Sequence[JsonValue]]]:
    """Yield every path of the plan with its values: one per element of an array."""
    for place, attribute in enumerate(plan.attributes, 1):
        codes = [_code(attribute, place * (k // RECORDS_OF_A_CODE) + j) for j in range(SAMPLE_ELEMENTS)]
        for own in attribute.places:
            yield own.path, codes
            yield from ((copy, codes) for copy in own.copies)
            yield from () if own.label is None else ((own.label, ["a label"] * SAMPLE_ELEMENTS),)
    for numeric in plan.numeric:
        yield numeric.path, [_number(numeric.kind, k)]
    if plan.alpha is not None and plan.alpha.path is not None:
        yield plan.alpha.path, [1.0]
    fields = (*plan.fields.pseudonymize, *plan.fields.transformed, *plan.fields.keep, *plan.fields.drop)
    named = fields if plan.noise_key is None else (plan.noise_key, *fields)
    yield from ((path, [f"{k}"] * SAMPLE_ELEMENTS) for path in named)


def _code(attribute: AttributePlan, k: int) -> str:
    tau = attribute.concepts.taxonomy
    return tau.ids[k * CODE_STRIDE % len(tau)]


def _number(kind: Numeric, k: int) -> float:
    """Return a number within a range of at most a hundred units inside the attribute's bounds."""
    low = kind.minimum if kind.minimum is not None else (kind.maximum or SAMPLE_SPAN) - SAMPLE_SPAN
    high = kind.maximum if kind.maximum is not None else low + SAMPLE_SPAN
    number = low + min(high - low, SAMPLE_SPAN) * (k % SAMPLE_STEPS) / SAMPLE_STEPS
    return int(number) if kind.integer else number


def _inserted(found: JsonValue, steps: Sequence[Step], values: Sequence[JsonValue]) -> JsonValue:
    """Return ``found`` (None: nothing yet) with values below it; existing values are kept."""
    if not steps:
        return values[0] if found is None else found
    step, rest = steps[0], steps[1:]
    if isinstance(step, NameStep):
        inside = found if isinstance(found, dict) else {}
        return inside | {step.key: _inserted(inside.get(step.key), rest, values)}
    elements: list[JsonValue] = list(found) if isinstance(found, list) else []
    if isinstance(step, EachStep):
        elements += [None] * (SAMPLE_ELEMENTS - len(elements))
        return [_inserted(element, rest, values[j : j + 1] or values) for j, element in enumerate(elements)]
    if isinstance(step, IndexStep):
        place = step.position
    else:
        place = next((j for j, element in enumerate(elements) if step.matches(element)), len(elements))
    elements += [None] * (place + 1 - len(elements))
    if not isinstance(step, IndexStep):
        elements[place] = _inserted(elements[place], [*map(NameStep, step.field)], [step.value])
    elements[place] = _inserted(elements[place], rest, values)
    return elements
