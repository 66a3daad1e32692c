"""What the demonstration reads from the topics: progress, versions, drift, and one event before and after."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.pipeline.messages import DriftReport, StatisticsMessage, decode_drift, decode_statistics
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.kafka.clients import confluent_properties

POLL_SECONDS = 0.1
METADATA_SECONDS = 10.0

READER_PROPERTIES = {
    "group.id": "stream-masker-demo",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "allow.auto.create.topics": True,
    "log_level": 2,
}

DemoEvent: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class Observations:
    """Everything observed so far.

    ``before``: the input events by id that are not found masked yet. ``pair``: an event of which masking changed the
    principal diagnosis. ``versions``: those of blocks that fill the window.
    """

    window: int
    produced: int = 0
    masked: int = 0
    rejected: int = 0
    statistics: StatisticsMessage | None = None
    drift: DriftReport | None = None
    versions: set[int] = field(default_factory=set)
    before: dict[str, DemoEvent] = field(default_factory=dict)
    pair: tuple[DemoEvent, DemoEvent] | None = None

    @property
    def outcomes(self) -> int:
        """The number of events that are masked or rejected."""
        return self.masked + self.rejected

    @property
    def progress(self) -> int:
        """A number that grows with every event, outcome and version."""
        return self.produced + self.outcomes + (self.statistics.version if self.statistics else 0)

    def on_input(self, message: Message) -> None:
        self.produced += 1
        if self.pair is None:
            event = orjson.loads(message.value() or b"")
            self.before[event["encounter_id"]] = event

    def on_output(self, message: Message) -> None:
        self.masked += 1
        if self.pair is None:
            after = orjson.loads(message.value() or b"")
            before = self.before.pop(after["encounter_id"], None)
            if before is not None and before["diagnoses"]["principal"] != after["diagnoses"]["principal"]:
                self.pair, self.before = (before, after), {}

    def on_rejected(self, _: Message) -> None:
        self.rejected += 1

    def on_statistics(self, content: bytes) -> None:
        message = decode_statistics(content)
        if self.statistics is None or message.version > self.statistics.version:
            self.statistics = message
        if message.source == "blocks" and message.statistics.records >= 0.8 * self.window:
            self.versions.add(message.version)

    def on_drift(self, message: Message) -> None:
        report = decode_drift(message.value() or b"")
        if self.drift is None or report.version > self.drift.version:
            self.drift = report


class TopicWatcher:
    """Reads all topics of a configuration from their beginning, without a consumer group."""

    def __init__(self, configuration: Configuration) -> None:
        topics = configuration.topics
        self.observations = seen = Observations(configuration.calibration.window_records)
        seal = topic_seal(configuration, topics.statistics)

        def on_statistics(message: Message) -> None:
            if (value := message.value()) is not None:
                seen.on_statistics(seal.open(message.key() or b"", value))

        self._handlers = {
            topics.input: seen.on_input,
            topics.output: seen.on_output,
            topics.rejected: seen.on_rejected,
            topics.statistics: on_statistics,
            topics.drift: seen.on_drift,
        }
        self._consumer = Consumer({**confluent_properties(configuration), **READER_PROPERTIES})
        self._partitions(topics.calibration)
        self._consumer.assign([part for topic in self._handlers for part in self._partitions(topic)])

    def _partitions(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic; on the embedded broker the request creates the topic."""
        deadline = time.monotonic() + METADATA_SECONDS
        while time.monotonic() < deadline:
            partitions = self._consumer.list_topics(topic, timeout=METADATA_SECONDS).topics[topic].partitions
            if partitions:
                return [TopicPartition(topic, number, 0) for number in partitions]
            time.sleep(POLL_SECONDS)
        raise ServiceError(f"topic {topic} has no partitions after {METADATA_SECONDS:.0f} s")

    def poll(self) -> None:
        """Process new messages; waits at most ``POLL_SECONDS`` seconds."""
        for message in self._consumer.consume(1_000, POLL_SECONDS):
            error = message.error()
            if error is None:
                self._handlers[str(message.topic())](message)
            elif error.fatal():
                raise KafkaException(error)

    def close(self) -> None:
        self._consumer.close()
