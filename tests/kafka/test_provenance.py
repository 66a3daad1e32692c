"""Provenance events on a real Apache Kafka: they cover the input exactly, and say what the output topics say."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from fhir_provenance import Range, details, problems, range_of
from kafka_records import QUIET, Record, read_all, write
from processes import Processes
from prometheus_client import CollectorRegistry
from support.schemas import schema_validator
from workers import CODES, SECRET, Setting, running, value, wait

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import own_secret_id
from stream_masker.service.kafka.messages import OutgoingMessage
from stream_masker.service.kafka.transactional_producer import (
    RecoveryAction,
    TransactionalProducer,
    TransactionStepError,
)
from stream_masker.service.observability.health import Health
from stream_masker.service.worker.run import run_worker

REJECTED = b'{"id": 1, "first": "Z99", "second": "C11"}'
VERSION = "stream-masker-version"


@pytest.fixture
def here(here: Setting) -> Setting:
    here.data["topics"]["provenance"] = here.topics["drift"].replace("drift", "provenance")
    here.configuration()
    here.create(provenance=1)
    here.publish(1)
    return here


def ranges(here: Setting, partition: int) -> list[tuple[Range, Any]]:
    """Return the ranges of a partition in the order of their events, with the events."""
    events = [(record.key, record.json) for record in here.read("provenance")]
    found = [(key, range_of(one), one) for key, one in events]
    assert all(key == f"{one.topic}:{one.partition}".encode() for key, one, _ in found)
    return [(one, resource) for _, one, resource in found if one.partition == partition]


def check(here: Setting, partitions: int = 4) -> int:
    """Check that the events partition the input and match the output topics; return their number."""
    masked, rejected = here.read("output"), here.read("rejected")
    events = 0
    for partition in range(partitions):
        found = ranges(here, partition)
        offsets = [r.offset for r in read_all(here.bootstrap, here.topics["input"]) if r.partition == partition]
        assert all(before.last < after.first for (before, _), (after, _) in pairwise(found))
        inside = [[offset for offset in offsets if one.first <= offset <= one.last] for one, _ in found]
        assert [offset for part in inside for offset in part] == offsets
        assert all((part[0], part[-1]) == (one.first, one.last) for part, (one, _) in zip(inside, found, strict=True))
        check_counts(found, inside, [r for r in masked if r.partition == partition], rejected)
        events += len(found)
    return events


def check_counts(
    found: list[tuple[Range, Any]], inside: list[list[int]], masked: list[Record], rejected: list[Record]
) -> None:
    """Check each event against the records of the output, which are in the order of the input, and the rejections."""
    outcomes = iter(masked)
    for (one, resource), offsets in zip(found, inside, strict=True):
        assert sum(one.counts.values()) == len(offsets)
        own = [next(outcomes) for _ in range(one.counts["masked"] + one.counts["tombstones"])]
        assert sum(record.value is None for record in own) == one.counts["tombstones"]
        assert {record.headers[VERSION] for record in own} <= {str(details(resource)["statistics-version"]).encode()}
        places = [(r.json["partition"], r.json["offset"]) for r in rejected]
        inner = [offset for partition, offset in places if partition == one.partition and offset in set(offsets)]
        assert len(inner) == one.counts["rejected"]
    assert next(outcomes, None) is None


def test_events_partition_the_input_and_count_the_outcomes(here: Setting) -> None:
    here.produce(range(200))
    topic = here.topics["input"]
    write(here.bootstrap, topic, [{"value": REJECTED, "partition": 1}, {"value": None, "key": b"k", "partition": 1}])
    write(here.bootstrap, topic, [{"value": REJECTED, "partition": 3}] * 3)
    with running(here.configuration()) as worker:
        worker.reaches(205)
        here.publish(2)
        worker.wait(lambda: worker.metric("statistics_version") == 2, "version 2")
        here.produce(range(200, 300))
        worker.reaches(305)
    assert check(here) >= 8
    sums = sum((Counter(one.counts) for p in range(4) for one, _ in ranges(here, p)), Counter())
    assert sums == {"masked": 300, "tombstones": 1, "rejected": 4}
    versions = [{details(event)["statistics-version"] for _, event in ranges(here, p)} for p in range(4)]
    assert versions == [{1, 2}] * 4


def test_events_are_legal_in_fhir_r4_and_have_no_value_and_no_secret(here: Setting) -> None:
    here.produce(range(100))
    write(here.bootstrap, here.topics["input"], [{"value": REJECTED, "partition": 0}])
    with running(here.configuration()) as worker:
        worker.reaches(101)
    events = here.read("provenance")
    assert events
    for record in events:
        assert problems(record.json) == []
        assert schema_validator("provenance").is_valid(record.json)
        assert details(record.json)["mechanism"] == "semantic_noise"
        assert details(record.json)["secret-id"] == own_secret_id(here.configuration())
        assert record.headers == {}
        raw = record.value or b""
        assert not [code for code in (*CODES, "Z99", "p0", "patient") if f'"{code}"'.encode() in raw]
        assert SECRET not in raw
        assert SECRET.hex().encode() not in raw


def test_transaction_markers_between_ranges_are_in_no_range(here: Setting) -> None:
    producer = Producer({"bootstrap.servers": here.bootstrap, "transactional.id": here.topics["input"], **QUIET})
    producer.init_transactions()
    for start in range(0, 40, 10):
        producer.begin_transaction()
        for number in range(start, start + 10):
            producer.produce(here.topics["input"], value(number), partition=0)
        producer.flush()
        (producer.abort_transaction if start == 20 else producer.commit_transaction)()
    here.data["worker"]["batch_records"] = 7
    with running(here.configuration()) as worker:
        worker.reaches(30)
    assert check(here) >= 5


def test_groups_that_wait_for_more_records_are_in_the_range_of_their_own_transaction(here: Setting) -> None:
    here.data |= {
        "mechanism": {"name": "microaggregation", "k": 3},
        "groups": {"records": 20, "delay": 0.5, "short": "hold"},
    }
    here.configuration()
    here.publish(2)
    here.produce(range(84))
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.metric("records_in_total") >= 80, "the first groups")
        here.produce(range(84, 96))
        worker.reaches(96)
    assert check(here) >= 8


def test_an_aborted_transaction_leaves_no_event(here: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    here.produce(range(100))
    send, failed = TransactionalProducer.send, []

    def failing(
        self: TransactionalProducer, topic: str, partition: int, messages: Iterable[OutgoingMessage], *rest: Any
    ) -> list[int]:
        too_large = send(self, topic, partition, messages, *rest)
        if topic == here.topics["provenance"] and not failed:
            failed.append(self._client.flush(10))
            error = KafkaError(KafkaError._FAIL, "injected by the test")
            raise TransactionStepError("produce", RecoveryAction.ABORT, error)
        return too_large

    monkeypatch.setattr(TransactionalProducer, "send", failing)
    with running(here.configuration()) as worker:
        worker.reaches(100)
        assert worker.metric("transactions_total", outcome="aborted") == 1
    assert failed == [0]
    assert len(here.read("provenance", "read_uncommitted")) == len(here.read("provenance")) + 1
    check(here)


def test_the_ranges_partition_the_input_after_workers_were_killed(here: Setting) -> None:
    here.data["worker"] |= {"batch_delay": 0.01, "batch_records": 50}
    here.configuration()
    sent = 0
    with Processes(here.folder) as processes:
        for name in ("first", "second"):
            process = processes.start(name, "worker", "--config", str(here.path), "--http-port", "0")
            before = len(here.read("provenance"))
            for _ in range(20):
                here.produce(range(sent, sent + 100))
                sent += 100
            wait(lambda before=before: len(here.read("provenance")) > before + 3, "events of the worker")
            process.kill()
            process.wait()
        processes.start("last", "worker", "--config", str(here.path), "--http-port", "0")
        wait(lambda: here.ended() >= sent, "the outcome of every record")
    assert here.ended() == sent
    assert check(here) >= 8


def test_nothing_is_written_by_default(here: Setting) -> None:
    here.produce(range(20))
    topics = {role: name for role, name in here.topics.items() if role != "provenance"}
    with running(here.configuration(topics=topics)) as worker:
        worker.reaches(20)
    assert here.read("provenance", "read_uncommitted") == []


def start(configuration: Configuration) -> None:
    run_worker(configuration, registry=CollectorRegistry(), health=Health(), stop=threading.Event())


def test_a_worker_refuses_a_compacted_topic(here: Setting) -> None:
    here.alter("provenance", cleanup_policy="compact")
    with pytest.raises(ServiceError, match="deletes all events of a partition but the last"):
        start(here.configuration())


def test_a_worker_needs_the_topic(here: Setting) -> None:
    topics = {**here.topics, "provenance": f"{here.topics['provenance']}-missing"}
    with pytest.raises(ServiceError, match=r"topics do not exist: provenance-\w+-missing"):
        start(here.configuration(topics=topics))
