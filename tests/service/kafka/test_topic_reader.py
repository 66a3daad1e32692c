"""Reading of a partition to its end: records, timeout, stop and errors."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.reader import READ_POLL_SECONDS, StoppedError, read_to_end


class FakeMessage:
    def __init__(self, error: int | None = None, offset: int = 0) -> None:
        self.failure = None if error is None else KafkaError(error)
        self.place = offset

    def offset(self) -> int:
        return self.place

    def error(self) -> KafkaError | None:
        return self.failure


class FakeConsumer:
    """Returns batches of messages, then nothing."""

    def __init__(self, *batches: list[FakeMessage]) -> None:
        self.batches = list(batches)
        self.polls = 0
        self.looked_up: list[str] = []
        self.reachable = True

    def list_topics(self, topic: str, timeout: float) -> None:
        self.looked_up.append(topic)
        if not self.reachable:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def assign(self, partitions: list[TopicPartition]) -> None:
        [self.at] = partitions
        assert self.looked_up == [self.at.topic], "leaders are looked up before the assignment"

    def consume(self, most: int, timeout: float) -> list[FakeMessage]:
        self.polls += 1
        return self.batches.pop(0) if self.batches else []

    def get_watermark_offsets(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return (-1001, -1001)


class BusyConsumer(FakeConsumer):
    """Another client writes as fast as it is read; the end is known with the first records."""

    def consume(self, most: int, timeout: float) -> list[FakeMessage]:
        self.polls += 1
        assert self.polls < 100
        return [FakeMessage(offset=10 * self.polls + k) for k in range(10)]

    def get_watermark_offsets(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int]:
        return (0, 10 * self.polls + 25)


RECORD, END = FakeMessage(), FakeMessage(KafkaError._PARTITION_EOF)


def test_records_are_read_up_to_the_end() -> None:
    consumer = FakeConsumer([RECORD], [], [RECORD, RECORD], [], [END, RECORD])
    assert list(read_to_end(consumer, "t", partition=3, start=7, patience=0.3)) == [RECORD] * 3
    assert (consumer.at.topic, consumer.at.partition, consumer.at.offset) == ("t", 3, 7)


def test_reading_waits_for_a_broker_that_does_not_answer_yet() -> None:
    consumer = FakeConsumer([], [RECORD], [END])
    consumer.reachable = False
    assert list(read_to_end(consumer, "t")) == [RECORD]


def test_reading_ends_while_others_write() -> None:
    read = [message.offset() for message in read_to_end(BusyConsumer(), "t")]
    assert read == list(range(10, 35))


def test_reading_times_out() -> None:
    consumer = FakeConsumer([RECORD])
    with pytest.raises(ServiceError, match=r"^t, partition 3, cannot be read: no response for 1 s$"):
        list(read_to_end(consumer, "t", partition=3, patience=1.0))
    assert consumer.polls == pytest.approx(1 + 1.0 / READ_POLL_SECONDS, abs=1)


def test_reading_stops_immediately() -> None:
    consumer = FakeConsumer([RECORD], [RECORD])
    with pytest.raises(StoppedError, match="reading t was stopped"):
        list(read_to_end(consumer, "t", stopped=lambda: consumer.polls == 1))


def test_read_error_is_raised() -> None:
    with pytest.raises(KafkaException):
        list(read_to_end(FakeConsumer([FakeMessage(KafkaError._ALL_BROKERS_DOWN)]), "t"))
