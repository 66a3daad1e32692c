"""Requests of a transaction that reach a real Kafka late, after the client has sent them again.

librdkafka does not implement KIP-890: all transactions of a producer have the same epoch, so a late request of one
takes effect in the next one, unless the producer is initialised again in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from fault_stream import detoured, detours
from kafka_broker import Cluster
from late_requests import END_TXN, TXN_OFFSET_COMMIT, LateRequests, end_txn_error
from support.shared import alone, run_folder
from workers import Setting, producer_of, running, setting, write_one

from stream_masker.service.kafka.clients import connect_producer
from stream_masker.service.kafka.messages import SendMessages
from stream_masker.service.kafka.transactional_producer import RecoveryAction, TransactionOutcome, TransactionStepError
from stream_masker.service.worker import run

FENCED = {KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}


@pytest.fixture
def here(one_broker: Cluster, tmp_path: Path) -> Iterator[Setting]:
    here = setting(one_broker.bootstrap, tmp_path)
    here.create()
    yield here
    here.remove()


@pytest.fixture
def way(here: Setting, one_broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LateRequests]:
    """The way of the producers of ``here`` to the broker, which has one detour for all processes that run tests."""
    with alone(run_folder(tmp_path_factory), "detour"), LateRequests(detours(one_broker)) as way:
        here.data["kafka"]["bootstrap_servers"] = detoured(one_broker)
        yield way


def values(here: Setting) -> list[bytes | None]:
    return [record.value for record in here.read("output")]


@pytest.mark.parametrize("repeat", [False, True], ids=["delayed", "repeated"])
@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_a_late_end_of_a_transaction_does_not_end_the_next_one(
    here: Setting, way: LateRequests, ends: str, repeat: bool
) -> None:
    producer, output = producer_of(here), here.topics["output"]
    sending = lambda value: lambda send: send(output, 0, [(value, None, 0, [])])  # noqa: E731
    group = Consumer({"bootstrap.servers": here.bootstrap, "group.id": "none"}).consumer_group_metadata()
    assert producer.begin(sending(b"first")) is None
    producer._client.flush(10)
    way.hold(END_TXN, repeat=repeat)
    outcome = producer.commit([], group, lambda: None) if ends == "commit" else producer.abort()
    assert way.holds(0)
    before = [b"first"] if ends == "commit" else []
    assert outcome is (TransactionOutcome.COMMITTED if before else TransactionOutcome.ABORTED)
    assert producer.begin(sending(b"second")) is None
    producer._client.flush(10)
    [answer] = way.release()
    assert values(here) == before
    assert end_txn_error(answer) in FENCED
    assert producer.commit([], group, lambda: None) is TransactionOutcome.COMMITTED
    assert values(here) == [*before, b"second"]


class LateOffsets:
    """A producer before whose second commit the late requests arrive."""

    def __init__(self, producer: Producer, way: LateRequests, commits: list[int]) -> None:
        self.producer, self.way, self.commits = producer, way, commits

    def __getattr__(self, name: str) -> object:
        return getattr(self.producer, name)

    def commit_transaction(self, timeout: float) -> None:
        self.commits.append(len(self.commits))
        if len(self.commits) == 2:
            assert self.way.release()
        self.producer.commit_transaction(timeout)


def test_late_offsets_of_a_transaction_do_not_replace_those_of_the_next_one(
    here: Setting, way: LateRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[int] = []
    monkeypatch.setattr("workers.connect_producer", lambda p: LateOffsets(connect_producer(p), way, commits))
    producer, source = producer_of(here), here.topics["input"]
    consumer = Consumer({"bootstrap.servers": here.bootstrap, "group.id": here.topics["input"]})
    group = consumer.consumer_group_metadata()
    way.hold(TXN_OFFSET_COMMIT)
    for end in (5, 9):
        offsets = [TopicPartition(source, 0, end)]
        assert write_one(producer, here.topics["output"], b"%d" % end, offsets, group) is TransactionOutcome.COMMITTED
    assert len(commits) == 2
    [committed] = consumer.committed([TopicPartition(source, 0)], 10)
    consumer.close()
    assert committed.offset == 9


def test_a_worker_is_exact_while_ends_of_transactions_are_late(
    here: Setting, way: LateRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fourth transaction is aborted after the late end of an earlier one of the same producer has arrived."""
    begin, turns = run.TransactionalProducer.begin, [0]

    def begin_late(self: run.TransactionalProducer, produce: object) -> TransactionOutcome | None:
        def produced(send: SendMessages) -> None:
            produce(send)
            turns[0] += 1
            if turns[0] % 4 == 3:
                self._client.flush(10)
                way.release()
                raise TransactionStepError("produce", RecoveryAction.ABORT, KafkaError(KafkaError._FAIL, "by the test"))

        outcome = begin(self, produced)
        if turns[0] % 4 == 1:
            way.hold(END_TXN)
        return outcome

    monkeypatch.setattr(run.TransactionalProducer, "begin", begin_late)
    here.publish(1)
    here.produce(range(1_000))
    with running(here.configuration(worker={"instance": "late", "batch_records": 50})) as worker:
        worker.reaches(1_000)
    assert turns[0] >= 20
    assert sorted(record.json["id"] for record in here.read("output")) == list(range(1_000))
