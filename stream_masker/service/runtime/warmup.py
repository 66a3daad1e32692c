"""Warm-up: the work of a first start, parsing the ontologies and compiling the kernels in use."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import orjson

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.numeric import Numeric
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.history import History, Subject
from stream_masker.pipeline.calibration.queues import NO_TIME, BlockStore
from stream_masker.pipeline.calibration.versions import VersionPlanner
from stream_masker.pipeline.calibration.window import Window
from stream_masker.pipeline.fhir import BUNDLE
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import EachStep, IndexStep, JsonValue, NameStep, Path, Step
from stream_masker.pipeline.plan import AttributePlan, Plan
from stream_masker.pipeline.records import Block, InputRecord
from stream_masker.pipeline.wire.blocks import decode_block, encode_block
from stream_masker.pipeline.wire.statistics import BlockRange
from stream_masker.service.calibrator.components import build_settings, build_subject
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_risk_limits

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
        for path, label, copies in attribute.places:
            yield path, codes
            yield from ((copy, codes) for copy in copies)
            yield from () if label is None else ((label, ["a label"] * SAMPLE_ELEMENTS),)
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


def _inserted(value: JsonValue, steps: Sequence[Step], values: Sequence[JsonValue]) -> JsonValue:
    """Return ``value`` (None: nothing yet) with values below it; existing values are kept."""
    if not steps:
        return values[0] if value is None else value
    step, rest = steps[0], steps[1:]
    if isinstance(step, NameStep):
        inside = value if isinstance(value, dict) else {}
        return inside | {step.key: _inserted(inside.get(step.key), rest, values)}
    elements: list[JsonValue] = list(value) if isinstance(value, list) else []
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


log = logging.getLogger(__name__)

WARMUP_WINDOWS = (2_000, 12)
"""The sizes of the rehearsed windows; windows with many and with few different values use different kernels."""

WARMUP_WINDOWS_OF_NOISE = (500, 12)
"""The sizes for semantic noise: it uses the same kernels for 500 values as for more, whose risk takes seconds."""

ONE_CONCEPT = np.zeros(1, np.int32)
"""A position of every taxonomy. Windows of very few values compute distances pair by pair, which larger ones do not."""

WARMUP_MASKED_RECORDS = 64
"""The number of records masked under the statistics of each window, or more if the mechanism needs a larger group. One
of them is masked again, so that the window of masked records slides."""

WARMUP_SECRET = b"for sample records only"


def warm_up(configuration: Configuration) -> Mechanism:
    """Run the work of worker and calibrator once, on sample records; numba keeps the compiled kernels on disk.

    Returns a mechanism that is calibrated on sample records, unless they do not allow its target, which is logged.
    Raises ConfigurationError like ``build_mechanism``.
    """
    mechanism, plan = build_mechanism(configuration), build_plan(configuration)
    for attribute in plan.attributes:
        attribute.concepts.find("no such code")
    masker = RecordMasker(plan, mechanism, WARMUP_SECRET)
    subject = build_subject(configuration)
    for distance in subject.distances.values():
        distance.pairs(ONE_CONCEPT, ONE_CONCEPT)
    calibration = VersionPlanner(
        subject,
        build_mechanism(configuration),
        History(subject),
        build_settings(configuration),
        risk_limits=build_risk_limits(configuration),
    )
    masked = sample_records(plan, max(WARMUP_MASKED_RECORDS, mechanism.group_minimum))
    for size in WARMUP_WINDOWS_OF_NOISE if mechanism.name == "semantic_noise" else WARMUP_WINDOWS:
        try:
            publish = calibration.on_sample(masker.count(sample_records(plan, size)).counts, 0)
            calibration.assess()
            calibration.published(publish)
            mechanism.restore(publish.message.snapshot)
            blocks = [_received(block, subject) for block in _blocks(masker, masked)]
            for window in (blocks[1:], blocks):
                calibration.on_window(_window(window), 0)
                calibration.assess()
        except StatisticsError as error:
            log.warning(
                "sample records do not show which kernels this configuration needs; the first statistics compile "
                "those that are missing: %s",
                error,
            )
    return mechanism


def _blocks(masker: RecordMasker, values: Sequence[bytes]) -> Sequence[Block]:
    """Return the blocks of masking the first record alone, and of masking all records."""
    records = [InputRecord(offset, value, b"a key") for offset, value in enumerate(values)]
    alone = masker.mask("warm-up", 0, records[:1], statistics_version=1)
    return [*alone.blocks, *masker.mask("warm-up", 0, records, statistics_version=1).blocks]


def _received(block: Block, subject: Subject) -> Block:
    """Return a block as the calibrator reads what a worker writes."""
    names = {"configuration": subject.configuration, "context": subject.context.fingerprint}
    raw = encode_block(block, subject.taxonomies, numeric=subject.numeric, **names)
    return decode_block(raw, subject.taxonomies, subject.numeric, subject.context)


def _window(blocks: Sequence[Block]) -> Window:
    store = BlockStore()
    entries = tuple(store.entry(offset, NO_TIME, block) for offset, block in enumerate(blocks))
    return Window(entries, BlockRange(0, len(entries) - 1, len(entries)))
