"""The topics of a configuration: which there must be, whether those that exist will do, and making the others."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError, NoError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from stream_masker.errors import ParameterError, ServiceError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.clients import kafka_python_admin

PARTITIONS = 4
BROKERS_DEFAULT = -1
"""The replication factor that asks for the broker's default."""

KNOWN_SECONDS = 30.0
"""How long it may take until a broker knows the new topics."""

WEEK_MS = 7 * 24 * 3600 * 1000
SUMMARY_BYTES = 8 * 1024 * 1024
"""The largest calibration block or statistics message, in bytes; Kafka's default of 1 MiB is tight for big windows."""

CLEANUP, RETENTION, LARGEST = "cleanup.policy", "retention.ms", "max.message.bytes"


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic as the broker has it. ``retention_ms``: -1 is for ever."""

    partitions: int
    cleanup: str
    retention_ms: int


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic that the configuration needs.

    ``partitions``: when it is created. ``exactly``, ``at_least``, ``cleanup``, ``retention_ms``: what an existing one
    must have, None where anything will do. ``settings``: the topic's own, when it is created.
    """

    role: str
    name: str
    partitions: int
    settings: Mapping[str, str]
    exactly: int | None = None
    at_least: int = 1
    cleanup: str | None = None
    retention_ms: int = 0

    def problems(self, existing: ExistingTopic) -> list[str]:
        """What is wrong with an existing topic of this name, each with what to do about it."""
        found = (self._partition_count(existing), self._cleanup(existing), self._retention(existing))
        return [problem for problem in found if problem]

    def _partition_count(self, existing: ExistingTopic) -> str:
        if self.exactly is not None and existing.partitions != self.exactly:
            return (
                f"{existing.partitions} partitions where exactly {self.exactly} is due: "
                f"delete the topic, or name another one under topics.{self.role}"
            )
        if existing.partitions < self.at_least:
            return (
                f"{existing.partitions} partitions, fewer than the {self.at_least} of the input: "
                f"kafka-topics.sh --alter --topic {self.name} --partitions {self.at_least}"
            )
        return ""

    def _cleanup(self, existing: ExistingTopic) -> str:
        if self.cleanup in {None, existing.cleanup}:
            return ""
        return f"{CLEANUP}={existing.cleanup}: {self._alter(CLEANUP, self.cleanup)}"

    def _retention(self, existing: ExistingTopic) -> str:
        if existing.retention_ms < 0 or existing.retention_ms >= self.retention_ms:
            return ""
        return f"{RETENTION}={existing.retention_ms}: {self._alter(RETENTION, self.retention_ms)}"

    def _alter(self, name: str, value: object) -> str:
        return f"kafka-configs.sh --alter --entity-type topics --entity-name {self.name} --add-config {name}={value}"


class TopicAction(StrEnum):
    """What becomes of a wanted topic."""

    CREATE = "create"
    CREATED = "created"
    EXISTS = "exists"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class TopicLine:
    """One topic of the report: ``detail`` says with what it is created, or what is wrong with it."""

    fate: TopicAction
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.fate:8} {self.name:36} {self.detail}".rstrip()


def wanted_topics(configuration: Configuration, *, partitions: int = PARTITIONS) -> tuple[WantedTopic, ...]:
    """The topics of a configuration whose input has so many partitions.

    The output has as many as the input, for a masked record keeps its partition. Counts have one partition, whose
    order is the order of the window, and are kept at least twice as long as the window. Statistics are compacted.
    """
    if partitions < 1:
        raise ParameterError(f"partitions must be at least 1, not {partitions}")
    names = configuration.topics
    kept = round(2_000 * configuration.calibration.window_age)
    whole = {LARGEST: str(SUMMARY_BYTES)}
    counts = {CLEANUP: "delete", RETENTION: str(max(kept, WEEK_MS)), **whole}
    masked = {LARGEST: str(largest_masked(configuration))}
    return (
        WantedTopic("input", names.input, partitions, {}),
        WantedTopic("output", names.output, partitions, masked, at_least=partitions),
        WantedTopic("rejected", names.rejected, partitions, {}),
        WantedTopic("calibration", names.calibration, 1, counts, exactly=1, cleanup="delete", retention_ms=kept),
        WantedTopic("statistics", names.statistics, 1, {CLEANUP: "compact", **whole}, cleanup="compact"),
        WantedTopic("drift", names.drift, 1, {CLEANUP: "delete"}),
    )


def largest_masked(configuration: Configuration) -> int:
    """Bytes that a masked record may have: labels make it longer than its original, at most twice, and its headers."""
    return 2 * configuration.limits.record_bytes + 65_536


def prepare_topics(
    configuration: Configuration,
    *,
    partitions: int = PARTITIONS,
    replication_factor: int = BROKERS_DEFAULT,
    dry_run: bool = False,
) -> list[TopicLine]:
    """Creates the topics that are missing and checks the others; with ``dry_run`` creates nothing.

    Gives one line for each topic. Nothing is created while an existing topic is wrong. Raises ServiceError when the
    broker refuses.
    """
    with closing(kafka_python_admin(configuration)) as admin:
        return _prepare(admin, configuration, partitions, replication_factor, dry_run)


def _prepare(
    admin: KafkaAdminClient, configuration: Configuration, partitions: int, replication_factor: int, dry_run: bool
) -> list[TopicLine]:
    existing = existing_topics(admin, configuration.topics.model_dump().values())
    source = existing.get(configuration.topics.input)
    wanted = wanted_topics(configuration, partitions=source.partitions if source else partitions)
    lines = plan(wanted, existing)
    if dry_run or any(line.fate is TopicAction.WRONG for line in lines):
        return lines
    created = create(admin, [topic for topic in wanted if topic.name not in existing], replication_factor)
    settled = plan(wanted, await_topics(admin, [topic.name for topic in wanted]))
    return [_told(before, after, created) for before, after in zip(lines, settled, strict=True)]


def plan(wanted: Sequence[WantedTopic], existing: Mapping[str, ExistingTopic]) -> list[TopicLine]:
    """What is to be done for each topic."""
    return [_line(topic, existing.get(topic.name)) for topic in wanted]


def _line(topic: WantedTopic, existing: ExistingTopic | None) -> TopicLine:
    if existing is None:
        return TopicLine(TopicAction.CREATE, topic.name, _described(topic.partitions, topic.settings))
    problems = topic.problems(existing)
    if problems:
        return TopicLine(TopicAction.WRONG, topic.name, "; ".join(problems))
    return TopicLine(TopicAction.EXISTS, topic.name, _described(existing.partitions, {CLEANUP: existing.cleanup}))


def _told(before: TopicLine, after: TopicLine, created: Collection[str]) -> TopicLine:
    well_made = before.name in created and after.fate is TopicAction.EXISTS
    return replace(before, fate=TopicAction.CREATED) if well_made else after


def _described(partitions: int, settings: Mapping[str, str]) -> str:
    count = f"{partitions} partition{'s' if partitions > 1 else ''}"
    return " ".join([count, *(f"{name}={value}" for name, value in settings.items())])


def existing_topics(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, ExistingTopic]:
    """Those of the named topics that there are. Raises ServiceError."""
    wanted = set(names)
    try:
        counts = {t["topic"]: len(t["partitions"]) for t in admin.describe_topics() if t["topic"] in wanted}
        settings = _settings(admin, counts)
    except KafkaError as error:
        raise ServiceError(f"the topics cannot be looked up: {_reason(error)}") from error
    except ValueError as error:
        raise ServiceError("the topics cannot be looked up: this broker answers as Apache Kafka does not") from error
    return {name: _existing(counts[name], found) for name, found in settings.items()}


def await_topics(admin: KafkaAdminClient, names: Collection[str]) -> dict[str, ExistingTopic]:
    """The named topics, once the broker knows them. Raises ServiceError when it does not within ``KNOWN_SECONDS``."""
    deadline = time.monotonic() + KNOWN_SECONDS
    while len(existing := existing_topics(admin, names)) < len(names):
        if time.monotonic() > deadline:
            raise ServiceError(f"the broker does not know the new topics after {KNOWN_SECONDS:.0f} s")
        time.sleep(0.1)
    return existing


def _existing(partitions: int, settings: Mapping[str, str]) -> ExistingTopic:
    return ExistingTopic(partitions, settings[CLEANUP], int(settings[RETENTION]))


def _settings(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    keys = {CLEANUP: None, RETENTION: None}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, keys) for name in names]
    answers = admin.describe_configs(resources) if resources else []
    rows = [row for answer in answers for row in answer.to_object()["resources"]]
    return {row["resource_name"]: _entries(row) for row in rows if _is_known(row)}


def _is_known(row: Mapping[str, Any]) -> bool:
    """False where the broker that was asked has not heard of the topic yet."""
    error = for_code(row["error_code"])
    if error in {NoError, UnknownTopicOrPartitionError}:
        return error is NoError
    raise error


def _entries(row: Mapping[str, Any]) -> dict[str, str]:
    return {entry["config_names"]: entry["config_value"] for entry in row["config_entries"]}


def create(admin: KafkaAdminClient, topics: Iterable[WantedTopic], replication_factor: int) -> set[str]:
    """Creates topics one by one, so that an error names its topic; gives the names of the new ones.

    A topic that another process has made meanwhile is left alone. Raises ServiceError.
    """
    return {topic.name for topic in topics if _create(admin, topic, replication_factor)}


def _create(admin: KafkaAdminClient, topic: WantedTopic, replication_factor: int) -> bool:
    new = NewTopic(topic.name, topic.partitions, replication_factor, topic_configs=dict(topic.settings))
    try:
        admin.create_topics([new])
    except TopicAlreadyExistsError:
        return False
    except KafkaError as error:
        raise ServiceError(f"topic {topic.name} cannot be created: {_reason(error)}") from error
    return True


def _reason(error: KafkaError) -> str:
    return str(getattr(error, "description", "")) or type(error).__name__
