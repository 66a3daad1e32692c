"""Statistics before the first block: a sample of the input topic, or a snapshot."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_masker.core.statistics.counts import Counts, merge
from stream_masker.errors import ServiceError
from stream_masker.pipeline.calibration.versions import History, VersionPlanner
from stream_masker.pipeline.calibration.window import CalibrationSettings
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.wire.messages import StatisticsSource
from stream_masker.service.calibrator.components import (
    CalibratorComponents,
    build_components,
    build_settings,
    now_milliseconds,
)
from stream_masker.service.calibrator.recovery import read_history
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.kafka.topic_reader import POLL_TIMEOUT_SECONDS, connect_reader, missing_topics
from stream_masker.service.observability.logs import describe

log = logging.getLogger(__name__)

SAMPLE_BATCH = 1_000
SAMPLE_RETRY_SECONDS = 5.0


def publish_snapshot(
    configuration: Configuration, snapshot: Mapping[str, Any], source: StatisticsSource = "file"
) -> int:
    """Publishes a mechanism's snapshot as the next statistics version; gives its number.

    An active calibrator is shut out for a moment, reads the topic again and goes on from this version. Raises
    StatisticsError for a snapshot of another mechanism, ConfigurationError, and ServiceError when Kafka fails.
    """
    parts = build_components(configuration)
    require_topics(configuration)
    parts.publisher.open()
    calibration = VersionPlanner(parts.subject, parts.new_mechanism(), published(parts), parts.settings)
    publish = calibration.on_snapshot(snapshot, now_milliseconds(), source)
    parts.publisher.publish(publish)
    return publish.message.version


def published(parts: CalibratorComponents) -> History:
    """What is on the statistics topic. Raises ServiceError."""
    try:
        with connect_reader(parts.configuration) as consumer:
            return read_history(consumer, parts, lambda: False)
    except KafkaException as error:
        raise ServiceError(f"{parts.configuration.topics.statistics} cannot be read: {describe(error)}") from error


class NoBrokerError(ServiceError):
    """No broker answers."""


def require_topics(configuration: Configuration) -> None:
    """Raises NoBrokerError, or ServiceError when a topic that the calibrator needs is not there."""
    topics = configuration.topics
    try:
        missing = missing_topics(configuration, [topics.calibration, topics.statistics, topics.drift])
    except KafkaException as error:
        servers = configuration.kafka.bootstrap_servers
        raise NoBrokerError(f"no broker answers at {servers}: {describe(error)}") from error
    if missing:
        raise ServiceError(f"there is no topic {', '.join(missing)}: `stream-masker topics` creates what is missing")


class InputSample:
    """Counts of a sample, and when they are enough: at ``window_records``, or when ``min_records`` have been there
    for ``every_seconds``.
    """

    def __init__(self, settings: CalibrationSettings) -> None:
        self._settings = settings
        self._counts: list[Counts] = []
        self._since: float | None = None
        self.records = 0

    @property
    def room(self) -> int:
        """How many records there is still room for."""
        return self._settings.window_records - self.records

    def add(self, counts: Counts, now: float) -> None:
        """Takes more records; ``now`` in seconds of any clock that only goes forward."""
        self._counts.append(counts)
        self.records += counts.records
        if self._since is None and self.records >= self._settings.min_records:
            self._since = now

    def is_enough(self, now: float) -> bool:
        return self.room <= 0 or (self._since is not None and now - self._since >= self._settings.every_seconds)

    def counts(self) -> Counts:
        return merge(self._counts)


class Sampler:
    """Samples the input topic from its beginning, in a thread of its own. Only reads: no group, no commits."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._sample = InputSample(build_settings(configuration))
        self._found: Counts | None = None
        self._error: Exception | None = None

    @property
    def records(self) -> int:
        """Records counted so far."""
        return self._sample.records

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread soon; does not wait for it."""
        self._stopping.set()

    def result(self) -> Counts | None:
        """The sample's counts once they are enough. Raises what ended the thread."""
        if self._error is not None:
            raise self._error
        return self._found

    def _run(self) -> None:
        try:
            self._found = self._take()
        except Exception as error:  # noqa: BLE001 - the thread's owner is told, in result()
            self._error = error

    def _take(self) -> Counts | None:
        masker = RecordMasker(
            build_plan(self._configuration), build_mechanism(self._configuration), secrets.token_bytes(32)
        )
        while not self._stopping.is_set():
            try:
                return self._read(masker)
            except KafkaException as error:
                log.warning("cannot sample %s: %s", self._configuration.topics.input, describe(error))
                self._stopping.wait(SAMPLE_RETRY_SECONDS)
        return None

    def _read(self, masker: RecordMasker) -> Counts | None:
        self._sample = InputSample(build_settings(self._configuration))
        with connect_reader(self._configuration) as consumer:
            assign_all(consumer, self._configuration.topics.input)
            while not self._stopping.is_set():
                messages = consumer.consume(min(SAMPLE_BATCH, self._sample.room), timeout=0.5)
                self._sample.add(masker.count(list(values(messages))).counts, time.monotonic())
                if self._sample.is_enough(time.monotonic()):
                    return self._sample.counts()
        return None


def assign_all(consumer: Consumer, topic: str) -> None:
    """Assigns every partition of a topic from its beginning. Raises KafkaException."""
    found = consumer.list_topics(topic, timeout=POLL_TIMEOUT_SECONDS).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in found.partitions])


def values(messages: Sequence[Message]) -> Iterator[bytes]:
    """The values of messages, without tombstones and ends of partitions. Raises KafkaException."""
    for message in messages:
        if (error := message.error()) is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if error is None and (value := message.value()) is not None:
            yield value
