"""Samples of events for a proposal."""

from __future__ import annotations

import io

import orjson
import pytest
from confluent_kafka import Producer
from kafka_records import mock_broker

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.events.publishing import produce
from stream_masker.service.events.synthetic import NESTED_EVENTS
from stream_masker.service.init import simulated_sample, topic_sample


def test_a_topic_is_sampled_from_all_partitions(tmp_path):
    (tmp_path / "events.jsonl").write_bytes(b"".join(b'{"id":%d}\n' % k for k in range(200)))
    with mock_broker() as bootstrap:
        configuration = parse_configuration({**NESTED_EVENTS, "kafka": {"bootstrap_servers": bootstrap}})
        produce(configuration, tmp_path / "events.jsonl", stream=io.StringIO())
        kafka = {"bootstrap_servers": bootstrap, "properties": {}}
        found = topic_sample(kafka, "discharges", 200).events
        assert sorted(orjson.loads(value)["id"] for value in found) == list(range(200))
        with pytest.raises(ServiceError, match="discharge"):
            topic_sample(kafka, "no-discharges", 10)


def publish(bootstrap, topic, values):
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(10) == 0


def test_a_topic_in_the_wire_format_is_refused_with_what_to_do():
    with mock_broker() as bootstrap:
        publish(bootstrap, "framed", [b"\0\0\0\0\1x"] * 3)
        with pytest.raises(ServiceError, match="probably in the Confluent wire format"):
            topic_sample({"bootstrap_servers": bootstrap}, "framed", 20)


def test_generated_events_are_those_of_simulate():
    assert set(orjson.loads(simulated_sample(3).events[0])) >= {"encounter_id", "patient", "diagnoses"}
