"""The mask worker on a real Apache Kafka, as its consumers see it."""

from __future__ import annotations

import json
import logging
import os
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka_records import Record, write
from processes import Processes, terminate
from workers import (
    CODES,
    START,
    Setting,
    event,
    get,
    http_port,
    producer_of,
    running,
    sample_version,
    setting,
    value,
    wait,
    write_one,
)

from stream_masker.pipeline.wire.messages import encode_statistics
from stream_masker.service.configuration.mutable_settings import mutable_settings
from stream_masker.service.kafka.connections import connect_consumer
from stream_masker.service.kafka.transactional_producer import (
    OutgoingMessage,
    RecoveryAction,
    TransactionalProducer,
    TransactionOutcome,
    TransactionStepError,
)
from stream_masker.service.worker import run
from stream_masker.service.worker.batch import BatchLimits, MessageBatch
from stream_masker.service.worker.batcher import SizeTimeBatcher
from stream_masker.service.worker.client_properties import consumer_properties
from stream_masker.service.worker.partition_source import PartitionSource

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


@pytest.fixture
def here(kafka: str, tmp_path: Path) -> Iterator[Setting]:
    here = setting(kafka, tmp_path)
    yield here
    here.remove()


def ids(records: list[Record]) -> list[int]:
    return [record.json["id"] for record in records if record.value is not None]


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
        worker.wait(lambda: worker.metric("assigned_partitions") == 4, "a look at the partitions")
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
    """Somebody who may write to the topic, but has no secret, cannot decide how records are masked."""
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
        worker.wait(lambda: worker.metric("consumer_lag_assigned") == 100, "the lag of held partitions")
        worker.wait(lambda: worker.health.reasons == ("no statistics yet: none are published",), "the reason")
        assert worker.metric("held") == 1
        assert here.ended() == len(here.read("calibration")) == 0
        here.publish(3)
        worker.reaches(100)
        worker.wait(lambda: not worker.health.reasons, "readiness")
        assert (worker.metric("held"), worker.metric("statistics_version")) == (0, 3)
    assert {r.headers["stream-masker-version"] for r in here.read("output")} == {b"3"}


def test_statistics_of_another_taxonomy_are_refused_with_a_reason(here: Setting) -> None:
    here.create()
    here.publish(1, taxonomies={"first": "0" * 16, "second": "0" * 16})
    here.produce(range(10))
    with running(here.configuration()) as worker:
        refused = "another taxonomy of first, second"
        worker.wait(lambda: refused in str(worker.health.reasons), "the reason")
        assert worker.metric("statistics_refused_total") == 1
        assert here.ended() == 0
        here.publish(2)
        worker.reaches(10)


def test_a_new_version_is_used_from_its_arrival_on(here: Setting) -> None:
    here.create()
    here.publish(1)
    here.produce(range(100))
    with running(here.configuration()) as worker:
        worker.reaches(100)
        here.publish(2)
        worker.wait(lambda: worker.metric("statistics_version") == 2, "the new version")
        here.produce(range(100, 200))
        worker.reaches(200)
    versions = {r.json["id"]: r.headers["stream-masker-version"] for r in here.read("output")}
    assert versions == {i: b"1" if i < 100 else b"2" for i in range(200)}


def test_a_worker_continues_where_the_last_one_stopped(here: Setting) -> None:
    here.create()
    here.publish(1)
    here.produce(range(200))
    with running(here.configuration()) as worker:
        worker.reaches(200)
    here.produce(range(200, 300))
    with running(here.configuration()) as worker:
        worker.reaches(100)
    assert sorted(ids(here.read("output"))) == list(range(300))


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


def test_an_aborted_batch_is_invisible_and_masked_again(here: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    here.create()
    here.publish(1)
    here.produce(range(100))
    sent = [0]
    send = TransactionalProducer.send

    def failing(
        self: TransactionalProducer, topic: str, partition: int, messages: Iterable[OutgoingMessage]
    ) -> list[int]:
        too_large = []
        for message in messages:
            sent[0] += 1
            if sent[0] == 60:
                self._client.flush(10)
                raise TransactionStepError(
                    "produce", RecoveryAction.ABORT, KafkaError(KafkaError._FAIL, "injected by the test")
                )
            too_large += send(self, topic, partition, [message])
        return too_large

    monkeypatch.setattr(TransactionalProducer, "send", failing)
    with running(here.configuration()) as worker:
        worker.reaches(100)
        assert worker.metric("transactions_total", outcome="aborted") == 1
    assert sorted(ids(here.read("output"))) == list(range(100))
    uncommitted = here.read("output", "read_uncommitted") + here.read("calibration", "read_uncommitted")
    committed = here.read("output") + here.read("calibration")
    assert len(uncommitted) - len(committed) == 59


class UndecidedProducer:
    """A producer whose first commit ends without a known result; ``succeeds``: whether the commit succeeds."""

    def __init__(self, producer: Producer, *, succeeds: bool, left: list[int]) -> None:
        self.producer, self.succeeds, self.left = producer, succeeds, left

    def __getattr__(self, name: str) -> object:
        return getattr(self.producer, name)

    def commit_transaction(self, timeout: float) -> None:
        if not self.left:
            return self.producer.commit_transaction(timeout)
        self.left.clear()
        if self.succeeds:
            self.producer.commit_transaction(timeout)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", True))


@pytest.mark.parametrize("succeeds", [True, False], ids=["succeeded", "failed"])
def test_a_commit_without_a_known_result_loses_and_duplicates_nothing(
    here: Setting, monkeypatch: pytest.MonkeyPatch, succeeds: bool
) -> None:
    here.create()
    here.publish(1)
    here.produce(range(100))
    left = [1]
    connect = run.connect_producer
    monkeypatch.setattr(run, "connect_producer", lambda p: UndecidedProducer(connect(p), succeeds=succeeds, left=left))
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.metric("transactions_total", outcome="unknown") == 1, "the commit without a result")
        here.produce(range(100, 120))
        worker.reaches(20 if succeeds else 120)
    assert sorted(ids(here.read("output"))) == list(range(120))


def test_a_zombie_with_the_same_transactional_id_writes_nothing(here: Setting) -> None:
    here.create()
    zombie, successor = producer_of(here), producer_of(here)
    consumer = Consumer({"bootstrap.servers": here.bootstrap, "group.id": "none"})
    group = consumer.consumer_group_metadata()
    output = here.topics["output"]
    assert write_one(zombie, output, b"zombie", [], group) is TransactionOutcome.UNKNOWN
    assert write_one(successor, output, b"late", [], group) is TransactionOutcome.UNKNOWN
    assert write_one(successor, output, b"alive", [], group) is TransactionOutcome.COMMITTED
    assert [record.value for record in here.read("output")] == [b"alive"]
    consumer.close()


def test_a_record_that_the_broker_refuses_fails_the_transaction_and_the_topic_is_logged(
    here: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    here.create()
    here.alter("output", max_message_bytes="2000")
    consumer = Consumer({"bootstrap.servers": here.bootstrap, "group.id": "none"})
    group = consumer.consumer_group_metadata()
    with caplog.at_level(logging.WARNING, "stream_masker.service.kafka.transactional_producer"):
        assert (
            write_one(producer_of(here), here.topics["output"], os.urandom(3000), [], group)
            is TransactionOutcome.ABORTED
        )
    consumer.close()
    [failure] = [
        record.getMessage()
        for record in caplog.records
        if record.name == "stream_masker.service.kafka.transactional_producer"
    ]
    assert here.topics["output"] in failure
    assert "too large" in failure


def source_of(here: Setting) -> PartitionSource:
    properties = consumer_properties(here.configuration())
    source = PartitionSource(
        client=connect_consumer(properties),
        connect=lambda: connect_consumer(properties),
        topic=here.topics["input"],
        batcher=SizeTimeBatcher(BatchLimits()),
        beat=lambda: True,
    )
    source.subscribe()
    return source


def test_a_member_of_an_earlier_generation_commits_nothing(here: Setting) -> None:
    here.create()
    here.produce(range(4))
    source = source_of(here)
    wait(lambda: source.idle(0.1) or len(source.assigned) == 4, "the first assignment")
    source.resume()
    assert source.gather().records == 4
    stale = source.commit_metadata()
    second = source_of(here)
    wait(lambda: (source.poll(), second.poll()) and len(second.assigned) == 2, "the second one's share")
    assert source.commit_metadata() is None
    source.gather()
    producer, output = producer_of(here), here.topics["output"]
    offsets = [TopicPartition(here.topics["input"], 0, 5)]
    assert write_one(producer, output, b"stale", offsets, stale) is TransactionOutcome.ABORTED
    assert write_one(producer, output, b"fresh", offsets, source.commit_metadata()) is TransactionOutcome.COMMITTED
    assert [record.value for record in here.read("output")] == [b"fresh"]
    source.close()
    second.close()


def test_a_rewind_reads_the_same_records_again_with_and_without_a_poll_before_it(here: Setting) -> None:
    here.create()
    here.produce(range(400))
    source = source_of(here)
    source.resume()
    first = gathered(source, 400)
    for poll in (False, True):
        if poll:
            source.poll()
        source.rewind([first])
        source.resume()
        again = gathered(source, 400)
        assert again.first_offsets() == first.first_offsets()
        for messages in again.partitions.values():
            assert [message.offset() for message in messages] == list(range(100))
    source.close()


def gathered(source: PartitionSource, records: int) -> MessageBatch:
    """Gather ``records`` records into one batch."""
    batch = source.gather()
    wait(lambda: more(source, batch) >= records, f"{records} records")
    return batch


def more(source: PartitionSource, batch: MessageBatch) -> int:
    """Add the next batch; return the number of records."""
    batch.add([m for messages in source.gather().partitions.values() for m in messages], partitions=range(4))
    return batch.records


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
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read(), "utf-8")


def test_the_command_masks_serves_metrics_and_stops_in_order(here: Setting, tmp_path: Path) -> None:
    here.create()
    here.produce(range(50))
    with Processes(tmp_path) as processes:
        worker = processes.start("worker", "worker", "--config", str(here.path), "--http-port", "0")
        port = http_port(processes, "worker")
        processes.wait(lambda: "none are published" in str(get(port, "/readyz")), "the reason for holding")
        assert get(port, "/readyz")[0] == 503
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


def test_the_command_names_missing_topics_and_the_command_that_creates_them(here: Setting, tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        done = processes.run("worker", "--config", str(here.path), code=1)
    assert here.topics["input"] in done.stderr
    assert "stream-masker topics" in done.stderr


def test_the_command_refuses_an_output_with_too_few_partitions(here: Setting, tmp_path: Path) -> None:
    here.create(partitions=4, output=3)
    with Processes(tmp_path) as processes:
        done = processes.run("worker", "--config", str(here.path), code=1)
    assert "has 3 partitions" in done.stderr
