"""The statistics topic: buffering, activation and refusal of versions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition
from consumer import FakeMessage
from prometheus_client import CollectorRegistry

from stream_masker.core.statistics import Statistics
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.messages import StatisticsMessage, encode_statistics
from stream_masker.pipeline.seal import TopicSeal
from stream_masker.service.kafka.reader import Versions
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.statistics import KEPT_VERSIONS, ActiveStatistics
from stream_masker.service.worker.worker import WorkerReport

SEAL = TopicSeal("statistics", [b"the secret of all processes"])
OWN, ANOTHER = "0123456789abcdef", "fedcba9876543210"
"""The id of the worker's secret, and that of another one."""


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
        observed={"principal": ""},
    )


def message(version: int, **other: object) -> StatisticsMessage:
    complete = StatisticsMessage(
        version=version,
        configuration="0123456789abcdef",
        published=1_700_000_000_000 + version,
        source="blocks",
        blocks=None,
        baseline=1,
        secret_id=OWN,
        snapshot={"mechanism": "semantic_noise", "statistics": statistics(version).to_dict()},
    )
    return replace(complete, **other)


def published(*messages: StatisticsMessage) -> list[tuple[int, bytes]]:
    return sorted(((m.version, encode_statistics(m)) for m in messages), reverse=True)


class FakeMasking:
    """A masking that notes the versions that it is restored with."""

    configuration = SimpleNamespace(hash="0123456789abcdef")

    def __init__(self) -> None:
        self.restored: list[int] = []

    def restore(self, message: StatisticsMessage) -> None:
        if message.snapshot["mechanism"] != "semantic_noise":
            raise StatisticsError("it is of another mechanism")
        self.restored.append(message.version)


class FakeClient:
    """A consumer that returns batches of messages."""

    def __init__(self) -> None:
        self.batches: list[list[FakeMessage]] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = [(p.partition, p.offset) for p in partitions]

    def consume(self, num_messages: int, timeout: float) -> list[FakeMessage]:
        assert timeout == 0
        return self.batches.pop(0) if self.batches else []


class Version(FakeMessage):
    """A message of the statistics topic with a genuine version."""

    def __init__(self, version: int) -> None:
        super().__init__(0, version)
        self.key = lambda: b"%d" % version  # type: ignore[method-assign,assignment,return-value]
        sealed = SEAL.seal(self.key(), encode_statistics(message(version)))  # type: ignore[arg-type]
        self.value = lambda: sealed  # type: ignore[method-assign,assignment,return-value]


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def masking() -> FakeMasking:
    return FakeMasking()


def activate(client: Any, masking: Any) -> ActiveStatistics:
    return ActiveStatistics(client, masking, SEAL, secret_id=OWN)


@pytest.fixture
def active(client: FakeClient, masking: FakeMasking) -> ActiveStatistics:
    return activate(client, masking)


def test_a_version_for_another_secret_ends_the_one_in_force(active: ActiveStatistics) -> None:
    """No older version is taken instead of it, and masking goes on with the next one for the own secret."""
    active.consider(published(message(1)))
    active.consider(published(message(2), message(3, secret_id=ANOTHER)))
    assert (active.version, active.refusals) == (0, 1)
    assert active.refused is not None
    assert active.refused.endswith(f"it is for the masking secret with the id {ANOTHER}, and this process has {OWN}")
    active.consider(published(message(4)))
    assert (active.version, active.refused) == (4, None)


def test_how_often_codes_are_guessed_is_logged_once(active: ActiveStatistics, caplog: pytest.LogCaptureFixture) -> None:
    chances = {"semantic_noise": 0.48, "semantic_transport": 0.33}
    with caplog.at_level("INFO"):
        for version, guessed in ((3, None), (4, chances), (5, chances)):
            active.consider(published(message(version, guessed=guessed, configuration="f" * 16)))
    said = [record.getMessage() for record in caplog.records]
    guessed = [text.partition(".")[0] for text in said if "Guessed right" in text]
    assert guessed == [
        "Guessed right: not known yet, a later version states it",
        "Guessed right: 48%; with semantic_transport 33%",
    ]
    assert "under another configuration (ffffffffffffffff)" in said[0]


BAD = {
    "not JSON": b"E11.9",
    "another format": encode_statistics(message(9)).replace(b'"format":1', b'"format":2'),
    "a snapshot of another version": encode_statistics(message(9, snapshot={"statistics": statistics(8).to_dict()})),
    "a snapshot that the mechanism refuses": encode_statistics(
        message(9, snapshot={"statistics": statistics(9).to_dict(), "mechanism": "rank_swapping"})
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_version_that_does_not_fit_is_refused_until_one_fits(
    bad: bytes, client: FakeClient, active: ActiveStatistics, masking: FakeMasking, caplog: pytest.LogCaptureFixture
) -> None:
    client.batches = [[end()]]
    active.poll()
    active.consider([(9, bad)])
    assert active.problem == active.refused is not None
    active.consider([(9, bad), *published(message(2), message(1))])
    assert (active.version, masking.restored, active.refused) == (2, [2], None)
    active.consider([(9, bad)])
    assert (active.version, masking.restored, active.refusals) == (2, [2], 3)
    assert active.problem is not None
    assert active.problem.startswith("version 9 was refused: ")
    assert "version 9 was refused" in caplog.text
    assert "E11" not in caplog.text


def test_the_newest_versions_are_kept_and_a_tombstone_removes_one() -> None:
    versions = Versions(SEAL, most=KEPT_VERSIONS)
    for version in range(1, 100):
        versions.add(b"%d" % version, SEAL.seal(b"%d" % version, b"v%d" % version))
    versions.add(b"98", None)
    assert versions.take() == [(99, b"v99"), (97, b"v97"), (96, b"v96")]
    assert versions.take() == []


def end() -> FakeMessage:
    return FakeMessage(0, 0, error=KafkaError(KafkaError._PARTITION_EOF, "end"))


def test_no_version_is_used_before_the_end_of_the_topic_is_reached(client: FakeClient, masking: FakeMasking) -> None:
    active = activate(client, masking)
    assert client.assigned == [(0, OFFSET_BEGINNING)]
    failed = FakeMessage(0, 0, error=KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no leader"))
    client.batches = [[Version(1), Version(2), failed]]
    active.poll()
    assert (active.version, active.problem) == (0, "reading the statistics topic")
    client.batches = [[end()]]
    active.poll()
    assert (active.version, active.problem) == (2, None)
    client.batches = [[Version(3)]]
    active.poll()
    assert active.version == 3


def test_a_turn_is_bounded(client: FakeClient, active: ActiveStatistics) -> None:
    client.batches = [[Version(1)] * 2 for _ in range(6)]
    active.poll()
    assert len(client.batches) == 5


def test_a_worker_that_waits_for_the_first_version_is_ready(client: FakeClient, active: ActiveStatistics) -> None:
    report = WorkerReport(Metrics(CollectorRegistry(), "worker"), Health())
    report.health.reason("start", None)
    client.batches = [[end()]]
    active.poll()
    report.statistics(active)
    assert (report.health.reasons, report.health.notes) == ((), ("no statistics yet: none are published",))
    active.consider(published(message(2, secret_id=ANOTHER)))
    report.statistics(active)
    assert report.health.reasons == (f"no statistics: {active.refused}",)
