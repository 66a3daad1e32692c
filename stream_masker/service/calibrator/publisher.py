"""The publisher of statistics versions: a single writer, one transaction for a version and its drift report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from stream_masker.errors import ServiceError
from stream_masker.pipeline.calibration.versions import Publish
from stream_masker.pipeline.wire.chunks import MAX_HEAD_BYTES, Chunk, split_message
from stream_masker.pipeline.wire.reports import encode_drift
from stream_masker.pipeline.wire.statistics import encode_statistics
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.kafka.clients import (
    RETRY_PROPERTIES,
    confluent_properties,
    connect_producer,
    fatal_errors,
    retry_delay,
)
from stream_masker.service.kafka.clients import log as client_log
from stream_masker.service.kafka.failures import require_controller
from stream_masker.service.kafka.names import publisher_id
from stream_masker.service.kafka.topic_reader import POLL_TIMEOUT_SECONDS, SINGLE_PARTITION
from stream_masker.service.kafka.topics import MAX_SUMMARY_BYTES
from stream_masker.service.observability.logs import describe

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
