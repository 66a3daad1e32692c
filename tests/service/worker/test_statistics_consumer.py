"""Which published statistics a worker masks with."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError

from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import Statistics
from stream_masker.errors import ConfigurationError, StatisticsError
from stream_masker.pipeline.wire.chunks import Chunk, split_message, tombstones
from stream_masker.pipeline.wire.messages import StatisticsMessage, encode_statistics
from stream_masker.service.worker import statistics_consumer
from stream_masker.service.worker.statistics_consumer import (
    BUFFERED_VERSIONS,
    ActiveStatistics,
    PublishedVersion,
    StatisticsConsumer,
    VersionBuffer,
)

TAXONOMY = Ontology.from_edges([("a", "root"), ("b", "root")]).taxonomy()
OTHER = Ontology.from_edges([("a", "root"), ("c", "root")]).taxonomy()


def statistics(version: int) -> Statistics:
    return Statistics(
        version=version,
        records=10,
        attributes=("principal",),
        mean={"principal": "a"},
        variance={"principal": 0.1},
        covariance=np.array([[0.2]]),
        correlation=np.array([[1.0]]),
        projection=0.0,
        rollup={"principal": {}},
        unknown={"principal": 0.0},
        seen={"principal": ""},
        novel={"principal": 0.0},
    )


def message(version: int, **other: object) -> StatisticsMessage:
    made = StatisticsMessage(
        version=version,
        mechanism="semantic_noise",
        configuration="0123456789abcdef",
        published=1_700_000_000_000 + version,
        source="blocks",
        blocks=None,
        taxonomies={"principal": TAXONOMY.fingerprint},
        baseline=1,
        snapshot={"mechanism": "semantic_noise", "statistics": statistics(version).to_dict()},
    )
    return replace(made, **other)


def published(*messages: StatisticsMessage) -> list[PublishedVersion]:
    return sorted((PublishedVersion(m.version, encode_statistics(m)) for m in messages), reverse=True)


class FakeMechanism:
    name = "semantic_noise"

    def __init__(self) -> None:
        self.restored: list[int] = []

    def restore(self, snapshot) -> None:
        if "statistics" not in snapshot:
            raise StatisticsError("no statistics in it")
        self.restored.append(snapshot["statistics"]["version"])


class FakeMasking:
    """What masks under settings whose ``hash`` is that of their configuration."""

    taxonomies: ClassVar = {"principal": TAXONOMY}

    def __init__(self, mechanism: FakeMechanism, hashed: str = "0123456789abcdef") -> None:
        self.mechanism = mechanism
        self.configuration = SimpleNamespace(hash=hashed)

    def under(self, settings) -> FakeMasking:
        if "bad" in settings:
            raise ConfigurationError("settings: bad cannot be changed while running")
        same = settings["hash"] == self.configuration.hash
        return self if same else FakeMasking(FakeMechanism(), settings["hash"])


@pytest.fixture
def mechanism() -> FakeMechanism:
    return FakeMechanism()


@pytest.fixture
def in_force(mechanism: FakeMechanism) -> ActiveStatistics:
    return ActiveStatistics(FakeMasking(mechanism))


def test_the_highest_version_comes_into_force(in_force: ActiveStatistics, mechanism: FakeMechanism) -> None:
    assert in_force.consider(published(message(1), message(3), message(2)))
    assert (in_force.version, in_force.published, mechanism.restored) == (3, 1_700_000_000_003, [3])


def test_an_older_or_equal_version_never_does(in_force: ActiveStatistics, mechanism: FakeMechanism) -> None:
    in_force.consider(published(message(3)))
    assert not in_force.consider(published(message(2), message(3)))
    assert mechanism.restored == [3]


BAD = {
    "no JSON": PublishedVersion(9, b"E11.9"),
    "another format": PublishedVersion(9, encode_statistics(message(9)).replace(b'"format":1', b'"format":2')),
    "a version that is not its key's": PublishedVersion(9, encode_statistics(message(8))),
    "a snapshot of another version": PublishedVersion(
        9, encode_statistics(message(9, snapshot={"statistics": statistics(8).to_dict()}))
    ),
    "another mechanism": PublishedVersion(9, encode_statistics(message(9, mechanism="rank_swapping"))),
    "another taxonomy": PublishedVersion(9, encode_statistics(message(9, taxonomies={"principal": OTHER.fingerprint}))),
    "another attribute": PublishedVersion(9, encode_statistics(message(9, taxonomies={"first": TAXONOMY.fingerprint}))),
    "a snapshot that the mechanism refuses": PublishedVersion(9, encode_statistics(message(9, snapshot={}))),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_what_does_not_fit_is_refused_and_the_old_stays(
    bad: PublishedVersion, in_force: ActiveStatistics, mechanism: FakeMechanism, caplog: pytest.LogCaptureFixture
) -> None:
    in_force.consider(published(message(2)))
    assert not in_force.consider([bad])
    assert (in_force.version, mechanism.restored, in_force.refusals) == (2, [2], 1)
    assert in_force.refused is not None
    assert in_force.refused.startswith("version 9 was refused: ")
    assert "version 9 was refused" in caplog.text
    assert "E11" not in caplog.text


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_with_nothing_but_what_does_not_fit_there_are_none(bad: PublishedVersion, in_force: ActiveStatistics) -> None:
    assert not in_force.consider([bad])
    assert in_force.version == 0


def test_the_newest_that_fits_is_taken_beside_one_that_does_not(in_force: ActiveStatistics) -> None:
    assert in_force.consider([BAD["another taxonomy"], *published(message(4), message(5))])
    assert in_force.version == 5


def test_a_version_that_fits_ends_the_complaint(in_force: ActiveStatistics) -> None:
    in_force.consider([BAD["another taxonomy"]])
    in_force.consider(published(message(10)))
    assert in_force.refused is None


def test_settings_come_into_force_with_their_version(in_force: ActiveStatistics, mechanism: FakeMechanism) -> None:
    own = in_force.masking
    in_force.consider(published(message(1)))
    in_force.consider(published(message(2, settings={"hash": "f" * 16}, configuration="f" * 16)))
    changed = in_force.masking
    assert changed is not own
    assert (changed.configuration.hash, changed.mechanism.restored, mechanism.restored) == ("f" * 16, [2], [1])
    in_force.consider(published(message(3, settings={"hash": "f" * 16}, configuration="f" * 16)))
    assert in_force.masking is changed
    assert changed.mechanism.restored == [2, 3]
    in_force.consider(published(message(4)))
    assert in_force.masking is own


def test_settings_that_cannot_be_taken_up_change_nothing(in_force: ActiveStatistics, mechanism: FakeMechanism) -> None:
    in_force.consider(published(message(1)))
    assert not in_force.consider(published(message(2, settings={"bad": 1})))
    assert (in_force.version, mechanism.restored, in_force.refusals) == (1, [1], 1)
    assert in_force.refused == "version 2 was refused: settings: bad cannot be changed while running"
    assert in_force.masking.mechanism is mechanism


def test_settings_come_not_into_force_with_statistics_that_do_not_fit(in_force: ActiveStatistics) -> None:
    own = in_force.masking
    in_force.consider(published(message(1, settings={"hash": "f" * 16}, snapshot={})))
    assert (in_force.version, in_force.masking) == (0, own)


def test_another_configuration_is_told_and_used(in_force: ActiveStatistics, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert in_force.consider(published(message(1, configuration="f" * 16)))
    assert "under another configuration (ffffffffffffffff)" in caplog.text


def test_what_is_offered_comes_newest_first_and_once() -> None:
    newest = VersionBuffer()
    for version in (2, 10, 9):
        newest.offer(b"%d" % version, b"v%d" % version)
    assert newest.take() == [PublishedVersion(10, b"v10"), PublishedVersion(9, b"v9"), PublishedVersion(2, b"v2")]
    assert newest.take() == []


def test_a_tombstone_takes_a_version_back() -> None:
    newest = VersionBuffer()
    newest.offer(b"1", b"x")
    newest.offer(b"2", b"y")
    newest.offer(b"2", None)
    newest.offer(b"7", None)
    assert newest.take() == [PublishedVersion(1, b"x")]


def test_only_the_newest_are_remembered() -> None:
    newest = VersionBuffer()
    for version in range(1, 100):
        newest.offer(b"%d" % version, b"")
    assert [p.version for p in newest.take()] == list(range(99, 99 - BUFFERED_VERSIONS, -1))


@pytest.mark.parametrize("key", [None, b"", b"-1", b"x", b"1.0", b"9" * 40])
def test_a_key_that_is_no_version_is_left_out(key: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    newest = VersionBuffer()
    newest.offer(key, b"x")
    assert newest.take() == []
    assert "without a version" in caplog.text


def offer(newest: VersionBuffer, pieces: list[Chunk]) -> None:
    for piece in pieces:
        newest.offer(piece.key, piece.value)


BIG = bytes(range(256)) * 40
PIECES = split_message(7, BIG, 4_096)


def test_a_version_in_parts_is_taken_once_it_is_whole(caplog: pytest.LogCaptureFixture) -> None:
    newest = VersionBuffer()
    offer(newest, PIECES[:-1])
    assert newest.take() == []
    offer(newest, PIECES[-1:])
    assert newest.take() == [PublishedVersion(7, BIG)]
    assert newest.take() == []
    assert not caplog.records


def test_a_version_that_is_not_complete_waits_and_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    newest = VersionBuffer()
    newest.offer(b"6", b"x")
    offer(newest, PIECES[1:])
    assert newest.take() == [PublishedVersion(6, b"x")]
    assert newest.take() == []
    assert caplog.text.count("statistics version 7 is not complete") == 1
    offer(newest, PIECES[:1])
    assert newest.take() == [PublishedVersion(7, BIG)]


def test_a_version_whose_parts_are_not_its_own_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    newest = VersionBuffer()
    newest.offer(b"6", b"x")
    offer(newest, [Chunk(b"7:0", b"y" * 4_096), *PIECES[1:]])
    assert newest.take() == [PublishedVersion(6, b"x")]
    assert "statistics version 7 is left out: its parts are not all there, or not those" in caplog.text


def test_tombstones_take_back_a_version_in_parts() -> None:
    newest = VersionBuffer()
    offer(newest, [*PIECES, Chunk(b"7", None)])
    assert newest.take() == []
    offer(newest, [*PIECES, *tombstones(7, len(PIECES) - 1)[1:]])
    assert newest.take() == []


def test_beside_large_versions_only_the_newest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_consumer, "BUFFERED_BYTES", 3 * len(BIG))
    newest = VersionBuffer()
    for version in range(1, 9):
        offer(newest, split_message(version, BIG, 4_096))
    assert [p.version for p in newest.take()] == [8, 7]
    monkeypatch.setattr(statistics_consumer, "BUFFERED_BYTES", 1)
    offer(newest, split_message(9, BIG, 4_096))
    assert [p.version for p in newest.take()] == [9]


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


def test_the_topic_is_read_from_its_beginning_to_its_end_before_any_version_counts() -> None:
    client = FakeClient()
    follower = StatisticsConsumer(client=client, topic="statistics", partitions=2)
    assert client.assigned == [(0, OFFSET_BEGINNING), (1, OFFSET_BEGINNING)]
    client.batches = [[FakeMessage(0, b"1"), FakeMessage(0, b"2")], [end(0)]]
    assert follower.poll() == []
    assert not follower.at_end
    client.batches = [[end(1)]]
    assert [p.version for p in follower.poll()] == [2, 1]
    assert follower.at_end


def test_later_versions_come_as_they_are_published() -> None:
    client = FakeClient()
    follower = StatisticsConsumer(client=client, topic="statistics", partitions=1)
    client.batches = [[end(0)]]
    assert follower.poll() == []
    client.batches = [[FakeMessage(0, b"3")]]
    assert [p.version for p in follower.poll()] == [3]
    assert follower.poll() == []


def test_an_error_of_the_topic_is_logged_and_no_end(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeClient()
    follower = StatisticsConsumer(client=client, topic="statistics", partitions=1)
    client.batches = [[FakeMessage(0, error=KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no leader"))]]
    assert follower.poll() == []
    assert "reading statistics: no leader" in caplog.text
    assert not follower.at_end
