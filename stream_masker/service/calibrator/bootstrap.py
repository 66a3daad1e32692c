"""The state at the start: published versions from the topics, or first statistics from a sample or a snapshot."""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.calibration.counting import SampleCounts
from stream_masker.pipeline.calibration.history import History
from stream_masker.pipeline.calibration.versions import VersionPlanner
from stream_masker.pipeline.calibration.window import CalibrationSettings
from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.style import Style
from stream_masker.pipeline.wire.chunks import Versions, chunk_position, count_chunks
from stream_masker.pipeline.wire.sealing import SealError
from stream_masker.pipeline.wire.statistics import BlockRange, StatisticsSource, decode_statistics
from stream_masker.service.calibrator.components import (
    CalibratorComponents,
    build_components,
    build_settings,
    now_milliseconds,
)
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.configuration.topics import TopicsSection
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.failures import NoBrokerError, require_broker
from stream_masker.service.kafka.messages import MessageOpener
from stream_masker.service.kafka.topic_reader import (
    POLL_TIMEOUT_SECONDS,
    READ_MESSAGES,
    OffsetRange,
    connect_reader,
    is_partition_end,
    offset_range,
    read_to_end,
    require_topics_of,
)
from stream_masker.service.observability.logs import describe

log = logging.getLogger(__name__)

SAMPLE_BATCH_RECORDS = 1_000

SAMPLE_BATCH_BYTES = 16_777_216
"""The size of the values that are counted at a time, about."""

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
    """Publish a mechanism's snapshot, with the learned styles, as the next statistics version; return its number.

    An active calibrator is fenced out for a moment; it then reads the topic again and continues from this version.
    Raises StatisticsError for a snapshot of another mechanism, ConfigurationError, and ServiceError if Kafka fails.
    """
    components = build_components(configuration)
    require_topics(configuration)
    components.publisher.open()
    history = read_published_history(components)
    planner = VersionPlanner(
        components.subject, components.new_mechanism(), history, components.settings, components.publication
    )
    publish = planner.on_snapshot(snapshot, now_milliseconds(), source, styles)
    components.publisher.publish(publish)
    return publish.message.version


def read_published_history(components: CalibratorComponents) -> History:
    """Read the history of published versions from the statistics topic. Raises ServiceError."""
    try:
        with connect_reader(components.configuration) as consumer:
            return read_history(consumer, components, lambda: False)
    except KafkaException as error:
        raise ServiceError(f"{components.configuration.topics.statistics} cannot be read: {describe(error)}") from error


def require_topics(configuration: Configuration) -> None:
    """Raise NoBrokerError if no broker is reachable.

    Raises ServiceError if it refuses the credentials, or a topic that the calibrator needs is missing or not allowed.
    """
    topics = configuration.topics
    require_broker(confluent_properties(configuration))
    try:
        require_topics_of(configuration, [topics.calibration, topics.statistics, topics.drift])
    except KafkaException as error:
        raise NoBrokerError(describe(error)) from error


class InputSample:
    """The counts of a sample, which is complete with ``window_records`` records.

    With ``min_records`` records it is complete as soon as each partition was read to its end, or ``SAMPLE_SECONDS``
    later.
    """

    def __init__(self, settings: CalibrationSettings) -> None:
        self._settings = settings
        self._parts: list[SampleCounts] = []
        self._min_records_at: float | None = None
        self.records = 0

    @property
    def remaining(self) -> int:
        """The number of records that the sample can still take."""
        return self._settings.window_records - self.records

    def add(self, part: SampleCounts, now: float) -> None:
        """Add the counts of more records; ``now`` in seconds of a monotonic clock."""
        self._parts.append(part)
        self.records += part.counts.records
        if self._min_records_at is None and self.records >= self._settings.min_records:
            self._min_records_at = now

    def is_complete(self, now: float, *, at_end: bool) -> bool:
        """Return whether the sample is complete; ``at_end``: each partition was read to its end."""
        if self._min_records_at is None:
            return self.remaining <= 0
        return self.remaining <= 0 or at_end or now - self._min_records_at >= SAMPLE_SECONDS

    def counts(self) -> SampleCounts:
        return SampleCounts.joined(self._parts)


class Sampler:
    """Samples the input topics from their beginning, in its own thread. It only reads: no group, no commits."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._sample = InputSample(build_settings(configuration))
        self._result: SampleCounts | None = None
        self._error: Exception | None = None

    @property
    def records(self) -> int:
        """The number of records counted so far."""
        return self._sample.records

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
        self._sample, topics = InputSample(build_settings(self._configuration)), self._configuration.topics
        again = math.inf if topics.expression is None else time.monotonic() + SAMPLE_AGAIN_SECONDS
        with connect_reader(self._configuration) as consumer:
            unread = assign_all(consumer, topics)
            while not self._stopping.is_set() and time.monotonic() < again:
                wanted = min(SAMPLE_BATCH_RECORDS, self._sample.remaining)
                values, ended = read_values(consumer, wanted)
                self._sample.add(masker.count(values), time.monotonic())
                unread -= ended
                if self._sample.is_complete(time.monotonic(), at_end=not unread):
                    return self._sample.counts()
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
        ended |= finished_partitions(messages)
        wanted, size = wanted - len(messages), size + sum(map(len, read))
    return values, ended


def finished_partitions(messages: Sequence[Message]) -> set[tuple[str, int]]:
    """Return the partitions of which the messages contain an end-of-partition event."""
    return {(message.topic(), message.partition()) for message in messages if is_partition_end(message)}


def message_values(messages: Sequence[Message]) -> Iterator[bytes]:
    """Yield the values of messages, without tombstones and end-of-partition events. Raises KafkaException."""
    for message in messages:
        if (error := message.error()) is not None and not is_partition_end(message):
            raise KafkaException(error)
        if error is None and (value := message.value()) is not None:
            yield value


log = logging.getLogger(__name__)


def read_history(consumer: Consumer, components: CalibratorComponents, stopped: Callable[[], bool]) -> History:
    """Read the history from the statistics topic. Raises like ``read_to_end``."""
    reader = HistoryReader(History(components.subject, components.settings.baseline), components.versions)
    for message in read_to_end(consumer, components.configuration.topics.statistics, stopped=stopped):
        reader.take(message)
    return reader.history


class HistoryReader:
    """Assembles versions from the messages of the statistics topic, in order, and adds them to ``history``.

    A message that is not authentic changes only the history's counts, because even its number cannot be trusted.
    """

    def __init__(self, history: History, opener: MessageOpener) -> None:
        self.history = history
        self._opener = opener
        self._versions = Versions()

    def take(self, message: Message) -> None:
        """Process the next message: buffer a chunk; add a version when its head, or its single message, arrives."""
        try:
            value = None if message.value() is None else self._opener.open(message.key(), message.value())
        except SealError as error:
            self.history.unauthentic[error.cause] += 1
        else:
            self._take(message, value)

    def _take(self, message: Message, value: bytes | None) -> None:
        version, number = chunk_position(message.key()) or (0, None)
        if number is not None:
            self._buffer_chunk(version, number, value)
            return
        self._versions.take(version, None, value)
        if value is None:
            self.history.forget({version})
        else:
            self._add_version(version, value, message)

    def _buffer_chunk(self, version: int, number: int, value: bytes | None) -> None:
        """Buffer a chunk. Chunks precede their head; a chunk of a version that is complete is ignored."""
        if version > self.history.newest:
            self._versions.take(version, number, value)

    def _add_version(self, version: int, head: bytes, message: Message) -> None:
        chunks = self._versions.pop(version)
        try:
            self.history.add(decode_statistics(chunks.message()), chunks=count_chunks(head))
        except StatisticsError as error:
            self.history.refuse(version, chunks=count_chunks(head))
            log.warning("refused the statistics at offset %d of %s: %s", message.offset(), message.topic(), error)


def resume_from(consumer: Consumer, topic: str, windowed: BlockRange | None) -> tuple[int, BlockRange | None]:
    """Return the offset to read the calibration topic from, and the published range if it belongs to this topic."""
    if windowed is None:
        return OFFSET_BEGINNING, None
    offsets = offset_range(consumer, topic)
    if windowed.last >= offsets.high:
        log.warning("%s ends before the last published block; reading it from the start, as a new topic", topic)
        return OFFSET_BEGINNING, None
    _log_lost_blocks(topic, windowed, offsets)
    return max(windowed.first, offsets.low), windowed


def _log_lost_blocks(topic: str, windowed: BlockRange, offsets: OffsetRange) -> None:
    if windowed.first < offsets.low:
        log.warning("%s no longer has the first blocks of the window; its retention is too short", topic)
