"""A stream under load: a publisher, workers and a calibrator as processes, and a checker that reads what they commit.

Records carry a number in the header ``n``. Of P partitions, partition p holds the numbers p, p + P, p + 2P, … in this
order, so each number corresponds to an offset.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from kafka_broker import LOOPBACK, Cluster
from kafka_records import QUIET, Record, as_record, read_all, reader
from polling import attempts
from service import CODES, CONCEPTS, START, Process, Service, merged, service, value

LONG = os.environ.get("STREAM_MASKER_FAULTS") == "long"
"""Whether to run the long form, which repeats each fault often; the short form injects it once or a few times."""

ON_REQUEST = pytest.mark.skipif(
    "STREAM_MASKER_FAULTS" not in os.environ, reason="takes many minutes: set STREAM_MASKER_FAULTS to short or long"
)
PARTITIONS = 6
RATE = float(os.environ.get("STREAM_MASKER_FAULTS_RATE", "500"))
"""Records published per second."""

SETTLING = 600.0
"""Seconds after which a state that has not come about is a failure, also on a busy machine."""

FIELDS = {"id", "patient", "first", "second"}
PATIENT = re.compile(rb'"p[0-6]"')
"""The id of a patient, as a text in JSON."""

CHANGES = {
    "kafka": {"properties": {"session.timeout.ms": 6_000, "transaction.timeout.ms": 6_000}},
    "message": {"key": "pseudonymize", "headers": ["n"]},
    "worker": {"batch_delay": 0.02, "batch_records": 400},
    "calibration": {"window_records": 2_000, "every_records": 500, "every_seconds": 2, "min_records": 200},
}


class Load:
    """Publishes numbered records on a thread: mostly events, some with an unknown code, some tombstones."""

    def __init__(self, stream: Service, rate: float) -> None:
        self.topic, self.rate, self.sent = stream.topics["input"], rate, 0
        self.rejected: set[int] = set()
        self.errors: list[KafkaError] = []
        properties = {"enable.idempotence": True, "message.timeout.ms": 600_000, "linger.ms": 5, **QUIET}
        self._producer = Producer({"bootstrap.servers": stream.bootstrap, **properties})
        self._stop, self._go, self._paused = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        self._go.set()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._go.set()
        self._thread.join(30)

    @contextmanager
    def paused(self) -> Iterator[int]:
        """Pause the publisher when all its records are in the topic; yields their number."""
        self._paused.clear()
        self._go.clear()
        assert self._paused.wait(120), "the publisher cannot publish"
        assert not self.errors, self.errors[0]
        yield self.sent
        self._go.set()

    def _run(self) -> None:
        due, burst = time.monotonic(), max(1, int(self.rate / 50))
        while not self._stop.is_set():
            if not self._go.is_set():
                self._producer.flush(120)
                self._paused.set()
                self._go.wait()
                due = time.monotonic()
            for _ in range(burst):
                self._send(self.sent)
                self.sent += 1
            self._producer.poll(0)
            due += burst / self.rate
            time.sleep(max(0.0, due - time.monotonic()))

    def _send(self, number: int) -> None:
        content = None if number % 97 == 5 else value(number)
        if number % 53 == 7:
            content = b'{"id": 1, "first": "Z99", "second": "C11"}'
            self.rejected.add(number)
        self._producer.produce(
            self.topic,
            content,
            key=b"p%d" % (number % 7),
            partition=number % PARTITIONS,
            timestamp=START + number,
            headers=[("n", b"%d" % number)],
            on_delivery=lambda error, _: self.errors.append(error) if error else None,
        )


class Checker:
    """Reads the committed records on a thread, and collects violations: two outcomes, another order, raw content."""

    def __init__(self, stream: Service) -> None:
        self.stream = stream
        self.masked: dict[int, Record] = {}
        self.rejected: dict[int, str] = {}
        self.versions: list[int] = []
        self.violations: list[str] = []
        self._last: dict[tuple[str, int], int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checker", daemon=True)

    def __enter__(self) -> Checker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def settled(self) -> int:
        """The number of records with an outcome."""
        return len(self.masked) + len(self.rejected)

    def _run(self) -> None:
        topics = self.stream.topics
        handlers = {
            topics["output"]: self._on_masked,
            topics["rejected"]: self._on_rejected,
            topics["statistics"]: self._on_version,
        }
        consumer = reader(self.stream.bootstrap, *handlers)
        while not self._stop.is_set():
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    handlers[message.topic()](as_record(message))
        consumer.close()

    def _on_masked(self, record: Record) -> None:
        number = int(record.headers["n"])
        self._settle(number, record, record.partition)
        self.masked[number] = record
        self.violations.extend(f"record {number}: {wrong}" for wrong in masking_errors(record))

    def _on_rejected(self, record: Record) -> None:
        rejection = record.json
        number = rejection["partition"] + PARTITIONS * rejection["offset"]
        self._settle(number, record, rejection["partition"])
        self.rejected[number] = rejection["reason"]

    def _on_version(self, record: Record) -> None:
        if record.value is not None and record.key.isdigit():
            if self.versions and int(record.key) <= self.versions[-1]:
                self.violations.append(f"statistics version {int(record.key)} comes after {self.versions[-1]}")
            self.versions.append(int(record.key))

    def _settle(self, number: int, record: Record, partition: int) -> None:
        """Note the outcome of a record: the only one, in the order of its partition."""
        topic = record.topic
        if number in self.masked or number in self.rejected:
            first = self.masked[number].offset if number in self.masked else "a rejection"
            self.violations.append(f"record {number} has two outcomes: {first}, and offset {record.offset} of {topic}")
        if number % PARTITIONS != partition:
            self.violations.append(f"record {number} is in partition {partition}")
        if number <= self._last.get((topic, partition), -1):
            self.violations.append(f"record {number} comes after {self._last[topic, partition]}")
        self._last[topic, partition] = number


def masking_errors(record: Record) -> Iterator[str]:
    """Yield the signs that a record is not completely masked."""
    if not {"stream-masker-version", "stream-masker-configuration"} <= record.headers.keys():
        yield "its headers do not state the masking"
    if record.key is None or len(record.key) < 8:
        yield "its key is not masked"
    if record.value is None:
        return
    event = record.json
    if set(event) != FIELDS or set(event["patient"]) != {"id"} or len(event["patient"]["id"]) < 8:
        yield "it has other fields, or its patient is not masked"
    if not {event["first"], event["second"]} <= CONCEPTS:
        yield "its codes are not in the ontology"


class Stream:
    """A running stream with its load and checker, and its processes by name."""

    def __init__(self, cluster: Cluster, stream: Service, load: Load, checker: Checker) -> None:
        self.cluster, self.service, self.load, self.checker = cluster, stream, load, checker
        self.running: dict[str, Process] = {}
        self.audited = 0

    def start(self, name: str, command: str = "worker", **sections: object) -> None:
        self.running[name] = self.service.start(command, name, **sections)

    def end(self, name: str, how: str) -> None:
        """End a process: ``kill`` or ``stop``."""
        assert getattr(self.running.pop(name), how)() in {0, None}

    @property
    def tails(self) -> str:
        """The ends of the logs of all processes."""
        return "\n".join(f"--- {name}\n{process.log[-5000:]}" for name, process in self.running.items())

    def check(self) -> None:
        """Fail on a violation, or if a process has ended by itself."""
        violations = self.checker.violations
        assert self.checker.is_alive, "the checker has ended"
        assert not violations, f"{len(violations)} violations: {violations[:5]}\n{self.tails}"
        for name, process in self.running.items():
            assert process.process.is_alive(), f"{name} ended:\n{process.log[-3000:]}"

    def wait(self, reached: Callable[[], bool], what: str) -> None:
        for _ in attempts(SETTLING):
            if reached():
                return
            self.check()
        raise AssertionError(f"no {what} after {SETTLING:.0f} s\n{self.tails}")

    def wait_for_masking(self, *names: str) -> None:
        """Wait until these workers have committed records."""
        for name in names:
            self.wait(lambda name=name: self.running[name].metric("records_in_total") > 0, f"records masked by {name}")

    def wait_for_progress(self, records: int = 200) -> None:
        """Wait until this many more records have an outcome."""
        goal = self.checker.settled + records
        self.wait(lambda: self.checker.settled >= goal, f"progress: {self.checker.settled} of {goal}")

    def wait_for_version(self) -> None:
        """Wait until another version is published."""
        before = len(self.checker.versions)
        self.wait(lambda: len(self.checker.versions) > before, "new version")

    def audit(self) -> int:
        """Start all brokers, pause the load, wait for every outcome, and check them all; return how many there are."""
        self.cluster.heal()
        with self.load.paused() as records:
            self.wait(lambda: self.checker.settled >= records, f"outcome of {records} records")
            time.sleep(0.5)
            self.check()
            assert self.checker.masked.keys() | self.checker.rejected.keys() == set(range(records))
            assert self.checker.rejected == dict.fromkeys(self.load.rejected, "unknown_code")
            used = {int(record.headers["stream-masker-version"]) for record in self.checker.masked.values()}
            assert used <= set(self.checker.versions), "masked under a version that was never published"
            self._check_aborted()
            self._check_same_bytes(records)
        self.audited = records
        return records

    def _check_aborted(self) -> None:
        """Records of aborted transactions are masked, too."""
        for role in ("output", "rejected", "calibration"):
            for record in read_all(self.service.bootstrap, self.service.topics[role], isolation="read_uncommitted"):
                assert not PATIENT.search(record.value or b""), f"raw content on {role}"

    def _check_same_bytes(self, records: int) -> None:
        """Masked again under the version that they name, some records of each partition are the same to the byte."""
        latest = [word for p in range(PARTITIONS) for word in ("--offset", f"{p}:{(records - 1 - p) // PARTITIONS}")]
        told = self.service.command("audit", *latest).output.splitlines()
        assert [": matches: " in line for line in told] == [True] * PARTITIONS, told


@contextmanager
def running_stream(cluster: Cluster, folder: Path, rate: float = RATE) -> Iterator[Stream]:
    """Run a stream with two workers and a calibrator; at the end their logs must be clean."""
    made = service(cluster.bootstrap, folder)
    made.data = merged(made.data, CHANGES)
    made.create(PARTITIONS)
    made.publish()
    with ExitStack() as stack:
        stack.callback(made.end)
        checker = stack.enter_context(Checker(made))
        load = stack.enter_context(Load(made, rate))
        stream = Stream(cluster, made, load, checker)
        stream.start("calibrator", "calibrator")
        stream.start("one")
        stream.start("two")
        stream.wait_for_masking("one", "two")
        yield stream
        assert "Traceback" not in made.logs()
        assert not [code for code in (*CODES, "Z99") if code in made.logs()]


def detoured(cluster: Cluster) -> str:
    """Return the bootstrap address of the forwarder's ports."""
    return ",".join(f"{LOOPBACK}:{broker.detour}" for broker in cluster.ports.values())


def detours(cluster: Cluster) -> dict[int, int]:
    """Return the forwarder's ports with the brokers' ports behind them."""
    return {broker.detour: broker.behind for broker in cluster.ports.values()}
