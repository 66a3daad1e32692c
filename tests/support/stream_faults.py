"""Single faults of a running stream. Each returns when the stream makes progress again."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from confluent_kafka import KafkaError, Producer
from fault_checker import GARBAGE, TIMESTAMP_OUT_OF_RANGE, leader_of
from fault_stream import WINDOW, Stream, detoured, detours
from forwarder import Forwarder
from kafka_broker import LOOPBACK
from kafka_records import QUIET, write
from late_requests import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    LateRequests,
)
from workers import START, get, value

from stream_masker.service.observability.http_access import MAX_CONNECTIONS

SESSION = 6.0
"""Seconds after which the group removes a worker that is silent."""

WORKERS = ("one", "two")
BROKERS = (1, 2, 3)

HOSTILE_RECORDS = 12
BLANKS = 60 * 2**20
GARBAGE_MESSAGES = 20_000

LATE = (END_TXN, TXN_OFFSET_COMMIT, END_TXN, PRODUCE, END_TXN, ADD_PARTITIONS_TO_TXN, END_TXN, ADD_OFFSETS_TO_TXN)
"""The kinds of the late requests, in turn: every second one is the end of a transaction."""


def kill_worker(stream: Stream, name: str) -> None:
    stream.pause(stream.random.uniform(0, WINDOW))
    stream.fleet.kill(name)
    stream.pause()
    stream.fleet.worker(name)


def terminate_worker(stream: Stream, name: str) -> float:
    """End a worker in order and start it again; return the seconds that it took to stop."""
    stream.wait_for_masking(name)
    stream.pause(stream.random.uniform(0, WINDOW))
    seconds = stream.fleet.terminate(name)
    stream.pause()
    stream.fleet.worker(name)
    return seconds


def lose_broker(stream: Stream, how: str, broker: int) -> None:
    """Kill or stop a broker, and start it again."""
    getattr(stream.cluster, how)(broker)
    stream.pause()
    stream.cluster.start(broker)
    stream.wait_for_progress()


def sleep_past_session(stream: Stream, name: str) -> None:
    stream.wait_for_masking(name)
    asleep = stream.fleet.running[name]
    asleep.send_signal(signal.SIGSTOP)
    try:
        stream.pause(SESSION + 2)
        stream.wait_for_progress()
    finally:
        asleep.send_signal(signal.SIGCONT)
    stream.wait_for_progress()


def come_and_go(stream: Stream) -> None:
    """Add a third worker, and end it."""
    stream.fleet.worker("three")
    stream.wait_for_masking("three")
    stream.pause()
    stream.fleet.terminate("three")
    stream.wait_for_progress()


def kill_calibrator(stream: Stream) -> None:
    stream.fleet.kill("calibrator")
    stream.pause()
    stream.fleet.start("calibrator", "calibrator")
    wait_for_version(stream)


def lose_statistics_leader(stream: Stream) -> None:
    leader = leader_of(stream.cluster.bootstrap, stream.here.topics["statistics"])
    stream.cluster.kill(leader)
    stream.pause()
    wait_for_version(stream)
    stream.cluster.start(leader)
    stream.wait_for_progress()


def wait_for_version(stream: Stream) -> None:
    """Wait until another version is published and used."""
    version = max(stream.checker.seen.published)
    stream.wait(lambda: max(stream.checker.seen.published) > version, "new version")
    stream.wait_for_progress()


def cut_off(stream: Stream, how: str, rounds: range) -> None:
    """Add a worker whose connections are silenced or cut, every second time for longer than its session."""
    with Forwarder(detours(stream.cluster)) as way:
        stream.fleet.worker("far", kafka={"bootstrap_servers": detoured(stream.cluster)})
        stream.wait_for_masking("far")
        for number in rounds:
            stream.pause(stream.random.uniform(0, WINDOW))
            getattr(way, how)()
            stream.pause(WINDOW if number % 2 else SESSION + 4)
            stream.wait_for_progress()
            way.mend()
            stream.pause(3 * WINDOW)
            stream.wait_for_progress()
        stream.fleet.terminate("far")


def late_requests(stream: Stream, rounds: range) -> None:
    """Add a worker. Pairs of its requests outlive their connections; every second pair is also delivered at once."""
    with LateRequests(detours(stream.cluster)) as way:
        stream.fleet.worker("far", kafka={"bootstrap_servers": detoured(stream.cluster)})
        stream.wait_for_masking("far")
        for number in rounds:
            for kind in (LATE[number % len(LATE)], END_TXN):
                way.hold(kind, repeat=number % 4 >= 2)
                stream.wait(lambda: way.holds(0), "late request")
            stream.pause(stream.random.uniform(0, WINDOW))
            way.release()
        stream.wait_for_progress()
        stream.fleet.terminate("far")


def reject_records(stream: Stream, value: bytes, reason: str) -> None:
    """Publish records that take much memory, or many steps, and are rejected."""
    stream.load.send_hostile(value, reason, HOSTILE_RECORDS)
    stream.wait_for_progress()


def refuse_records(stream: Stream) -> None:
    """Publish events with a timestamp that the output does not take."""
    stream.here.alter("output", message_timestamp_before_max_ms=str(7 * 24 * 3_600_000))
    stream.load.send_hostile(value(1), TIMESTAMP_OUT_OF_RANGE, 2, timestamp=START - 30 * 24 * 3_600_000)
    stream.wait_for_progress()


def send_bombs(stream: Stream) -> None:
    """Publish batches of 2 kB that become 60 MiB; the broker must refuse each."""
    properties = {"compression.type": "zstd", "message.max.bytes": 2 * BLANKS, "message.timeout.ms": 600_000}
    refusals: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": stream.here.bootstrap, **properties, **QUIET})
    for _ in range(HOSTILE_RECORDS):
        producer.produce(
            stream.here.topics["input"], b" " * BLANKS, on_delivery=lambda error, _: refusals.append(error)
        )
        stream.wait(lambda: producer.flush(0.1) == 0, "answer to a bomb")
    assert [error and error.code() for error in refusals] == [KafkaError.MSG_SIZE_TOO_LARGE] * HOSTILE_RECORDS
    stream.wait_for_progress()


def connect_slowly(stream: Stream) -> None:
    """Open more connections to a worker than it serves, each with half a request; its probe must be answered."""
    port = stream.fleet.port(stream.random.choice(WORKERS))
    with ExitStack() as stack:
        for _ in range(2 * MAX_CONNECTIONS):
            slow = stack.enter_context(socket.create_connection((LOOPBACK, port), timeout=60))
            slow.sendall(b"GET /metrics HTTP/1.0\r\n")
        status, _ = get(port, "/healthz")
        assert status == 200
        stream.wait_for_progress()


def litter(stream: Stream, role: str) -> None:
    """Publish messages on an internal topic that no process of the stream has written."""
    garbage = [{"key": GARBAGE, "value": b"%d" % number} for number in range(GARBAGE_MESSAGES)]
    write(stream.here.bootstrap, stream.here.topics[role], garbage)
    wait_for_version(stream)


def of_any(fault: Callable[[Stream, str], object], stream: Stream) -> None:
    """Inject a fault into one of the workers."""
    fault(stream, stream.random.choice(WORKERS))


def of_any_broker(how: str, stream: Stream) -> None:
    lose_broker(stream, how, stream.random.choice(BROKERS))


FAULTS: Mapping[str, Callable[[Stream], None]] = {
    "worker killed": partial(of_any, kill_worker),
    "worker terminated": partial(of_any, terminate_worker),
    "worker asleep past its session": partial(of_any, sleep_past_session),
    "worker came and went": come_and_go,
    "worker silenced": lambda stream: cut_off(stream, "silence", range(2)),
    "worker cut off": lambda stream: cut_off(stream, "cut", range(2)),
    "late requests": lambda stream: late_requests(stream, range(4)),
    "broker killed": partial(of_any_broker, "kill"),
    "broker stopped": partial(of_any_broker, "stop"),
    "calibrator killed": kill_calibrator,
    "leader of the statistics lost": lose_statistics_leader,
    "records of blanks": lambda stream: reject_records(stream, b" " * 900_000, "not_json"),
    "records that nest": lambda stream: reject_records(stream, b"[" * 900_000, "too_deep"),
    "records that the output refuses": refuse_records,
    "batches that grow": send_bombs,
    "slow connections": connect_slowly,
    "garbage among the statistics": partial(litter, role="statistics"),
    "garbage among the blocks": partial(litter, role="calibration"),
}
"""Every kind of fault, by name, for streams that choose at random."""
