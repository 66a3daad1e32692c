"""The mask worker on a real Apache Kafka, as its consumers see it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from kafka_records import Record, write
from processes import Processes, terminate
from workers import (
    CODES,
    START,
    Setting,
    event,
    get,
    http_port,
    ids,
    running,
    sample_version,
    value,
    wait,
)

from stream_masker.pipeline.wire.statistics import encode_statistics
from stream_masker.service.configuration.mutable_settings import mutable_settings

BAD = {
    "not_json": b"{",
    "not_an_object": b"[1]",
    "not_utf8": b'{"id": 1, "first": "\xff"}',
    "missing": b'{"id": 1, "second": "C11"}',
    "unknown_code": b'{"id": 1, "first": "Z99", "second": "C11"}',
    "empty": b'{"id": 1, "first": "", "second": "C11"}',
    "not_a_code": b'{"id": 1, "first": 7, "second": "C11"}',
    "duplicate_key": b'{"id": 1, "id": 2, "first": "C11", "second": "C11"}',
}


def test_every_record_is_masked_rejected_or_passed_as_a_tombstone_once(here: Setting) -> None:
    here.create()
    here.publish(1)
    here.produce(range(400))
    bad = [{"value": raw, "partition": i % 4, "key": b"k"} for i, raw in enumerate(BAD.values())]
    write(here.bootstrap, here.topics["input"], [*bad, {"value": None, "key": b"gone", "partition": 2}])
    here.produce(range(400, 500))
    with running(here.configuration()) as worker:
        worker.reaches(500 + len(BAD) + 1)
        assert worker.health.reasons == ()
        worker.wait(lambda: worker.metric("assigned_partitions") == 4, "an update of the assigned partitions")
        worker.wait(lambda: worker.metric("consumer_lag_assigned") == 0, "a lag of zero")
        assert worker.metric("records_masked_total") == 500
        assert worker.metric("tombstones_total") == 1
        assert {reason: worker.metric("records_rejected_total", reason=reason) for reason in BAD} == dict.fromkeys(
            BAD, 1
        )
    masked = here.read("output")
    assert sorted(ids(masked)) == list(range(500))
    check_masked_records(masked)
    check_rejections(here)
    check_blocks(here)


def check_masked_records(masked: list[Record]) -> None:
    events = [record for record in masked if record.value is not None]
    for partition in range(4):
        assert ids([r for r in events if r.partition == partition]) == [i for i in range(500) if i % 4 == partition]
    for record in events:
        assert record.timestamp == START + record.json["id"]
        assert record.headers["stream-masker-version"] == b"1"
        assert record.headers["stream-masker-mechanism"] == b"semantic_noise"
        assert set(record.json) == {"id", "patient", "first", "second"}
        assert record.json["patient"]["id"] != event(record.json["id"])["patient"]["id"]
    changed = sum(record.json["first"] != event(record.json["id"])["first"] for record in events)
    assert changed > 100
    [tombstone] = [record for record in masked if record.value is None]
    assert (tombstone.partition, tombstone.key is None or tombstone.key != b"gone") == (2, True)


def check_rejections(here: Setting) -> None:
    before = {(r.partition, r.offset): r.value for r in here.read("input")}
    for record in here.read("rejected"):
        rejection = record.json
        assert before[rejection["partition"], rejection["offset"]] == BAD[rejection["reason"]]
        assert rejection["topic"] == here.topics["input"]
        assert "Z99" not in record.value.decode()
    assert Counter(r.json["reason"] for r in here.read("rejected")) == Counter(BAD.keys())


def check_blocks(here: Setting) -> None:
    blocks = here.blocks()
    assert sum(block["records"] + sum(block["rejected"].values()) for block in blocks) >= 500 + len(BAD)
    for name in ("first", "second"):
        counts = [dict(zip(*b["attributes"][name]["original"].values(), strict=True)) for b in blocks]
        total = sum(map(Counter, counts), Counter())
        assert total == Counter(event(i)[name] for i in range(500))
    for record, block in zip(here.read("calibration"), blocks, strict=True):
        assert record.key == f"{block['topic']}:{block['partition']}:{block['first_offset']}".encode()
        assert record.partition == 0
        assert b"concepts" not in (record.value or b""), "the block is encrypted"


def test_a_forged_version_changes_nothing(here: Setting) -> None:
    """Someone who may write to the topic, but does not have the secret, cannot decide how records are masked."""
    here.create()
    here.publish(1)
    configuration = here.configuration()
    loose = {**mutable_settings(configuration), "fields": {"unlisted": "keep"}}
    number = 999_999_999_999_999_999
    forged = encode_statistics(sample_version(configuration, number, settings=loose))
    with running(configuration) as worker:
        here.produce(range(100))
        worker.reaches(100)
        write(here.bootstrap, here.topics["statistics"], [{"key": b"%d" % number, "value": forged}])
        refused = lambda: worker.metric("messages_refused_total", topic="statistics", cause="plain")  # noqa: E731
        worker.wait(lambda: refused() == 1, "the refusal")
        here.produce(range(100, 200))
        worker.reaches(200)
        here.publish(2)
        worker.wait(lambda: worker.metric("statistics_version") == 2, "the next genuine version")
    assert {record.headers["stream-masker-version"] for record in here.read("output")} == {b"1"}
    assert {len(record.json["patient"]["id"]) for record in here.read("output")} == {32}


def test_nothing_is_written_before_there_are_statistics(here: Setting) -> None:
    here.create()
    here.produce(range(100))
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.health.notes == ("no statistics yet: none are published",), "the note")
        assert worker.health.reasons == ()
        assert (worker.metric("held"), worker.metric("assigned_partitions")) == (1, 0)
        assert here.ended() == len(here.read("calibration")) == 0
        here.publish(3)
        worker.reaches(100)
        worker.wait(lambda: not worker.health.notes, "the end of the note")
        assert (worker.metric("held"), worker.metric("statistics_version")) == (0, 3)
    assert {r.headers["stream-masker-version"] for r in here.read("output")} == {b"3"}


def test_two_workers_share_the_partitions_and_hand_them_over(here: Setting) -> None:
    here.create()
    here.publish(1)
    with running(here.configuration()) as one, running(here.configuration(worker={"instance": "two"})) as two:
        shared = lambda: one.metric("assigned_partitions") == two.metric("assigned_partitions") == 2  # noqa: E731
        wait(shared, "a share for each")
        here.produce(range(400))
        one.reaches(200)
        two.reaches(200)
        two.end()
        wait(lambda: one.metric("assigned_partitions") == 4, "the other's share")
        here.produce(range(400, 500))
        one.reaches(300)
    assert sorted(ids(here.read("output"))) == list(range(500))


def test_a_message_that_is_too_large_for_the_client_is_rejected(here: Setting) -> None:
    here.create()
    here.publish(1)
    labels = {"id": 1, "first": "C11", "second": "C12", "patient": {"id": "p" * 20}}
    here.data["kafka"]["properties"]["message.max.bytes"] = 1000
    here.data["fields"] = {"keep": ["id", "note"], "unlisted": "drop"}
    large = json.dumps({**labels, "note": "n" * 950}).encode()
    write(here.bootstrap, here.topics["input"], [{"value": v, "partition": 0} for v in (value(0), large, value(2))])
    with running(here.configuration()) as worker:
        worker.reaches(3)
    assert ids(here.read("output")) == [0, 2]
    assert [record.json["reason"] for record in here.read("rejected")] == ["too_large"]


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return str(answer.read(), "utf-8")


def test_the_command_masks_serves_metrics_and_stops_in_order(here: Setting, tmp_path: Path) -> None:
    here.create()
    here.produce(range(50))
    with Processes(tmp_path) as processes:
        worker = processes.start("worker", "worker", "--config", str(here.path), "--http-port", "0")
        port = http_port(processes, "worker")
        processes.wait(lambda: "none are published" in str(get(port, "/readyz")), "the note on holding")
        assert get(port, "/readyz")[0] == 200
        assert get(port, "/healthz")[0] == 200
        here.publish(1)
        processes.wait(lambda: here.ended() == 50, "all records")
        processes.wait(lambda: get(port, "/readyz")[0] == 200, "readiness")
        processes.wait(lambda: "stream_masker_records_masked_total 50.0" in metrics(port), "the count of all records")
        assert terminate(worker) == 0, processes.log("worker")
        log = processes.log("worker")
    assert "SIGTERM: stopping" in log
    assert "left the group" in log
    assert not [code for code in CODES if code in log]


def test_the_metrics_count_suppressed_codes(here: Setting, tmp_path: Path) -> None:
    here.create()
    here.data["attributes"]["first"]["unknown"] = "suppress"
    here.configuration()
    here.publish(1)
    unknown = json.dumps({**event(7), "first": "Z99"}).encode()
    write(here.bootstrap, here.topics["input"], [{"value": v, "partition": 0} for v in [value(1), *[unknown] * 9]])
    with Processes(tmp_path) as processes:
        processes.start("worker", "worker", "--config", str(here.path), "--http-port", "0")
        port = http_port(processes, "worker")
        processes.wait(lambda: "stream_masker_records_masked_total 10.0" in metrics(port), "the count of all records")
        assert 'stream_masker_codes_suppressed_total{attribute="first"} 9.0' in metrics(port)
    assert [record.json["first"] for record in here.read("output")][1:] == [None] * 9


def test_the_command_names_missing_topics_and_the_command_that_creates_them(here: Setting, tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        done = processes.run("worker", "--config", str(here.path), code=1)
    assert here.topics["input"] in done.stderr
    assert "stream-masker topics" in done.stderr
