"""Writing statistics versions: one publisher at a time, each version in one transaction with its drift report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaException, Producer

from stream_masker.errors import ServiceError
from stream_masker.pipeline.calibration import Publish
from stream_masker.pipeline.messages import encode_drift, encode_statistics
from stream_masker.service.calibrator_topics import PARTITION, WAIT
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka_clients import confluent_properties
from stream_masker.service.logs import describe
from stream_masker.service.topics import SUMMARY_BYTES
from stream_masker.service.worker_clients import connect_producer

TRANSACTION_MS = 30_000
"""How long the topics may wait for a publisher that died halfway."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to write; ``value`` None removes what the key held."""

    topic: str
    key: bytes
    value: bytes | None


class Publisher:
    """The one writer of a statistics topic.

    All publishers of a topic share a transactional id, so that opening one settles what an earlier one left behind
    and shuts it out: what is read after ``open`` stays the newest until this publisher writes, or is shut out itself.
    So version numbers never fork. After any error the publisher must be opened, and the topic read, again.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._topics = configuration.topics
        self._properties = confluent_properties(configuration) | {
            "transactional.id": f"{configuration.topics.statistics}.publisher",
            "transaction.timeout.ms": TRANSACTION_MS,
            "message.max.bytes": SUMMARY_BYTES,
        }
        self._producer: Producer | None = None

    def open(self) -> None:
        """Shuts out every other publisher of the topic. Raises ServiceError, ConfigurationError for bad properties."""
        self._producer = None
        producer = connect_producer(self._properties)
        self._attempt("cannot get ready to publish", lambda: producer.init_transactions(WAIT))
        self._producer = producer

    def publish(self, publish: Publish) -> None:
        """Writes a version, its drift report and the removal of expired versions, all or nothing.

        Raises ServiceError when that failed or may have; reading the topic again tells.
        """
        self._attempt("cannot publish statistics", lambda: self._write(self._messages(publish)))

    def poll(self) -> None:
        """Lets the client tell what it has to log. To be called now and then."""
        if self._producer is not None:
            self._producer.poll(0)

    def close(self) -> None:
        """Lets the producer go; no transaction is open between calls."""
        self._producer = None

    def _messages(self, publish: Publish) -> list[Outgoing]:
        message, report = publish.message, publish.report
        return [
            Outgoing(self._topics.statistics, message.key, encode_statistics(message)),
            Outgoing(self._topics.drift, report.key, encode_drift(report)),
            *(Outgoing(self._topics.statistics, str(version).encode(), None) for version in publish.expired),
        ]

    def _write(self, messages: Iterable[Outgoing]) -> None:
        if self._producer is None:
            raise ServiceError("the publisher is not open")
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(message.topic, key=message.key, value=message.value, partition=PARTITION)
        self._producer.commit_transaction(WAIT)

    def _attempt(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except KafkaException as error:
            self._producer = None
            raise ServiceError(f"{what}: {describe(error)}") from error
