"""Publishing of events: failures, backpressure, rate limit and summary."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError
from kafka.future import Future

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


class FakeFuture(Future):
    waited = 0

    def get(self) -> None:
        self.waited += 1
        if self.exception is not None:
            raise self.exception


class FakeProducer:
    """Accepts records; ``raises`` and ``fails`` map record numbers to exceptions of the call and of the delivery."""

    def __init__(
        self, *, raises: dict[int, Exception] | None = None, fails: dict[int, Exception] | None = None
    ) -> None:
        self.raises, self.fails, self.sent_records = raises or {}, fails or {}, []
        self.futures: list[FakeFuture] = []

    def send(self, topic: str, *, value: bytes, key: bytes | None) -> Future:
        self.sent_records.append((topic, key, value))
        number = len(self.sent_records)
        if number in self.raises:
            raise self.raises[number]
        future = FakeFuture()
        self.futures.append(future)
        future.failure(self.fails[number]) if number in self.fails else future.success(number)
        return future


def test_failures_are_counted_by_error() -> None:
    producer = FakeProducer(raises={1: MessageSizeTooLargeError()}, fails={3: KafkaTimeoutError()})
    publisher = EventPublisher(producer, "t")
    for i in range(4):
        publisher.send(FileEvent(b"%d" % i))
    assert publisher.sent == 4
    assert publisher.delivered == 2
    assert publisher.failed == {"MessageSizeTooLargeError": 1, "KafkaTimeoutError": 1}


def test_backpressure_waits_for_earlier_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_masker.service.events.publishing.MARK_INTERVAL", 1)
    monkeypatch.setattr("stream_masker.service.events.publishing.MAX_MARKS", 2)
    producer = FakeProducer(fails={1: KafkaTimeoutError()})
    publisher = EventPublisher(producer, "t")
    for _ in range(5):
        publisher.send(FileEvent(b""))
    assert [future.waited for future in producer.futures] == [1, 1, 1, 0, 0]
    assert publisher.failed == {"KafkaTimeoutError": 1}


def test_summary_names_the_failures() -> None:
    summary = PublishingSummary(
        "discharges", delivered=1_500, failed={"KafkaTimeoutError": 2}, malformed=3, seconds=0.5
    )
    assert str(summary) == (
        "produced 1,500 records to discharges in 0.5 s (3,000 records/s); 3 malformed lines left out; "
        "2 not delivered (KafkaTimeoutError)"
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
