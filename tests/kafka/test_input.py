"""Whatever stands on the input: hostile records, deleted offsets, and records that the output refuses."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka_records import QUIET, write
from memory import STATM, resident
from service import START, Service, event, ids, merged, value, wait

MONTH_AGO = time.time_ns() // 1_000_000 - 30 * 24 * 3_600_000
EVENTS = 100
BLANKS = 60 * 2**20
"""Bytes of a record of blanks, which zstd compresses to 2 kB."""


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


@pytest.mark.skipif(not STATM.exists(), reason="reads resident memory from /proc")
@pytest.mark.parametrize("where", ["key", "headers"])
def test_large_keys_and_headers_do_not_fill_the_memory(stream: Service, where: str) -> None:
    """The client counts values only in the bytes that it fetches ahead."""
    large = {"key": {"key": b"k" * 500_000}, "headers": {"headers": [("note", b"n" * 500_000)]}}[where]
    with stream.running() as worker:
        stream.produce(range(40))
        worker.reaches(40)
        before = resident(worker.process.pid)
        stream.produce(range(40, 640), **large)
        peak = 0

        def through() -> bool:
            nonlocal peak
            peak = max(peak, resident(worker.process.pid))
            return worker.metric("records_in_total") == 640

        worker.wait(through, "all records")
    assert peak - before < 200 * 2**20, "300 MB of keys or headers are not held at once"


def test_an_input_that_topics_created_takes_no_batch_that_grows(service: Service) -> None:
    """A batch of 2 kB that becomes 60 MiB is refused by the broker, which stores records uncompressed."""
    service.create(1)
    properties = {"compression.type": "zstd", "message.max.bytes": 2 * BLANKS}
    producer, errors = Producer({"bootstrap.servers": service.bootstrap, **properties, **QUIET}), []
    producer.produce(service.topics["input"], b" " * BLANKS, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_an_input_that_may_be_compressed_is_named(service: Service) -> None:
    service.create(1)
    service.alter("input", compression_type="producer")
    assert "compression.type=uncompressed" in service.command("topics", "--dry-run").output


@pytest.mark.parametrize(("choice", "repeated"), [("earliest", 40), ("latest", 0)])
def test_a_group_without_offsets_masks_nothing_again_unless_so_configured(
    stream: Service, choice: str, repeated: int
) -> None:
    """Kafka forgets the offsets of a group that has been empty for some days."""
    stream.produce(range(40))
    with stream.running() as worker:
        worker.reaches(40)
    stream.admin.delete_consumer_groups([group := stream.group])[group].result(60)
    if choice == "latest":
        refusing = stream.start("worker", "again")
        refusing.process.join(60)
        assert refusing.process.exitcode not in {0, None}
        assert f"has no offsets of {stream.topics['input']}" in refusing.log
    with stream.running(name="again", kafka={"properties": {"auto.offset.reset": choice}}) as worker:
        worker.wait(lambda: worker.metric("assigned_partitions") == 4, "its partitions")
        worker.wait(lambda: stream.outcomes() == 40 + repeated, "the records")
        worker.wait(lambda: worker.has("consumer_lag") and worker.metric("consumer_lag") == 0, "the end of the input")
        stream.produce(range(40, 44))
        worker.wait(lambda: stream.outcomes() == 44 + repeated, "new records")
    assert Counter(ids(stream.read("output"))) == Counter([*range(44), *range(repeated)])


def test_deleted_offsets_are_counted(stream: Service) -> None:
    """What retention deletes before a worker has read it is counted on assignment, and once."""
    stream.produce(range(40))
    with stream.running() as worker:
        worker.reaches(40)
    stream.produce(range(40, 120))
    stream.delete_records(0, 25)
    with stream.running() as worker:
        worker.wait(lambda: worker.metric("records_in_total") == 65, "the records that are left")
        worker.wait(lambda: worker.metric("records_skipped_total") == 15, "the count")
    with stream.running() as worker:
        stream.produce(range(120, 124))
        worker.reaches(4)
        assert worker.metric("records_skipped_total") == 0


def compacted(stream: Service) -> tuple[str, dict[int, dict[str, Any]]]:
    stream.alter("output", cleanup_policy="compact")
    return "missing_key", {i: {"key": None} for i in (5, 61, 62)}


def old(stream: Service) -> tuple[str, dict[int, dict[str, Any]]]:
    stream.alter("output", message_timestamp_before_max_ms=str(7 * 24 * 3_600_000))
    return "timestamp_out_of_range", {i: {"timestamp": MONTH_AGO} for i in (0, 51, 52, 72)}


def large(stream: Service) -> tuple[str, dict[int, dict[str, Any]]]:
    stream.alter("output", max_message_bytes="50000")
    notes = {i: random.Random(i).randbytes(60_000).hex() for i in (3, 50, 51)}
    return "too_large", {i: {"value": orjson.dumps({**event(i), "note": note})} for i, note in notes.items()}


@pytest.mark.parametrize("cause", [compacted, old, large], ids=lambda cause: cause.__name__)
def test_records_that_the_output_refuses_are_rejected_and_all_others_masked(service: Service, cause: Any) -> None:
    changes = {"message": {"key": "keep"}, "limits": {"rejected_share": 1.0}, "fields": {"keep": ["id", "note"]}}
    service.data = merged(service.data, changes)
    service.create()
    service.alter("input", retention_ms="-1")
    service.publish()
    with service.running() as worker:
        worker.wait(lambda: worker.metric("assigned_partitions") == 4, "its partitions")
        reason, bad = cause(service)
        usual = lambda i: {"value": value(i), "key": b"k%d" % i, "partition": i % 4, "timestamp": START + i}  # noqa: E731
        write(service.bootstrap, service.topics["input"], ({**usual(i), **bad.get(i, {})} for i in range(EVENTS)))
        worker.reaches(EVENTS)
        assert worker.metric("records_rejected_total", reason=reason) == len(bad)
        wait(worker.ready, "readiness")
    masked = service.read("output")
    for partition in range(4):
        expected = [i for i in range(partition, EVENTS, 4) if i not in bad]
        assert ids([record for record in masked if record.partition == partition]) == expected
    rejected = [record.json for record in service.read("rejected")]
    assert {(each["reason"], each["partition"], each["offset"]) for each in rejected} == {
        (reason, i % 4, i // 4) for i in bad
    }
