"""Reading of published versions: their buffer, chunks, the end of the topic, and bounded turns."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError
from sealed_topics import PLAIN

from stream_masker.pipeline.wire.chunks import Chunk, split_message, tombstones
from stream_masker.service.worker import statistics_consumer
from stream_masker.service.worker.statistics_consumer import (
    BUFFERED_VERSIONS,
    PublishedVersion,
    StatisticsConsumer,
    VersionBuffer,
)


def test_versions_are_returned_once_newest_first() -> None:
    buffer = VersionBuffer(PLAIN)
    for version in (2, 10, 9):
        buffer.add(b"%d" % version, b"v%d" % version)
    assert buffer.take() == [PublishedVersion(10, b"v10"), PublishedVersion(9, b"v9"), PublishedVersion(2, b"v2")]
    assert buffer.take() == []


def test_a_tombstone_removes_a_version() -> None:
    buffer = VersionBuffer(PLAIN)
    buffer.add(b"1", b"x")
    buffer.add(b"2", b"y")
    buffer.add(b"2", None)
    buffer.add(b"7", None)
    assert buffer.take() == [PublishedVersion(1, b"x")]


def test_only_the_newest_versions_are_buffered() -> None:
    buffer = VersionBuffer(PLAIN)
    for version in range(1, 100):
        buffer.add(b"%d" % version, b"")
    assert [p.version for p in buffer.take()] == list(range(99, 99 - BUFFERED_VERSIONS, -1))


@pytest.mark.parametrize("key", [None, b"", b"-1", b"x", b"1.0", b"9" * 40])
def test_a_key_that_is_not_a_version_is_ignored(key: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    buffer = VersionBuffer(PLAIN)
    buffer.add(key, b"x")
    assert buffer.take() == []
    assert "without a version" in caplog.text


def add(buffer: VersionBuffer, pieces: list[Chunk]) -> None:
    for piece in pieces:
        buffer.add(piece.key, piece.value)


BIG = bytes(range(256)) * 40
PIECES = split_message(7, BIG, 4_096)


def test_a_chunked_version_is_returned_when_it_is_complete(caplog: pytest.LogCaptureFixture) -> None:
    buffer = VersionBuffer(PLAIN)
    add(buffer, PIECES[:-1])
    assert buffer.take() == []
    add(buffer, PIECES[-1:])
    assert buffer.take() == [PublishedVersion(7, BIG)]
    assert buffer.take() == []
    assert not caplog.records


def test_an_incomplete_version_waits_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    buffer = VersionBuffer(PLAIN)
    buffer.add(b"6", b"x")
    add(buffer, PIECES[1:])
    assert buffer.take() == [PublishedVersion(6, b"x")]
    assert buffer.take() == []
    assert caplog.text.count("statistics version 7 is not complete") == 1
    add(buffer, PIECES[:1])
    assert buffer.take() == [PublishedVersion(7, BIG)]


def test_a_version_with_chunks_of_another_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    buffer = VersionBuffer(PLAIN)
    buffer.add(b"6", b"x")
    add(buffer, [Chunk(b"7:0", b"y" * 4_096), *PIECES[1:]])
    assert buffer.take() == [PublishedVersion(6, b"x")]
    assert "ignoring statistics version 7: a chunk is missing, or is not the one that was written" in caplog.text


def test_tombstones_remove_a_chunked_version() -> None:
    buffer = VersionBuffer(PLAIN)
    add(buffer, [*PIECES, Chunk(b"7", None)])
    assert buffer.take() == []
    add(buffer, [*PIECES, *tombstones(7, len(PIECES) - 1)[1:]])
    assert buffer.take() == []


def test_only_the_newest_large_versions_are_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_consumer, "BUFFERED_BYTES", 3 * len(BIG))
    buffer = VersionBuffer(PLAIN)
    for version in range(1, 9):
        add(buffer, split_message(version, BIG, 4_096))
    assert [p.version for p in buffer.take()] == [8, 7]
    monkeypatch.setattr(statistics_consumer, "BUFFERED_BYTES", 1)
    add(buffer, split_message(9, BIG, 4_096))
    assert [p.version for p in buffer.take()] == [9]


class FakeMessage:
    def __init__(self, partition: int, key: bytes | None = None, error: KafkaError | None = None) -> None:
        self._partition, self._key, self._error = partition, key, error

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int:
        return self._partition

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes:
        return b"value"

    def headers(self) -> None:
        return None

    def __len__(self) -> int:
        return len(self.value())


class FakeClient:
    def __init__(self) -> None:
        self.assigned: list[tuple[int, int]] = []
        self.batches: list[list[FakeMessage]] = []

    def assign(self, partitions) -> None:
        self.assigned = [(p.partition, p.offset) for p in partitions]

    def consume(self, num_messages: int, timeout: float) -> list[FakeMessage]:
        assert timeout == 0
        return self.batches.pop(0) if self.batches else []

    def close(self) -> None:
        self.assigned = []


def end(partition: int) -> FakeMessage:
    return FakeMessage(partition, error=KafkaError(KafkaError._PARTITION_EOF, "end"))


def test_no_version_is_returned_before_the_end_of_the_topic_is_reached() -> None:
    client = FakeClient()
    consumer = StatisticsConsumer(client=client, topic="statistics", partitions=2, opener=PLAIN)
    assert client.assigned == [(0, OFFSET_BEGINNING), (1, OFFSET_BEGINNING)]
    client.batches = [[FakeMessage(0, b"1"), FakeMessage(0, b"2")], [end(0)]]
    assert consumer.poll() == []
    assert not consumer.at_end
    client.batches = [[end(1)]]
    assert [p.version for p in consumer.poll()] == [2, 1]
    assert consumer.at_end


def test_later_versions_are_returned_as_they_are_published() -> None:
    client = FakeClient()
    consumer = StatisticsConsumer(client=client, topic="statistics", partitions=1, opener=PLAIN)
    client.batches = [[end(0)]]
    assert consumer.poll() == []
    client.batches = [[FakeMessage(0, b"3")]]
    assert [p.version for p in consumer.poll()] == [3]
    assert consumer.poll() == []


def test_an_error_of_the_topic_is_logged_and_does_not_count_as_its_end(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeClient()
    consumer = StatisticsConsumer(client=client, topic="statistics", partitions=1, opener=PLAIN)
    client.batches = [[FakeMessage(0, error=KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no leader"))]]
    assert consumer.poll() == []
    assert "reading statistics: no leader" in caplog.text
    assert not consumer.at_end


def test_a_turn_reads_a_bounded_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_consumer, "TURN_MESSAGES", 4)
    client = FakeClient()
    consumer = StatisticsConsumer(client=client, topic="statistics", partitions=1, opener=PLAIN)
    client.batches = [[FakeMessage(0, b"garbage")] * 2 for _ in range(5)]
    client.batches.append([FakeMessage(0, b"1"), end(0)])
    left = []
    while not (published := consumer.poll()):
        left.append(len(client.batches))
    assert (left, [p.version for p in published]) == ([4, 2], [1])


def test_a_turn_reads_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_consumer, "TURN_BYTES", len(FakeMessage(0).value()))
    client = FakeClient()
    consumer = StatisticsConsumer(client=client, topic="statistics", partitions=1, opener=PLAIN)
    client.batches = [[FakeMessage(0, b"1")], [FakeMessage(0, b"2")]]
    assert (consumer.poll(), len(client.batches)) == ([], 1)


def test_messages_of_others_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    buffer = VersionBuffer(PLAIN)
    for _ in range(100):
        buffer.add(b"garbage", b"value")
    assert len(caplog.records) == 1


def test_a_topic_that_was_created_anew_is_read_from_its_beginning() -> None:
    client = FakeClient()
    consumer = StatisticsConsumer(client=client, topic="statistics", partitions=1, opener=PLAIN)
    client.batches = [[FakeMessage(0, b"7"), end(0)]]
    assert [p.version for p in consumer.poll()] == [7]
    client.assigned = []
    consumer.start_again()
    assert (client.assigned, consumer.at_end) == ([(0, OFFSET_BEGINNING)], False)
    client.batches = [[FakeMessage(0, b"1"), end(0)]]
    assert [p.version for p in consumer.poll()] == [1]
