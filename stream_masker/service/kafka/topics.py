"""The topics of a configuration: checks of existing ones and creation of missing ones, by kafka-python."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaConfigurationError, KafkaError, NoError, TopicAlreadyExistsError, for_code
from kafka.errors import UnknownTopicOrPartitionError as UnknownTopicError

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.credentials import credentials
from stream_masker.service.kafka.failures import require_broker
from stream_masker.service.kafka.requirements import (
    CLEANUP,
    DEFAULT_PARTITIONS,
    SETTINGS,
    ExistingTopic,
    RequiredTopic,
    required_topics,
)

BROKER_DEFAULT_REPLICATION: Final = -1
"""The replication factor that selects the broker's default."""

TOPIC_WAIT_SECONDS: Final = 30.0
"""The time limit until a broker knows new topics."""

BROKER_PROBE_MS: Final = 10_000
"""The time that the client looks for a broker, in milliseconds."""


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


def plan_topics(required: Sequence[RequiredTopic], existing: Mapping[str, ExistingTopic]) -> list[TopicLine]:
    """Return the planned status of each topic."""
    return [_line(topic, existing.get(topic.name)) for topic in required]


def _line(topic: RequiredTopic, existing: ExistingTopic | None) -> TopicLine:
    if existing is None:
        return TopicLine(TopicStatus.CREATE, topic.name, _describe(topic.partitions, topic.settings))
    if problems := "; ".join(topic.problems(existing)):
        return TopicLine(TopicStatus.WRONG, topic.name, problems)
    detail = _describe(existing.partitions, {CLEANUP: existing.settings.get(CLEANUP)})
    return TopicLine(TopicStatus.EXISTS, topic.name, f"{detail} {topic.advice(existing)}".rstrip())


def _describe(partitions: int, settings: Mapping[str, str | None]) -> str:
    count = f"{partitions} partition{'s' if partitions > 1 else ''}"
    return " ".join([count, *(f"{name}={value}" for name, value in settings.items())])


def prepare_topics(
    configuration: Configuration,
    *,
    partitions: int = DEFAULT_PARTITIONS,
    replication_factor: int = BROKER_DEFAULT_REPLICATION,
    dry_run: bool = False,
) -> list[TopicLine]:
    """Create the missing topics and check the others; with ``dry_run`` create nothing.

    Return one line per topic. Nothing is created if an existing topic is wrong. Raises ServiceError if the broker
    rejects a request, ConfigurationError for properties that cannot be used.
    """
    with closing(_connect(configuration)) as admin, _described():
        found = {topic["topic"]: len(topic["partitions"]) for topic in admin.describe_topics()}
        required = required_topics(configuration, partitions=partitions, existing=found)
        names = [topic.name for topic in required]
        existing = _existing(admin, names)
        lines = plan_topics(required, existing)
        if dry_run or any(line.status is TopicStatus.WRONG for line in lines):
            return lines
        new = [topic for topic in required if topic.name not in existing]
        created = {topic.name for topic in new if _create(admin, topic, replication_factor)}
        _await(admin, names)
        return [replace(line, status=TopicStatus.CREATED) if line.name in created else line for line in lines]


def _connect(configuration: Configuration) -> KafkaAdminClient:
    properties, servers = configuration.kafka.properties, configuration.kafka.bootstrap_servers
    require_broker(confluent_properties(configuration))
    given = credentials(properties)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it logs failed attempts, even if a later one succeeds
    try:
        return KafkaAdminClient(
            bootstrap_servers=servers.split(","),
            client_id=str(properties.get("client.id", "stream-masker")),
            api_version_auto_timeout_ms=BROKER_PROBE_MS,
            security_protocol=given.protocol,
            ssl_context=given.context,
            sasl_mechanism=given.mechanism,
            sasl_plain_username=given.username,
            sasl_plain_password=given.password,
        )
    except (AssertionError, KafkaConfigurationError, ValueError, OSError) as error:
        raise ConfigurationError(f"kafka.properties cannot be used: {error}") from error
    except KafkaError as error:
        raise ServiceError(f"cannot connect to Kafka at {servers}: {type(error).__name__}") from error


@contextmanager
def _described() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise ServiceError(f"the topics cannot be described: {_reason(error)}") from error
    except ValueError as error:
        text = "the topics cannot be described: the broker's response is not that of Apache Kafka"
        raise ServiceError(text) from error


def _existing(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, ExistingTopic]:
    """Return the named topics that exist with their settings."""
    partitions = {topic["topic"]: len(topic["partitions"]) for topic in admin.describe_topics()}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, SETTINGS) for name in names if name in partitions]
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


def _await(admin: KafkaAdminClient, names: Sequence[str]) -> None:
    deadline = time.monotonic() + TOPIC_WAIT_SECONDS
    while len(_existing(admin, names)) < len(names):
        if time.monotonic() > deadline:
            raise ServiceError(f"the broker does not know the new topics after {TOPIC_WAIT_SECONDS:.0f} s")
        time.sleep(0.1)


def _create(admin: KafkaAdminClient, topic: RequiredTopic, replication_factor: int) -> bool:
    """Create a topic; return False if another process has created it in the meantime. Raises ServiceError."""
    settings = {**topic.settings, **({"min.insync.replicas": "2"} if replication_factor >= 3 else {})}
    try:
        admin.create_topics([NewTopic(topic.name, topic.partitions, replication_factor, topic_configs=settings)])
    except TopicAlreadyExistsError:
        return False
    except KafkaError as error:
        raise ServiceError(f"topic {topic.name} cannot be created: {_reason(error)}") from error
    return True


def _reason(error: KafkaError) -> str:
    return str(getattr(error, "description", "")) or type(error).__name__
