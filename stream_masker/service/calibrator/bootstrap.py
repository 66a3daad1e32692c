"""What a calibrator begins with: its parts, the published versions, or first statistics from a sample of the input.

Its main part is the single writer of the statistics topic.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, fields
from typing import Final

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from stream_masker.core.statistics.counts import Counts, merge
from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.messages import (
    BlockRange,
    SealError,
    StatisticsMessage,
    TopicSeal,
    decode_statistics,
    encode_statistics,
    number_of,
)
from stream_masker.pipeline.versions import History, Publish, Subject, VersionPlanner
from stream_masker.pipeline.window import CalibrationSettings
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_risk_limits, noise_levels
from stream_masker.service.configuration.secret import read_secret, secret_id, topic_seal
from stream_masker.service.formats import wire_format
from stream_masker.service.kafka.clients import (
    MAX_VERSION_BYTES,
    SENT_ONCE_SECONDS,
    confluent_properties,
    connect_producer,
    fatal_error,
    publisher_id,
)
from stream_masker.service.kafka.reader import (
    POLL_TIMEOUT_SECONDS,
    READ_MESSAGES,
    SINGLE_PARTITION,
    connect_reader,
    is_partition_end,
    read_to_end,
    require_topics,
)
from stream_masker.service.observability.logs import describe

log = logging.getLogger(__name__)

TRANSACTION_MS: Final = 30_000
"""The transaction timeout: how long readers wait for a publisher that died during a transaction."""

PATIENCE_SECONDS = 60.0
"""The time without an answer after which a restore begins again with a new client."""

SAMPLE_SECONDS = 2.0
"""The time after which a read of a sample ends although more records wait."""

SAMPLE_IDLE_SECONDS = 0.5
"""The time after which no more records wait."""


class StatisticsPublisher:
    """Writes versions in transactions, each with its drift report and the tombstone of an expired one.

    All publishers of a topic share a transactional id. Opening one completes or aborts the transaction of the previous
    one and fences it out, so what is read after ``open`` stays the newest state until this publisher writes or is
    fenced out itself. Version numbers therefore never fork. After any error the publisher must be opened again, and the
    topic read again. The same holds after a commit that took so long that its request may have been sent twice: the
    late one could commit a part of the next transaction.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._topics = configuration.topics
        self.seal = topic_seal(configuration, configuration.topics.statistics)
        """Seals the messages of the statistics topic, and opens them."""
        self._properties = {
            "compression.type": "zstd",
            **confluent_properties(configuration),
            "transactional.id": publisher_id(configuration.topics),
            "transaction.timeout.ms": TRANSACTION_MS,
            "message.max.bytes": MAX_VERSION_BYTES,
        }
        self._producer: Producer | None = None

    def open(self) -> None:
        """Fence out all other publishers of the topic. Raises ServiceError; ConfigurationError for bad properties."""
        self._producer = None
        producer = connect_producer(self._properties)
        try:
            producer.init_transactions(POLL_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise ServiceError(f"the publisher cannot be initialised: {describe(error)}") from error
        self._producer = producer

    def publish(self, publish: Publish) -> None:
        """Write a version, its drift report and the tombstone of an expired one in one transaction.

        The version is sealed; the report is plain, for people. Raises ServiceError if the transaction failed, also
        because another process has published since, or if its outcome is unknown; reading the topic again resolves it.
        """
        message = publish.message
        value = self.seal.seal(message.key, encode_statistics(message))
        try:
            self._write(publish, value)
        except KafkaException as error:
            self._producer = None
            raise ServiceError(f"statistics cannot be published: {describe(error)}") from error

    def poll(self) -> None:
        """Serve the client's callbacks, which write its logs; call it regularly."""
        if self._producer is not None:
            try:
                self._producer.poll(0)
            except SystemError as failure:
                raise fatal_error(self._producer, failure) from None

    def close(self) -> None:
        """Drop the producer; no transaction is open between calls."""
        self._producer = None

    def _write(self, publish: Publish, value: bytes) -> None:
        if self._producer is None:
            raise ServiceError("the publisher must be opened again: a request of its last transaction may arrive late")
        producer, statistics = self._producer, self._topics.statistics
        producer.begin_transaction()
        producer.produce(statistics, value, publish.message.key, SINGLE_PARTITION)
        producer.produce(self._topics.drift, orjson.dumps(publish.report), publish.message.key, SINGLE_PARTITION)
        if publish.expired is not None:
            producer.produce(statistics, None, b"%d" % publish.expired, SINGLE_PARTITION)
        start = time.monotonic()
        try:
            producer.commit_transaction(POLL_TIMEOUT_SECONDS)
        except SystemError as failure:
            raise fatal_error(producer, failure) from None
        if time.monotonic() - start >= SENT_ONCE_SECONDS:
            self._producer = None


@dataclass(frozen=True, slots=True)
class CalibratorComponents:
    """The parts of a calibrator that last longer than one assignment; ``blocks``: the calibration topic's seal."""

    configuration: Configuration
    subject: Subject
    settings: CalibrationSettings
    publisher: StatisticsPublisher
    blocks: TopicSeal


def build_components(configuration: Configuration) -> CalibratorComponents:
    """Build the components; loads the ontologies. Raises ConfigurationError."""
    section, least = configuration.calibration, configuration.publication.min_records
    subject = Subject(
        mechanism=build_mechanism(configuration),
        alpha=noise_levels(configuration),
        configuration=configuration.hash,
        secret_id=secret_id(read_secret(configuration)),
        min_records=least,
        limits=build_risk_limits(configuration),
    )
    bounds = section.model_dump(include={each.name for each in fields(CalibrationSettings)})
    return CalibratorComponents(
        configuration=configuration,
        subject=subject,
        settings=CalibrationSettings(**bounds, min_new_records=least),
        publisher=StatisticsPublisher(configuration),
        blocks=topic_seal(configuration, configuration.topics.calibration),
    )


def publish_snapshot(configuration: Configuration, snapshot: StatisticsMessage, *, baseline: bool = False) -> int:
    """Publish the statistics of a snapshot as the next version; return its number.

    ``baseline``: whether drift is measured against it from now on.

    An active calibrator is fenced out: before it publishes next, it reads the topic again and goes on from this one.
    Raises StatisticsError for a snapshot of another mechanism, ConfigurationError, and ServiceError if Kafka fails.
    """
    components = build_components(configuration)
    require_topics(configuration, configuration.topics.internal.values())
    components.publisher.open()
    try:
        with closing(connect_reader(configuration)) as consumer:
            planner = VersionPlanner(components.subject, read_history(consumer, components, lambda: False))
    except KafkaException as error:
        raise ServiceError(f"{configuration.topics.statistics} cannot be read: {describe(error)}") from error
    publish = planner.on_snapshot(snapshot, time.time_ns() // 1_000_000, baseline=baseline)
    components.publisher.publish(publish)
    return publish.message.version


def read_history(consumer: Consumer, components: CalibratorComponents, stopped: Callable[[], bool]) -> History:
    """Read the history from the statistics topic. Raises like ``read_to_end``."""
    topic = components.configuration.topics.statistics
    return history_of(components, read_to_end(consumer, topic, stopped=stopped, patience=PATIENCE_SECONDS))


def history_of(components: CalibratorComponents, messages: Iterable[Message]) -> History:
    """Return the history of the messages of the statistics topic.

    A message that is not authentic changes only the history's counts, because even its number cannot be trusted.
    """
    history = History(components.subject)
    for message in messages:
        key, value = message.key(), message.value()
        if (version := number_of(key)) is None or value is None:
            continue
        try:
            history.add(version, decode_statistics(components.publisher.seal.open(key, value)))
        except SealError as error:
            history.unauthentic[error.cause] += 1
        except StatisticsError as error:
            history.add(version, None)
            log.warning("refused the statistics at offset %d of %s: %s", message.offset(), message.topic(), error)
    return history


def resume_from(consumer: Consumer, topic: str, windowed: BlockRange | None) -> tuple[int, BlockRange | None]:
    """Return the offset to read the calibration topic from, and the published range if it belongs to this topic."""
    if windowed is None:
        return OFFSET_BEGINNING, None
    partition = TopicPartition(topic, SINGLE_PARTITION)
    low, high = consumer.get_watermark_offsets(partition, timeout=POLL_TIMEOUT_SECONDS, cached=False)
    if windowed.last >= high:
        log.warning("%s ends before the last published block; reading it from the start, as a new topic", topic)
        return OFFSET_BEGINNING, None
    if windowed.first < low:
        log.warning("%s no longer has the first blocks of the window; its retention is too short", topic)
    return max(windowed.first, low), windowed


class Sample:
    """Records from the beginning of the input, for the first statistics. It only reads: no group, no commits.

    It is complete with ``window_records`` records; with ``min_records`` when a read ends before that.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        plan, mechanism, form = build_plan(configuration), build_mechanism(configuration), wire_format(configuration)
        self._masker = RecordMasker(plan, mechanism, secrets.token_bytes(32), record_format=form)
        self._consumer: Consumer | None = None
        self._is_lost = threading.Event()
        self._parts: list[Counts] = []
        self.records = 0
        """The number of records counted so far."""

    def read(self) -> Counts | None:
        """Read until no more records wait, or for about ``SAMPLE_SECONDS``; return the counts if they are complete.

        Raises KafkaException; ServiceError if the records' format is not available, or the client has lost the brokers.
        """
        if self._is_lost.is_set():
            raise ServiceError("the client has lost the brokers while the input was sampled")
        section, until = self._configuration.calibration, time.monotonic() + SAMPLE_SECONDS
        self._consumer = self._consumer or self._connect()
        while self.records < section.window_records and time.monotonic() < until:
            messages = self._consumer.consume(READ_MESSAGES, SAMPLE_IDLE_SECONDS)
            if not messages:
                break
            try:
                values = [message.value() for message in messages if not is_partition_end(message)]
                self._parts.append(self._masker.count(self._masker.read(values)))
            except FormatUnavailableError as error:
                raise ServiceError(f"the input cannot be sampled: {error}") from None
            self.records += self._parts[-1].records
        return merge(self._parts) if self.records >= section.min_records else None

    def _connect(self) -> Consumer:
        """Connect, and assign all partitions of the input from their beginning."""
        topic, consumer = self._configuration.topics.input, connect_reader(self._configuration, self._is_lost.set)
        [count] = require_topics(self._configuration, [topic]).values()
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(count)])
        return consumer
