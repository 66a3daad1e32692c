"""What ``config check`` says of a configuration: how it masks, the ids of its secrets, and what becomes of events."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence

from stream_masker.errors import ConfigurationError, StatisticsError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.risk import assess_version, guess_chances
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_risk_limits, mechanism_line
from stream_masker.service.configuration.secret import read_secret, secret_id, topic_seal
from stream_masker.service.files.coverage import coverage_report
from stream_masker.service.files.inputs import FileEvent
from stream_masker.service.formats import file_format
from stream_masker.summary import guessed_line


def masking_lines(configuration: Configuration) -> Iterator[str]:
    """Yield how records are masked: a line for each attribute, and the mechanism. Raises ConfigurationError."""
    plan, mechanism = build_plan(configuration), build_mechanism(configuration)
    for attribute in plan.attributes:
        yield f"{attribute.name}: {attribute.path} masked within {len(attribute.concepts.taxonomy)} concepts"
    yield mechanism_line(configuration)
    if mechanism.needs_group:
        least, most = mechanism.group_minimum, configuration.groups.records
        yield f"{mechanism.name}: groups of at least {least} and at most {most} records of one partition"


def secret_lines(configuration: Configuration, warn: Callable[[str], None]) -> Iterator[str]:
    """Yield the ids of the secret and of the keys of the topics; ``warn`` is called about each that is missing."""
    missing: dict[str, None] = {}
    for line in (_secret_line, _topics_line):
        try:
            yield line(configuration)
        except ConfigurationError as error:
            missing[str(error)] = None
    for problem in missing:
        warn(problem)


def _secret_line(configuration: Configuration) -> str:
    return f"secret: id {secret_id(read_secret(configuration))}"


def _topics_line(configuration: Configuration) -> str:
    key, *earlier = topic_seal(configuration, configuration.topics.statistics).key_ids
    also = f", also read: {', '.join(earlier)}" if earlier else ""
    return f"internal topics: encrypted, key {key}{also}"


def event_lines(configuration: Configuration, events: Sequence[FileEvent]) -> Iterator[str]:
    """Yield what becomes of the fields of events, their rejections, and how often a code of them is guessed right."""
    plan, mechanism, form = build_plan(configuration), build_mechanism(configuration), file_format(configuration)
    masker = RecordMasker(plan, mechanism, secrets.token_bytes(32), record_format=form)
    counts = yield from coverage_report(plan, masker, events, form)
    least = configuration.calibration.min_records
    if counts.records < least:
        yield f"Guessed right: not known from fewer than {least:,} events (calibration.min_records)."
        return
    try:
        statistics, limits = mechanism.compute(counts, version=1), build_risk_limits(configuration)
        risk = assess_version(mechanism, statistics, counts, limits).risk
    except StatisticsError as error:
        yield f"Guessed right: not known, because {error}"
        return
    yield guessed_line(*guess_chances(mechanism, counts, risk, quick=True))
