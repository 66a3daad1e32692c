"""Reading of a partition to its end: records, timeout, stop and errors."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from consumer import FakeMessage

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.reader import READ_POLL_SECONDS, StoppedError, read_to_end


class FakeConsumer:
    """Returns batches of messages, then nothing; ``end``: of the partition, None if no broker answers at first."""

    def __init__(self, *batches: list[FakeMessage], end: int | None = 100) -> None:
        self.batches, self.end, self.polls = list(batches), end, 0

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.end is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return (0, self.end)

    def assign(self, partitions: list[TopicPartition]) -> None:
        [self.at] = partitions

    def consume(self, most: int, timeout: float) -> list[FakeMessage]:
        self.polls += 1
        return self.batches.pop(0) if self.batches else []


def records(*offsets: int) -> list[FakeMessage]:
    return [FakeMessage(0, offset) for offset in offsets]


def event(code: int) -> FakeMessage:
    return FakeMessage(0, 0, error=KafkaError(code))


END = event(KafkaError._PARTITION_EOF)


def read(consumer: Any, **options: Any) -> list[int | None]:
    return [message.offset() for message in read_to_end(consumer, "t", **options)]


def test_records_are_read_up_to_the_end() -> None:
    consumer = FakeConsumer(records(1), [], records(2, 3), [], [END, *records(4)])
    assert read(consumer, partition=3, start=7, patience=0.3) == [1, 2, 3]
    assert (consumer.at.topic, consumer.at.partition, consumer.at.offset) == ("t", 3, 7)


def test_reading_ends_while_others_write_and_waits_for_a_broker_that_does_not_answer_yet() -> None:
    assert read(FakeConsumer(records(*range(10, 20)), records(*range(20, 30)), end=25)) == list(range(10, 25))
    assert read(FakeConsumer([], records(1), [END], end=None)) == [1]


def test_reading_times_out() -> None:
    consumer = FakeConsumer(records(1))
    with pytest.raises(ServiceError, match=r"^t, partition 3, cannot be read: no response for 1 s$"):
        read(consumer, partition=3, patience=1.0)
    assert consumer.polls == pytest.approx(1 + 1.0 / READ_POLL_SECONDS, abs=1)


def test_reading_stops_immediately() -> None:
    consumer = FakeConsumer(records(1), records(2))
    with pytest.raises(StoppedError, match="reading t was stopped"):
        read(consumer, stopped=lambda: consumer.polls == 1)


def test_read_error_is_raised() -> None:
    with pytest.raises(KafkaException):
        read(FakeConsumer([event(KafkaError._ALL_BROKERS_DOWN)]))
