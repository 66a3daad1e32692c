"""The calibrator's publications are idempotent: the same blocks give the same versions, exactly once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer
from kafka_records import Record, write
from prometheus_client import CollectorRegistry
from sealed_topics import opened_version, sealed_block
from workers import Setting, wait

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.errors import ServiceError
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.statistics import StatisticsMessage
from stream_masker.service.calibrator import components
from stream_masker.service.calibrator.components import build_components, build_subject
from stream_masker.service.calibrator.session import CalibrationSession
from stream_masker.service.kafka.topics import prepare_topics
from stream_masker.service.observability.metrics import Metrics

BLOCKS, RECORDS = 9, 100
CALIBRATION = {"window_records": 2_000, "every_records": 200, "every_seconds": 3600, "min_records": 200}
VERSIONS = [1, 2, 3, 4]
"""One version after the second, fourth, sixth and eighth block."""


@pytest.fixture
def here(here: Setting, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """Blocks without published statistics. No request is sent twice, however slow the broker is."""
    monkeypatch.setattr(components, "retry_delay", lambda _: math.inf)
    here.data["calibration"] = CALIBRATION
    prepare_topics(here.configuration(), partitions=1)
    write_blocks(here)
    return here


def write_blocks(here: Setting) -> None:
    taxonomies = build_subject(here.configuration()).taxonomies
    blocks = [block(number) for number in range(BLOCKS)]
    records = [sealed_block(here.configuration(), b, taxonomies) for b in blocks]
    write(here.bootstrap, here.topics["calibration"], records)


def block(number: int) -> Block:
    first, distortions = number * RECORDS, (Distortion(RECORDS, 5.0, 4.0), Distortion(RECORDS, 6.0, 5.0))
    both = counts(2 * number), counts(2 * number + 1)
    return Block("discharges", 0, first, first + RECORDS - 1, time.time_ns() // 1_000_000, 1, *both, distortions, {})


def counts(seed: int, concepts: int = 91) -> Counts:
    rng = np.random.default_rng(seed)
    columns = tuple(Column(rng.integers(0, concepts, RECORDS).astype(np.int32)) for _ in range(2))
    return count_batch(Batch(RECORDS, columns), (concepts, concepts))


def opened(here: Setting) -> CalibrationSession:
    """Return a session that has read the topics."""
    metrics = Metrics(CollectorRegistry(), "calibrator")
    return CalibrationSession.open(build_components(here.configuration()), metrics, lambda: False)


def publish_all(session: CalibrationSession) -> None:
    while session.pending_windows:
        session.publish_next()


def versions(here: Setting) -> list[StatisticsMessage]:
    return [opened_version(here.configuration(), record) for record in here.read("statistics")]


def contents(here: Setting) -> list[tuple[Any, ...]]:
    """Return the reproducible content of all versions."""
    return [(v.version, v.blocks, v.baseline, v.statistics.to_dict(), v.snapshot) for v in versions(here)]


def elsewhere(here: Setting) -> Setting:
    """Return a setting with the same blocks and separate statistics."""
    names = {role: f"{name}-undisturbed" for role, name in here.topics.items() if role in {"statistics", "drift"}}
    other = Setting(here.bootstrap, here.folder, {**here.data, "topics": {**here.topics, **names}})
    prepare_topics(other.configuration(), partitions=1)
    return other


def as_if_undisturbed(here: Setting) -> list[tuple[Any, ...]]:
    """Return what an undisturbed calibrator publishes from these blocks."""
    other = elsewhere(here)
    publish_all(opened(other))
    wait_for_versions(other)
    return contents(other)


def wait_for_versions(here: Setting, number: int = len(VERSIONS)) -> None:
    """Wait until readers see as many versions: a commit returns before they do."""
    wait(lambda: len(here.read("statistics")) >= number, f"{number} versions")


def published_once(here: Setting) -> None:
    wait_for_versions(here)
    assert [version.version for version in versions(here)] == VERSIONS
    assert contents(here) == as_if_undisturbed(here)
    assert [int(report.key or b"") for report in here.read("drift")] == VERSIONS


class KilledError(BaseException):
    """The process was killed."""


class KilledProducer:
    """A producer whose process is killed at its second commit, before or after the commit."""

    def __init__(self, producer: Producer, *, after: bool) -> None:
        self.producer, self.after, self.commits = producer, after, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.producer, name)

    def commit_transaction(self, timeout: float) -> None:
        self.commits += 1
        if self.commits == 2:
            (self.producer.commit_transaction if self.after else self.producer.flush)(timeout)
            raise KilledError
        self.producer.commit_transaction(timeout)


@pytest.fixture
def kill_next(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Kill only the next calibrator."""
    connect = components.connect_producer

    def doom(after: bool) -> None:
        def once(properties: dict[str, Any]) -> KilledProducer:
            monkeypatch.setattr(components, "connect_producer", connect)
            return KilledProducer(connect(properties), after=after)

        monkeypatch.setattr(components, "connect_producer", once)

    return doom


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
def test_version_of_a_killed_calibrator_is_published_once(
    here: Setting, kill_next: Callable[[bool], None], after: bool
) -> None:
    kill_next(after)
    killed = opened(here)
    with pytest.raises(KilledError):
        publish_all(killed)
    written = here.read("statistics", isolation="read_uncommitted")
    assert version_numbers(written) == [1, 2]
    wait_for_versions(here, 1 + after)
    assert len(versions(here)) == 1 + after
    publish_all(opened(here))
    published_once(here)


def version_numbers(records: list[Record]) -> list[int]:
    return [int(record.key or b"") for record in records]


def test_redelivered_blocks_give_no_version(here: Setting) -> None:
    session = opened(here)
    publish_all(session)
    for record in here.read("calibration"):
        session.deliver(record.offset, record.timestamp, record.key, record.value or b"")
    session.tick(time.time() + 2 * CALIBRATION["every_seconds"])
    assert session.pending_windows == 0
    published_once(here)


def test_restarted_calibrator_publishes_nothing_new(here: Setting) -> None:
    publish_all(opened(here))
    for _ in range(2):
        again = opened(here)
        assert (again.pending_windows, again.history.newest) == (0, VERSIONS[-1])
    published_once(here)


def test_only_one_of_two_calibrators_publishes(here: Setting) -> None:
    fenced = opened(here)
    fenced.publish_next()
    other = opened(here)
    with pytest.raises(ServiceError, match="statistics cannot be published"):
        publish_all(fenced)
    publish_all(other)
    published_once(here)


def test_blocks_written_twice_count_once(here: Setting) -> None:
    publish_all(opened(here))
    before = versions(here)
    write_blocks(here)
    publish_all(opened(here))
    added = versions(here)[len(before) :]
    assert [version.statistics.records for version in added] == [BLOCKS * RECORDS] * 5
