"""``stream-masker audit`` without an offset: the latest masked records below the statistics that masked them."""

from __future__ import annotations

import json
from itertools import starmap
from pathlib import Path

import orjson
import pytest
import yaml
from confluent_kafka import Producer
from support.file_commands import LINES, event, run, write_configuration
from support.kafka_records import QUIET, mock_broker, write

from stream_masker.service.calibrator.bootstrap import publish_snapshot
from stream_masker.service.configuration import load_configuration
from stream_masker.service.files import FileEvent
from stream_masker.service.files.masking import FileMasking

EXAMPLES = Path(__file__).parents[2] / "examples"


def masked(k, version=b"1"):
    headers = [("stream-masker-version", version), ("stream-masker-mechanism", b"semantic_noise")]
    return {
        "partition": k % 2,
        "value": orjson.dumps({**event(k), "patient": "masked"}),
        "timestamp": k + 1,
        "headers": headers,
    }


def create(broker, *topics):
    producer = Producer({"bootstrap.servers": broker, **QUIET})
    for topic in topics:
        producer.list_topics(topic, timeout=10)


@pytest.fixture
def config(tmp_path):
    path = write_configuration(tmp_path)
    with mock_broker() as broker:
        path.write_text(path.read_text() + yaml.safe_dump({"kafka": {"bootstrap_servers": broker}}))
        configuration = load_configuration(path)
        topics = configuration.topics
        create(broker, topics.output, topics.statistics, topics.drift, topics.calibration)
        snapshot = FileMasking(configuration).snapshot(starmap(FileEvent, enumerate(LINES, start=1)))
        assert publish_snapshot(configuration, snapshot) == 1
        yield path, lambda records: write(broker, topics.output, records)


def test_records_stand_below_their_statistics(config):
    path, publish = config
    assert "no records yet" in run("audit", "-c", path).stderr
    publish([masked(k) for k in range(9)] + [masked(9, b"7")])
    lines = run("audit", "-c", path, "--records", "3").stdout.splitlines()
    assert lines[0] == "statistics version 1 (file, 50 records)"
    assert lines[1].startswith("  a: sMean ")
    assert lines[3].startswith("  sdCor(a, b): ")
    assert lines[4] == "partition 1, offset 3, semantic_noise:"
    assert json.loads(lines[5])["id"] == 7
    assert json.loads(lines[7])["id"] == 8
    assert lines[8] == "statistics version 7: no longer on the topic"
    assert json.loads(lines[10])["id"] == 9
    publish([{**masked(5), "value": None, "timestamp": 100}])
    shown = json.loads(run("audit", "-c", path, "--json", "--records", "3").stdout)
    assert [record["value"] and record["value"]["id"] for record in shown["records"]] == [8, 9, None]
    (version,) = shown["statistics"]
    assert (version["records"], {*version["mean"]}) == (50, {"a", "b"})


def test_hl7_messages_are_shown_segment_by_segment(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAM_MASKER_SECRET", "sixteen bytes or more")
    path = tmp_path / "hl7.yaml"
    with mock_broker() as broker:
        example = yaml.safe_load((EXAMPLES / "hl7v2/stream-masker.yaml").read_text())
        path.write_text(yaml.safe_dump({**example, "kafka": {"bootstrap_servers": broker}}))
        topics = load_configuration(path).topics
        create(broker, topics.output, topics.statistics)
        write(broker, topics.output, [{"partition": 0, "value": b"MSH|^~\\&|A\rPID|1\r"}])
        assert run("audit", "-c", path).stdout.splitlines()[-2:] == ["  MSH|^~\\&|A", "  PID|1"]
