"""The calibrator's own reading of topics: one partition from an offset to its end, committed records only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.connections import connect_consumer

SINGLE_PARTITION = 0
"""The only partition of the calibration, statistics and drift topics; whatever else a broker gave them is unused."""

POLL_TIMEOUT_SECONDS = 10.0
"""Seconds that a request to the broker may take."""

METADATA_TIMEOUT_SECONDS = 3.0
"""Seconds to look for a broker."""

READ_BATCH_MESSAGES = 0.2
"""Seconds to wait for records at a time."""


class StoppedError(ServiceError):
    """Reading ended early because it is no longer wanted."""


@contextmanager
def connect_reader(configuration: Configuration) -> Iterator[Consumer]:
    """A consumer of committed records that joins no group: it is assigned what it reads, and commits nothing.

    Raises ConfigurationError for properties that librdkafka refuses.
    """
    own = {
        "group.id": "stream-masker-reader",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    consumer = connect_consumer(confluent_properties(configuration) | own)
    try:
        yield consumer
    finally:
        consumer.close()


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of a partition: ``low`` is the first there is, ``high`` what the next record gets."""

    low: int
    high: int


def extent(consumer: Consumer, topic: str) -> OffsetRange:
    """The extent of the topic's partition. Raises KafkaException."""
    low, high = consumer.get_watermark_offsets(
        TopicPartition(topic, SINGLE_PARTITION), timeout=POLL_TIMEOUT_SECONDS, cached=False
    )
    return OffsetRange(low, high)


def read_to_end(
    consumer: Consumer,
    topic: str,
    *,
    partition: int = SINGLE_PARTITION,
    start: int = OFFSET_BEGINNING,
    stopped: Callable[[], bool] = lambda: False,
    patience: float = math.inf,
) -> Iterator[Message]:
    """Every committed record of a partition from ``start`` to the present end, however busily others go on writing.

    Raises StoppedError once ``stopped``, asked all the while, says so; ServiceError when nothing comes for ``patience``
    seconds; KafkaException when the topic cannot be read.
    """
    there = TopicPartition(topic, partition, start)
    consumer.assign([there])
    silent, end = 0.0, math.inf
    while silent < patience:
        if stopped():
            raise StoppedError(f"reading {topic} was stopped")
        messages = consumer.consume(1_000, timeout=READ_BATCH_MESSAGES)
        silent = 0.0 if messages else silent + READ_BATCH_MESSAGES
        end = min(end, _known_end(consumer, there))
        for message in messages:
            if _is_end(message, end):
                return
            yield message
    raise ServiceError(f"{topic}, partition {partition}, cannot be read: no answer for {patience:.0f} s")


def _known_end(consumer: Consumer, there: TopicPartition) -> float:
    """The partition's end as the broker told it last; infinite as long as it did not."""
    known = consumer.get_watermark_offsets(there, cached=True)
    return known[1] if known and known[1] >= 0 else math.inf


def _is_end(message: Message, end: float) -> bool:
    """Whether a message is none any more that stood there before ``end`` was told."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is not None or message.offset() >= end


def missing_topics(configuration: Configuration, names: list[str]) -> list[str]:
    """Those of the topics that there are not. Raises KafkaException when no broker answers."""
    with connect_reader(configuration) as consumer:
        return [
            name
            for name in names
            if consumer.list_topics(name, timeout=METADATA_TIMEOUT_SECONDS).topics[name].error is not None
        ]
