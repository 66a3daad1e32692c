"""Batches: messages by partition, masking in order, writing every outcome once."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from consumer import TOPIC, offsets, part, parts
from results import result_of

from stream_masker.core.batch import Distortion
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.errors import ParameterError
from stream_masker.pipeline.records import Block, InputRecord, Inputs, Masked, RecordOutcome, Rejected, Result
from stream_masker.pipeline.runs import GroupTooSmallError
from stream_masker.pipeline.seal import TopicSeal
from stream_masker.service.kafka.messages import UNREADABLE
from stream_masker.service.worker.batch import (
    BatchLimits,
    GroupShortfall,
    MessageBatch,
    OutputTopics,
    TransactionCounts,
    TransactionWriter,
    mask_batch,
    to_inputs,
)
from stream_masker.service.worker.refusals import RefusedRecords

LIMITS = BatchLimits(records=10, size=1000, delay=1)


class FakeMessage:
    def __init__(self, partition: int, offset: int, value: bytes | None = b"v" * 10, topic: str = TOPIC) -> None:
        self.location = (partition, offset)
        self.content = value
        self.name = topic

    def topic(self) -> str:
        return self.name

    def partition(self) -> int:
        return self.location[0]

    def offset(self) -> int:
        return self.location[1]

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return b"key"

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None if self.location[1] % 2 else [("h", b"1")]

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000 + self.location[1]

    def __len__(self) -> int:
        return len(self.content or b"")


def gathered(*locations: tuple[int, int]) -> MessageBatch:
    batch = MessageBatch(LIMITS)
    batch.add([FakeMessage(*location) for location in locations], partitions=parts(0, 1))
    return batch


def test_messages_are_grouped_by_partition_in_order() -> None:
    batch = gathered((1, 7), (0, 3), (1, 8), (1, 10))
    assert {p.number: [m.offset() for m in ms] for p, ms in batch.partitions.items()} == {1: [7, 8, 10], 0: [3]}
    assert batch.next_offsets() == offsets({1: 11, 0: 4})
    assert batch.first_offsets() == offsets({1: 7, 0: 3})
    assert (batch.records, batch.size) == (4, 56)


def test_messages_of_other_partitions_are_ignored() -> None:
    assert gathered((7, 1), (0, 3)).next_offsets() == offsets({0: 4})


def test_dropping_a_partition_removes_all_its_messages() -> None:
    batch = gathered((1, 7), (0, 3), (1, 8))
    batch.drop(parts(1, 5))
    assert batch.next_offsets() == offsets({0: 4})
    assert (batch.records, batch.size) == (1, 13)


def test_a_batch_is_full_by_records_or_by_bytes() -> None:
    batch = gathered(*((0, i) for i in range(9)))
    assert not batch.full
    batch.add([FakeMessage(0, 9)], partitions=parts(0))
    assert batch.full
    large = MessageBatch(LIMITS)
    large.add([FakeMessage(0, 0, b"x" * 1000)], partitions=parts(0))
    assert large.full


def test_a_tombstone_is_a_record_of_its_key_and_headers() -> None:
    batch = MessageBatch(LIMITS)
    batch.add([FakeMessage(0, 0, None)], partitions=parts(0))
    assert (batch.records, batch.size) == (1, 5)


def test_room_is_limited_by_records_and_by_bytes() -> None:
    assert MessageBatch(LIMITS, mean_size=10).room == 10
    assert MessageBatch(LIMITS, mean_size=400).room == 2
    assert MessageBatch(LIMITS, mean_size=100_000).room == 1
    assert gathered((0, 0), (0, 1)).room == 8
    big = MessageBatch(LIMITS, mean_size=1)
    big.add([FakeMessage(0, 0, b"x" * 300)], partitions=parts(0))
    assert big.room == 2


@pytest.mark.parametrize("wrong", [{"records": 0}, {"size": 0}, {"delay": -1}])
def test_impossible_limits_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ParameterError):
        BatchLimits(**wrong)


def test_messages_are_converted_to_columns() -> None:
    messages = [FakeMessage(2, 5, b"v"), FakeMessage(2, 6)]
    columns = to_inputs(messages, headers=True)
    assert columns.record(0) == InputRecord(offset=5, value=b"v", key=b"key", headers=(), timestamp=1_700_000_000_005)
    assert columns.headers == [(), [("h", b"1")]]
    assert to_inputs(messages, headers=False).record(1).headers == ()


class Large(FakeMessage):
    """A message with a small value."""

    def __init__(self, offset: int, *, key: bytes | None = None, headers: list[tuple[str, bytes | None]] | None = None):
        super().__init__(0, offset, b"v")
        self.content_of_key, self.content_of_headers = key, headers

    def key(self) -> bytes | None:
        return self.content_of_key

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.content_of_headers


@pytest.mark.parametrize("large", [{"key": b"k" * 999}, {"headers": [("h", b"x" * 500), ("i" * 498, None)]}])
def test_keys_and_headers_fill_a_batch(large: dict[str, Any]) -> None:
    batch = MessageBatch(LIMITS)
    batch.add([Large(0)], partitions=parts(0))
    assert (batch.size, batch.full) == (1, False)
    batch.add([Large(1, **large)], partitions=parts(0))
    assert (batch.size, batch.full) == (1_001, True)
    batch.remove_from(part(0), 1)
    assert batch.size == 1


def test_the_size_of_unreadable_headers_is_that_of_a_rejected_message() -> None:
    batch = MessageBatch(LIMITS)
    batch.add([Unreadable(0, 1, b"v" * 100), FakeMessage(0, 3)], partitions=parts(0))
    assert [message.value() for message in batch.partitions[part(0)]] == [UNREADABLE, b"v" * 10]
    assert to_inputs(batch.partitions[part(0)], headers=True).headers == [(), ()]


class Unreadable(FakeMessage):
    """A message with a header name that is not UTF-8: like confluent-kafka, it fails once and is unsafe afterwards."""

    names: list[tuple[str, bytes | None]] | None = None

    def headers(self):
        if self.names is None:
            raise SystemError from UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return self.names

    def set_headers(self, headers):
        self.names = headers

    def set_value(self, value):
        self.content = value


def test_a_message_with_unreadable_headers_becomes_unreadable_if_headers_are_used() -> None:
    messages = [FakeMessage(2, 5, b"v"), Unreadable(2, 6, b"v"), Unreadable(2, 7, None), FakeMessage(2, 8, b"v")]
    assert to_inputs(messages, headers=False).values == [b"v", b"v", None, b"v"]
    for _ in range(2):
        columns = to_inputs(messages, headers=True)
        assert columns.values == [b"v", UNREADABLE, None, b"v"]
        assert columns.headers == [(), (), (), [("h", b"1")]]
    with pytest.raises(UnicodeDecodeError):
        UNREADABLE.decode()


class FakeMasker:
    def __init__(self, *, needs_group: bool = True) -> None:
        self.calls: list[tuple[str, int, list[int], int]] = []
        self.needs_group = needs_group

    reads_headers = True

    def mask_all(self, topic: str, records: dict[int, Inputs], *, statistics_version: int) -> dict[int, Result]:
        for partition, inputs in records.items():
            self.calls.append((topic, partition, list(inputs.offsets), statistics_version))
        return {partition: result_of([]) for partition in records}

    def mask(self, topic: str, partition: int, records: Inputs, *, statistics_version: int, hold: bool) -> Result:
        self.calls.append((topic, partition, list(records.offsets), statistics_version))
        if hold:
            raise GroupTooSmallError(5)
        return result_of([])


def test_all_partitions_are_masked_at_once_without_groups() -> None:
    masker = FakeMasker(needs_group=False)
    batch_result = mask_batch(
        lambda _: masker, gathered((1, 7), (0, 3), (1, 8)), statistics_version=4, may_hold=lambda messages: True
    )
    assert masker.calls == [("in", 1, [7, 8], 4), ("in", 0, [3], 4)]
    assert (list(batch_result.results), batch_result.shortfalls) == ([part(1), part(0)], {})


def test_a_group_that_is_too_small_has_no_result_and_can_be_removed_from_the_batch() -> None:
    batch = gathered((1, 7), (0, 3), (1, 8))
    batch_result = mask_batch(
        lambda _: FakeMasker(), batch, statistics_version=4, may_hold=lambda messages: len(messages) == 2
    )
    assert (list(batch_result.results), batch_result.shortfalls) == ([part(0)], {part(1): GroupShortfall(0, 2, 5)})
    assert [message.offset() for message in batch.remove_from(part(1), 0)] == [7, 8]
    assert (batch.records, batch.next_offsets()) == (1, offsets({0: 4}))


def test_the_groups_of_a_partition_are_masked_in_turn_until_one_is_too_small() -> None:
    batch, masker = MessageBatch(BatchLimits()), FakeMasker()
    for group in ((1, 2, 3), (4, 5), (6, 7, 8)):
        batch.add_group([FakeMessage(0, offset) for offset in group], partition=part(0))
    batch.add_group([FakeMessage(1, 9)], partition=part(1))
    batch_result = mask_batch(
        lambda _: masker, batch, statistics_version=4, may_hold=lambda messages: len(messages) == 2
    )
    assert [call[1:3] for call in masker.calls] == [(0, [1, 2, 3]), (0, [4, 5]), (1, [9])]
    assert (set(batch_result.results), batch_result.shortfalls) == (parts(0, 1), {part(0): GroupShortfall(3, 2, 5)})
    assert [message.offset() for message in batch.remove_from(part(0), 3)] == [4, 5, 6, 7, 8]
    assert (batch.records, batch.next_offsets()) == (4, offsets({0: 4, 1: 10}))
    assert [[message.offset() for message in group] for group in batch.groups(part(0))] == [[1, 2, 3]]
    batch.drop(parts(0, 5))
    assert (batch.records, batch.size, batch.next_offsets()) == (1, 13, offsets({1: 10}))


def test_each_partition_is_masked_separately_in_the_order_of_offsets() -> None:
    masker = FakeMasker()
    batch_result = mask_batch(lambda _: masker, gathered((1, 7), (0, 3), (1, 8)), statistics_version=4)
    assert masker.calls == [("in", 1, [7, 8], 4), ("in", 0, [3], 4)]
    assert (set(batch_result.results), batch_result.shortfalls) == (parts(0, 1), {})


TAXONOMY = Ontology.from_edges([("a", "root"), ("b", "root")]).taxonomy()
OUTPUTS = OutputTopics(
    input="in",
    output="out",
    rejected="bad",
    calibration="blocks",
    rejected_partitions=2,
    seal=TopicSeal("blocks"),
    taxonomies={"principal": TAXONOMY},
    configuration="0123456789abcdef",
    secret_id="fedcba9876543210",
)


def masked(offset: int, value: bytes | None = b"{}") -> Masked:
    return Masked(offset, value, b"k", [("v", b"1")], 99 + offset)


def block(first: int, distortion: Distortion) -> Block:
    counts = Counts(
        records=1,
        values=(SparseCounts(np.array([1], dtype=np.int64), np.array([1], dtype=np.int64)),),
        pairs={},
        given=(1,),
        unknown=(0,),
    )
    return Block("in", 3, first, first, 5, 1, counts, counts, (distortion,), {})


class Sent:
    """Records sent messages; refuses values longer than ``limit``."""

    def __init__(self, limit: int = 10_000) -> None:
        self.limit = limit
        self.messages: list[tuple[object, ...]] = []

    def __call__(self, topic, partition, messages, on_delivered=None) -> list[int]:
        too_large = []
        for index, (value, key, timestamp, headers) in enumerate(messages):
            if len(value or b"") > self.limit:
                too_large.append(index)
            else:
                self.messages.append((topic, value, key, partition, timestamp, headers))
        return too_large

    def to(self, topic: str) -> list[tuple[object, ...]]:
        return [message for message in self.messages if message[0] == topic]


def write(
    outcomes: list[RecordOutcome], blocks: list[Block] | None = None, *, limit: int = 10_000
) -> tuple[Sent, TransactionCounts]:
    sent, written = Sent(limit), TransactionCounts()
    TransactionWriter(lambda _: OUTPUTS, sent, written, RefusedRecords()).write(
        {part(3): result_of(outcomes, blocks or [])}
    )
    return sent, written


def test_a_masked_record_keeps_partition_order_timestamp_key_and_headers() -> None:
    sent, written = write([masked(0), masked(1)])
    assert sent.to("out") == [
        ("out", b"{}", b"k", 3, 99, [("v", b"1")]),
        ("out", b"{}", b"k", 3, 100, [("v", b"1")]),
    ]
    assert (written.masked, written.records) == (2, 2)


def test_a_record_without_a_timestamp_gets_the_current_time() -> None:
    sent, _ = write([Masked(0, b"{}", None, [], -1)])
    assert sent.to("out")[0][4] == 0


def test_a_tombstone_is_written_as_a_tombstone() -> None:
    sent, written = write([masked(0, None)])
    assert sent.to("out")[0][1] is None
    assert (written.tombstones, written.masked, written.records) == (1, 0, 1)


def test_a_rejection_gives_the_reason_and_the_location() -> None:
    sent, written = write([Rejected(8, "missing", "diagnoses.principal.code")])
    [(_, value, key, partition, _, headers)] = sent.to("bad")
    assert orjson.loads(value) == {
        "format": 1,
        "reason": "missing",
        "topic": "in",
        "partition": 3,
        "offset": 8,
        "field": "diagnoses.principal.code",
    }
    assert (key, partition, headers) == (b"in:3:8", 1, [])
    assert written.rejected == {"missing": 1}
    assert sent.to("out") == []


def test_a_masked_record_that_is_too_large_is_rejected() -> None:
    sent, written = write([masked(0), masked(1, b"x" * 500), masked(2)], limit=300)
    assert [m[4] for m in sent.to("out")] == [99, 101]
    assert [orjson.loads(m[1])["reason"] for m in sent.to("bad")] == ["too_large"]
    assert (written.masked, written.rejected, written.records) == (2, {"too_large": 1}, 3)


def test_rejections_of_all_kinds_are_in_the_order_of_their_records() -> None:
    long = b"x" * 500
    outcomes = [masked(0, long), Rejected(1, "missing"), masked(2, None), masked(3, long), Rejected(4, "empty")]
    sent, written = write([*outcomes, masked(5)], limit=300)
    assert [m[4] for m in sent.to("out")] == [101, 104]
    assert [orjson.loads(m[1])["offset"] for m in sent.to("bad")] == [0, 1, 3, 4]
    assert (written.masked, written.tombstones, written.records) == (1, 1, 6)
    assert written.rejected == {"too_large": 2, "missing": 1, "empty": 1}


def test_blocks_go_to_one_partition_with_their_key() -> None:
    sent, written = write([], [block(4, Distortion(truncated=2, unsigned=1)), block(9, Distortion(truncated=3))])
    assert [(m[2], m[3]) for m in sent.to("blocks")] == [(b"in:3:4", 0), (b"in:3:9", 0)]
    assert orjson.loads(sent.to("blocks")[0][1])["configuration"] == "0123456789abcdef"
    assert written.blocks == 2


def test_a_block_that_is_too_large_is_left_out_and_counted() -> None:
    sent, written = write([masked(0)], [block(4, Distortion())], limit=100)
    assert (sent.to("blocks"), written.blocks, written.blocks_left_out) == ([], 0, 1)
    assert written.masked == 1
