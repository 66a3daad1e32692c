"""What the demonstration sees on the topics: progress, statistics, drift, and one event before and after."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.pipeline.wire.messages import (
    DriftReport,
    StatisticsMessage,
    decode_drift,
    decode_rejection,
    decode_statistics,
)
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.model import TopicsSection
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.worker.statistics_consumer import VersionBuffer

REMEMBERED_EVENTS = 500
POLL_SECONDS = 0.1
METADATA_SECONDS = 10.0

READER = {
    "group.id": "stream-masker-demo",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "allow.auto.create.topics": True,
    "log_level": 2,
}

ObservedEvent = dict[str, Any]
Versioned = TypeVar("Versioned", StatisticsMessage, DriftReport)


@dataclass(slots=True)
class Observed:
    """Everything seen so far. ``before`` holds the first input events by id, until one of them is seen masked."""

    produced: int = 0
    masked: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    statistics: StatisticsMessage | None = None
    drift: DriftReport | None = None
    peak_divergence: float = 0.0
    before: dict[str, ObservedEvent] = field(default_factory=dict)
    pair: tuple[ObservedEvent, ObservedEvent] | None = None
    _newest: VersionBuffer = field(default_factory=VersionBuffer)

    @property
    def outcomes(self) -> int:
        return self.masked + self.rejected.total()

    def on_input(self, message: Message) -> None:
        self.produced += 1
        if self.pair is None and len(self.before) < REMEMBERED_EVENTS:
            event = orjson.loads(_value(message))
            self.before[event["encounter_id"]] = event

    def on_output(self, message: Message) -> None:
        self.masked += 1
        if self.pair is None:
            after = orjson.loads(_value(message))
            before = self.before.get(after["encounter_id"])
            if before is not None and _interesting(before, after):
                self.pair, self.before = (before, after), {}

    def on_rejected(self, message: Message) -> None:
        self.rejected[decode_rejection(_value(message))[2].reason] += 1

    def on_statistics(self, message: Message) -> None:
        self._newest.add(message.key(), message.value())
        for published in self._newest.take()[:1]:
            self.statistics = _newer(self.statistics, decode_statistics(published.value))

    def on_drift(self, message: Message) -> None:
        self.drift = _newer(self.drift, decode_drift(_value(message)))
        baseline = self.drift.baseline or {"attributes": {}}
        shares = [figures["divergence"] for figures in baseline["attributes"].values()]
        self.peak_divergence = max([self.peak_divergence, *shares])


def _newer(known: Versioned | None, other: Versioned) -> Versioned:
    """The topics may have several partitions, so that versions may come out of order."""
    return other if known is None or other.version > known.version else known


def _interesting(before: ObservedEvent, after: ObservedEvent) -> bool:
    """Whether both the principal and the first secondary diagnosis changed: small noise may keep a code."""
    return all(old != new for old, new in zip(_first_codes(before), _first_codes(after), strict=True))


def _first_codes(event: ObservedEvent) -> list[str]:
    diagnoses = event["diagnoses"]
    return [diagnosis["code"] for diagnosis in (diagnoses["principal"], *diagnoses["secondary"][:1])]


def _value(message: Message) -> bytes:
    return message.value() or b""


class TopicWatcher:
    """Reads all topics of a configuration from their beginning, without a group."""

    def __init__(self, configuration: Configuration) -> None:
        self.seen = Observed()
        self._handlers = _handlers(configuration.topics, self.seen)
        self._consumer = Consumer({**confluent_properties(configuration), **READER})
        self._partitions(configuration.topics.calibration)
        self._consumer.assign([part for topic in self._handlers for part in self._partitions(topic)])

    def _partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic, which appears by being asked for where the broker is the embedded one."""
        deadline = time.monotonic() + METADATA_SECONDS
        while time.monotonic() < deadline:
            found = self._consumer.list_topics(topic, timeout=METADATA_SECONDS).topics[topic].partitions
            if found:
                return [TopicPartition(topic, number, 0) for number in found]
            time.sleep(POLL_SECONDS)
        raise ServiceError(f"topic {topic} has no partitions after {METADATA_SECONDS:.0f} s")

    def poll(self) -> None:
        """Takes in what came, for a tenth of a second at most."""
        for message in self._consumer.consume(1_000, POLL_SECONDS):
            error = message.error()
            if error is None:
                self._handlers[str(message.topic())](message)
            elif error.fatal():
                raise KafkaException(error)

    def close(self) -> None:
        self._consumer.close()


def _handlers(topics: TopicsSection, seen: Observed) -> dict[str, Callable[[Message], None]]:
    return {
        topics.input: seen.on_input,
        topics.output: seen.on_output,
        topics.rejected: seen.on_rejected,
        topics.statistics: seen.on_statistics,
        topics.drift: seen.on_drift,
    }
