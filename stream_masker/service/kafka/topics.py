"""The topics of a configuration: their rules, checks of existing ones, and creation of new ones by kafka-python."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Final, Literal, NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError, NoError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.clients import (
    MAX_VERSION_BYTES,
    PRODUCER_BYTES,
    confluent_properties,
    credentials,
    require_broker,
)

DEFAULT_PARTITIONS: Final = 4
WEEK_MS: Final = 7 * 24 * 3600 * 1000
MAX_BLOCK_BYTES: Final = 8 * 1024 * 1024
"""The size that a new calibration topic allows for a block."""

HEADER_BYTES: Final = 65_536
"""The size that a new output allows for the key and the headers of a record."""

CLEANUP, RETENTION, BYTES, COMPRESSION = "cleanup.policy", "retention.ms", "max.message.bytes", "compression.type"


class TopicLine(NamedTuple):
    """One topic of the report; ``detail``: its configuration, or its problems."""

    status: Literal["create", "created", "exists", "wrong"]
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
        reason = "a producer can send some kilobytes that take more memory than the worker has when decompressed: "
        return TopicLine("exists", self.name, " ".join([detail, *self._other(existing, COMPRESSION, reason)]))

    def _problems(self, existing: ExistingTopic) -> Iterator[str]:
        """Yield the problems of an existing topic of this name, each with its remedy."""
        if self.role == "calibration" and existing.partitions != 1:
            yield f"{existing.partitions} partitions instead of 1: delete it, or use another name in topics.calibration"
        if self.role in {"output", "rejected"} and existing.partitions < self.partitions:
            remedy = f"kafka-topics.sh --alter --topic {self.name} --partitions {self.partitions}"
            yield f"{existing.partitions} partitions, fewer than the {self.partitions} of the input: {remedy}"
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
    shown = (f"{name}={value}" for name, value in settings.items())
    return " ".join([f"{partitions} partition{'s' if partitions > 1 else ''}", *shown])


def required_topics(configuration: Configuration, partitions: int = DEFAULT_PARTITIONS) -> tuple[RequiredTopic, ...]:
    """Return the topics of a configuration; ``partitions``: of the input.

    The output may be compacted unless its records have no keys; rejections have none. The calibration topic keeps
    blocks at least twice as long as the window.
    """
    names, kept = configuration.topics, round(2_000 * configuration.calibration.window_age)
    written = int(configuration.kafka.properties.get("message.max.bytes", PRODUCER_BYTES))
    largest = max(2 * configuration.limits.record_bytes + HEADER_BYTES, written)  # labels may double the length
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


def prepare_topics(
    configuration: Configuration,
    *,
    partitions: int = DEFAULT_PARTITIONS,
    replication_factor: int | None = None,
    dry_run: bool = False,
) -> list[TopicLine]:
    """Create the missing topics and check the others; with ``dry_run`` create nothing.

    ``partitions``: of a new input; ``replication_factor``: None for the broker's default. Return one line per topic.
    Nothing is created if an existing topic is wrong. Raises ServiceError if the broker rejects a request,
    ConfigurationError for properties that cannot be used.
    """
    names = [name for _, name in configuration.topics]
    with _reported("the topics cannot be used"), closing(_connect(configuration)) as admin:
        existing = _existing(admin, names)
        found = existing.get(configuration.topics.input)
        required = required_topics(configuration, found.partitions if found else partitions)
        lines = [topic.check(existing.get(topic.name)) for topic in required]
        if dry_run or any(line.status == "wrong" for line in lines):
            return lines
        replicas = replication_factor or -1
        for topic in (topic for topic in required if topic.name not in existing):
            settings = {**topic.settings, **({"min.insync.replicas": "2"} if replicas >= 3 else {})}
            new = NewTopic(topic.name, topic.partitions, replicas, topic_configs=settings)
            # Another process may have created it meanwhile.
            with _reported(f"topic {topic.name} cannot be created"), suppress(TopicAlreadyExistsError):
                admin.create_topics([new])
        deadline = time.monotonic() + 30
        while len(_existing(admin, names)) < len(names):
            if time.monotonic() > deadline:
                raise ServiceError("the broker does not know the new topics yet: run the command again later")
            time.sleep(0.1)
        return [line._replace(status="created") if line.status == "create" else line for line in lines]


def _connect(configuration: Configuration) -> KafkaAdminClient:
    """Connect the client. Raises ServiceError, and ConfigurationError for properties that it cannot use."""
    require_broker(confluent_properties(configuration))
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it logs failed attempts, even if a later one succeeds
    return KafkaAdminClient(
        bootstrap_servers=configuration.kafka.bootstrap_servers.split(","),
        api_version_auto_timeout_ms=10_000,
        **credentials(configuration.kafka.properties),
    )


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
            if error is NoError:
                settings = {entry["config_names"]: entry["config_value"] for entry in row["config_entries"]}
                found[name] = ExistingTopic(partitions[name], settings)
            elif error is not UnknownTopicOrPartitionError:  # of which the broker is about to learn
                raise error
    return found
