"""Exactly-once processing during faults under load on three brokers, checked during each fault and after it.

``STREAM_MASKER_FAULTS=short`` injects each fault once or a few times, ``long`` often; ``-s`` prints how often.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fault_stream import LONG, ON_REQUEST, Stream, rounds, running_stream
from kafka_broker import Cluster
from stream_faults import (
    come_and_go,
    cut_off,
    kill_calibrator,
    kill_worker,
    late_requests,
    lose_broker,
    lose_statistics_leader,
    sleep_past_session,
    terminate_worker,
)

pytestmark = [ON_REQUEST, pytest.mark.faults, pytest.mark.timeout(7200 if LONG else 1800)]


@pytest.fixture(scope="module")
def stream(three_brokers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stream]:
    with running_stream(three_brokers, tmp_path_factory.mktemp("stream")) as running:
        yield running


@pytest.fixture(autouse=True)
def healed(kafka_cluster: Cluster) -> Iterator[None]:
    """Start all brokers after each fault."""
    yield
    kafka_cluster.heal()


def check_every_record(stream: Stream, what: str, count: int) -> None:
    """Check the stream after ``count`` faults."""
    before = stream.audit.checked
    stream.recover()
    assert stream.audit.checked > before
    versions = max(stream.checker.seen.published)
    print(f"\n{what}: {count}; {stream.audit.checked} records settled and audited, versions {versions}")


def test_no_fault(stream: Stream) -> None:
    stream.wait_for_progress(1_000)
    check_every_record(stream, "faults", 0)


def test_workers_killed(stream: Stream) -> None:
    """Kill most workers while they mask, every fourth as soon as it has partitions."""
    before = stream.fleet.kills
    for number in rounds(4, 100):
        name = ("one", "two")[number % 2]
        (stream.wait_for_partitions if number % 8 < 2 else stream.wait_for_masking)(name)
        kill_worker(stream, name)
    stream.wait_for_masking("one", "two")
    stream.wait_for_progress()
    check_every_record(stream, "kills of working workers", stream.fleet.kills - before)


def test_workers_terminated(stream: Stream) -> None:
    longest = max(terminate_worker(stream, ("one", "two")[number % 2]) for number in rounds(2, 20))
    stream.wait_for_masking("one", "two")
    stream.wait_for_progress()
    ends = f"in {longest:.1f} s at most, gone in {stream.fleet.longest_end:.1f} s"
    check_every_record(stream, f"workers terminated, {ends}", len(rounds(2, 20)))


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_brokers_lost_one_by_one(stream: Stream, how: str) -> None:
    for number in rounds(3, 15):
        lose_broker(stream, how, 1 + number % 3)
    check_every_record(stream, f"brokers lost by {how}", len(rounds(3, 15)))


def test_a_worker_asleep_past_its_session(stream: Stream) -> None:
    for number in rounds(1, 10):
        sleep_past_session(stream, ("one", "two")[number % 2])
    check_every_record(stream, "workers asleep past their session", len(rounds(1, 10)))


def test_workers_come_and_go(stream: Stream) -> None:
    for _ in rounds(2, 20):
        come_and_go(stream)
    check_every_record(
        stream, f"workers that came and went, gone in {stream.fleet.longest_end:.1f} s at most", len(rounds(2, 20))
    )


def test_the_calibrator_is_killed(stream: Stream) -> None:
    for _ in rounds(1, 10):
        kill_calibrator(stream)
    check_every_record(stream, "kills of the calibrator", len(rounds(1, 10)))


def test_the_leader_of_the_statistics_is_lost(stream: Stream) -> None:
    for _ in rounds(1, 6):
        lose_statistics_leader(stream)
    check_every_record(stream, "leaders of the statistics lost", len(rounds(1, 6)))


@pytest.mark.parametrize("how", ["silence", "cut"])
def test_a_worker_is_cut_off_and_returns(stream: Stream, how: str) -> None:
    cut_off(stream, how, rounds(2, 12))
    check_every_record(stream, f"workers cut off by {how}", len(rounds(2, 12)))


def test_requests_of_a_worker_arrive_late_twice_and_in_another_order(stream: Stream) -> None:
    late_requests(stream, rounds(8, 120))
    check_every_record(stream, "pairs of late requests", len(rounds(8, 120)))
