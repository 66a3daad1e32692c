"""Batches that an output refuses: they are written in halves, and only what is refused alone is rejected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from calibration_bench import block
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from results import Masked, result_of

from stream_masker.core.context import NO_CONTEXT
from stream_masker.pipeline.messages import TopicSeal, block_key, encode_block
from stream_masker.pipeline.records import Result
from stream_masker.service.configuration.service import TopicsSection
from stream_masker.service.worker.transactions import AbortedError, Outputs, SessionLostError, Transactions

FIRST, SECOND = 0, 1
BLOCK, SEAL = block(0), TopicSeal("blocks", [bytes(16)])
MECHANISM: Any = SimpleNamespace(taxonomies={}, context=NO_CONTEXT)

Sent = list[tuple[str, int, bytes]]
"""Topic, partition and value of messages."""


class FakeProducer:
    """A producer whose broker refuses a transaction by its messages; ``failures``: of the first commits."""

    def __init__(self, refuses: Callable[[Sent], int | None], failures: Sequence[KafkaException] = ()) -> None:
        self.refuses, self.failures = refuses, list(failures)
        self.sent, self.committed = Sent(), Sent()
        self.offsets: dict[int, int] = {}
        self.init_transactions = lambda timeout: 0

    def begin_transaction(self) -> None:
        self.sent, self.delivered = [], False

    def flush(self, timeout: float) -> int:
        self.delivered = True
        return 0

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, *_: object) -> None:
        self.sent.append((topic, partition, value))

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], group: object, timeout: float) -> None:
        assert self.delivered, "refused while the coordinator adds partitions or ends the last transaction"
        self.offered = {one.partition: one.offset for one in offsets}

    def commit_transaction(self, timeout: float) -> None:
        if self.failures:
            raise self.failures.pop()
        code = self.refuses(self.sent)
        if code is not None:
            raise KafkaException(KafkaError(code, "refused", False, False, True))
        self.committed += self.sent
        self.offsets |= self.offered

    def abort_transaction(self, timeout: float) -> None:
        self.sent = []


def transactions(connect: Any) -> Transactions:
    """Open the transactions of the producer that ``connect`` returns."""
    topics = TopicsSection(input="in", output="out", rejected="bad", calibration="blocks")
    outputs = Outputs(topics, SEAL, MECHANISM)
    writing = Transactions(connect, outputs, running=lambda: True)
    writing.open()
    return writing


def write(producer: FakeProducer, results: dict[int, Result]) -> list[Result]:
    """Write a batch to the producer."""
    return transactions(lambda: producer).write(results, None).result(10)


def records(*offsets: int, blocks: list[Any] | None = None) -> Result:
    return result_of([Masked(n, b"%d" % n, b"k", [], 1) for n in offsets], [BLOCK] if blocks is None else blocks)


def masked(producer: FakeProducer, partition: int) -> list[int]:
    """The committed masked records of a partition, in their order."""
    return [int(value) for topic, number, value in producer.committed if (topic, number) == ("out", partition)]


def rejected(producer: FakeProducer) -> list[tuple[int, int, str]]:
    rejections = [orjson.loads(value) for topic, _, value in producer.committed if topic == "bad"]
    return [(one["partition"], one["offset"], one["reason"]) for one in rejections]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, "too_large"),
        (KafkaError.INVALID_TIMESTAMP, "timestamp_out_of_range"),
        (KafkaError.INVALID_RECORD, "refused_by_output"),
    ],
)
def test_refused_records_are_rejected_and_all_others_masked_once_in_order(code: int, reason: str) -> None:
    bad = {("out", 0, b"13"), ("out", 0, b"14"), ("out", 1, b"0")}
    producer = FakeProducer(lambda sent: code if bad & {*sent} else None)
    write(producer, {FIRST: records(*range(10, 20)), SECOND: records(*range(3))})
    assert masked(producer, 0) == [10, 11, 12, *range(15, 20)]
    assert masked(producer, 1) == [1, 2]
    assert sorted(rejected(producer)) == [(0, 13, reason), (0, 14, reason), (1, 0, reason)]
    assert producer.offsets == {0: 20, 1: 3}
    blocks = [SEAL.open(block_key(BLOCK), value) for topic, _, value in producer.committed if topic == "blocks"]
    assert blocks == [encode_block(BLOCK, {})] * 2


def test_requests_that_are_too_large_together_are_written_in_parts() -> None:
    producer = FakeProducer(lambda sent: KafkaError.RECORD_LIST_TOO_LARGE if len(sent) > 3 else None)
    write(producer, {FIRST: records(*range(10))})
    assert (masked(producer, 0), rejected(producer)) == ([*range(10)], [])


def test_a_block_that_is_refused_is_left_out() -> None:
    producer = FakeProducer(
        lambda sent: KafkaError.MSG_SIZE_TOO_LARGE if any(topic == "blocks" for topic, *_ in sent) else None
    )
    written = write(producer, {FIRST: records(*range(10))})
    assert (masked(producer, 0), rejected(producer)) == ([*range(10)], [])
    assert not any(result.blocks for result in written)


def test_a_batch_whose_rejections_are_refused_too_is_aborted() -> None:
    """If a part of it is committed, only a new session knows where to go on: a rollback would write the part again."""
    bad = {("out", 0, b"1"), ("out", 0, b"3")}
    producer = FakeProducer(lambda sent: KafkaError.INVALID_RECORD if bad & {*sent} or "bad" in str(sent) else None)
    with pytest.raises(AbortedError):
        write(producer, {FIRST: records(1)})
    assert producer.committed == []
    with pytest.raises(SessionLostError):
        write(producer, {FIRST: records(2, 3)})
    assert masked(producer, 0) == [2]


@pytest.mark.parametrize("late", [False, True], ids=["once", "perhaps twice"])
def test_a_producer_that_may_have_sent_a_request_twice_writes_no_other_transaction(late: bool) -> None:
    """Of two requests to end a transaction, the later one would act in the next transaction."""
    failures = [KafkaException(KafkaError(KafkaError._TIMED_OUT, "late", False, True, False))] * late
    connected: list[FakeProducer] = []

    def connect() -> FakeProducer:
        connected.append(FakeProducer(lambda _: None, failures))
        return connected[-1]

    writing = transactions(connect)
    for offset in (1, 2):
        writing.write({FIRST: records(offset)}, None).result(10)
    assert [masked(producer, 0) for producer in connected] == ([[1], [2]] if late else [[1, 2]])


def test_a_fatal_error_that_shows_as_a_system_error_ends_the_session() -> None:
    fatal = KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))
    given = {"flush.side_effect": SystemError, "begin_transaction.side_effect": [None, fatal]}
    with pytest.raises(SessionLostError, match="fenced"):
        transactions(lambda: Mock(**given)).write({FIRST: records(1)}, None).result(10)
