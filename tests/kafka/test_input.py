"""Whatever stands on the input: hostile or unreadable records, deleted offsets, and what the output refuses."""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import orjson
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaProducer
from kafka_records import QUIET, write
from service import START, Service, event, ids, merged, value, wait

MONTH_AGO = time.time_ns() // 1_000_000 - 30 * 24 * 3_600_000
EVENTS = 100
BLANKS = 60 * 2**20
"""Bytes of a record of blanks, which zstd compresses to 2 kB."""

BEYOND = 101_000_000
"""Bytes of one record that are more than the client decompresses."""


class NotUtf8(str):
    """A header name that is not UTF-8."""

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe"


POISON: dict[str, dict[str, Any]] = {
    "bytes": {"value": b"\xff\xfe\x00"},
    "nothing": {"value": b""},
    "half a surrogate": {"value": b'{"id": 1, "first": "\\ud800", "second": "C11"}'},
    "depth": {"value": b'{"id": 1, "first": "C11", "second": "C11", "x": ' + b"[" * 90_000 + b"]" * 90_000 + b"}"},
    "digits": {"value": b'{"id": ' + b"9" * 300_000 + b', "first": "C11", "second": "C11"}'},
    "size": {"value": b'{"id": 1, "first": "C11", "second": "C11", "x": "' + b"x" * 1_040_000 + b'"}'},
    "code": {"value": b'{"id": 1, "first": "' + b"C" * 900_000 + b'", "second": "C11"}'},
    "codes": {"value": b'{"id": 1, "first": [["C11"]], "second": {"C11": 1}}'},
    "key": {"value": value(0)[:-1], "key": b"\xff" * 500_000},
    "header": {"value": b"{", "headers": [(NotUtf8("n"), b"1")]},
    "headers": {"value": b"{", "headers": [("n", b"\xff" * 10)] * 5_000},
}


def test_a_poison_record_never_blocks_its_partition(stream: Service) -> None:
    """Each is between good records on each partition."""
    poison = list(POISON.values())
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap, max_request_size=2_000_000)
    for number in range(300):
        producer.send(stream.topics["input"], value(number), partition=number % 4)
        if number < 4 * len(poison):
            producer.send(stream.topics["input"], partition=number % 4, **poison[number // 4])
    producer.close()
    sections = {"message": {"key": "pseudonymize", "headers": ["n"]}, "limits": {"record_bytes": 1_000_000}}
    with stream.running(**sections) as worker:
        worker.reaches(300 + 4 * len(poison))
        worker.wait(lambda: worker.has("consumer_lag") and worker.metric("consumer_lag") == 0, "a lag of zero")
    assert sorted(ids(stream.read("output"))) == list(range(300))
    assert len(stream.read("rejected")) == 4 * len(poison)


@pytest.mark.skipif(sys.platform != "linux", reason="reads resident memory from /proc")
def test_large_keys_and_headers_do_not_fill_the_memory(stream: Service) -> None:
    """The client counts values only in the bytes that it fetches ahead."""
    large = {"key": b"k" * 250_000, "headers": [("note", b"n" * 250_000)]}
    with stream.running() as worker:
        stream.produce(range(40))
        worker.reaches(40)
        before = worker.memory
        stream.produce(range(40, 640), **large)
        peak = 0

        def through() -> bool:
            nonlocal peak
            peak = max(peak, worker.memory)
            return worker.metric("records_in_total") == 640

        worker.wait(through, "all records")
    assert peak - before < 200 * 2**20, "300 MB of keys and headers are not held at once"


def test_an_input_that_topics_created_takes_no_batch_that_grows(service: Service) -> None:
    """A batch of 2 kB that becomes 60 MiB is refused by the broker, which stores records uncompressed."""
    service.create(1)
    properties = {"compression.type": "zstd", "message.max.bytes": 2 * BLANKS}
    producer, errors = Producer({"bootstrap.servers": service.bootstrap, **properties, **QUIET}), []
    producer.produce(service.topics["input"], b" " * BLANKS, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def move_offsets(service: Service, offsets: dict[int, int]) -> None:
    """Move the group's offsets by partition, as kafka-consumer-groups.sh does."""
    consumer = Consumer({"bootstrap.servers": service.bootstrap, "group.id": service.group, **QUIET})
    places = [TopicPartition(service.topics["input"], *place) for place in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def test_a_group_without_offsets_masks_nothing_again(stream: Service) -> None:
    """Kafka forgets the offsets of a group that has been empty for some days."""
    stream.produce(range(40))
    with stream.running() as worker:
        worker.reaches(40)
    stream.admin.delete_consumer_groups([group := stream.group])[group].result(60)
    refusing = stream.start("worker", "again")
    refusing.process.join(60)
    assert refusing.process.exitcode not in {0, None}
    assert f"has no offsets of {stream.topics['input']}, partitions 0, 1, 2, 3, but" in refusing.log
    assert f"kafka-consumer-groups.sh --reset-offsets --group {group}" in refusing.log
    move_offsets(stream, dict.fromkeys(range(4), 10))
    stream.produce(range(40, 44))
    with stream.running(name="again") as worker:
        worker.reaches(4)
    assert sorted(ids(stream.read("output"))) == [*range(44)]


NOTES = {i: random.Random(i).randbytes(60_000).hex() for i in (3, 50, 51)}
"""Texts of 120 kB, by event."""

REFUSED: dict[str, dict[int, dict[str, Any]]] = {
    "missing_key": {i: {"key": None} for i in (5, 61, 62)},
    "timestamp_out_of_range": {i: {"timestamp": MONTH_AGO} for i in (0, 52, 53, 72)},
    "too_large": {i: {"value": orjson.dumps({**event(i), "note": note})} for i, note in NOTES.items()},
}
"""Records that a compacted output with limits of size and time refuses: by reason and event, what is unusual."""


def test_records_that_the_output_refuses_are_rejected_and_all_others_masked(service: Service) -> None:
    changes = {"message": {"key": "keep"}, "fields": {"keep": ["id", "note"]}}
    service.data = merged(service.data, changes)
    service.create()
    service.alter("input", retention_ms="-1")
    service.publish()
    with service.running() as worker:
        worker.wait(lambda: worker.metric("assigned_partitions") == 4, "its partitions")
        week = str(7 * 24 * 3_600_000)
        limits = {"max_message_bytes": "50000", "message_timestamp_before_max_ms": week}
        service.alter("output", cleanup_policy="compact", **limits)
        bad = {i: unusual for records in REFUSED.values() for i, unusual in records.items()}
        usual = lambda i: {"value": value(i), "key": b"k%d" % i, "partition": i % 4, "timestamp": START + i}  # noqa: E731
        write(service.bootstrap, service.topics["input"], ({**usual(i), **bad.get(i, {})} for i in range(EVENTS)))
        worker.reaches(EVENTS)
        for reason, records in REFUSED.items():
            assert worker.metric("records_rejected_total", reason=reason) == len(records)
        wait(worker.ready, "readiness")
    masked = service.read("output")
    for partition in range(4):
        expected = [i for i in range(partition, EVENTS, 4) if i not in bad]
        assert ids([record for record in masked if record.partition == partition]) == expected
    rejected = {(one["reason"], one["partition"], one["offset"]) for one in (r.json for r in service.read("rejected"))}
    assert rejected == {(reason, i % 4, i // 4) for reason, records in REFUSED.items() for i in records}


def bomb(service: Service) -> None:
    """Publish a batch of three records to partition 0; the second one has 101 MB of blanks, in some kilobytes."""
    service.alter("input", compression_type="producer", max_message_bytes=str(2 * BEYOND))
    properties = {"compression.type": "zstd", "message.max.bytes": 2 * BEYOND, "batch.size": 2 * BEYOND}
    producer = Producer({"bootstrap.servers": service.bootstrap, "linger.ms": 60_000, **properties, **QUIET})
    for content in (value(100), b" " * BEYOND, value(102)):
        producer.produce(service.topics["input"], content, partition=0, timestamp=START)
    assert producer.flush(30) == 0


def test_a_record_of_more_than_100_megabytes_is_named_and_the_others_are_masked(service: Service) -> None:
    service.create(2)
    service.publish()
    service.produce(range(20), partitions=2)
    bomb(service)
    service.produce(range(20, 40), partitions=2)
    with service.running() as worker:
        unreadable = f"partition 0 of {service.topics['input']} cannot be read at offset 10: "
        worker.wait(lambda: worker.says(unreadable), "the error that lasts")
        assert not worker.ready()
        worker.wait(lambda: worker.metric("records_in_total") == 30, "the records of the other partition")
    move_offsets(service, {0: 13})
    with service.running() as worker:
        worker.wait(lambda: worker.metric("records_in_total") == 10, "the records behind it")
        worker.wait(worker.ready, "readiness")
    assert sorted(ids(service.read("output"))) == list(range(40))
    assert "Traceback" not in service.logs()


def test_deleted_offsets_are_counted(stream: Service) -> None:
    """What retention deletes before a worker has read it is counted on assignment."""
    stream.produce(range(40))
    with stream.running() as worker:
        worker.reaches(40)
    stream.produce(range(40, 120))
    stream.delete_records(0, 25)
    with stream.running() as worker:
        worker.reaches(65)
        worker.wait(lambda: worker.metric("records_skipped_total") == 15, "the count")
        assert worker.metric("records_skipped_total") == 15
