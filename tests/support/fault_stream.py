"""A stream under load on three brokers: a publisher, workers and a calibrator as processes, and the checker."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, Producer
from fault_checker import Audit, Checker, numbered
from kafka_broker import LOOPBACK, Cluster
from kafka_records import QUIET
from processes import Processes
from workers import CODES, START, Setting, http_port, setting, value, wait

from stream_masker.service.kafka.topics import prepare_topics

LONG = os.environ.get("STREAM_MASKER_FAULTS") == "long"
"""Whether each fault is repeated as often as it takes to trust: minutes, where the short form takes seconds."""

ASKED = pytest.mark.skipif(
    "STREAM_MASKER_FAULTS" not in os.environ,
    reason="breaks things for many minutes: set STREAM_MASKER_FAULTS=short, or long",
)
"""For what takes too long to run each time."""

WINDOW = 1.0
"""Seconds that a fault lasts, unless it is one that has to last longer."""

PARTITIONS = 6
RATE = float(os.environ.get("STREAM_MASKER_FAULTS_RATE", "500"))
"""Records published a second."""

SETTLING = 180.0
GRACE = 30.0
"""Seconds that a pod has to end in."""

REJECTED = b'{"id": 1, "first": "Z99", "second": "C11"}'


def rounds(short: int, long: int) -> range:
    return range(long if LONG else short)


class Load:
    """Publishes numbered records in a thread: events, and now and then a code that is none, or a tombstone."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.kinds: dict[int, str] = {}
        self.errors: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 600_000,
                "linger.ms": 5,
                **QUIET,
            }
        )
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
        """Everything sent stands in the topic, and nothing is sent meanwhile; how many records that is."""
        self._paused.clear()
        self._go.clear()
        assert self._paused.wait(120), "the publisher cannot publish"
        assert not self.errors, self.errors[0]
        yield self.sent
        self._go.set()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            if not self._go.is_set():
                self._producer.flush(120)
                self._paused.set()
                self._go.wait()
                due = time.monotonic()
            for _ in range(max(1, int(RATE / 50))):
                self._send(self.sent)
                self.sent += 1
            self._producer.poll(0)
            due += max(1, int(RATE / 50)) / RATE
            time.sleep(max(0.0, due - time.monotonic()))

    def _send(self, number: int) -> None:
        self._producer.produce(
            self.topic,
            self._value(number),
            key=b"p%d" % (number % 7),
            partition=number % PARTITIONS,
            timestamp=START + number,
            headers=numbered(number),
            on_delivery=lambda error, _: self.errors.append(error) if error else None,
        )

    def _value(self, number: int) -> bytes | None:
        if number % 53 == 7:
            self.kinds[number] = "unknown_code"
            return REJECTED
        return None if number % 97 == 5 else value(number)


class Fleet:
    """The processes of a stream, by name; each may be killed and started again."""

    def __init__(self, here: Setting, processes: Processes) -> None:
        self.here = here
        self.processes = processes
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, list[str]] = {}
        self.kills = 0
        self.longest_end = 0.0

    def start(self, name: str, command: str = "worker", **sections: Any) -> None:
        """Starts a process under the stream's configuration, with some of its sections changed."""
        path = self.here.folder / f"{name}.yaml"
        if sections or not path.exists():
            path.write_text(yaml.safe_dump(merged(self.here.data, sections)))
        log = f"{name}-{len(self.logs.setdefault(name, []))}"
        self.logs[name].append(log)
        process = self.processes.start(log, command, "--config", str(path), "--http-port", "0")
        self.running[name] = process

    def worker(self, name: str, **sections: Any) -> None:
        """Starts a worker of this name; again under the configuration that it had, if none is given."""
        own = merged({"worker": {"instance": name}}, sections)
        self.start(name, **(own if sections or name not in self.logs else {}))

    def works(self, name: str) -> bool:
        """Whether a worker that was started last under this name has had partitions."""
        return bool(re.search(r"now \[\d", self.log(name)))

    def masks(self, name: str) -> bool:
        """Whether a worker that was started last under this name has committed records."""
        return self.works(name) and self.tells(name, "records_in_total") > 0

    def tells(self, name: str, metric: str) -> float:
        """A metric of the worker that was started last under this name; 0 while it has none, or does not answer."""
        try:
            return told(http_port(self.processes, self.logs[name][-1]), metric)
        except OSError:
            return 0.0

    def log(self, name: str) -> str:
        return self.processes.log(self.logs[name][-1])

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()
        self.processes.running.remove(process)
        self.kills += 1

    def terminate(self, name: str) -> float:
        """Ends a process in order; the seconds that it took to stop, without those of the interpreter's own end.

        On a busy machine the latter may take longer than all the rest, and tells nothing.
        """
        process, start = self.running.pop(name), time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SETTLING) == 0, self.log(name)
        self.longest_end = max(self.longest_end, time.monotonic() - start)
        self.processes.running.remove(process)
        return seconds_between(self.log(name), "SIGTERM: stopping", (" left the group", " stopped"))

    def alive(self) -> None:
        """Fails when a process has ended by itself."""
        for name, process in self.running.items():
            assert process.poll() is None, f"{name} ended with {process.returncode}:\n{self.log(name)[-3000:]}"

    def every_log(self) -> Iterator[tuple[str, str]]:
        for logs in self.logs.values():
            for log in logs:
                yield log, self.processes.log(log)


def told(port: int, metric: str) -> float:
    """The metric of the process that serves its metrics there; 0 if there is none."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=60) as answer:
        found = re.search(rf"^stream_masker_{metric}\S* (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def seconds_between(log: str, first: str, last: tuple[str, ...]) -> float:
    """The time between two lines of a log, each the last one that ends so, or in one of these ways."""
    start, end = (
        datetime.fromisoformat([line for line in log.splitlines() if line.endswith(text)][-1].split()[0])
        for text in (first, last)
    )
    return (end - start).total_seconds()


def merged(data: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
    """The data with single keys of sections replaced."""
    both = {name: merged(data.get(name, {}), new) for name, new in sections.items() if isinstance(new, dict)}
    return {**data, **sections, **both}


class Stream:
    """All of it, running."""

    def __init__(self, cluster: Cluster, here: Setting, fleet: Fleet, load: Load, checker: Checker) -> None:
        self.cluster = cluster
        self.here = here
        self.fleet = fleet
        self.load = load
        self.checker = checker
        self.audit = Audit(checker, load.kinds)
        self.random = random.Random(7)

    def wait(self, reached: Callable[[], bool], what: str, timeout: float = SETTLING) -> None:
        """Waits until ``reached``; fails at once when something is wrong."""
        deadline = time.monotonic() + timeout
        while not reached():
            self.holds()
            assert time.monotonic() < deadline, f"no {what} after {timeout:.0f} s\n{self.tails()}"
            time.sleep(0.05)

    def holds(self) -> None:
        self.checker.holds()
        self.fleet.alive()

    def pause(self, seconds: float = WINDOW) -> None:
        """Lets time pass, and checks."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.holds()
            time.sleep(0.05)

    def works(self, *names: str) -> None:
        """Waits until these workers have partitions."""
        for name in names:
            self.wait(lambda name=name: self.fleet.works(name), f"partitions of {name}")

    def masks(self, *names: str) -> None:
        """Waits until these workers have committed records."""
        for name in names:
            self.wait(lambda name=name: self.fleet.masks(name), f"records masked by {name}")

    def shares(self, *names: str) -> None:
        """Waits until each of these workers has a share of the partitions."""
        for name in names:
            self.wait(lambda name=name: self.fleet.tells(name, "assigned_partitions") > 0, f"share of {name}")

    def progresses(self, records: int = 200) -> None:
        """Waits until so many more records have their outcome."""
        goal = self.checker.settled + records
        self.wait(lambda: self.checker.settled >= goal, f"progress: {self.checker.settled} of {goal}")

    def settles(self) -> None:
        """Everything published so far gets its one outcome, however long that takes, and all that must hold does."""
        with self.load.paused() as records:
            while self.checker.settled < records:
                self.progresses(1)
            self.pause(0.5)
            self.audit.of(records)

    def tails(self) -> str:
        """The ends of the logs of what is running."""
        seen = self.checker.seen
        missing = sorted(set(range(self.load.sent)) - seen.masked.keys() - seen.rejected.keys())
        state = f"{seen.settled} of {self.load.sent} settled, {len(missing)} missing: {missing[:20]}\n"
        return state + "\n".join(f"--- {name}\n{self.fleet.log(name)[-2500:]}" for name in self.fleet.running)


def stream_setting(cluster: Cluster, folder: Path) -> Setting:
    """Small batches that follow each other closely, statistics every two seconds, and short time limits."""
    here = setting(cluster.bootstrap, folder)
    here.data["kafka"]["properties"] = {"session.timeout.ms": 6_000, "transaction.timeout.ms": 6_000}
    here.data |= {
        "message": {"key": "pseudonymize", "headers": ["n"]},
        "worker": {"batch_delay": 0.02, "batch_records": 400},
        "calibration": {"window_records": 2_000, "every_records": 500, "every_seconds": 2, "min_records": 200},
    }
    return here


@contextmanager
def running_stream(cluster: Cluster, folder: Path) -> Iterator[Stream]:
    """A stream with two workers and a calibrator for as long as the block runs; their logs must be clean.

    Their kernels are compiled before: a worker that is killed while it compiles has not been killed at work.
    """
    here = stream_setting(cluster, folder)
    configuration = here.configuration()
    prepare_topics(configuration, partitions=PARTITIONS)
    here.publish(1)
    with ExitStack() as stack:
        fleet = Fleet(here, stack.enter_context(Processes(folder)))
        fleet.processes.run("prepare", "--config", str(here.path))
        checker = stack.enter_context(Checker(configuration, PARTITIONS))
        load = stack.enter_context(Load(here.bootstrap, here.topics["input"]))
        stream = Stream(cluster, here, fleet, load, checker)
        fleet.start("calibrator", "calibrator")
        fleet.worker("one", worker={"static_member": True})
        fleet.worker("two")
        stream.masks("one", "two")
        yield stream
        for name, log in fleet.every_log():
            clean(name, log)


def clean(name: str, log: str) -> None:
    """No crash, and no value of any record."""
    assert "Traceback" not in log, f"{name}: {log[log.index('Traceback') :][:2000]}"
    for code in (*CODES, "Z99"):
        assert code not in log, f"{name} logs a code"


def detoured(cluster: Cluster) -> str:
    """The bootstrap address by the way that a forwarder takes."""
    return ",".join(f"{LOOPBACK}:{broker.ports.detour}" for broker in cluster.brokers.values())


def detours(cluster: Cluster) -> dict[int, int]:
    """What a forwarder forwards."""
    return {broker.ports.detour: broker.ports.behind for broker in cluster.brokers.values()}


__all__ = ["ASKED", "GRACE", "LONG", "Stream", "detoured", "detours", "rounds", "running_stream", "wait"]
