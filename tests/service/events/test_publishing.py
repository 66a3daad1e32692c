"""Publishing of the events of files, with librdkafka's mock broker."""

from __future__ import annotations

import io

import pytest
from confluent_kafka import KafkaError
from kafka_records import mock_broker, read_all
from support.small_configuration import small_configuration

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.events.publishing import MAX_REPORTED_LINES, Event, PublishingSummary, paced, publish_file


def configured(bootstrap, properties=None, **sections):
    kept = {"mechanism": {"reference": "mean"}, "fields": {"unlisted": "keep"}}
    kafka = {"bootstrap_servers": bootstrap, "properties": properties or {}}
    return parse_configuration(small_configuration("principal", kafka=kafka, **{**kept, **sections}))


def test_events_of_a_file_are_published_with_keys_and_malformed_ones_are_named(tmp_path):
    file, stream = tmp_path / "events.csv", io.StringIO()
    file.write_text("id,principal\n1,A00\n2\n3,?\n")
    with mock_broker() as bootstrap:
        summary = publish_file(
            configured(bootstrap, produce={"key": "id", "null_values": ["?"]}), str(file), stream=stream
        )
        records = read_all(bootstrap, "discharges")
    assert sorted((r.key, r.value) for r in records) == [(b"1", b'{"id":"1","principal":"A00"}'), (b"3", b'{"id":"3"}')]
    assert (summary.delivered, summary.malformed, summary.failed) == (2, 1, {})
    assert stream.getvalue().startswith("event 2: not_in_format at the number of cells")


def test_a_full_queue_loses_no_record_and_equal_keys_stay_in_order(tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_text("".join(f'{{"id": "{i % 7}", "n": {i}}}\n' for i in range(2_000)))
    with mock_broker() as bootstrap:
        configuration = configured(bootstrap, {"queue.buffering.max.messages": 50}, produce={"key": "id"})
        publish_file(configuration, str(file), stream=io.StringIO())
        records = read_all(bootstrap, "discharges")
    assert len(records) == 2_000
    for key in {r.key for r in records}:
        numbers = [r.json["n"] for r in records if r.key == key]
        assert numbers == sorted(numbers)


def test_records_that_cannot_be_sent_are_counted_by_cause(tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_text(f'{{"n": 1}}\n{{"n": "{"x" * 2_000}"}}\n{{"n": 2}}\n')
    with mock_broker() as bootstrap:
        summary = publish_file(configured(bootstrap, {"message.max.bytes": 1_000}), str(file), stream=io.StringIO())
        assert sorted(r.json["n"] for r in read_all(bootstrap, "discharges")) == [1, 2]
    assert (summary.sent, summary.delivered, sum(summary.failed.values())) == (3, 2, 1)
    assert "Message size too large" in str(summary)


def test_failures_that_an_administrator_can_repair_name_the_remedy():
    summary = PublishingSummary("t", sent=1)
    summary.count(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Broker: Topic authorization failed"))
    assert "docs/kafka.md lists the access that each user needs" in str(summary)


def test_reports_of_malformed_lines_are_limited(tmp_path):
    file, stream = tmp_path / "events.jsonl", io.StringIO()
    file.write_text("no\n" * 50 + '{"n": 1}\n' * 10)
    with mock_broker() as bootstrap:
        assert publish_file(configured(bootstrap), str(file), stream=stream).delivered == 10
    assert stream.getvalue().count("not JSON") == MAX_REPORTED_LINES


def test_a_rate_is_kept_and_delays_are_caught_up(monkeypatch):
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    events = [Event(number, b"") for number in range(14)]
    for sent, _ in enumerate(paced(events, 10, clock=lambda: now[0])):
        now[0] += sent == 2
    assert slept == pytest.approx([0.1, 0.1, 0.1])
    assert list(paced(events, None, clock=lambda: now[0])) == events
    assert len(slept) == 3
