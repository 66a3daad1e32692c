"""The topics of a configuration: the required ones, checks of existing ones, and creation of missing ones."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError, NoError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from stream_masker.errors import ParameterError, ServiceError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.topics import TopicsSection, input_problems
from stream_masker.service.kafka.administration import connect_administration
from stream_masker.service.kafka.failures import COMPRESSION_TYPE, UNCOMPRESSED, alter_command, compression_advice

DEFAULT_PARTITIONS = 4
BROKER_DEFAULT_REPLICATION = -1
"""The replication factor that selects the broker's default."""

TOPIC_WAIT_SECONDS = 30.0
"""The time limit until a broker knows new topics."""

WEEK_MS = 7 * 24 * 3600 * 1000
MAX_SUMMARY_BYTES = 8 * 1024 * 1024
"""The maximum size of a calibration block or statistics message; Kafka's default of 1 MiB is tight for big windows."""

NOT_KAFKA = "the topics cannot be described: the broker's response is not that of Apache Kafka"

NO_TOPICS: Mapping[str, int] = MappingProxyType({})

CLEANUP_POLICY, RETENTION_MS, TOPIC_LIMIT_PROPERTY = "cleanup.policy", "retention.ms", "max.message.bytes"


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic on the broker. ``retention_ms`` of -1 is unlimited."""

    partitions: int
    cleanup: str
    retention_ms: int
    compression: str = UNCOMPRESSED


@dataclass(frozen=True, slots=True)
class RequiredTopic:
    """A topic that the configuration needs.

    ``partitions``: the number for a new topic. ``exactly``, ``at_least``, ``cleanup``, ``retention_ms``: requirements
    on an existing topic, None for no requirement. ``settings``: the topic configuration of a new topic.
    """

    role: str
    name: str
    partitions: int
    settings: Mapping[str, str]
    exactly: int | None = None
    at_least: int = 1
    cleanup: str | None = None
    retention_ms: int = 0

    def advice(self, existing: ExistingTopic) -> str:
        """Return what should be changed in a topic that meets the requirements; empty if nothing should."""
        if self.settings.get(COMPRESSION_TYPE, existing.compression) == existing.compression:
            return ""
        return compression_advice(self.name, existing.compression)

    def problems(self, existing: ExistingTopic) -> list[str]:
        """Return the problems of an existing topic of this name, each with its remedy."""
        entries = (self._partition_count(existing), self._cleanup(existing), self._retention(existing))
        return [problem for problem in entries if problem]

    def _partition_count(self, existing: ExistingTopic) -> str:
        if self.exactly is not None and existing.partitions != self.exactly:
            return (
                f"{existing.partitions} partitions instead of exactly {self.exactly}: "
                f"delete the topic, or use another name in topics.{self.role}"
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
        return f"{CLEANUP_POLICY}={existing.cleanup}: {self._alter(CLEANUP_POLICY, self.cleanup)}"

    def _retention(self, existing: ExistingTopic) -> str:
        if existing.retention_ms < 0 or existing.retention_ms >= self.retention_ms:
            return ""
        return f"{RETENTION_MS}={existing.retention_ms}: {self._alter(RETENTION_MS, self.retention_ms)}"

    def _alter(self, name: str, value: object) -> str:
        return alter_command(self.name, name, value)


class TopicStatus(StrEnum):
    """The status of a topic after its check or creation."""

    CREATE = "create"
    CREATED = "created"
    EXISTS = "exists"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class TopicLine:
    """One topic of the report; ``detail``: its configuration, or its problems."""

    status: TopicStatus
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.status:8} {self.name:36} {self.detail}".rstrip()


def required_topics(
    configuration: Configuration, *, partitions: int = DEFAULT_PARTITIONS, inputs: Mapping[str, int] = NO_TOPICS
) -> tuple[RequiredTopic, ...]:
    """Return the topics of a configuration.

    ``inputs``: the number of partitions of each input topic that exists. ``partitions``: that of a new one.

    An output has as many partitions as the input, because a masked record keeps its partition. The calibration topic
    has one partition, whose order is the order of the window, and retains blocks at least twice as long as the window.
    The statistics topic is compacted. The output may be compacted unless its records have no keys. A new input is not
    compressed.
    """
    if partitions < 1:
        raise ParameterError(f"partitions must be at least 1, not {partitions}")
    names = configuration.topics
    kept = round(2_000 * configuration.calibration.window_age)
    large_messages = {TOPIC_LIMIT_PROPERTY: str(MAX_SUMMARY_BYTES)}
    counts = {CLEANUP_POLICY: "delete", RETENTION_MS: str(max(kept, WEEK_MS)), **large_messages}
    uncompacted = "delete" if configuration.message.key == "drop" else None
    masked = {TOPIC_LIMIT_PROPERTY: str(max_masked_bytes(configuration))}
    counted = {name: inputs.get(name, partitions) for name in [*names.names] or inputs}
    outcomes = [(names.of(name), count) for name, count in counted.items()]
    rejected = {topics.rejected: count for topics, count in sorted(outcomes, key=itemgetter(1))}
    return (
        *(RequiredTopic("input", name, count, {COMPRESSION_TYPE: UNCOMPRESSED}) for name, count in counted.items()),
        *(
            RequiredTopic("output", topics.output, count, masked, at_least=count, cleanup=uncompacted)
            for topics, count in outcomes
        ),
        *(RequiredTopic("rejected", name, count, {}) for name, count in rejected.items()),
        RequiredTopic("calibration", names.calibration, 1, counts, exactly=1, cleanup="delete", retention_ms=kept),
        RequiredTopic(
            "statistics", names.statistics, 1, {CLEANUP_POLICY: "compact", **large_messages}, cleanup="compact"
        ),
        RequiredTopic("drift", names.drift, 1, {CLEANUP_POLICY: "delete"}),
    )


def max_masked_bytes(configuration: Configuration) -> int:
    """Return the maximum size of a masked record in bytes: labels may double its length, plus headers."""
    return 2 * configuration.limits.record_bytes + 65_536


def prepare_topics(
    configuration: Configuration,
    *,
    partitions: int = DEFAULT_PARTITIONS,
    replication_factor: int = BROKER_DEFAULT_REPLICATION,
    dry_run: bool = False,
) -> list[TopicLine]:
    """Create the missing topics and check the others; with ``dry_run`` create nothing.

    Return one line per topic. Nothing is created if an existing topic is wrong. Raises ServiceError if the broker
    rejects a request.
    """
    with closing(connect_administration(configuration)) as admin:
        return _prepare(admin, configuration, partitions, replication_factor, dry_run)


def _prepare(
    admin: KafkaAdminClient, configuration: Configuration, partitions: int, replication_factor: int, dry_run: bool
) -> list[TopicLine]:
    inputs = _existing_inputs(admin, configuration.topics)
    required = required_topics(configuration, partitions=partitions, inputs=inputs)
    existing = existing_topics(admin, [topic.name for topic in required])
    lines = plan_topics(required, existing)
    if dry_run or any(line.status is TopicStatus.WRONG for line in lines):
        return lines
    created = create_topics(admin, [topic for topic in required if topic.name not in existing], replication_factor)
    checked = plan_topics(required, await_topics(admin, [topic.name for topic in required]))
    return [_result_line(before, after, created) for before, after in zip(lines, checked, strict=True)]


def _existing_inputs(admin: KafkaAdminClient, topics: TopicsSection) -> dict[str, int]:
    """Return the number of partitions of each input topic that exists. Raises ServiceError."""
    counts = _partition_counts(admin)
    inputs = {name: counts[name] for name in sorted(filter(topics.is_input, counts))}
    for role, text in input_problems(topics, inputs):
        raise ServiceError(f"topics.{role}: {text}")
    return inputs


def _partition_counts(admin: KafkaAdminClient) -> dict[str, int]:
    try:
        return {topic["topic"]: len(topic["partitions"]) for topic in admin.describe_topics()}
    except KafkaError as error:
        raise ServiceError(f"the topics cannot be described: {_reason(error)}") from error
    except ValueError as error:
        raise ServiceError(NOT_KAFKA) from error


def plan_topics(required: Sequence[RequiredTopic], existing: Mapping[str, ExistingTopic]) -> list[TopicLine]:
    """Return the planned status of each topic."""
    return [_line(topic, existing.get(topic.name)) for topic in required]


def _line(topic: RequiredTopic, existing: ExistingTopic | None) -> TopicLine:
    if existing is None:
        return TopicLine(TopicStatus.CREATE, topic.name, _describe(topic.partitions, topic.settings))
    problems = topic.problems(existing)
    if problems:
        return TopicLine(TopicStatus.WRONG, topic.name, "; ".join(problems))
    detail = _describe(existing.partitions, {CLEANUP_POLICY: existing.cleanup})
    return TopicLine(TopicStatus.EXISTS, topic.name, f"{detail} {topic.advice(existing)}".rstrip())


def _result_line(before: TopicLine, after: TopicLine, created: Collection[str]) -> TopicLine:
    created_correctly = before.name in created and after.status is TopicStatus.EXISTS
    return replace(before, status=TopicStatus.CREATED) if created_correctly else after


def _describe(partitions: int, settings: Mapping[str, str]) -> str:
    count = f"{partitions} partition{'s' if partitions > 1 else ''}"
    return " ".join([count, *(f"{name}={value}" for name, value in settings.items())])


def existing_topics(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, ExistingTopic]:
    """Return the named topics that exist. Raises ServiceError."""
    required = set(names)
    try:
        counts = {name: count for name, count in _partition_counts(admin).items() if name in required}
        settings = _settings(admin, counts)
    except KafkaError as error:
        raise ServiceError(f"the topics cannot be described: {_reason(error)}") from error
    except ValueError as error:
        raise ServiceError(NOT_KAFKA) from error
    return {name: _existing(counts[name], entries) for name, entries in settings.items()}


def await_topics(admin: KafkaAdminClient, names: Collection[str]) -> dict[str, ExistingTopic]:
    """Wait until the broker knows the named topics. Raises ServiceError after ``TOPIC_WAIT_SECONDS``."""
    deadline = time.monotonic() + TOPIC_WAIT_SECONDS
    while len(existing := existing_topics(admin, names)) < len(names):
        if time.monotonic() > deadline:
            raise ServiceError(f"the broker does not know the new topics after {TOPIC_WAIT_SECONDS:.0f} s")
        time.sleep(0.1)
    return existing


def _existing(partitions: int, settings: Mapping[str, str]) -> ExistingTopic:
    return ExistingTopic(partitions, settings[CLEANUP_POLICY], int(settings[RETENTION_MS]), settings[COMPRESSION_TYPE])


def _settings(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    keys = {CLEANUP_POLICY: None, RETENTION_MS: None, COMPRESSION_TYPE: None}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, keys) for name in names]
    answers = admin.describe_configs(resources) if resources else []
    rows = [row for answer in answers for row in answer.to_object()["resources"]]
    return {row["resource_name"]: _entries(row) for row in rows if _is_known(row)}


def _is_known(row: Mapping[str, Any]) -> bool:
    """Return whether the broker knows the topic yet."""
    error = for_code(row["error_code"])
    if error in {NoError, UnknownTopicOrPartitionError}:
        return error is NoError
    raise error


def _entries(row: Mapping[str, Any]) -> dict[str, str]:
    return {entry["config_names"]: entry["config_value"] for entry in row["config_entries"]}


def create_topics(admin: KafkaAdminClient, topics: Iterable[RequiredTopic], replication_factor: int) -> set[str]:
    """Create topics one by one, so that an error names its topic; return the names of the created ones.

    Topics that another process has created in the meantime are skipped. Raises ServiceError.
    """
    return {topic.name for topic in topics if _create(admin, topic, replication_factor)}


def _create(admin: KafkaAdminClient, topic: RequiredTopic, replication_factor: int) -> bool:
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
