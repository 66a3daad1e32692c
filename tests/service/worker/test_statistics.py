"""The statistics topic: buffering, activation and refusal of versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import Mock

import pytest
from calibration_bench import SECRET
from confluent_kafka import OFFSET_BEGINNING, KafkaError
from consumer import FakeMessage
from prometheus_client import CollectorRegistry

from stream_masker.pipeline.messages import StatisticsMessage, TopicSeal, encode_statistics
from stream_masker.service.calibrator.bootstrap import CalibratorComponents
from stream_masker.service.configuration.secret import secret_id
from stream_masker.service.masking import Masking
from stream_masker.service.observability.metrics import Health, Metrics
from stream_masker.service.worker.statistics import KEPT_VERSIONS, ActiveStatistics, Versions
from stream_masker.service.worker.worker import WorkerReport

SEAL = TopicSeal("statistics", [SECRET])
OWN, ANOTHER = secret_id(SECRET), "fedcba9876543210"
"""The id of the worker's secret, and that of another one."""

NewMessage = Callable[..., StatisticsMessage]


@pytest.fixture(scope="module")
def message(genuine: list[StatisticsMessage]) -> NewMessage:
    """Returns a function that makes a version by its number, with other fields and parts of its snapshot."""

    def made(version: int, mechanism: str = "semantic_noise", number: int | None = None, **other: object):
        statistics = {**genuine[0].snapshot["statistics"], "version": version if number is None else number}
        snapshot = {**genuine[0].snapshot, "mechanism": mechanism, "statistics": statistics}
        return replace(genuine[0], version=version, snapshot=snapshot, **other)

    return made


def published(*messages: StatisticsMessage) -> list[tuple[int, bytes]]:
    return sorted(((m.version, encode_statistics(m)) for m in messages), reverse=True)


@pytest.fixture
def client() -> Mock:
    """A consumer that returns the batches of messages in ``batches``, and then nothing."""
    made = Mock(batches=[])
    made.connect.return_value = made
    made.consume = lambda number, timeout: made.batches.pop(0) if timeout == 0 and made.batches else []
    return made


@pytest.fixture
def active(client: Mock, components: CalibratorComponents) -> ActiveStatistics:
    return ActiveStatistics(client.connect, Masking(components.configuration), SEAL, secret_id=OWN)


def masked_by(active: ActiveStatistics) -> int:
    """The version that the mechanism has in force, which is that of the worker."""
    assert active.masking.mechanism.statistics.version == active.version
    return active.version


def test_a_version_for_another_secret_ends_the_one_in_force(active: ActiveStatistics, message: NewMessage) -> None:
    """No older version is taken instead of it, and masking goes on with the next one for the own secret."""
    active.consider(published(message(1)))
    active.consider(published(message(2), message(3, secret_id=ANOTHER)))
    assert (active.version, active.refusals) == (0, 1)
    assert active.refused is not None
    assert active.refused.endswith(f"it is for the masking secret with the id {ANOTHER}, and this process has {OWN}")
    active.consider(published(message(4)))
    assert (active.version, active.refused) == (4, None)


def test_how_often_codes_are_guessed_is_logged_once(
    active: ActiveStatistics, message: NewMessage, caplog: pytest.LogCaptureFixture
) -> None:
    chances = {"semantic_noise": 0.48, "semantic_transport": 0.33}
    with caplog.at_level("INFO"):
        for version, guessed in ((3, None), (4, None), (5, chances), (6, chances)):
            active.consider(published(message(version, guessed=guessed, configuration="f" * 16)))
    said = [record.getMessage() for record in caplog.records]
    guessed = [text.partition(".")[0] for text in said if "Guessed right" in text]
    assert guessed == [
        "Guessed right: not known yet, a later version states it",
        "Guessed right: 48%; with semantic_transport 33%",
    ]
    assert "under another configuration (ffffffffffffffff)" in said[0]


BAD = {
    "not JSON": lambda message: b"E11.9",
    "another format": lambda message: encode_statistics(message(9)).replace(b'"format":2', b'"format":1'),
    "a snapshot of another version": lambda message: encode_statistics(message(9, number=8)),
    "a snapshot of another mechanism": lambda message: encode_statistics(message(9, "rank_swapping")),
}


@pytest.mark.parametrize("case", BAD)
def test_a_version_that_does_not_fit_is_refused_until_one_fits(
    case: str, client: Mock, active: ActiveStatistics, message: NewMessage, caplog: pytest.LogCaptureFixture
) -> None:
    bad = BAD[case](message)
    client.batches = [[END]]
    active.poll()
    active.consider([(9, bad)])
    assert active.problem == active.refused is not None
    active.consider([(9, bad), *published(message(2), message(1))])
    assert (masked_by(active), active.refused) == (2, None)
    active.consider([(9, bad)])
    assert (masked_by(active), active.refusals) == (2, 3)
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


END = FakeMessage(0, 0, error=KafkaError(KafkaError._PARTITION_EOF, "end"))


@pytest.fixture
def versions(message: NewMessage) -> list[FakeMessage]:
    """Messages of the statistics topic: versions 0 to 3."""
    found = [FakeMessage(0, version) for version in range(4)]
    for version, one in enumerate(found):
        key = b"%d" % version
        one.key, one.value = (
            Mock(return_value=key),
            Mock(return_value=SEAL.seal(key, encode_statistics(message(version)))),
        )
    return found


def test_versions_count_from_the_end_of_the_topic_on_and_again_with_the_client_after_a_lost_one(
    client: Mock, active: ActiveStatistics, versions: list[FakeMessage]
) -> None:
    [[[partition]], _] = client.assign.call_args
    assert (partition.topic, partition.partition, partition.offset) == ("statistics", 0, OFFSET_BEGINNING)
    failed = FakeMessage(0, 0, error=KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no leader"))
    client.batches = [[*versions[1:3], failed]]
    active.poll()
    assert (active.version, active.problem) == (0, "reading the statistics topic")
    client.batches = [[END]]
    active.poll()
    assert (masked_by(active), active.problem) == (2, None)
    [[tell_loss], _] = client.connect.call_args
    tell_loss()
    client.batches = [[*versions, END]]
    active.poll()
    assert (masked_by(active), client.assign.call_count, client.close.call_count) == (3, 2, 1)


def test_a_turn_is_bounded(client: Mock, active: ActiveStatistics, versions: list[FakeMessage]) -> None:
    client.batches = [versions[1:2] * 2 for _ in range(6)]
    active.poll()
    assert len(client.batches) == 5


def test_a_worker_that_waits_for_the_first_version_is_ready(
    client: Mock, active: ActiveStatistics, message: NewMessage
) -> None:
    report = WorkerReport(Metrics(CollectorRegistry(), "worker"), Health())
    report.health.reason("start", None)
    client.batches = [[END]]
    active.poll()
    report.statistics(active)
    assert (report.health.reasons, report.health.notes) == ((), ("no statistics yet: none are published",))
    active.consider(published(message(2, secret_id=ANOTHER)))
    report.statistics(active)
    assert report.health.reasons == (f"no statistics: {active.refused}",)
