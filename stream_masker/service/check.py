"""What ``config check`` says of a configuration: how it masks, the ids of its secrets, and what becomes of events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from stream_masker.errors import ConfigurationError, StatisticsError
from stream_masker.pipeline.paths import JsonValue, selected
from stream_masker.pipeline.plan import Plan
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, mechanism_line
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.files import FileEvent
from stream_masker.service.files.fields import field_lines
from stream_masker.service.files.masking import FileMasking
from stream_masker.summary import guessed_line

LEAST_OF_REVISION: Final = 0.1
"""The share of codes that can only be of ICD-9, and of those that can only be of ICD-10, from which they are mixed."""

REVISIONS: Final = {
    "ICD-9": re.compile(r"\d{3}(\.?\d{1,2})?|V\d\d(\.?\d{1,2})?|E\d{3}(\.?\d)?"),
    "ICD-10": re.compile(r"[A-Z]\d[0-9A-Z](\.?[0-9A-Z]{1,4})?"),
}


def masking_lines(configuration: Configuration) -> Iterator[str]:
    """Yield how records are masked: a line for each attribute, and the mechanism. Raises ConfigurationError."""
    plan, mechanism = build_plan(configuration), build_mechanism(configuration)
    for attribute in plan.attributes:
        yield f"{attribute.name}: {attribute.path.text} masked within {len(attribute.concepts.taxonomy)} concepts"
    yield mechanism_line(configuration)
    if mechanism.needs_group:
        least, most = mechanism.group_minimum, configuration.groups.records
        yield f"{mechanism.name}: groups of at least {least} and at most {most} records of one partition"


def secret_lines(configuration: Configuration, warn: Callable[[str], None]) -> Iterator[str]:
    """Yield the ids of the secret and of earlier ones; ``warn`` is called if one is missing."""
    try:
        current, *earlier = topic_seal(configuration, configuration.topics.statistics).key_ids
        also = f"; the internal topics are also read with {', '.join(earlier)}" if earlier else ""
        yield f"secret: id {current}{also}"
    except ConfigurationError as error:
        warn(str(error))


def event_lines(configuration: Configuration, events: Sequence[FileEvent]) -> Iterator[str]:
    """Yield what becomes of the fields of events, their rejections, and how often a code of them is guessed right.

    They are counted like those that ``mask`` learns from, with a secret of their own.
    """
    masking = FileMasking(configuration, is_trial=True)
    documents = [*masking.documents(events)]
    yield from field_lines(masking.plan, documents)
    counted, totals = masking.count(events)
    yield str(totals)
    unknown = ""
    try:
        masking.compute(counted, totals)
    except StatisticsError as error:
        unknown = guessed_line({}, f"not known, because {error}")
    assessment = masking.assessment(totals)
    yield from (f"warning: {warning}" for warning in (*assessment.warnings, *_mixed(masking.plan, documents)))
    yield unknown or assessment.sentences[-1]


def _mixed(plan: Plan, documents: Sequence[JsonValue]) -> Iterator[str]:
    """Yield a warning for each attribute of whose values some can only be codes of ICD-9, and some only of ICD-10."""
    for attribute in plan.attributes:
        paths = [place.path.steps for place in attribute.places]
        values = (value for document in documents for steps in paths for value in selected(document, steps))
        texts = [value.strip().upper() for value in values if isinstance(value, str)]
        fitting = [[name for name, form in REVISIONS.items() if form.fullmatch(text)] for text in texts]
        shares = {name: fitting.count([name]) / len(texts) for name in REVISIONS if texts}
        if min(shares.values(), default=0.0) >= LEAST_OF_REVISION:
            found = ", ".join(f"{share:.0%} {name}" for name, share in shares.items())
            yield f"{attribute.name}: two revisions are mixed ({found}): write each revision in a field of its own"
