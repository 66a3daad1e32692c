"""The components of the calibrator, built from the configuration, and the publisher of versions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.errors import ServiceError
from stream_masker.pipeline.calibration.history import Subject
from stream_masker.pipeline.calibration.publication import PublicationSettings
from stream_masker.pipeline.calibration.risk import RiskLimits
from stream_masker.pipeline.calibration.versions import Publish
from stream_masker.pipeline.calibration.window import CalibrationSettings
from stream_masker.pipeline.wire.chunks import MAX_HEAD_BYTES, Chunk, split_message
from stream_masker.pipeline.wire.reports import encode_drift
from stream_masker.pipeline.wire.statistics import encode_statistics
from stream_masker.service.calibrator.page import LivePage
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import (
    build_mechanism,
    build_risk_limits,
    build_taxonomies,
    variance_growth,
)
from stream_masker.service.configuration.secret import required_secret_id, topic_seal
from stream_masker.service.kafka.clients import (
    RETRY_PROPERTIES,
    confluent_properties,
    connect_producer,
    fatal_errors,
    retry_delay,
)
from stream_masker.service.kafka.clients import log as client_log
from stream_masker.service.kafka.failures import require_controller
from stream_masker.service.kafka.messages import MessageOpener
from stream_masker.service.kafka.names import publisher_id
from stream_masker.service.kafka.requirements import MAX_BLOCK_BYTES as MAX_SUMMARY_BYTES
from stream_masker.service.kafka.topic_identity import TopicWatch
from stream_masker.service.kafka.topic_reader import POLL_TIMEOUT_SECONDS, SINGLE_PARTITION
from stream_masker.service.observability.logs import describe


@dataclass(frozen=True, slots=True)
class CalibratorComponents:
    """The objects that outlive a session; ``new_mechanism`` returns a new mechanism without statistics.

    ``blocks``, ``versions``: they open the messages of the calibration and the statistics topic.
    ``calibration_topic``: whether this topic is another one than before.
    """

    configuration: Configuration
    subject: Subject
    settings: CalibrationSettings
    publication: PublicationSettings
    risk_limits: RiskLimits
    publisher: StatisticsPublisher
    blocks: MessageOpener
    versions: MessageOpener
    calibration_topic: TopicWatch
    new_mechanism: Callable[[], Mechanism]
    page: LivePage


def build_components(configuration: Configuration, page: LivePage | None = None) -> CalibratorComponents:
    """Build the components; loads the ontologies. ``page``: the live page, by default one that nothing serves.

    Raises ConfigurationError.
    """
    topics = configuration.topics
    return CalibratorComponents(
        configuration=configuration,
        subject=replace(build_subject(configuration), secret_id=required_secret_id(configuration)),
        settings=build_settings(configuration),
        publication=publication_settings(configuration),
        risk_limits=build_risk_limits(configuration),
        publisher=StatisticsPublisher(configuration),
        blocks=MessageOpener(topic_seal(configuration, topics.calibration)),
        versions=MessageOpener(topic_seal(configuration, topics.statistics)),
        calibration_topic=TopicWatch.of(configuration, topics.calibration),
        new_mechanism=partial(build_mechanism, configuration),
        page=page or LivePage(configuration),
    )


def build_subject(configuration: Configuration) -> Subject:
    """Return the subject of the calibration: mechanism, taxonomies, settings. Raises ConfigurationError."""
    mechanism = build_mechanism(configuration)
    return Subject(
        mechanism=mechanism.name,
        configuration=configuration.hash,
        taxonomies=build_taxonomies(configuration),
        distances=dict(zip(mechanism.attributes, mechanism.distances, strict=True)),
        alpha=variance_growth(configuration),
        numeric=tuple(configuration.numeric),
        context=mechanism.context,
    )


def publication_settings(configuration: Configuration) -> PublicationSettings:
    """Return the limits of what is published to people."""
    return PublicationSettings(min_records=configuration.publication.min_records)


def build_settings(configuration: Configuration) -> CalibrationSettings:
    """Return the limits of the window and the schedule of the statistics."""
    section, names = configuration.calibration, {field.name for field in fields(CalibrationSettings)}
    given = section.model_dump(include=names) | {
        "min_new_records": configuration.publication.min_records,
        "sampling": False,
        "urgent_divergence": 1.0,
    }
    return CalibrationSettings(**{**given, "baseline": None if section.baseline == "first" else section.baseline})


def now_milliseconds() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


log = logging.getLogger(__name__)

PUBLISH_TRANSACTION_MS = 30_000
"""The transaction timeout: how long readers wait for a publisher that died during a transaction."""


DEFAULT_MESSAGE_BYTES = 1_048_588
"""Kafka's default for the largest message."""

MESSAGE_OVERHEAD_BYTES = 4_096
"""The maximum size that a message's key and its batch add to its value, in bytes."""

PRODUCER_LIMIT_PROPERTY = "max.message.bytes"

NOT_OPEN = "the publisher is not open"

REQUEST_IN_DOUBT = "a request of the last transaction may arrive late: the publisher must be opened again"


@dataclass(frozen=True, slots=True)
class StatisticsRecord:
    """A message to write; a ``value`` of None deletes the key."""

    topic: str
    key: bytes
    value: bytes | None


class StatisticsPublisher:
    """The single writer of a statistics topic.

    All publishers of a topic share a transactional id. Opening one completes or aborts the transaction of the previous
    one and fences it out, so what is read after ``open`` stays the newest state until this publisher writes or is
    fenced out itself. Version numbers therefore never fork. After any error the publisher must be opened again, and the
    topic read again. The same holds after a commit that took so long that its request may have been sent twice: the
    late one could commit a part of the next transaction (see ``service.kafka.transactional_producer``).
    """

    def __init__(self, configuration: Configuration, clock: Callable[[], float] = time.monotonic) -> None:
        self._topics = configuration.topics
        self._seal = topic_seal(configuration, configuration.topics.statistics)
        self._properties = {**RETRY_PROPERTIES, **confluent_properties(configuration)}
        self._clock = clock
        self._producer: Producer | None = None
        self._unopened = NOT_OPEN
        self._max_chunk_bytes = DEFAULT_MESSAGE_BYTES

    def open(self) -> None:
        """Fence out all other publishers of the topic. Raises ServiceError; ConfigurationError for bad properties."""
        self._producer = None
        largest = min(MAX_SUMMARY_BYTES, max_message_bytes(self._properties, self._topics.statistics))
        self._max_chunk_bytes = max(MAX_HEAD_BYTES + self._seal.added_bytes, largest - MESSAGE_OVERHEAD_BYTES)
        producer = connect_producer(self._properties | self._publisher_properties(largest))
        self._attempt("the publisher cannot be initialised", lambda: producer.init_transactions(POLL_TIMEOUT_SECONDS))
        self._producer, self._unopened = producer, NOT_OPEN

    def publish(self, publish: Publish) -> int:
        """Write a version, its drift report and the tombstones of expired versions in one transaction.

        Each message of the version is sealed for its own key; the report is plain, for people. Return the number of
        chunks of the version, 0 for a single message. Raises ServiceError if the transaction failed or its outcome is
        unknown; reading the topic again resolves it.
        """
        limit = self._max_chunk_bytes - self._seal.added_bytes
        chunks = split_message(publish.message.version, encode_statistics(publish.message), limit)
        self._attempt("statistics cannot be published", lambda: self._write(self._messages(publish, chunks)))
        return len(chunks) - 1

    def poll(self) -> None:
        """Serve the client's callbacks, which write its logs; call it regularly."""
        if self._producer is not None:
            with fatal_errors(self._producer):
                self._producer.poll(0)

    def close(self) -> None:
        """Drop the producer; no transaction is open between calls."""
        self._producer = None

    def _publisher_properties(self, largest: int) -> dict[str, str | int]:
        return {
            "transactional.id": publisher_id(self._topics),
            "transaction.timeout.ms": PUBLISH_TRANSACTION_MS,
            "message.max.bytes": MAX_SUMMARY_BYTES,
            "batch.size": largest,
        }

    def _messages(self, publish: Publish, chunks: Iterable[Chunk]) -> list[StatisticsRecord]:
        report, statistics = publish.report, self._topics.statistics
        return [
            *(StatisticsRecord(statistics, chunk.key, self._sealed(chunk)) for chunk in chunks),
            StatisticsRecord(self._topics.drift, report.key, encode_drift(report)),
            *(StatisticsRecord(statistics, chunk.key, chunk.value) for chunk in publish.removal),
        ]

    def _sealed(self, chunk: Chunk) -> bytes | None:
        return None if chunk.value is None else self._seal.seal(chunk.key, chunk.value)

    def _write(self, messages: Iterable[StatisticsRecord]) -> None:
        if self._producer is None:
            raise ServiceError(self._unopened)
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(message.topic, key=message.key, value=message.value, partition=SINGLE_PARTITION)
        start = self._clock()
        with fatal_errors(self._producer):
            self._producer.commit_transaction(POLL_TIMEOUT_SECONDS)
        if self._clock() - start >= retry_delay(self._properties):
            self._producer, self._unopened = None, REQUEST_IN_DOUBT

    def _attempt(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except KafkaException as error:
            self._producer = None
            raise ServiceError(f"{what}: {describe(error)}") from error


def max_message_bytes(properties: Mapping[str, Any], topic: str) -> int:
    """Return the largest message that a topic accepts, in bytes; Kafka's default if the broker does not report it."""
    admin, resource = AdminClient(dict(properties), logger=client_log), ConfigResource(ResourceType.TOPIC, topic)
    try:
        require_controller(admin, seconds=POLL_TIMEOUT_SECONDS)
        futures = admin.describe_configs([resource], request_timeout=POLL_TIMEOUT_SECONDS)
        return int(futures[resource].result(POLL_TIMEOUT_SECONDS)[PRODUCER_LIMIT_PROPERTY].value)
    except (KafkaException, KeyError, TimeoutError, ValueError) as error:
        log.debug("%s of %s is unknown (%s)", PRODUCER_LIMIT_PROPERTY, topic, type(error).__name__)
        return DEFAULT_MESSAGE_BYTES
