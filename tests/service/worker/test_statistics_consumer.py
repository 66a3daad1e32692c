"""The statistics consumer: buffering, activation and refusal of versions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError
from sealed_topics import PLAIN

from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import Statistics
from stream_masker.errors import ConfigurationError, StatisticsError
from stream_masker.pipeline.wire.chunks import Chunk, split_message, tombstones
from stream_masker.pipeline.wire.statistics import StatisticsMessage, encode_statistics
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
        observed={"principal": ""},
        novel={"principal": 0.0},
    )


def message(version: int, **other: object) -> StatisticsMessage:
    complete = StatisticsMessage(
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
    return replace(complete, **other)


def published(*messages: StatisticsMessage) -> list[PublishedVersion]:
    return sorted((PublishedVersion(m.version, encode_statistics(m)) for m in messages), reverse=True)


class FakeMechanism:
    name = "semantic_noise"
    promise = 0.5
    method_card = SemanticTransport.method_card

    def __init__(self) -> None:
        self.restored: list[int] = []

    def restore(self, snapshot) -> None:
        if "statistics" not in snapshot:
            raise StatisticsError("no statistics in it")
        self.restored.append(snapshot["statistics"]["version"])


class FakeMasking:
    """A masking whose settings have the given configuration hash."""

    taxonomies: ClassVar = {"principal": TAXONOMY}

    def __init__(self, mechanism: FakeMechanism, hashed: str = "0123456789abcdef") -> None:
        self.mechanism = mechanism
        self.configuration = SimpleNamespace(hash=hashed)

    def restore(self, message: StatisticsMessage) -> None:
        self.mechanism.restore(message.snapshot)

    def under(self, settings) -> FakeMasking:
        if "bad" in settings:
            raise ConfigurationError("settings: bad cannot be changed while running")
        same = settings["hash"] == self.configuration.hash
        return self if same else FakeMasking(FakeMechanism(), settings["hash"])


@pytest.fixture
def mechanism() -> FakeMechanism:
    return FakeMechanism()


@pytest.fixture
def active(mechanism: FakeMechanism) -> ActiveStatistics:
    return ActiveStatistics(FakeMasking(mechanism))


OWN, ANOTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture
def own(mechanism: FakeMechanism) -> ActiveStatistics:
    """The statistics of a worker whose secret has the id ``OWN``."""
    return ActiveStatistics(FakeMasking(mechanism), OWN)


def test_a_version_for_another_secret_ends_the_one_in_force(own: ActiveStatistics) -> None:
    assert own.consider(published(message(1, secret_id=OWN)))
    assert not own.consider(published(message(2, secret_id=ANOTHER)))
    assert (own.version, own.other_secret, own.refusals) == (0, True, 1)
    assert own.refused is not None
    assert own.refused.endswith(f"it is for the masking secret with the id {ANOTHER}, and this process has {OWN}")


def test_no_older_version_is_taken_instead_of_one_for_another_secret(own: ActiveStatistics) -> None:
    assert not own.consider(published(message(1, secret_id=OWN), message(2, secret_id=ANOTHER)))
    assert own.version == 0


def test_masking_goes_on_with_a_version_for_the_own_secret(own: ActiveStatistics) -> None:
    own.consider(published(message(1, secret_id=ANOTHER)))
    assert own.consider(published(message(2, secret_id=OWN)))
    assert (own.version, own.other_secret, own.refused) == (2, False, None)


def test_a_version_of_an_older_release_is_accepted(own: ActiveStatistics) -> None:
    assert own.consider(published(message(1)))
    assert own.version == 1


def test_the_highest_version_becomes_active(active: ActiveStatistics, mechanism: FakeMechanism) -> None:
    assert active.consider(published(message(1), message(3), message(2)))
    assert (active.version, active.published, mechanism.restored) == (3, 1_700_000_000_003, [3])


def test_the_first_version_is_logged_with_what_is_promised(
    active: ActiveStatistics, caplog: pytest.LogCaptureFixture
) -> None:
    said = "statistics version 3: An attacker who knows everything but the secret can be at most 50% sure of a code, "
    with caplog.at_level("INFO"):
        active.consider(published(message(3)))
    assert said in caplog.text
    assert "Kept in expectation: meaning, mean, dispersion, correlation, marginals and cross tables." in caplog.text
    caplog.clear()
    with caplog.at_level("INFO"):
        assert active.consider(published(message(4)))
    assert "An attacker" not in caplog.text


def test_an_older_or_equal_version_never_becomes_active(active: ActiveStatistics, mechanism: FakeMechanism) -> None:
    active.consider(published(message(3)))
    assert not active.consider(published(message(2), message(3)))
    assert mechanism.restored == [3]


BAD = {
    "not JSON": PublishedVersion(9, b"E11.9"),
    "another format": PublishedVersion(9, encode_statistics(message(9)).replace(b'"format":1', b'"format":2')),
    "a version that differs from its key": PublishedVersion(9, encode_statistics(message(8))),
    "a snapshot of another version": PublishedVersion(
        9, encode_statistics(message(9, snapshot={"statistics": statistics(8).to_dict()}))
    ),
    "another mechanism": PublishedVersion(9, encode_statistics(message(9, mechanism="rank_swapping"))),
    "another taxonomy": PublishedVersion(9, encode_statistics(message(9, taxonomies={"principal": OTHER.fingerprint}))),
    "another attribute": PublishedVersion(9, encode_statistics(message(9, taxonomies={"first": TAXONOMY.fingerprint}))),
    "a snapshot that the mechanism refuses": PublishedVersion(9, encode_statistics(message(9, snapshot={}))),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_version_that_does_not_fit_is_refused_and_the_old_one_stays_active(
    bad: PublishedVersion, active: ActiveStatistics, mechanism: FakeMechanism, caplog: pytest.LogCaptureFixture
) -> None:
    active.consider(published(message(2)))
    assert not active.consider([bad])
    assert (active.version, mechanism.restored, active.refusals) == (2, [2], 1)
    assert active.refused is not None
    assert active.refused.startswith("version 9 was refused: ")
    assert "version 9 was refused" in caplog.text
    assert "E11" not in caplog.text


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_no_version_is_active_if_none_fits(bad: PublishedVersion, active: ActiveStatistics) -> None:
    assert not active.consider([bad])
    assert active.version == 0


def test_the_newest_version_that_fits_becomes_active(active: ActiveStatistics) -> None:
    assert active.consider([BAD["another taxonomy"], *published(message(4), message(5))])
    assert active.version == 5


FAR = 1_000_000
"""The farthest a version may be above the newest one."""


def test_a_version_far_above_the_active_one_is_refused(active: ActiveStatistics) -> None:
    active.consider(published(message(3)))
    assert not active.consider(published(message(3 + FAR + 1)))
    assert (active.version, active.refusals) == (3, 1)
    assert active.refused == "version 1000004 was refused: it is more than 1,000,000 versions above version 3"
    assert active.consider(published(message(3 + FAR)))


def test_at_the_start_a_version_far_above_the_others_is_refused(active: ActiveStatistics) -> None:
    assert active.consider(published(message(7), message(8), message(8 + FAR + 1, baseline=7)))
    assert active.version == 8


@pytest.mark.parametrize("versions", [[5 * FAR], [2, 5 * FAR], [2, 5 * FAR, 5 * FAR + 1]])
def test_at_the_start_a_version_may_be_far_above_its_baseline(active: ActiveStatistics, versions: list[int]) -> None:
    assert active.consider(published(*(message(version, baseline=2) for version in versions)))
    assert active.version == max(versions)


def test_a_version_that_fits_clears_the_refusal(active: ActiveStatistics) -> None:
    active.consider([BAD["another taxonomy"]])
    active.consider(published(message(10)))
    assert active.refused is None


def test_settings_become_active_with_their_version(active: ActiveStatistics, mechanism: FakeMechanism) -> None:
    own = active.masking
    active.consider(published(message(1)))
    active.consider(published(message(2, settings={"hash": "f" * 16}, configuration="f" * 16)))
    changed = active.masking
    assert changed is not own
    assert (changed.configuration.hash, changed.mechanism.restored, mechanism.restored) == ("f" * 16, [2], [1])
    active.consider(published(message(3, settings={"hash": "f" * 16}, configuration="f" * 16)))
    assert active.masking is changed
    assert changed.mechanism.restored == [2, 3]
    active.consider(published(message(4)))
    assert active.masking is own


def test_settings_that_cannot_be_applied_change_nothing(active: ActiveStatistics, mechanism: FakeMechanism) -> None:
    active.consider(published(message(1)))
    assert not active.consider(published(message(2, settings={"bad": 1})))
    assert (active.version, mechanism.restored, active.refusals) == (1, [1], 1)
    assert active.refused == "version 2 was refused: settings: bad cannot be changed while running"
    assert active.masking.mechanism is mechanism


def test_settings_are_not_applied_with_statistics_that_do_not_fit(active: ActiveStatistics) -> None:
    own = active.masking
    active.consider(published(message(1, settings={"hash": "f" * 16}, snapshot={})))
    assert (active.version, active.masking) == (0, own)


def test_statistics_of_another_configuration_are_logged_and_used(
    active: ActiveStatistics, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        assert active.consider(published(message(1, configuration="f" * 16)))
    assert "under another configuration (ffffffffffffffff)" in caplog.text


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


def test_a_topic_that_was_created_anew_is_read_from_its_beginning(active: ActiveStatistics) -> None:
    client = FakeClient()
    consumer = StatisticsConsumer(client=client, topic="statistics", partitions=1, opener=PLAIN)
    client.batches = [[FakeMessage(0, b"7"), end(0)]]
    assert [p.version for p in consumer.poll()] == [7]
    client.assigned = []
    consumer.start_again()
    assert (client.assigned, consumer.at_end) == ([(0, OFFSET_BEGINNING)], False)
    client.batches = [[FakeMessage(0, b"1"), end(0)]]
    assert [p.version for p in consumer.poll()] == [1]


def test_the_version_in_force_stays_until_the_new_topic_has_one(active: ActiveStatistics) -> None:
    active.consider(published(message(7)))
    active.begin_again()
    assert active.version == 7
    assert active.consider(published(message(1)))
    assert active.version == 1
    assert not active.consider(published(message(1)))
