"""Reading of a partition to its end: records, timeout, stop and errors."""

from __future__ import annotations

from itertools import chain, repeat
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from consumer import FakeMessage
from polling import wait

from stream_masker.errors import ServiceError
from stream_masker.service.kafka import clients
from stream_masker.service.kafka.reader import READ_POLL_SECONDS, StoppedError, read_to_end


def consumer_of(*batches: list[FakeMessage], end: int | None = 100) -> Mock:
    """A consumer of batches, then of nothing; ``end``: of the partition, None if no broker answers at first."""
    made = Mock(**{"consume.side_effect": chain(batches, repeat([])), "get_watermark_offsets.return_value": (0, end)})
    if end is None:
        made.get_watermark_offsets.side_effect = KafkaException(KafkaError(KafkaError._TRANSPORT))
    return made


def records(*offsets: int) -> list[FakeMessage]:
    return [FakeMessage(0, offset) for offset in offsets]


def event(code: int) -> FakeMessage:
    return FakeMessage(0, 0, error=KafkaError(code))


END = event(KafkaError._PARTITION_EOF)


def read(consumer: Mock, **options: object) -> list[int | None]:
    return [message.offset() for message in read_to_end(consumer, "t", **options)]


def test_records_are_read_up_to_the_end() -> None:
    consumer = consumer_of(records(1), [], records(2, 3), [], [END, *records(4)])
    assert read(consumer, partition=3, start=7, patience=0.1) == [1, 2, 3]
    [[[at]], _] = consumer.assign.call_args
    assert (at.topic, at.partition, at.offset) == ("t", 3, 7)


def test_reading_ends_while_others_write_and_waits_for_a_broker_that_does_not_answer_yet() -> None:
    assert read(consumer_of(records(*range(10, 20)), records(*range(20, 30)), end=25)) == list(range(10, 25))
    assert read(consumer_of([], records(1), [END], end=None)) == [1]


def test_reading_times_out() -> None:
    consumer = consumer_of(records(1))
    with pytest.raises(ServiceError, match=r"^t, partition 3, cannot be read: no response for 1 s$"):
        read(consumer, partition=3, patience=1.0)
    assert consumer.consume.call_count == pytest.approx(1 + 1.0 / READ_POLL_SECONDS, abs=1)


def test_reading_stops_immediately() -> None:
    consumer = consumer_of(records(1), records(2))
    with pytest.raises(StoppedError, match="reading t was stopped"):
        read(consumer, stopped=lambda: consumer.consume.call_count == 1)


def test_read_error_is_raised() -> None:
    with pytest.raises(KafkaException):
        read(consumer_of([event(KafkaError._ALL_BROKERS_DOWN)]))


def test_a_consumer_tells_that_it_has_lost_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose brokers do not answer has not lost them. The group's coordinator is another entry for one of them."""
    knows_no_broker, look, told = clients.knows_no_broker, Mock(return_value=True), Mock()
    monkeypatch.setattr(clients, "knows_no_broker", look)
    monkeypatch.setattr(clients, "WATCH_MS", 100)
    consumer = clients.connect_consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, told)
    wait(lambda: bool(consumer.consume(1, 0.1)) or told.called, "look")
    consumer.close()
    assert not knows_no_broker(*look.call_args[0])
    assert knows_no_broker('{"brokers": {"GroupCoordinator": {"source": "logical"}}}')
