"""Observations of the demonstration from the topics: progress, statistics, drift, one event before and after."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.pipeline.messages import (
    DriftReport,
    StatisticsMessage,
    decode_drift,
    decode_rejection,
    decode_statistics,
)
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.configuration.topics import TopicsSection
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.worker.statistics import VersionBuffer

MAX_REMEMBERED_EVENTS = 20_000
"""The most input events that are remembered until they are found masked: more than are ever ahead of the worker."""

POLL_SECONDS = 0.1
DEMO_METADATA_SECONDS = 10.0

READER_PROPERTIES = {
    "group.id": "stream-masker-demo",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "allow.auto.create.topics": True,
    "log_level": 2,
}

ObservedEvent = dict[str, Any]
Versioned = TypeVar("Versioned", StatisticsMessage, DriftReport)


@dataclass(slots=True)
class Observations:
    """Everything observed so far.

    ``newest``: buffers statistics versions. ``halfway``: the one in force before the drift. ``divergence``: the
    greatest drift from the first version, by attribute. ``before``: the input events by id that are not
    found masked yet. ``pair``: an event of the second half before and after, because the statistics of the small sample
    at the start hide rare codes among distant ones. ``computing``: the seconds that the calibrator has been computing
    statistics, where events wait.
    """

    newest: VersionBuffer
    produced: int = 0
    masked: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    statistics: StatisticsMessage | None = None
    drift: DriftReport | None = None
    halfway: StatisticsMessage | None = None
    divergence: dict[str, float] = field(default_factory=dict)
    before: dict[str, ObservedEvent] = field(default_factory=dict)
    pair: tuple[ObservedEvent, ObservedEvent] | None = None
    computing: float = 0.0

    @property
    def outcomes(self) -> int:
        return self.masked + self.rejected.total()

    @property
    def progress(self) -> int:
        """A number that grows with every event, outcome and statistics version."""
        return self.produced + self.outcomes + (self.statistics.version if self.statistics else 0)

    def keep_halfway(self) -> None:
        """Remember the statistics in force now as those from before the drift, unless there are some."""
        self.halfway = self.halfway or self.statistics

    @property
    def covered(self) -> int:
        """The number of masked records that the newest statistics cover; 0 while they are those of a sample."""
        newest = self.statistics
        return newest.statistics.records if newest is not None and newest.source == "blocks" else 0

    def on_input(self, message: Message) -> None:
        self.produced += 1
        if self.pair is None and len(self.before) < MAX_REMEMBERED_EVENTS:
            event = orjson.loads(_value(message))
            self.before[event["encounter_id"]] = event

    def on_output(self, message: Message) -> None:
        self.masked += 1
        if self.pair is None:
            after = orjson.loads(_value(message))
            before = self.before.pop(after["encounter_id"], None)
            if before is not None and self.halfway is not None and _interesting(before, after):
                self.pair, self.before = (before, after), {}

    def on_rejected(self, message: Message) -> None:
        self.rejected[decode_rejection(_value(message))[2].reason] += 1

    def on_statistics(self, message: Message) -> None:
        self.newest.add(message.key(), message.value())
        for _, value in self.newest.take()[:1]:
            self.statistics = _newer(self.statistics, decode_statistics(value))

    def on_drift(self, message: Message) -> None:
        self.drift = _newer(self.drift, decode_drift(_value(message)))
        baseline = self.drift.baseline or {"attributes": {}}
        for name, figures in baseline["attributes"].items():
            self.divergence[name] = max(self.divergence.get(name, 0.0), figures["divergence"])


def _newer(known: Versioned | None, other: Versioned) -> Versioned:
    """Return the newer version; topics may have several partitions, so versions may arrive out of order."""
    return other if known is None or other.version > known.version else known


def _interesting(before: ObservedEvent, after: ObservedEvent) -> bool:
    """Return whether the principal and the first secondary diagnosis both changed; small noise may keep a code."""
    return all(old != new for old, new in zip(_first_codes(before), _first_codes(after), strict=True))


def _first_codes(event: ObservedEvent) -> list[str]:
    diagnoses = event["diagnoses"]
    return [diagnosis["code"] for diagnosis in (diagnoses["principal"], *diagnoses["secondary"][:1])]


def _value(message: Message) -> bytes:
    return message.value() or b""


class TopicWatcher:
    """Reads all topics of a configuration from their beginning, without a consumer group."""

    def __init__(self, configuration: Configuration) -> None:
        seal = topic_seal(configuration, configuration.topics.statistics)
        self.observations = Observations(VersionBuffer(seal))
        self._handlers = _handlers(configuration.topics, self.observations)
        self._consumer = Consumer({**confluent_properties(configuration), **READER_PROPERTIES})
        self._partitions(configuration.topics.calibration)
        self._consumer.assign([part for topic in self._handlers for part in self._partitions(topic)])

    def _partitions(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic; on the embedded broker the request creates the topic."""
        deadline = time.monotonic() + DEMO_METADATA_SECONDS
        while time.monotonic() < deadline:
            partitions = self._consumer.list_topics(topic, timeout=DEMO_METADATA_SECONDS).topics[topic].partitions
            if partitions:
                return [TopicPartition(topic, number, 0) for number in partitions]
            time.sleep(POLL_SECONDS)
        raise ServiceError(f"topic {topic} has no partitions after {DEMO_METADATA_SECONDS:.0f} s")

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


def _handlers(topics: TopicsSection, observations: Observations) -> dict[str, Callable[[Message], None]]:
    return {
        topics.single: observations.on_input,
        topics.output: observations.on_output,
        topics.rejected: observations.on_rejected,
        topics.statistics: observations.on_statistics,
        topics.drift: observations.on_drift,
    }
