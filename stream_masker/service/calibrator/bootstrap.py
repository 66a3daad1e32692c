"""The state at the start: published versions from the topics, or first statistics from a sample or a snapshot."""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.blocks import SampleCounts
from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.messages import BlockRange, StatisticsSource, decode_statistics
from stream_masker.pipeline.seal import SealError
from stream_masker.pipeline.style import Style
from stream_masker.pipeline.versions import History
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.configuration.topics import TopicsSection
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.kafka.topic_reader import (
    POLL_TIMEOUT_SECONDS,
    READ_MESSAGES,
    SINGLE_PARTITION,
    connect_reader,
    is_partition_end,
    read_to_end,
    require_topics,
)
from stream_masker.service.observability.logs import describe

if TYPE_CHECKING:
    from stream_masker.service.calibrator.components import CalibratorComponents

log = logging.getLogger(__name__)

SAMPLE_BATCH_RECORDS = 1_000
SAMPLE_BATCH_BYTES = 16_777_216
"""The number of records, and about the size of their values, that are counted at a time."""

SAMPLE_RETRY_SECONDS = 5.0

SAMPLE_READ_SECONDS = 0.5
"""The maximum time that one read of a sample waits."""

SAMPLE_AGAIN_SECONDS = 30.0
"""The time after which a sample that is not complete is taken again, from topics that are new too."""

SAMPLE_SECONDS = 2.0
"""The maximum time that a sample of at least ``min_records`` records still grows."""


def publish_snapshot(
    configuration: Configuration,
    snapshot: Mapping[str, Any],
    source: StatisticsSource = "file",
    styles: Mapping[str, Style] | None = None,
) -> int:
    """Publish a mechanism's snapshot with the learned styles as the next statistics version; return its number.

    An active calibrator is fenced out for a moment; it then reads the topic again and continues from this version.
    Raises StatisticsError for a snapshot of another mechanism, ConfigurationError, and ServiceError if Kafka fails.
    """
    from stream_masker.service.calibrator.components import build_components, now_milliseconds

    components = build_components(configuration)
    require_topics(configuration, configuration.topics.internal.values())
    components.publisher.open()
    try:
        with connect_reader(configuration) as consumer:
            planner = components.planner(read_history(consumer, components, lambda: False))
    except KafkaException as error:
        raise ServiceError(f"{configuration.topics.statistics} cannot be read: {describe(error)}") from error
    publish = planner.on_snapshot(snapshot, now_milliseconds(), source, styles)
    components.publisher.publish(publish)
    return publish.message.version


def read_history(consumer: Consumer, components: CalibratorComponents, stopped: Callable[[], bool]) -> History:
    """Read the history from the statistics topic. Raises like ``read_to_end``."""
    topic = components.configuration.topics.statistics
    return history_of(components, read_to_end(consumer, topic, stopped=stopped))


def history_of(components: CalibratorComponents, messages: Iterable[Message]) -> History:
    """Return the history of the messages of the statistics topic.

    A message that is not authentic changes only the history's counts, because even its number cannot be trusted.
    """
    history = History(components.subject, components.settings.baseline)
    for message in messages:
        key, value = message.key() or b"", message.value()
        if not key.isdigit():
            log.warning("%s: the key at offset %d is no version", message.topic(), message.offset())
            continue
        try:
            if value is None:
                history.forget({int(key)})
            else:
                _add_version(history, int(key), components.versions.open(key, value), message)
        except SealError as error:
            history.unauthentic[error.cause] += 1
    return history


def _add_version(history: History, version: int, value: bytes, message: Message) -> None:
    try:
        history.add(decode_statistics(value))
    except StatisticsError as error:
        history.refuse(version)
        log.warning("refused the statistics at offset %d of %s: %s", message.offset(), message.topic(), error)


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


class Sampler:
    """Samples the input topics from their beginning, in its own thread. It only reads: no group, no commits.

    A sample is complete with ``window_records`` records. With ``min_records`` records it is complete as soon as each
    partition was read to its end, or ``SAMPLE_SECONDS`` later.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._result: SampleCounts | None = None
        self._error: Exception | None = None
        self.records = 0
        """The number of records counted so far."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Signal the thread to end; does not wait for it."""
        self._stopping.set()

    def result(self) -> SampleCounts | None:
        """Return the counts of the complete sample, None before. Raises the exception that ended the thread."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._sample_with_retries()
        except Exception as error:  # noqa: BLE001 - raised again in result()
            self._error = error

    def _sample_with_retries(self) -> SampleCounts | None:
        masker = RecordMasker(
            build_plan(self._configuration),
            build_mechanism(self._configuration),
            secrets.token_bytes(32),
            record_format=wire_format(self._configuration),
        )
        while not self._stopping.is_set():
            try:
                if (sample := self._read_sample(masker)) is not None:
                    return sample
            except (KafkaException, FormatUnavailableError) as error:
                log.warning("failed to sample the input: %s", describe(error))
                self._stopping.wait(SAMPLE_RETRY_SECONDS)
        return None

    def _read_sample(self, masker: RecordMasker) -> SampleCounts | None:
        """Return a complete sample; None when stopping, or when it is time to look for new topics."""
        topics, section = self._configuration.topics, self._configuration.calibration
        parts: list[SampleCounts] = []
        self.records, enough_at = 0, math.inf
        again = math.inf if topics.expression is None else time.monotonic() + SAMPLE_AGAIN_SECONDS
        with connect_reader(self._configuration) as consumer:
            unread = assign_all(consumer, topics)
            while not self._stopping.is_set() and time.monotonic() < again:
                values, ended = read_values(consumer, min(SAMPLE_BATCH_RECORDS, section.window_records - self.records))
                parts.append(masker.count(values))
                self.records += parts[-1].counts.records
                unread -= ended
                if self.records >= section.min_records:
                    enough_at = min(enough_at, time.monotonic())
                is_grown = not unread or time.monotonic() - enough_at >= SAMPLE_SECONDS
                if self.records >= section.window_records or (self.records >= section.min_records and is_grown):
                    return SampleCounts.joined(parts)
        return None


def assign_all(consumer: Consumer, topics: TopicsSection) -> set[tuple[str, int]]:
    """Assign all partitions of the input topics, from their beginning, and return them. Raises KafkaException."""
    names = [*topics.names] or filter(topics.is_input, consumer.list_topics(timeout=POLL_TIMEOUT_SECONDS).topics)
    partitions = []
    for name in names:
        metadata = consumer.list_topics(name, timeout=POLL_TIMEOUT_SECONDS).topics[name]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        partitions += [TopicPartition(name, partition, OFFSET_BEGINNING) for partition in metadata.partitions]
    consumer.assign(partitions)
    return {(partition.topic, partition.partition) for partition in partitions}


def read_values(consumer: Consumer, wanted: int) -> tuple[list[bytes], set[tuple[str, int]]]:
    """Read at most ``wanted`` messages, or about ``SAMPLE_BATCH_BYTES``, for about ``SAMPLE_READ_SECONDS``.

    Returns the values without tombstones, and the partitions that have been read to their end. Raises KafkaException.
    """
    values: list[bytes] = []
    ended: set[tuple[str, int]] = set()
    size, until = 0, time.monotonic() + SAMPLE_READ_SECONDS
    while wanted > 0 and size < SAMPLE_BATCH_BYTES and (left := until - time.monotonic()) > 0:
        messages = consumer.consume(min(READ_MESSAGES, wanted), left)
        read = list(message_values(messages))
        values += read
        ended |= {(message.topic(), message.partition()) for message in messages if is_partition_end(message)}
        wanted, size = wanted - len(messages), size + sum(map(len, read))
    return values, ended


def message_values(messages: Sequence[Message]) -> Iterator[bytes]:
    """Yield the values of messages, without tombstones and end-of-partition events. Raises KafkaException."""
    for message in messages:
        if (error := message.error()) is not None and not is_partition_end(message):
            raise KafkaException(error)
        if error is None and (value := message.value()) is not None:
            yield value
