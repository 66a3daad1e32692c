"""The mask worker on a real Apache Kafka, as its consumers see it."""

from __future__ import annotations

import signal
from collections import Counter

import orjson
from confluent_kafka import Producer
from kafka_records import QUIET, Record, write
from service import CODES, START, Service, event, ids, merged, value, wait

BAD = {
    "not_json": b"{",
    "not_an_object": b"[1]",
    "not_utf8": b'{"id": 1, "first": "\xff"}',
    "missing": b'{"id": 1, "second": "C11"}',
    "unknown_code": b'{"id": 1, "first": "Z99", "second": "C11"}',
    "empty": b'{"id": 1, "first": "", "second": "C11"}',
    "not_a_code": b'{"id": 1, "first": 7, "second": "C11"}',
}
EVENTS = 400


def test_every_record_is_masked_rejected_or_passed_as_a_tombstone_once(stream: Service) -> None:
    stream.produce(range(EVENTS))
    bad = [{"value": raw, "partition": i % 4, "key": b"k"} for i, raw in enumerate(BAD.values())]
    write(stream.bootstrap, stream.topics["input"], [*bad, {"value": None, "key": b"gone", "partition": 2}])
    stream.produce(range(EVENTS, EVENTS + 100))
    with stream.running() as worker:
        worker.reaches(EVENTS + 100 + len(BAD) + 1)
        assert worker.ready()
        worker.wait(lambda: worker.metric("assigned_partitions") == 4, "the assigned partitions")
        counted = {reason: worker.metric("records_rejected_total", reason=reason) for reason in BAD}
    assert counted == dict.fromkeys(BAD, 1)
    check_masked(stream.read("output"), EVENTS + 100)
    check_rejections(stream)
    assert not [code for code in (*CODES, "Z99") if code in worker.log]


def check_masked(masked: list[Record], events: int) -> None:
    """Each event is written once, in the order of its partition, with its timestamp and the headers of its version."""
    records = [record for record in masked if record.value is not None]
    for partition in range(4):
        assert ids([r for r in records if r.partition == partition]) == [i for i in range(events) if i % 4 == partition]
    for record in records:
        assert record.timestamp == START + record.json["id"]
        assert record.headers["stream-masker-version"] == b"1"
        assert record.headers["stream-masker-mechanism"] == b"semantic_noise"
        assert record.headers["stream-masker-configuration"]
        assert set(record.json) == {"id", "patient", "first", "second"}
        assert record.json["patient"]["id"] != event(record.json["id"])["patient"]["id"]
    assert sum(record.json["first"] != event(record.json["id"])["first"] for record in records) > events / 5
    [tombstone] = [record for record in masked if record.value is None]
    assert (tombstone.partition, tombstone.key != b"gone") == (2, True)


def check_rejections(stream: Service) -> None:
    before = {(r.partition, r.offset): r.value for r in stream.read("input")}
    rejected = stream.read("rejected")
    for record in rejected:
        assert before[record.json["partition"], record.json["offset"]] == BAD[record.json["reason"]]
        assert record.json["topic"] == stream.topics["input"]
        assert b"Z99" not in record.value
    assert Counter(record.json["reason"] for record in rejected) == Counter(BAD.keys())


def test_workers_come_and_go_and_each_record_is_masked_once(stream: Service) -> None:
    with stream.running(name="one") as one, stream.running(name="two") as two:
        shared = lambda: one.metric("assigned_partitions") == two.metric("assigned_partitions") == 2  # noqa: E731
        wait(shared, "a share for each")
        stream.produce(range(4_000))
        wait(lambda: two.metric("records_in_total") > 0, "the first records of the second worker")
        assert two.stop() == 0
        wait(lambda: one.metric("assigned_partitions") == 4, "the other's share")
        stream.produce(range(4_000, 5_000))
        wait(lambda: stream.outcomes() >= 5_000, "an outcome of every record")
    assert sorted(ids(stream.read("output"))) == list(range(5_000))


def test_records_without_a_place_in_the_output_wait_until_it_has_grown(service: Service) -> None:
    refresh = {"kafka": {"properties": {"topic.metadata.refresh.interval.ms": 1_000}}}
    service.data = merged(service.data, refresh)
    service.create(2)
    service.publish()
    with service.running() as worker:
        service.produce(range(20), partitions=2)
        worker.reaches(20)
        service.grow("input", 4)
        worker.wait(lambda: worker.metric("assigned_partitions") == 4, "the new partitions")
        produce_to_new_partitions(service, range(20, 60))
        worker.wait(lambda: worker.says("transactions failed"), "the reason")
        service.grow("output", 4)
        worker.reaches(60)
        worker.wait(worker.ready, "readiness")
    assert sorted(ids(service.read("output"))) == list(range(60))


def produce_to_new_partitions(service: Service, numbers: range) -> None:
    """Publish events to four partitions, by a client that does not know the topic yet."""
    producer = Producer({"bootstrap.servers": service.bootstrap, **QUIET})
    for i in numbers:
        producer.produce(service.topics["input"], value(i), partition=i % 4, timestamp=START + i)
    assert producer.flush(30) == 0


def test_too_large_messages_are_rejected_and_removed_codes_counted(service: Service) -> None:
    service.data = merged(service.data, {"kafka": {"properties": {"message.max.bytes": 1000}}})
    service.data["fields"] = {"keep": ["id", "note"], "unlisted": "drop"}
    service.data["attributes"]["first"]["unknown"] = "suppress"
    service.create()
    service.publish()
    large, unknown = {**event(1), "note": "n" * 950}, {**event(3), "first": "Z99"}
    values = [value(0), orjson.dumps(large), value(2), orjson.dumps(unknown)]
    write(service.bootstrap, service.topics["input"], [{"value": v, "partition": 0} for v in values])
    with service.running() as worker:
        worker.reaches(4)
        assert worker.metric("codes_unknown_total", attribute="first", outcome="suppressed") == 1
    masked = service.read("output")
    assert (ids(masked), masked[-1].json["first"]) == ([0, 2, 3], None)
    assert [record.json["reason"] for record in service.read("rejected")] == ["too_large"]


def test_nothing_is_written_before_there_are_statistics(service: Service) -> None:
    service.create()
    service.produce(range(100))
    with service.running() as worker:
        worker.wait(lambda: worker.says("no statistics yet"), "the note")
        assert service.outcomes() == len(service.read("calibration", "read_uncommitted")) == 0
        service.publish()
        worker.reaches(100)
    assert {record.headers["stream-masker-version"] for record in service.read("output")} == {b"1"}


def test_a_worker_that_sleeps_past_its_session_writes_nothing_twice(stream: Service) -> None:
    """The group gives its partitions away; what it had begun must not be committed with its old membership."""
    with stream.running(name="one", worker={"batch_records": 50}) as one:
        one.wait(lambda: one.metric("assigned_partitions") == 4, "its partitions")
        stream.produce(range(4_000))
        one.wait(lambda: one.metric("records_in_total") > 0, "the first records")
        one.signal(signal.SIGSTOP)
        with stream.running(name="two") as two:
            two.wait(lambda: two.metric("assigned_partitions") == 4, "all partitions")
            stream.produce(range(4_000, 4_400))
            two.wait(lambda: two.metric("records_in_total") >= 400, "the records of the other")
            one.signal(signal.SIGCONT)
            stream.produce(range(4_400, 4_800))
            wait(lambda: stream.outcomes() >= 4_800, "an outcome of every record")
    masked = stream.read("output")
    assert sorted(ids(masked)) == list(range(4_800))
    assert all(ids([r for r in masked if r.partition == p]) == list(range(p, 4_800, 4)) for p in range(4))
