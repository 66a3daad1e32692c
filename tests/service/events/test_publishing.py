"""Publishing of events: failures, backpressure, rate limit and summary."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_masker.errors import ParameterError
from stream_masker.service.events.files import FileEvent
from stream_masker.service.events.publishing import EventPublisher, PublishingSummary, RateLimiter


class FakeClock:
    def __init__(self) -> None:
        self.now, self.slept = 100.0, []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class FakeProducer:
    """Accepts records.

    ``raises`` and ``fails`` map numbers of calls to exceptions of the call and to errors of the delivery, which the
    next ``poll`` reports.
    """

    def __init__(
        self, *, raises: dict[int, Exception] | None = None, fails: dict[int, KafkaError] | None = None
    ) -> None:
        self.raises, self.fails, self.values = raises or {}, fails or {}, []
        self.calls, self.waits, self.reports = 0, [], []

    def produce(
        self, topic: str, value: bytes, key: bytes | None, *, on_delivery: Callable[[KafkaError | None, object], None]
    ) -> None:
        self.calls += 1
        if self.calls in self.raises:
            raise self.raises[self.calls]
        self.values.append(value)
        self.reports.append((on_delivery, self.fails.get(self.calls)))

    def poll(self, timeout: float) -> None:
        self.waits.append(timeout)
        while self.reports:
            report, error = self.reports.pop()
            report(error, None)


TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT, "Local: Message timed out")
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "Broker: Message size too large")


def test_failures_are_counted_by_cause() -> None:
    producer = FakeProducer(raises={1: KafkaException(TOO_LARGE)}, fails={3: TIMED_OUT})
    publisher = EventPublisher(producer, "t")
    for i in range(4):
        publisher.send(FileEvent(b"%d" % i))
    assert publisher.sent == 4
    assert publisher.delivered == 2
    assert publisher.failed == {"Broker: Message size too large": 1, "Local: Message timed out": 1}


def test_failures_that_an_administrator_can_repair_name_the_remedy() -> None:
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Broker: Topic authorization failed")
    publisher = EventPublisher(FakeProducer(fails={1: refused}), "t")
    publisher.send(FileEvent(b""))
    (cause,) = publisher.failed
    assert "stream-masker topics --acls" in cause


def test_a_full_queue_delays_a_record_and_loses_none() -> None:
    producer = FakeProducer(raises={2: BufferError(), 3: BufferError()})
    publisher = EventPublisher(producer, "t")
    for i in range(3):
        publisher.send(FileEvent(b"%d" % i))
    assert producer.values == [b"0", b"1", b"2"]
    assert [wait > 0 for wait in producer.waits] == [False, True, True, False, False]
    assert (publisher.sent, publisher.delivered) == (3, 3)


def test_summary_names_the_failures() -> None:
    summary = PublishingSummary(
        "discharges", delivered=1_500, failed={str(TIMED_OUT.str()): 2}, malformed=3, seconds=0.5
    )
    assert str(summary) == (
        "produced 1,500 records to discharges in 0.5 s (3,000 records/s); 3 malformed lines left out; "
        "2 not delivered (Local: Message timed out)"
    )
    assert not summary.complete


def test_rate_limiter_catches_up_after_delays() -> None:
    clock = FakeClock()
    pace = RateLimiter(10, clock=clock, sleep=clock.sleep)
    for sent in range(3):
        pace.wait(sent)
    clock.now += 1.0
    for sent in range(3, 14):
        pace.wait(sent)
    assert clock.slept == pytest.approx([0.1, 0.1, 0.1])


def test_full_speed_never_waits() -> None:
    clock = FakeClock()
    pace = RateLimiter(None, clock=clock, sleep=clock.sleep)
    pace.wait(10**9)
    assert clock.slept == []


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_rate_must_be_positive(rate: float) -> None:
    with pytest.raises(ParameterError, match="rate"):
        RateLimiter(rate)
