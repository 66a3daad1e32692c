"""Exactly-once processing during faults under load on three brokers, checked during each fault and after it.

``STREAM_MASKER_FAULTS=short`` injects each fault a few times, ``long`` often; ``-s`` prints how often. The soak injects
faults at random for ``STREAM_MASKER_SOAK_MINUTES``: by default two hours in the long form, five minutes in the short.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from forwarder import END_TXN, OF_A_TRANSACTION, Forwarder
from kafka_broker import Cluster
from stream import LONG, ON_REQUEST, Stream, detoured, detours, running_stream

MINUTES = float(os.environ.get("STREAM_MASKER_SOAK_MINUTES", "120" if LONG else "5"))
SESSION = 6.0
WORKERS, BROKERS = ("one", "two"), (1, 2, 3)
RATES = (20.0, 200.0, 500.0)
"""Records per second of a phase of the soak."""

ROLLING_LIMIT = 15.0
"""Seconds without a commit that the restart of one of three brokers may cost."""

pytestmark = [ON_REQUEST, pytest.mark.faults, pytest.mark.timeout(60 * MINUTES + 7200)]


@pytest.fixture(scope="module")
def stream(three_brokers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stream]:
    with running_stream(three_brokers, tmp_path_factory.mktemp("stream")) as running:
        yield running


def replace_worker(stream: Stream, how: str) -> None:
    name = random.choice(WORKERS)
    stream.wait_for_masking(name)
    stream.end(name, how)
    stream.start(name)
    stream.wait_for_progress()


def sleep_past_session(stream: Stream) -> None:
    asleep = stream.running[random.choice(WORKERS)]
    asleep.signal(signal.SIGSTOP)
    try:
        time.sleep(SESSION + 2)
    finally:
        asleep.signal(signal.SIGCONT)
    stream.wait_for_progress()


def come_and_go(stream: Stream) -> None:
    stream.start("three")
    stream.wait_for_masking("three")
    stream.end("three", "stop")
    stream.wait_for_progress()


def kill_calibrator(stream: Stream) -> None:
    stream.end("calibrator", "kill")
    stream.start("calibrator", "calibrator")
    stream.wait_for_version()
    stream.wait_for_progress()


def lose_broker(stream: Stream, how: str) -> None:
    broker = random.choice(BROKERS)
    getattr(stream.cluster, how)(broker)
    time.sleep(1.0)
    stream.cluster.start(broker)
    stream.wait_for_progress()


def freeze_broker(stream: Stream) -> None:
    broker = random.choice(BROKERS)
    stream.cluster.freeze(broker)
    time.sleep(SESSION)
    stream.cluster.thaw(broker)
    stream.wait_for_progress()


@contextmanager
def far_worker(stream: Stream) -> Iterator[Forwarder]:
    """Add a worker behind a forwarder, which stops in order when the block ends."""
    with Forwarder(detours(stream.cluster)) as way:
        stream.start("far", kafka={"bootstrap_servers": detoured(stream.cluster)})
        stream.wait_for_masking("far")
        yield way
        stream.wait_for_progress()
        stream.end("far", "stop")


def cut_off(stream: Stream, how: str) -> None:
    """Add a worker whose connections are silenced or cut, for longer than its session."""
    with far_worker(stream) as way:
        getattr(way, how)()
        time.sleep(SESSION + 4)
        stream.wait_for_progress()
        way.mend()


def late_requests(stream: Stream) -> None:
    """Add a worker. Pairs of its requests outlive their connections; every second pair is also delivered at once."""
    with far_worker(stream) as way:
        for number, kind in enumerate(OF_A_TRANSACTION):
            for held in (kind, END_TXN):
                way.hold(held, repeat=number % 4 >= 2)
                stream.wait(lambda: way.holds(0), "late request")
            way.release()


FAULTS: dict[str, Callable[[Stream], None]] = {
    "worker killed": lambda stream: replace_worker(stream, "kill"),
    "worker stopped": lambda stream: replace_worker(stream, "stop"),
    "worker asleep past its session": sleep_past_session,
    "worker came and went": come_and_go,
    "calibrator killed": kill_calibrator,
    "broker killed": lambda stream: lose_broker(stream, "kill"),
    "broker stopped": lambda stream: lose_broker(stream, "stop"),
    "broker frozen": freeze_broker,
    "worker silenced": lambda stream: cut_off(stream, "silence"),
    "worker cut off": lambda stream: cut_off(stream, "cut"),
    "late requests": late_requests,
}
TIMES = {"worker killed": (8, 30), "broker killed": (3, 15), "broker stopped": (3, 15)}
"""How often a fault is injected in the short and the long form; the others: once and six times."""


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_doubled_reordered_or_raw(stream: Stream, fault: str) -> None:
    times = TIMES.get(fault, (1, 6))[LONG]
    for _ in range(times):
        FAULTS[fault](stream)
    print(f"\n{fault}: {times}; {stream.audit()} records audited, {len(stream.checker.versions)} versions")


def test_a_rolling_restart_of_the_brokers_stops_the_stream_for_seconds_only(stream: Stream) -> None:
    longest = 0.0
    for broker in BROKERS:
        stream.cluster.stop(broker)
        start = time.monotonic()
        stream.wait_for_progress(1)
        longest = max(longest, time.monotonic() - start)
        stream.cluster.start(broker)
        stream.wait_for_progress(1_000)
    print(f"\nlongest pause {longest:.1f} s; {stream.audit()} records audited")
    assert longest < ROLLING_LIMIT


def test_soak(three_brokers: Cluster, tmp_path: Path) -> None:
    """Phases begin until the time is over, each a stream of its own. A failure names the seed of the faults."""
    seed = secrets.randbelow(1 << 32)
    random.seed(seed)
    end, faults, records, phases = time.monotonic() + 60 * MINUTES, Counter[str](), 0, 0
    while time.monotonic() < end:
        folder = tmp_path / f"phase-{phases}"
        folder.mkdir()
        three_brokers.heal()
        with running_stream(three_brokers, folder, RATES[phases % len(RATES)]) as stream:
            for name in random.choices(list(FAULTS), k=8):
                print(f"seed {seed}, phase {phases}: {name}", flush=True)
                FAULTS[name](stream)
                faults[name] += 1
            records, phases = records + stream.audit(), phases + 1
    print(f"{phases} phases, {records} records, {faults.total()} faults, 0 lost, 0 twice, 0 raw: {dict(faults)}")
    assert records
