"""Writing statistics versions: one publisher at a time, each version in one transaction with its drift report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from stream_masker.errors import ServiceError
from stream_masker.pipeline.calibration.versions import Publish
from stream_masker.pipeline.wire.chunks import MAX_HEAD_BYTES, Chunk, split_message
from stream_masker.pipeline.wire.messages import encode_drift, encode_statistics
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import confluent_properties, fatal_errors
from stream_masker.service.kafka.connections import connect_producer
from stream_masker.service.kafka.connections import log as client_log
from stream_masker.service.kafka.topic_reader import POLL_TIMEOUT_SECONDS, SINGLE_PARTITION
from stream_masker.service.kafka.topics import SUMMARY_BYTES
from stream_masker.service.observability.logs import describe

log = logging.getLogger(__name__)

PUBLISH_TRANSACTION_MS = 30_000
"""How long the topics may wait for a publisher that died halfway."""


DEFAULT_BYTES = 1_048_588
"""The largest message that Kafka takes unless it is told otherwise."""

OVERHEAD = 4_096
"""Bytes that a message's key and its batch may add to its value, at most."""

LARGEST_MESSAGE = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class StatisticsRecord:
    """A message to write; ``value`` None removes what the key held."""

    topic: str
    key: bytes
    value: bytes | None


class StatisticsPublisher:
    """The one writer of a statistics topic.

    All publishers of a topic share a transactional id, so that opening one settles what an earlier one left behind
    and shuts it out: what is read after ``open`` stays the newest until this publisher writes, or is shut out itself.
    So version numbers never fork. After any error the publisher must be opened, and the topic read, again.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._topics = configuration.topics
        self._properties = confluent_properties(configuration)
        self._producer: Producer | None = None
        self._limit = DEFAULT_BYTES

    def open(self) -> None:
        """Shuts out every other publisher of the topic. Raises ServiceError, ConfigurationError for bad properties."""
        self._producer = None
        largest = min(SUMMARY_BYTES, largest_message(self._properties, self._topics.statistics))
        self._limit = max(MAX_HEAD_BYTES, largest - OVERHEAD)
        producer = connect_producer(self._properties | self._own(largest))
        self._attempt("cannot get ready to publish", lambda: producer.init_transactions(POLL_TIMEOUT_SECONDS))
        self._producer = producer

    def publish(self, publish: Publish) -> int:
        """Writes a version, its drift report and the removal of expired versions, all or nothing.

        Gives the number of parts that the version was cut into, 0 for one message. Raises ServiceError when that
        failed or may have; reading the topic again tells.
        """
        pieces = split_message(publish.message.version, encode_statistics(publish.message), self._limit)
        self._attempt("cannot publish statistics", lambda: self._write(self._messages(publish, pieces)))
        return len(pieces) - 1

    def poll(self) -> None:
        """Lets the client tell what it has to log. To be called now and then."""
        if self._producer is not None:
            with fatal_errors(self._producer):
                self._producer.poll(0)

    def close(self) -> None:
        """Lets the producer go; no transaction is open between calls."""
        self._producer = None

    def _own(self, largest: int) -> dict[str, str | int]:
        return {
            "transactional.id": f"{self._topics.statistics}.publisher",
            "transaction.timeout.ms": PUBLISH_TRANSACTION_MS,
            "message.max.bytes": SUMMARY_BYTES,
            "batch.size": largest,
        }

    def _messages(self, publish: Publish, pieces: Iterable[Chunk]) -> list[StatisticsRecord]:
        report, statistics = publish.report, self._topics.statistics
        return [
            *(StatisticsRecord(statistics, piece.key, piece.value) for piece in pieces),
            StatisticsRecord(self._topics.drift, report.key, encode_drift(report)),
            *(StatisticsRecord(statistics, piece.key, piece.value) for piece in publish.removal),
        ]

    def _write(self, messages: Iterable[StatisticsRecord]) -> None:
        if self._producer is None:
            raise ServiceError("the publisher is not open")
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(message.topic, key=message.key, value=message.value, partition=SINGLE_PARTITION)
        with fatal_errors(self._producer):
            self._producer.commit_transaction(POLL_TIMEOUT_SECONDS)

    def _attempt(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except KafkaException as error:
            self._producer = None
            raise ServiceError(f"{what}: {describe(error)}") from error


def largest_message(properties: Mapping[str, Any], topic: str) -> int:
    """The largest message that a topic takes, in bytes; Kafka's default where the broker does not tell."""
    admin, wanted = AdminClient(dict(properties), logger=client_log), ConfigResource(ResourceType.TOPIC, topic)
    try:
        answer = admin.describe_configs([wanted], request_timeout=POLL_TIMEOUT_SECONDS)
        return int(answer[wanted].result(POLL_TIMEOUT_SECONDS)[LARGEST_MESSAGE].value)
    except (KafkaException, KeyError, TimeoutError, ValueError) as error:
        log.debug("%s of %s is not known (%s)", LARGEST_MESSAGE, topic, type(error).__name__)
        return DEFAULT_BYTES
