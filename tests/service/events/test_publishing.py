"""Publishing of synthetic events, with librdkafka's mock broker."""

from __future__ import annotations

import io

import orjson
import pytest
from confluent_kafka.admin import AdminClient
from kafka_records import mock_broker, read_all
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.events.publishing import paced, publish, write_events


def configured(bootstrap, properties=None, **sections):
    kept = {"mechanism": {"reference": "mean"}, "fields": {"unlisted": "keep"}}
    kafka = {"bootstrap_servers": bootstrap, "properties": properties or {}}
    return parse_configuration(small_configuration("principal", kafka=kafka, **{**kept, **sections}))


def events(number, **members):
    return [{"patient": {"id": f"p{k % 7}"}, "n": k, **members} for k in range(number)]


def published(sent, properties=None):
    """Publish events; return the summary and the records."""
    with mock_broker() as bootstrap:
        AdminClient({"bootstrap.servers": bootstrap}).list_topics("discharges", 5)  # which creates it
        summary = publish(sent, configured(bootstrap, properties), stream=io.StringIO())
        return summary, read_all(bootstrap, "discharges")


def test_a_full_queue_loses_no_record_and_equal_keys_stay_in_order():
    summary, records = published(events(2_000), {"queue.buffering.max.messages": 50})
    assert (summary.delivered, len(records)) == (2_000, 2_000)
    assert all(r.key == r.json["patient"]["id"].encode() for r in records)
    for key in {r.key for r in records}:
        numbers = [r.json["n"] for r in records if r.key == key]
        assert numbers == sorted(numbers)


def test_records_that_cannot_be_sent_are_counted_by_cause():
    sent = [*events(1), *events(1, text="x" * 2_000), *events(1)]
    summary, records = published(sent, {"message.max.bytes": 1_000})
    assert (len(records), summary.sent, summary.delivered, sum(summary.failed.values())) == (2, 3, 2, 1)
    assert "Message size too large" in str(summary)


def test_records_of_schemas_are_refused():
    with pytest.raises(ConfigurationError, match="produce writes no records of schemas"):
        publish(events(1), configured("none", format={"value": "confluent"}), stream=io.StringIO())


def test_a_file_has_the_same_events_as_a_topic(tmp_path):
    write_events(events(50), str(tmp_path / "events.jsonl"), stream=io.StringIO())
    written = [orjson.loads(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
    assert written == events(50)


def test_a_rate_is_kept_and_delays_are_caught_up(monkeypatch):
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    for sent, _ in enumerate(paced(range(14), 10, clock=lambda: now[0])):
        now[0] += sent == 2
    assert slept == pytest.approx([0.1, 0.1, 0.1])
    assert [*paced(range(14), None, clock=lambda: now[0])] == [*range(14)]
    assert len(slept) == 3
