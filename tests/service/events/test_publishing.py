"""Publishing of synthetic events, with librdkafka's mock broker."""

from __future__ import annotations

import io

import orjson
import pytest
from confluent_kafka import KafkaException, Producer
from kafka_records import mock_broker, read_all
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.events.publishing import file_writer, topic_writer, write_events


def configured(bootstrap, properties=None, **sections):
    kept = {"mechanism": {"reference": "mean"}, "fields": {"unlisted": "keep"}}
    kafka = {"bootstrap_servers": bootstrap, "properties": properties or {}}
    return parse_configuration(small_configuration("principal", kafka=kafka, **{**kept, **sections}))


def publish(sent, configuration):
    with topic_writer(configuration) as write:
        write_events(sent, write, stream=io.StringIO())


def events(number, **members):
    return [{"patient": {"id": f"p{k % 7}"}, "n": k, **members} for k in range(number)]


@pytest.fixture
def bootstrap():
    """The address of a broker with the topic."""
    with mock_broker() as servers:
        Producer({"bootstrap.servers": servers}).list_topics("discharges", 10)
        yield servers


def test_a_full_queue_loses_no_record_and_equal_keys_stay_in_order(bootstrap):
    limit = {"queue.buffering.max.messages": 50}
    publish(events(2_000), configured(bootstrap, limit))
    records = read_all(bootstrap, "discharges")
    assert len(records) == 2_000
    assert all(r.key == r.json["patient"]["id"].encode() for r in records)
    for key in {r.key for r in records}:
        numbers = [r.json["n"] for r in records if r.key == key]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("limit", "error"), [({"message.max.bytes": 1_000}, "too large"), ({"message.timeout.ms": 21}, "timed out")]
)
def test_the_first_event_that_is_not_accepted_ends_the_run(bootstrap, limit, error):
    with pytest.raises(KafkaException, match=error):
        publish(events(3, text="x" * 2_000), configured(bootstrap, limit))


def test_records_of_schemas_are_refused():
    with pytest.raises(ConfigurationError, match="produce writes no records of schemas"):
        publish(events(1), configured("none", format={"value": "confluent"}))


def test_a_file_has_the_same_events_as_a_topic(tmp_path):
    with file_writer(str(tmp_path / "events.jsonl")) as write:
        write_events(events(50), write, stream=io.StringIO())
    written = [orjson.loads(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
    assert written == events(50)


def test_a_rate_is_kept_and_delays_are_caught_up(monkeypatch):
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    def write(event):
        now[0] += event == 2

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    write_events(range(14), write, stream=None, rate=10)
    assert slept == pytest.approx([0.1, 0.1, 0.1])
    write_events(range(14), write, stream=None)
    assert len(slept) == 3
