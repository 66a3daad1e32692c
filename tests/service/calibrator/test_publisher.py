"""Publication of versions: transactions, chunks and errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from calibration_session import SessionBench, in_chunks, published
from confluent_kafka import KafkaError, KafkaException

from stream_masker.errors import ServiceError
from stream_masker.pipeline.wire.chunks import tombstones
from stream_masker.pipeline.wire.reports import decode_drift
from stream_masker.pipeline.wire.statistics import decode_statistics
from stream_masker.service.calibrator.components import StatisticsPublisher


class FakeProducer:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.error: KafkaError | None = None

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def produce(self, topic: str, *, key: bytes, value: bytes | None, partition: int) -> None:
        self.calls.append((topic, key, value, partition))

    def commit_transaction(self, timeout: float) -> None:
        if self.error is not None:
            raise KafkaException(self.error)
        self.calls.append("commit")


@pytest.fixture
def publisher(bench: SessionBench) -> tuple[StatisticsPublisher, FakeProducer]:
    made, producer = StatisticsPublisher(bench.components.configuration), FakeProducer()
    made._producer = producer
    return made, producer


def test_version_report_and_deletions_are_one_transaction(
    bench: SessionBench, publisher: tuple[StatisticsPublisher, FakeProducer]
) -> None:
    message = published(bench)
    made = replace(bench.publisher.published[-1], removal=(*tombstones(7, 0), *tombstones(8, 0)))
    assert publisher[0].publish(made) == 0
    begin, version, report, *removed, commit = publisher[1].calls
    assert (begin, commit) == ("begin", "commit")
    assert (version[0], version[1], decode_statistics(version[2])) == ("stream-masker.statistics", b"1", message)
    assert (report[0], report[1], decode_drift(report[2])) == ("stream-masker.drift", b"1", made.report)
    assert removed == [("stream-masker.statistics", b"7", None, 0), ("stream-masker.statistics", b"8", None, 0)]
    assert {call[3] for call in (version, report)} == {0}


def test_large_version_is_written_in_chunks_with_the_head_last(
    bench: SessionBench, publisher: tuple[StatisticsPublisher, FakeProducer]
) -> None:
    message = published(bench)
    publisher[0]._max_chunk_bytes = 512
    parts = publisher[0].publish(replace(bench.publisher.published[-1], removal=tombstones(7, 2)))
    _, *calls, _ = publisher[1].calls
    written = [(key, value) for topic, key, value, _ in calls if topic == "stream-masker.statistics"]
    assert [key for key, _ in written] == [*(b"1:%d" % n for n in range(parts)), b"1", b"7", b"7:0", b"7:1"]
    assert written == [*in_chunks(message), (b"7", None), (b"7:0", None), (b"7:1", None)]
    assert all(len(value or b"") <= 512 for _, value in written)


def test_failed_publisher_must_be_opened_again(
    bench: SessionBench, publisher: tuple[StatisticsPublisher, FakeProducer]
) -> None:
    published(bench)
    publisher[1].error = KafkaError(KafkaError._FENCED)
    with pytest.raises(ServiceError, match="statistics cannot be published: Kafka"):
        publisher[0].publish(bench.publisher.published[-1])
    with pytest.raises(ServiceError, match="not open"):
        publisher[0].publish(bench.publisher.published[-1])


def test_publisher_with_a_slow_commit_must_be_opened_again(bench: SessionBench) -> None:
    """librdkafka may have sent the request twice; the second one could commit a part of the next version."""
    published(bench)
    times = iter((0.0, 0.3, 10.0, 10.4))
    made = StatisticsPublisher(bench.components.configuration, clock=lambda: next(times))
    made._producer = FakeProducer()
    for _ in range(2):
        assert made.publish(bench.publisher.published[-1]) == 0
    with pytest.raises(ServiceError, match="may arrive late"):
        made.publish(bench.publisher.published[-1])
