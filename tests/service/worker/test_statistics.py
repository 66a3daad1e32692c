"""The statistics topic: buffering, activation and refusal of versions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError

from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import Statistics
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.messages import StatisticsMessage, encode_statistics
from stream_masker.pipeline.seal import TopicSeal
from stream_masker.service.kafka.reader import Versions
from stream_masker.service.worker import statistics as module
from stream_masker.service.worker.statistics import (
    KEPT_VERSIONS,
    ActiveStatistics,
    HoldReason,
)
from stream_masker.summary import ATTACKER

SEAL = TopicSeal("statistics", [b"the secret of all processes"])

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


def published(*messages: StatisticsMessage) -> list[tuple[int, bytes]]:
    return sorted(((m.version, encode_statistics(m)) for m in messages), reverse=True)


class FakeMechanism:
    name = "semantic_noise"
    promise = 0.5
    preserves = SemanticTransport.preserves

    def __init__(self) -> None:
        self.restored: list[int] = []

    def expected_risk(self) -> None:
        return None

    def restore(self, snapshot) -> None:
        if "statistics" not in snapshot:
            raise StatisticsError("no statistics in it")
        self.restored.append(snapshot["statistics"]["version"])


class FakeMasking:
    """A masking with the given configuration hash."""

    taxonomies: ClassVar = {"principal": TAXONOMY}

    def __init__(self, mechanism: FakeMechanism, hashed: str = "0123456789abcdef") -> None:
        self.mechanism = mechanism
        self.configuration = SimpleNamespace(hash=hashed)

    def restore(self, message: StatisticsMessage) -> None:
        self.mechanism.restore(message.snapshot)


@pytest.fixture
def mechanism() -> FakeMechanism:
    return FakeMechanism()


def statistics_of(
    client: FakeClient, mechanism: FakeMechanism, secret_id: str | None = None, *, partitions: int = 1
) -> ActiveStatistics:
    return ActiveStatistics(client, FakeMasking(mechanism), SEAL, partitions=partitions, secret_id=secret_id)


@pytest.fixture
def active(mechanism: FakeMechanism) -> ActiveStatistics:
    return statistics_of(FakeClient(), mechanism)


OWN, ANOTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture
def bound(mechanism: FakeMechanism) -> ActiveStatistics:
    """The statistics of a worker whose secret has the id ``OWN``."""
    return statistics_of(FakeClient(), mechanism, OWN)


def test_a_version_for_another_secret_ends_the_one_in_force(bound: ActiveStatistics) -> None:
    """No older version is taken instead of it, and masking goes on with the next one for the own secret."""
    bound.consider(published(message(1, secret_id=OWN)))
    bound.consider(published(message(2, secret_id=OWN), message(3, secret_id=ANOTHER)))
    assert (bound.version, bound.refusals) == (0, 1)
    assert bound.refused is not None
    assert bound.refused.endswith(f"it is for the masking secret with the id {ANOTHER}, and this process has {OWN}")
    bound.consider(published(message(4, secret_id=OWN)))
    assert (bound.version, bound.refused) == (4, None)


def test_the_highest_version_becomes_active_and_no_older_one_after_it(
    active: ActiveStatistics, mechanism: FakeMechanism
) -> None:
    active.consider(published(message(1), message(3), message(2)))
    assert (active.version, mechanism.restored) == (3, [3])
    active.consider(published(message(2), message(3)))
    assert mechanism.restored == [3]


def test_the_first_version_is_logged_with_what_is_promised(
    active: ActiveStatistics, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"statistics version 3: {ATTACKER} can be at most 50% sure of a code, "
    with caplog.at_level("INFO"):
        active.consider(published(message(3)))
    assert said in caplog.text
    kept = "Kept in expectation: meaning, mean, dispersion, marginals and the correlation and cross table of two codes."
    assert kept in caplog.text
    caplog.clear()
    with caplog.at_level("INFO"):
        active.consider(published(message(4)))
    assert "An attacker" not in caplog.text


def test_the_chance_of_an_attacker_is_logged_once_it_is_known(
    active: ActiveStatistics, caplog: pytest.LogCaptureFixture
) -> None:
    chances = {"semantic_noise": 0.48, "semantic_transport": 0.33}
    with caplog.at_level("INFO"):
        for version, guessed in ((3, None), (4, chances), (5, chances)):
            active.consider(published(message(version, guessed=guessed)))
    said = [record.getMessage() for record in caplog.records if "Guessed right" in record.getMessage()]
    assert [text.partition(".")[0] for text in said] == ["Guessed right: 48%; with semantic_transport 33%"]


BAD = {
    "not JSON": (9, b"E11.9"),
    "another format": (9, encode_statistics(message(9)).replace(b'"format":1', b'"format":2')),
    "a version that differs from its key": (9, encode_statistics(message(8))),
    "a snapshot of another version": (
        9,
        encode_statistics(message(9, snapshot={"statistics": statistics(8).to_dict()})),
    ),
    "another mechanism": (9, encode_statistics(message(9, mechanism="rank_swapping"))),
    "another taxonomy": (9, encode_statistics(message(9, taxonomies={"principal": OTHER.fingerprint}))),
    "another attribute": (9, encode_statistics(message(9, taxonomies={"first": TAXONOMY.fingerprint}))),
    "a snapshot that the mechanism refuses": (9, encode_statistics(message(9, snapshot={}))),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_version_that_does_not_fit_is_refused_and_the_old_one_stays_active(
    bad: tuple[int, bytes], active: ActiveStatistics, mechanism: FakeMechanism, caplog: pytest.LogCaptureFixture
) -> None:
    active.consider(published(message(2)))
    active.consider([bad])
    assert (active.version, mechanism.restored, active.refusals) == (2, [2], 1)
    assert active.refused is not None
    assert active.refused.startswith("version 9 was refused: ")
    assert "version 9 was refused" in caplog.text
    assert "E11" not in caplog.text


def test_the_newest_version_that_fits_becomes_active_and_clears_the_refusal(active: ActiveStatistics) -> None:
    active.consider([BAD["another taxonomy"], *published(message(4), message(5))])
    assert (active.version, active.refused) == (5, None)


def test_statistics_of_another_configuration_are_logged_and_used(
    active: ActiveStatistics, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        active.consider(published(message(1, configuration="f" * 16)))
    assert "under another configuration (ffffffffffffffff)" in caplog.text


def test_the_newest_versions_are_kept_and_a_tombstone_removes_one() -> None:
    versions = Versions(SEAL, most=KEPT_VERSIONS)
    for version in range(1, 100):
        versions.add(b"%d" % version, SEAL.seal(b"%d" % version, b"v%d" % version))
    versions.add(b"98", None)
    for key in (None, b"", b"-1", b"x", b"1.0", b"9" * 40):
        versions.add(key, b"a key that is not a version")
    assert versions.take() == [(99, b"v99"), (97, b"v97"), (96, b"v96")]
    assert versions.take() == []


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
        return SEAL.seal(self._key or b"", encode_statistics(message(int(self._key or 0))))

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


def end(partition: int) -> FakeMessage:
    return FakeMessage(partition, error=KafkaError(KafkaError._PARTITION_EOF, "end"))


def test_no_version_is_used_before_the_end_of_the_topic_is_reached(mechanism: FakeMechanism) -> None:
    client = FakeClient()
    active = statistics_of(client, mechanism, partitions=2)
    assert client.assigned == [(0, OFFSET_BEGINNING), (1, OFFSET_BEGINNING)]
    failed = FakeMessage(1, error=KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no leader"))
    client.batches = [[FakeMessage(0, b"1"), FakeMessage(0, b"2")], [end(0), failed]]
    active.poll()
    assert (active.version, active.held[0] if active.held else None) == (0, HoldReason.READING)
    client.batches = [[end(1)]]
    active.poll()
    assert (active.version, active.held) == (2, None)
    client.batches = [[FakeMessage(0, b"3")]]
    active.poll()
    assert active.version == 3


def test_a_turn_is_bounded(mechanism: FakeMechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(module.time, "monotonic", lambda: 0.2 * next(now))
    client = FakeClient()
    active = statistics_of(client, mechanism)
    client.batches = [[FakeMessage(0, b"1")] * 2 for _ in range(6)]
    active.poll()
    assert len(client.batches) == 4


def test_why_the_input_is_held(mechanism: FakeMechanism) -> None:
    client = FakeClient()
    active = statistics_of(client, mechanism, OWN)
    client.batches = [[end(0)]]
    for published_now, reason in (([], HoldReason.NONE_PUBLISHED), ([ANOTHER], HoldReason.OTHER_SECRET)):
        active.poll()
        active.consider(published(*(message(2, secret_id=one) for one in published_now)))
        assert active.held is not None
        assert active.held[0] is reason
