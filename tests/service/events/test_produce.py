"""Publishing of events, with librdkafka's mock broker and with failing producers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError
from kafka.future import Future
from kafka_records import mock_broker, read_all

from stream_masker.errors import ParameterError, ServiceError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.events.files import FileEvent, MalformedLine
from stream_masker.service.events.produce import MAX_REPORTED_LINES, MalformedLineFilter, produce
from stream_masker.service.events.publishing import EventPublisher, PublishingSummary, RateLimiter
from stream_masker.service.observability.progress import progress


def configured(bootstrap: str, **sections: object) -> Configuration:
    return parse_configuration(
        {
            "kafka": {"bootstrap_servers": bootstrap},
            "ontologies": {"icd": {"source": "icd10cm"}},
            "attributes": {"principal": {"path": "principal", "ontology": "icd"}},
            "mechanism": {"reference": "mean"},
            "fields": {"unlisted": "keep"},
            **sections,
        }
    )


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


def test_events_of_a_file_are_published_with_keys(tmp_path: Path) -> None:
    file, stream = tmp_path / "events.csv", io.StringIO()
    file.write_text("id,principal\n1,A00\n2\n3,?\n")
    with mock_broker() as bootstrap:
        configuration = configured(bootstrap, produce={"key": "id", "null_values": ["?"]})
        summary = produce(configuration, file, stream=stream)
        records = read_all(bootstrap, "discharges")
    assert sorted((r.key, r.value) for r in records) == [(b"1", b'{"id":"1","principal":"A00"}'), (b"3", b'{"id":"3"}')]
    assert (summary.delivered, summary.malformed, summary.complete) == (2, 1, True)
    assert stream.getvalue() == "events.csv, line 3: 1 cells, but the header has 2\n"


def test_records_with_equal_keys_stay_in_order(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("".join(f'{{"id": "{i % 7}", "n": {i}}}\n' for i in range(2_000)))
    with mock_broker() as bootstrap:
        produce(configured(bootstrap, produce={"key": "id"}), file, stream=io.StringIO())
        records = read_all(bootstrap, "discharges")
    assert len(records) == 2_000
    for key in {r.key for r in records}:
        numbers = [r.json["n"] for r in records if r.key == key]
        assert numbers == sorted(numbers)


def test_limit_ends_the_run(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"n": 1}\n' * 10)
    with mock_broker() as bootstrap:
        assert produce(configured(bootstrap), file, stream=io.StringIO(), limit=4).delivered == 4


def test_strict_stops_at_the_first_malformed_line(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"n": 1}\nno\n{"n": 2}\n')
    with mock_broker() as bootstrap:
        with pytest.raises(ServiceError, match=r"events\.jsonl, line 2"):
            produce(configured(bootstrap), file, stream=io.StringIO(), strict=True)
        assert [r.json["n"] for r in read_all(bootstrap, "discharges")] == [1]


def test_reports_of_malformed_lines_are_limited() -> None:
    reports: list[str] = []
    line_filter = MalformedLineFilter(name="f", strict=False, report=reports.append)
    assert list(line_filter.events([MalformedLine(i, "not JSON") for i in range(50)] + [FileEvent(b"{}")])) == [
        FileEvent(b"{}")
    ]
    assert line_filter.malformed == 50
    assert len(reports) == MAX_REPORTED_LINES + 1


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


def test_progress_without_a_terminal_is_plain_lines() -> None:
    clock, stream = FakeClock(), io.StringIO()
    with progress("produced", done=lambda records: records / 100_000, stream=stream, clock=clock) as show:
        show(1)
        clock.now += 5
        show(50_000)
        show(50_001)
    assert stream.getvalue() == "produced 50,000 records (50%), 10,000/s\n"


def test_progress_on_a_terminal_is_a_bar() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    clock, stream = FakeClock(), Terminal()
    with progress("produced", done=lambda records: 0.5, stream=stream, clock=clock) as show:
        clock.now += 1
        show(50_000)
    assert "50,000 records" in stream.getvalue()
    assert "50%" in stream.getvalue()
