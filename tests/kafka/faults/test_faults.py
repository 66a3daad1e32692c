"""Exactly-once processing during faults under load on three brokers, checked during each fault and after it.

``STREAM_MASKER_FAULTS=short`` injects each fault once or a few times, ``long`` often; ``-s`` prints how often.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from fault_checker import leader_of
from fault_stream import LONG, ON_REQUEST, WINDOW, Stream, detoured, detours, rounds, running_stream
from forwarder import Forwarder
from kafka_broker import Cluster
from late_requests import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    LateRequests,
)

pytestmark = [ON_REQUEST, pytest.mark.faults, pytest.mark.timeout(7200 if LONG else 1800)]

SESSION = 6.0
"""Seconds after which the group removes a worker that is silent."""


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
    """Check the stream after ``count`` faults: start all brokers, wait for both workers' shares and for the outcome of
    every record, and audit them all."""
    stream.cluster.heal()
    stream.wait_for_shares("one", "two")
    before = stream.audit.checked
    stream.settle()
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
        stream.pause(stream.random.uniform(0, WINDOW))
        stream.fleet.kill(name)
        stream.pause()
        stream.fleet.worker(name)
    stream.wait_for_masking("one", "two")
    stream.wait_for_progress()
    check_every_record(stream, "kills of working workers", stream.fleet.kills - before)


def test_workers_terminated(stream: Stream) -> None:
    longest = 0.0
    for number in rounds(2, 20):
        name = ("one", "two")[number % 2]
        stream.wait_for_masking(name)
        stream.pause(stream.random.uniform(0, WINDOW))
        longest = max(longest, stream.fleet.terminate(name))
        stream.pause()
        stream.fleet.worker(name)
    stream.wait_for_masking("one", "two")
    stream.wait_for_progress()
    ends = f"in {longest:.1f} s at most, gone in {stream.fleet.longest_end:.1f} s"
    check_every_record(stream, f"workers terminated, {ends}", len(rounds(2, 20)))


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_brokers_lost_one_by_one(stream: Stream, kafka_cluster: Cluster, how: str) -> None:
    for number in rounds(3, 15):
        broker = 1 + number % 3
        getattr(kafka_cluster, how)(broker)
        stream.pause()
        kafka_cluster.start(broker)
        stream.wait_for_progress()
    check_every_record(stream, f"brokers lost by {how}", len(rounds(3, 15)))


def test_a_worker_asleep_past_its_session(stream: Stream) -> None:
    for number in rounds(1, 10):
        name = ("one", "two")[number % 2]
        stream.wait_for_masking(name)
        asleep = stream.fleet.running[name]
        asleep.send_signal(signal.SIGSTOP)
        try:
            stream.pause(SESSION + 2)
            stream.wait_for_progress()
        finally:
            asleep.send_signal(signal.SIGCONT)
        stream.wait_for_progress()
    check_every_record(stream, "workers asleep past their session", len(rounds(1, 10)))


def test_workers_come_and_go(stream: Stream) -> None:
    for _ in rounds(2, 20):
        stream.fleet.worker("three")
        stream.wait_for_masking("three")
        stream.pause()
        stream.fleet.terminate("three")
        stream.wait_for_progress()
    check_every_record(
        stream, f"workers that came and went, gone in {stream.fleet.longest_end:.1f} s at most", len(rounds(2, 20))
    )


def test_the_calibrator_is_killed(stream: Stream) -> None:
    for _ in rounds(1, 10):
        stream.fleet.kill("calibrator")
        stream.pause()
        stream.fleet.start("calibrator", "calibrator")
        wait_for_version(stream)
    check_every_record(stream, "kills of the calibrator", len(rounds(1, 10)))


def test_the_leader_of_the_statistics_is_lost(stream: Stream, kafka_cluster: Cluster) -> None:
    for _ in rounds(1, 6):
        leader = leader_of(kafka_cluster.bootstrap, stream.here.topics["statistics"])
        kafka_cluster.kill(leader)
        stream.pause()
        wait_for_version(stream)
        kafka_cluster.start(leader)
        stream.wait_for_progress()
    check_every_record(stream, "leaders of the statistics lost", len(rounds(1, 6)))


def wait_for_version(stream: Stream) -> None:
    """Wait until another version is published and used."""
    version = max(stream.checker.seen.published)
    stream.wait(lambda: max(stream.checker.seen.published) > version, "new version")
    stream.wait_for_progress()


@pytest.mark.parametrize("how", ["silence", "cut"])
def test_a_worker_is_cut_off_and_returns(stream: Stream, kafka_cluster: Cluster, how: str) -> None:
    with Forwarder(detours(kafka_cluster)) as way:
        stream.fleet.worker("far", kafka={"bootstrap_servers": detoured(kafka_cluster)})
        stream.wait_for_masking("far")
        for number in rounds(2, 12):
            stream.pause(stream.random.uniform(0, WINDOW))
            getattr(way, how)()
            stream.pause(WINDOW if number % 2 else SESSION + 4)
            stream.wait_for_progress()
            way.mend()
            stream.pause(3 * WINDOW)
            stream.wait_for_progress()
        stream.fleet.terminate("far")
    check_every_record(stream, f"workers cut off by {how}", len(rounds(2, 12)))


LATE = (END_TXN, TXN_OFFSET_COMMIT, END_TXN, PRODUCE, END_TXN, ADD_PARTITIONS_TO_TXN, END_TXN, ADD_OFFSETS_TO_TXN)
"""The kinds of the late requests, in turn: every second one is the end of a transaction."""


def test_requests_of_a_worker_arrive_late_twice_and_in_another_order(stream: Stream, kafka_cluster: Cluster) -> None:
    """Pairs of requests outlive their connections, every second pair is also delivered at once."""
    with LateRequests(detours(kafka_cluster)) as way:
        stream.fleet.worker("far", kafka={"bootstrap_servers": detoured(kafka_cluster)})
        stream.wait_for_masking("far")
        for number in rounds(8, 120):
            for kind in (LATE[number % len(LATE)], END_TXN):
                way.hold(kind, repeat=number % 4 >= 2)
                stream.wait(lambda: way.holds(0), "late request")
            stream.pause(stream.random.uniform(0, WINDOW))
            way.release()
        stream.wait_for_progress()
        stream.fleet.terminate("far")
    check_every_record(stream, "pairs of late requests", len(rounds(8, 120)))
