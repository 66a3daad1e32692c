"""The active calibrator between Kafka and the pure parts: what it merges, refuses, computes, publishes and shows."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException
from prometheus_client import CollectorRegistry

from stream_masker.core.batch import Batch, Column, Tally
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.calibration.versions import History, Publish, VersionPlanner
from stream_masker.pipeline.calibration.window import WindowLog
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.chunks import split_message, tombstones
from stream_masker.pipeline.wire.messages import (
    BlockRange,
    StatisticsMessage,
    decode_drift,
    decode_statistics,
    encode_block,
    encode_statistics,
)
from stream_masker.service.calibrator.components import CalibratorComponents, build_components
from stream_masker.service.calibrator.publisher import StatisticsPublisher
from stream_masker.service.calibrator.recovery import HistoryReader
from stream_masker.service.calibrator.session import LOGGED_BLOCKS, PENDING_CUTS, CalibrationSession, prepare_session
from stream_masker.service.configuration import load_configuration
from stream_masker.service.observability.metrics import Metrics

ONTOLOGY = "concept,parent\na,\nb,a\nc,a\nd,b\ne,b\nf,c\ng,c\n"
ABSENT = -1


class FakePublisher:
    def __init__(self) -> None:
        self.published: list[Publish] = []
        self.parts = 0
        self.error: Exception | None = None

    def poll(self) -> None:
        """Has nothing to tell."""

    def publish(self, publish: Publish) -> int:
        if self.error is not None:
            raise self.error
        self.published.append(publish)
        return self.parts


class World:
    """A session on nothing, with its publisher and metrics."""

    def __init__(self, parts: CalibratorComponents) -> None:
        self.publisher = FakePublisher()
        self.parts = replace(parts, publisher=self.publisher)
        self.registry = CollectorRegistry()
        metrics = Metrics(self.registry, "calibrator")
        prepare_session(metrics)
        history = History(parts.subject, parts.settings.baseline)
        calibration = VersionPlanner(parts.subject, parts.new_mechanism(), history, parts.settings)
        self.session = CalibrationSession(self.parts, metrics, calibration, WindowLog(parts.settings))

    def deliver(self, offset: int, block: Block | bytes) -> None:
        raw = (
            block if isinstance(block, bytes) else encode_block(block, self.parts.subject.taxonomies, configuration="0")
        )
        self.session.deliver(offset, 0, raw)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"stream_masker_{name}", labels)


@pytest.fixture
def parts(tmp_path: Path) -> CalibratorComponents:
    (tmp_path / "ontology.csv").write_text(ONTOLOGY)
    content = {
        "ontologies": {"letters": {"source": "ontology.csv"}},
        "attributes": {name: {"path": name, "ontology": "letters"} for name in ("one", "two")},
        "fields": {"unlisted": "drop"},
        "calibration": {"window_records": 100, "every_records": 20, "every_seconds": 60, "min_records": 10},
    }
    (tmp_path / "stream-masker.yaml").write_text(yaml.safe_dump(content))
    return build_components(load_configuration(tmp_path / "stream-masker.yaml", {}))


@pytest.fixture
def world(parts: CalibratorComponents) -> World:
    return World(parts)


def counts(codes: list[int]) -> Counts:
    columns = tuple(Column(np.array(codes, dtype=np.int32)) for _ in range(2))
    return count_batch(Batch(len(codes), columns), (7, 7))


def block(first: int, codes: list[int] | None = None) -> Block:
    given = counts(codes if codes is not None else [(first + k) % 7 for k in range(10)])
    tallies = (Tally(10, 2.5, 0.9), Tally(10, 1.0, 0.4))
    return Block("discharges", 0, first, first + 9, 0, 1, given, given, tallies, {})


def test_a_block_that_is_none_is_counted_told_by_position_and_passed_over(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        world.deliver(3, b'{"format": 1, "topic": "SECRET"}')
    world.deliver(4, block(0))
    assert world.metric("blocks_read_total", outcome="refused") == 1
    assert world.metric("blocks_read_total", outcome="merged") == 1
    assert "stream-masker.calibration, partition 0, offset 3" in caplog.text
    assert "SECRET" not in caplog.text
    assert world.session.waiting == 1


def test_many_blocks_that_are_none_do_not_fill_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for offset in range(3 * LOGGED_BLOCKS):
        world.deliver(offset, b"")
    assert len(caplog.records) == LOGGED_BLOCKS
    assert world.metric("blocks_read_total", outcome="refused") == 3 * LOGGED_BLOCKS


def test_a_block_that_was_merged_is_not_looked_at_again(world: World) -> None:
    world.deliver(4, block(0))
    world.deliver(4, b"anything")
    world.deliver(2, b"anything")
    assert world.metric("blocks_read_total", outcome="refused") == 0
    assert world.metric("blocks_read_total", outcome="merged") == 1


def test_a_version_is_computed_published_and_shown(world: World) -> None:
    world.deliver(4, block(0))
    world.session.publish_next()
    [published] = world.publisher.published
    assert (published.message.version, published.message.blocks) == (1, BlockRange(4, 4, 1))
    assert world.session.history.latest == published.message
    assert world.metric("statistics_published_total", source="blocks") == 1
    assert (world.metric("window_records"), world.metric("window_blocks")) == (10, 1)
    for data in ("original", "masked"):
        assert world.metric("svar", attribute="one", data=data) == published.statistics.variance["one"]
        assert world.metric("sdcor", first="one", second="two", data=data) == pytest.approx(1.0)
    assert world.metric("rmse", attribute="one", kind="actual") == pytest.approx(0.5)
    assert world.metric("rmse", attribute="one", kind="target") == pytest.approx(0.3)
    assert world.metric("drift_variance", attribute="one", against="previous") is None
    assert world.metric("calibration_duration_seconds_count") == 1


def test_the_next_version_shows_drift_against_the_last_one_and_the_baseline(world: World) -> None:
    world.deliver(4, block(0))
    world.session.publish_next()
    world.deliver(5, block(10, [3] * 10))
    world.deliver(6, block(20, [3] * 10))
    world.session.publish_next()
    first, second = (p.statistics for p in world.publisher.published)
    change = pytest.approx(abs(second.variance["one"] - first.variance["one"]))
    assert world.metric("drift_variance", attribute="one", against="previous") == change
    assert world.metric("drift_variance", attribute="one", against="baseline") == change


def test_what_was_not_published_is_not_in_the_history(world: World) -> None:
    world.deliver(4, block(0))
    world.publisher.error = ServiceError("cannot publish statistics: fenced")
    with pytest.raises(ServiceError, match="fenced"):
        world.session.publish_next()
    assert world.session.history.latest is None
    assert world.metric("statistics_published_total", source="blocks") == 0


def test_a_process_that_cannot_keep_up_leaves_out_the_oldest_cuts(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.deliver(0, block(0))
    for i in range(1, 2 * PENDING_CUTS + 3):
        world.deliver(i, block(10 * i))
    assert world.session.waiting == PENDING_CUTS
    while world.session.waiting:
        world.session.publish_next()
    told = [record.getMessage() for record in caplog.records if "cannot keep up" in record.getMessage()]
    assert [message.rsplit(": ")[-1] for message in told] == ["2"]
    lasts = [p.message.blocks.last for p in world.publisher.published]
    assert lasts == list(range(4, 2 * PENDING_CUTS + 3, 2))
    assert [p.message.version for p in world.publisher.published] == list(range(1, PENDING_CUTS + 1))


def test_a_window_without_values_gives_no_version_and_no_failure(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.deliver(4, block(0, [ABSENT] * 10))
    world.session.publish_next()
    assert world.publisher.published == []
    assert "no statistics from the blocks up to offset 4" in caplog.text


def test_a_sample_is_published_once_and_only_where_there_is_no_version(world: World) -> None:
    world.session.publish_sample(counts([1, 2, 3]))
    world.session.publish_sample(counts([1, 2, 3]))
    assert [p.message.source for p in world.publisher.published] == ["bootstrap"]
    assert (world.metric("window_records"), world.metric("window_blocks")) == (3, 0)
    with pytest.raises(StatisticsError):
        World(world.parts).session.publish_sample(counts([ABSENT]))


def test_blocks_replace_a_sample_at_the_usual_pace(world: World) -> None:
    world.session.publish_sample(counts([1, 2, 3]))
    world.deliver(4, block(0))
    assert world.session.waiting == 0
    world.deliver(5, block(10))
    assert world.session.waiting == 1


def test_time_cuts_the_window_and_ages_the_statistics(world: World) -> None:
    world.session.tick(0.0)
    assert world.metric("statistics_version") == 0
    world.session.publish_sample(counts([1, 2, 3]))
    published = world.publisher.published[0].message.published / 1000
    world.deliver(4, block(0))
    world.session.tick(published + 59)
    assert world.session.waiting == 1
    assert world.metric("statistics_age_seconds") == pytest.approx(59)
    assert world.metric("statistics_version") == 1


class FakeMessage:
    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self.contents = key, value

    def key(self) -> bytes | None:
        return self.contents[0]

    def value(self) -> bytes | None:
        return self.contents[1]

    def offset(self) -> int:
        return 17

    def topic(self) -> str:
        return "stream-masker.statistics"


def published(world: World) -> StatisticsMessage:
    world.deliver(4, block(0))
    world.session.publish_next()
    return world.publisher.published[-1].message


def read_back(world: World, *messages: tuple[bytes | None, bytes | None]) -> History:
    recovery = HistoryReader(History(world.parts.subject))
    for key, value in messages:
        recovery.take(FakeMessage(key, value))
    return recovery.history


def test_versions_read_back_make_the_history(world: World, caplog: pytest.LogCaptureFixture) -> None:
    message = published(world)
    history = read_back(
        world,
        (b"1", encode_statistics(message)),
        (b"2", encode_statistics(replace(message, version=2, mechanism="other"))),
        (b"3", b'{"format": 1, "mechanism": "SECRET"}'),
        (None, b"SECRET"),
    )
    assert (history.newest, history.latest, history.versions) == (3, message, {0, 1, 2, 3})
    assert history.refused == 3
    assert "offset 17" in caplog.text
    assert "SECRET" not in caplog.text


def test_a_removed_version_is_forgotten(world: World) -> None:
    history = read_back(world, (b"1", encode_statistics(published(world))), (b"1", None))
    assert history.versions == set()


def in_parts(message: StatisticsMessage) -> list[tuple[bytes | None, bytes | None]]:
    """The message as it travels where a message may have 512 bytes."""
    pieces = [(piece.key, piece.value) for piece in split_message(message.version, encode_statistics(message), 512)]
    assert len(pieces) > 2
    return pieces


def test_versions_in_parts_are_read_back_whole(world: World) -> None:
    message = published(world)
    pieces = in_parts(message)
    history = read_back(world, *pieces)
    assert (history.latest, history.chunks, history.refused) == (message, {1: len(pieces) - 1}, 0)
    removed = [piece.key for piece in history.removal([1])]
    assert sorted(removed) == sorted(key for key, _ in pieces)
    assert read_back(world, *pieces, (b"1", None)).chunks == {}


def test_versions_without_all_their_parts_are_refused_and_their_number_stays_taken(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    first, *rest = in_parts(published(world))
    for pieces in (rest, [(first[0], b"x" * 512), *rest], [first, (first[0], None), *rest]):
        history = read_back(world, *pieces)
        assert (history.latest, history.newest, history.refused, history.chunks) == (None, 1, 1, {1: len(rest)})
    assert "a chunk is missing, or is not the one that was written" in caplog.text


def test_parts_without_a_head_are_nothing(world: World) -> None:
    history = read_back(world, *in_parts(published(world))[:-1])
    assert (history.newest, history.versions, history.refused) == (0, set(), 0)


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
def publisher(world: World) -> tuple[StatisticsPublisher, FakeProducer]:
    made, producer = StatisticsPublisher(world.parts.configuration), FakeProducer()
    made._producer = producer
    return made, producer


def test_a_version_goes_out_with_its_report_and_the_removals_in_one_transaction(
    world: World, publisher: tuple[StatisticsPublisher, FakeProducer]
) -> None:
    message = published(world)
    made = replace(world.publisher.published[-1], removal=(*tombstones(7, 0), *tombstones(8, 0)))
    assert publisher[0].publish(made) == 0
    begin, version, report, *removed, commit = publisher[1].calls
    assert (begin, commit) == ("begin", "commit")
    assert (version[0], version[1], decode_statistics(version[2])) == ("stream-masker.statistics", b"1", message)
    assert (report[0], report[1], decode_drift(report[2])) == ("stream-masker.drift", b"1", made.report)
    assert removed == [("stream-masker.statistics", b"7", None, 0), ("stream-masker.statistics", b"8", None, 0)]
    assert {call[3] for call in (version, report)} == {0}


def test_a_version_larger_than_a_message_goes_out_in_parts_and_its_head_last(
    world: World, publisher: tuple[StatisticsPublisher, FakeProducer]
) -> None:
    message = published(world)
    publisher[0]._limit = 512
    parts = publisher[0].publish(replace(world.publisher.published[-1], removal=tombstones(7, 2)))
    _, *calls, _ = publisher[1].calls
    written = [(key, value) for topic, key, value, _ in calls if topic == "stream-masker.statistics"]
    assert [key for key, _ in written] == [*(b"1:%d" % n for n in range(parts)), b"1", b"7", b"7:0", b"7:1"]
    assert written == [*in_parts(message), (b"7", None), (b"7:0", None), (b"7:1", None)]
    assert all(len(value or b"") <= 512 for _, value in written)


def test_how_many_parts_were_written_is_remembered_until_they_are_removed(world: World) -> None:
    world.publisher.parts = 3
    published(world)
    assert world.session.history.chunks == {1: 3}


def test_a_publisher_that_failed_must_be_opened_again(
    world: World, publisher: tuple[StatisticsPublisher, FakeProducer]
) -> None:
    published(world)
    publisher[1].error = KafkaError(KafkaError._FENCED)
    with pytest.raises(ServiceError, match="cannot publish statistics: Kafka"):
        publisher[0].publish(world.publisher.published[-1])
    with pytest.raises(ServiceError, match="not open"):
        publisher[0].publish(world.publisher.published[-1])
