"""The single writer of the statistics topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from stream_masker.errors import ServiceError
from stream_masker.pipeline.messages import encode_drift, encode_statistics
from stream_masker.pipeline.versions import Publish
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.kafka.access import publisher_id
from stream_masker.service.kafka.clients import (
    MAX_VERSION_BYTES,
    SENT_ONCE_SECONDS,
    confluent_properties,
    connect_producer,
    fatal_errors,
)
from stream_masker.service.kafka.reader import POLL_TIMEOUT_SECONDS, SINGLE_PARTITION
from stream_masker.service.observability.logs import describe

TRANSACTION_MS: Final = 30_000
"""The transaction timeout: how long readers wait for a publisher that died during a transaction."""

NOT_OPEN: Final = "the publisher is not open"
IN_DOUBT: Final = "a request of the last transaction may arrive late: the publisher must be opened again"


class StatisticsPublisher:
    """Writes versions in transactions, each with its drift report and the tombstones of expired versions.

    All publishers of a topic share a transactional id. Opening one completes or aborts the transaction of the previous
    one and fences it out, so what is read after ``open`` stays the newest state until this publisher writes or is
    fenced out itself. Version numbers therefore never fork. After any error the publisher must be opened again, and the
    topic read again. The same holds after a commit that took so long that its request may have been sent twice: the
    late one could commit a part of the next transaction.
    """

    def __init__(self, configuration: Configuration, clock: Callable[[], float] = time.monotonic) -> None:
        self._topics = configuration.topics
        self._seal = topic_seal(configuration, configuration.topics.statistics)
        self._properties = {
            "compression.type": "zstd",
            **confluent_properties(configuration),
            "transactional.id": publisher_id(configuration.topics),
            "transaction.timeout.ms": TRANSACTION_MS,
            "message.max.bytes": MAX_VERSION_BYTES,
        }
        self._clock = clock
        self._producer: Producer | None = None
        self._unopened = NOT_OPEN

    def open(self) -> None:
        """Fence out all other publishers of the topic. Raises ServiceError; ConfigurationError for bad properties."""
        self._producer = None
        producer = connect_producer(self._properties)
        try:
            producer.init_transactions(POLL_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise ServiceError(f"the publisher cannot be initialised: {describe(error)}") from error
        self._producer, self._unopened = producer, NOT_OPEN

    def publish(self, publish: Publish) -> None:
        """Write a version, its drift report and the tombstones of expired versions in one transaction.

        The version is sealed; the report is plain, for people. Raises ServiceError if the version is too large, or if
        the transaction failed or its outcome is unknown; reading the topic again resolves it.
        """
        message = publish.message
        value = self._seal.seal(message.key, encode_statistics(message))
        try:
            self._write(publish, value)
        except KafkaException as error:
            self._producer = None
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise ServiceError(
                    f"statistics version {message.version} has {len(value):,} bytes, which {self._topics.statistics} "
                    f"does not accept: set its max.message.bytes to {MAX_VERSION_BYTES}, or take fewer records"
                ) from None
            raise ServiceError(f"statistics cannot be published: {describe(error)}") from error

    def poll(self) -> None:
        """Serve the client's callbacks, which write its logs; call it regularly."""
        if self._producer is not None:
            with fatal_errors(self._producer):
                self._producer.poll(0)

    def close(self) -> None:
        """Drop the producer; no transaction is open between calls."""
        self._producer = None

    def _write(self, publish: Publish, value: bytes) -> None:
        if self._producer is None:
            raise ServiceError(self._unopened)
        producer, statistics = self._producer, self._topics.statistics
        producer.begin_transaction()
        producer.produce(statistics, value, publish.message.key, SINGLE_PARTITION)
        producer.produce(self._topics.drift, encode_drift(publish.report), publish.message.key, SINGLE_PARTITION)
        for version in publish.expired:
            producer.produce(statistics, None, b"%d" % version, SINGLE_PARTITION)
        start = self._clock()
        with fatal_errors(producer):
            producer.commit_transaction(POLL_TIMEOUT_SECONDS)
        if self._clock() - start >= SENT_ONCE_SECONDS:
            self._producer, self._unopened = None, IN_DOUBT
