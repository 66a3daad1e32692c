"""The topics of a configuration: their rules, checks of existing ones, and creation of new ones by kafka-python."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final, Literal, NamedTuple, TypeAlias

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaConfigurationError, KafkaError, NoError, for_code
from kafka.errors import UnknownTopicOrPartitionError as UnknownTopicError

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.clients import (
    MAX_VERSION_BYTES,
    PRODUCER_BYTES,
    confluent_properties,
    credentials,
    require_broker,
)

DEFAULT_PARTITIONS: Final = 4
BROKER_DEFAULT_REPLICATION: Final = -1
"""The replication factor that selects the broker's default."""

WEEK_MS: Final = 7 * 24 * 3600 * 1000
MAX_BLOCK_BYTES: Final = 8 * 1024 * 1024
"""The size that a new calibration topic allows for a block."""

TOPIC_WAIT_SECONDS: Final = 30.0
"""The time limit until a broker knows new topics."""

CLEANUP, RETENTION, BYTES, COMPRESSION = "cleanup.policy", "retention.ms", "max.message.bytes", "compression.type"

TopicStatus: TypeAlias = Literal["create", "created", "exists", "wrong"]


class TopicLine(NamedTuple):
    """One topic of the report; ``detail``: its configuration, or its problems."""

    status: TopicStatus
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.status:8} {self.name:36} {self.detail}".rstrip()


class ExistingTopic(NamedTuple):
    """A topic on the broker: its number of partitions, and its settings by name."""

    partitions: int
    settings: Mapping[str, str | None]


class RequiredTopic(NamedTuple):
    """A topic that the configuration needs.

    ``partitions``: of a new topic; an existing one has as many or more, and exactly one if it is the calibration topic.
    ``settings``: of a new topic; an existing one needs its ``cleanup.policy`` if that is given here. ``least``: of the
    settings of an existing topic that are numbers, the least that suffices; a negative setting is unlimited.
    """

    role: str
    name: str
    partitions: int
    settings: Mapping[str, str]
    least: Mapping[str, int] = {}

    def check(self, existing: ExistingTopic | None) -> TopicLine:
        """Return the line of a topic of this name: to be created, usable, or wrong, with the remedies."""
        if existing is None:
            return TopicLine("create", self.name, _describe(self.partitions, self.settings))
        if problems := "; ".join(self._problems(existing)):
            return TopicLine("wrong", self.name, problems)
        detail = _describe(existing.partitions, {CLEANUP: existing.settings.get(CLEANUP)})
        # Stored uncompressed, a broker refuses a batch of some kilobytes that would take gigabytes in a worker.
        reason = "a producer can send some kilobytes that take more memory than the worker has when decompressed: "
        return TopicLine("exists", self.name, " ".join([detail, *self._other(existing, COMPRESSION, reason)]))

    def _problems(self, existing: ExistingTopic) -> Iterator[str]:
        """Yield the problems of an existing topic of this name, each with its remedy."""
        found = existing.partitions
        if self.role == "calibration" and found != 1:
            yield f"{found} partitions instead of 1: delete the topic, or use another name in topics.calibration"
        if self.role == "output" and found < self.partitions:
            remedy = f"kafka-topics.sh --alter --topic {self.name} --partitions {self.partitions}"
            yield f"{found} partitions, fewer than the {self.partitions} of the input: {remedy}"
        yield from self._other(existing, CLEANUP)
        for name, least in self.least.items():
            if 0 <= int(existing.settings.get(name) or -1) < least:
                yield self._change(existing, name, least)

    def _other(self, existing: ExistingTopic, name: str, reason: str = "") -> Iterator[str]:
        """Yield the remedy for a setting that differs from the needed one."""
        if (found := existing.settings.get(name)) and self.settings.get(name, found) != found:
            yield self._change(existing, name, self.settings[name], reason)

    def _change(self, existing: ExistingTopic, name: str, needed: object, reason: str = "") -> str:
        command = f"kafka-configs.sh --alter --entity-type topics --entity-name {self.name}"
        return f"{name}={existing.settings[name]}: {reason}{command} --add-config {name}={needed}"


def _describe(partitions: int, settings: Mapping[str, str | None]) -> str:
    count = f"{partitions} partition{'s' if partitions > 1 else ''}"
    return " ".join([count, *(f"{name}={value}" for name, value in settings.items())])


def required_topics(configuration: Configuration, partitions: int = DEFAULT_PARTITIONS) -> tuple[RequiredTopic, ...]:
    """Return the topics of a configuration; ``partitions``: of the input.

    The output may be compacted unless its records have no keys; rejections have none. The calibration topic keeps
    blocks at least twice as long as the window.
    """
    names, kept = configuration.topics, round(2_000 * configuration.calibration.window_age)
    written = int(configuration.kafka.properties.get("message.max.bytes", PRODUCER_BYTES))
    largest = max(masked_bytes(configuration), written)
    delete, taken = {CLEANUP: "delete"}, {BYTES: written}
    output = delete if configuration.message.key == "drop" else {}
    blocks = {**delete, RETENTION: str(max(kept, WEEK_MS)), BYTES: str(max(MAX_BLOCK_BYTES, written))}
    return (
        RequiredTopic("input", names.input, partitions, {COMPRESSION: "uncompressed"}),
        RequiredTopic("output", names.output, partitions, {**output, BYTES: str(largest)}, taken),
        RequiredTopic("rejected", names.rejected, partitions, {**delete, BYTES: str(written)}, taken),
        RequiredTopic("calibration", names.calibration, 1, blocks, {RETENTION: kept, **taken}),
        RequiredTopic("statistics", names.statistics, 1, {CLEANUP: "compact", BYTES: str(MAX_VERSION_BYTES)}),
        RequiredTopic("drift", names.drift, 1, delete),
    )


def masked_bytes(configuration: Configuration) -> int:
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

    ``partitions``: of a new input. Return one line per topic. Nothing is created if an existing topic is wrong. Raises
    ServiceError if the broker rejects a request, ConfigurationError for properties that cannot be used.
    """
    with _reported("the topics cannot be used"), closing(_connect(configuration)) as admin:
        names = [name for _, name in configuration.topics]
        existing = _existing(admin, names)
        found = existing.get(configuration.topics.input)
        required = required_topics(configuration, found.partitions if found else partitions)
        lines = [topic.check(existing.get(topic.name)) for topic in required]
        if dry_run or any(line.status == "wrong" for line in lines):
            return lines
        for topic in (topic for topic in required if topic.name not in existing):
            settings = {**topic.settings, **({"min.insync.replicas": "2"} if replication_factor >= 3 else {})}
            new = NewTopic(topic.name, topic.partitions, replication_factor, topic_configs=settings)
            with _reported(f"topic {topic.name} cannot be created"):
                admin.create_topics([new])
        deadline = time.monotonic() + TOPIC_WAIT_SECONDS
        while len(_existing(admin, names)) < len(names):
            if time.monotonic() > deadline:
                raise ServiceError(f"the broker does not know the new topics after {TOPIC_WAIT_SECONDS:.0f} s")
            time.sleep(0.1)
        return [line._replace(status="created") if line.status == "create" else line for line in lines]


def _connect(configuration: Configuration) -> KafkaAdminClient:
    """Connect the client. Raises ServiceError, and ConfigurationError for properties that it cannot use."""
    properties = configuration.kafka.properties
    require_broker(confluent_properties(configuration))
    given = credentials(properties)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it logs failed attempts, even if a later one succeeds
    try:
        return KafkaAdminClient(
            bootstrap_servers=configuration.kafka.bootstrap_servers.split(","),
            client_id=str(properties.get("client.id", "stream-masker")),
            api_version_auto_timeout_ms=10_000,
            security_protocol=given.protocol,
            ssl_context=given.context,
            sasl_mechanism=given.mechanism,
            sasl_plain_username=given.username,
            sasl_plain_password=given.password,
        )
    except (AssertionError, KafkaConfigurationError, ValueError, OSError) as error:
        raise ConfigurationError(f"kafka.properties cannot be used: {error}") from error


@contextmanager
def _reported(failure: str) -> Iterator[None]:
    """Raise what kafka-python reports as ServiceError; ``failure``: what has failed."""
    try:
        yield
    except KafkaError as error:
        raise ServiceError(f"{failure}: {getattr(error, 'description', '') or type(error).__name__}") from error


def _existing(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, ExistingTopic]:
    """Return the named topics that exist with their settings."""
    partitions = {topic["topic"]: len(topic["partitions"]) for topic in admin.describe_topics()}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names if name in partitions]
    found = {}
    for answer in admin.describe_configs(resources) if resources else []:
        for row in answer.to_object()["resources"]:
            error, name = for_code(row["error_code"]), row["resource_name"]
            if error not in (NoError, UnknownTopicError):
                raise error
            if error is NoError:  # otherwise the broker is about to learn of the topic
                settings = {entry["config_names"]: entry["config_value"] for entry in row["config_entries"]}
                found[name] = ExistingTopic(partitions[name], settings)
    return found
