"""The worker's transactions on a real Apache Kafka: aborts, unknown results, fencing and rewinds."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from workers import (
    Setting,
    ids,
    producer_of,
    running,
    wait,
    write_one,
)

from stream_masker.service.kafka.clients import connect_consumer
from stream_masker.service.kafka.messages import OutgoingMessage, SendMessages
from stream_masker.service.kafka.transactional_producer import (
    RecoveryAction,
    TransactionalProducer,
    TransactionOutcome,
    TransactionStepError,
)
from stream_masker.service.worker import run
from stream_masker.service.worker.batch import BatchLimits, MessageBatch
from stream_masker.service.worker.batcher import LoadBatcher
from stream_masker.service.worker.client_properties import consumer_properties
from stream_masker.service.worker.partition_source import PartitionSource


def test_an_aborted_batch_is_invisible_and_masked_again(here: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    here.create()
    here.publish(1)
    here.produce(range(100))
    sent, sent_before = [0], [0]
    begin, send = TransactionalProducer.begin, TransactionalProducer.send

    def beginning(self: TransactionalProducer, produce: Callable[[SendMessages], None]) -> TransactionOutcome | None:
        if sent[0] < 60:
            sent_before[0] = sent[0]
        return begin(self, produce)

    def failing(
        self: TransactionalProducer, topic: str, partition: int, messages: Iterable[OutgoingMessage], *_: object
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

    monkeypatch.setattr(TransactionalProducer, "begin", beginning)
    monkeypatch.setattr(TransactionalProducer, "send", failing)
    with running(here.configuration()) as worker:
        worker.reaches(100)
        assert worker.metric("transactions_total", outcome="aborted") == 1
    assert sorted(ids(here.read("output"))) == list(range(100))
    uncommitted = here.read("output", "read_uncommitted") + here.read("calibration", "read_uncommitted")
    committed = here.read("output") + here.read("calibration")
    assert len(uncommitted) - len(committed) == 59 - sent_before[0]


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
        topics=[here.topics["input"]],
        batcher=LoadBatcher(BatchLimits()),
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
    wait(lambda: gathers_at_once(source, 4), "a batch of every partition")
    stale = source.commit_metadata()
    second = source_of(here)
    wait(lambda: has_share(source, second), "the second one's share")
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


def has_share(source: PartitionSource, second: PartitionSource) -> bool:
    """Poll both; whether the second one has its share of the partitions."""
    source.poll()
    second.poll()
    return len(second.assigned) == 2


def gathers_at_once(source: PartitionSource, records: int) -> bool:
    """Gather one batch; whether it has ``records`` records. If not, they are read again."""
    batch = source.gather()
    if batch.records < records:
        source.rewind([batch])
        source.resume()
    return batch.records == records


def gathered(source: PartitionSource, records: int) -> MessageBatch:
    """Gather ``records`` records into one batch."""
    batch = source.gather()
    wait(lambda: more(source, batch) >= records, f"{records} records")
    return batch


def more(source: PartitionSource, batch: MessageBatch) -> int:
    """Add the next batch; return the number of records."""
    added = source.gather().partitions
    batch.add([m for messages in added.values() for m in messages], partitions=[*added])
    return batch.records
