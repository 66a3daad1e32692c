"""Samples of events for a proposal."""

from __future__ import annotations

import io

import orjson
import pytest
from kafka_records import mock_broker

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.events.produce import produce
from stream_masker.service.local.sampling import NESTED_EVENTS, file_sample, simulated_sample, topic_sample


def test_a_topic_is_sampled_from_all_partitions(tmp_path):
    (tmp_path / "events.jsonl").write_bytes(b"".join(b'{"id":%d}\n' % k for k in range(200)))
    with mock_broker() as bootstrap:
        configuration = parse_configuration({**NESTED_EVENTS, "kafka": {"bootstrap_servers": bootstrap}})
        produce(configuration, tmp_path / "events.jsonl", stream=io.StringIO())
        kafka = {"bootstrap_servers": bootstrap, "properties": {}}
        found = topic_sample(kafka, "discharges", 200)
        assert sorted(orjson.loads(value)["id"] for value in found) == list(range(200))
        with pytest.raises(ServiceError, match="topics do not exist: none"):
            topic_sample(kafka, "none", 10)


def test_the_numbers_of_a_table_are_its_columns_without_other_texts(tmp_path):
    (tmp_path / "t.csv").write_text("id,code,ward,age\n1,038,7,61\n2,A1,0012,\n3,250.00,9,7.5\n")
    lines, numbers = file_sample(str(tmp_path / "t.csv"), 100)
    assert numbers == ["id", "age"]
    assert orjson.loads(lines[0]) == {"id": 1, "code": "038", "ward": "7", "age": 61}


def test_generated_events_are_those_of_simulate():
    assert set(orjson.loads(simulated_sample(3)[0])) >= {"encounter_id", "patient", "diagnoses"}
