"""A stream under load on three brokers: a publisher, workers and a calibrator as processes, and a checker."""

from __future__ import annotations

import math
import os
import random
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from fault_checker import Audit, Checker
from fault_load import PARTITIONS, Load
from kafka_broker import LOOPBACK, Cluster
from polling import attempts
from processes import PROGRAM, Processes
from workers import CODES, Setting, http_port, setting, wait

from stream_masker.service.kafka.topics import prepare_topics
from stream_masker.service.runtime.process import LATE_EXIT_CODE, STOP_LIMIT_SECONDS

LONG = os.environ.get("STREAM_MASKER_FAULTS") == "long"
"""Whether to run the long form, which repeats each fault often; the short form injects it once or a few times."""

ON_REQUEST = pytest.mark.skipif(
    "STREAM_MASKER_FAULTS" not in os.environ,
    reason="takes many minutes: set STREAM_MASKER_FAULTS to short or long",
)
"""Marks tests that take too long for every run."""

WINDOW = 1.0
"""Seconds that a fault lasts, if it does not need longer."""

RATE = float(os.environ.get("STREAM_MASKER_FAULTS_RATE", "500"))
"""Records published per second."""

WATCHDOG = f"Timeout (0:00:{STOP_LIMIT_SECONDS:.0f})!"
"""What the watchdog logs when a process has not stopped in time."""

SETTLING = 600.0
"""Seconds after which a state that has not come about is a failure, also on a busy machine."""

GRACE = 30.0
"""Seconds in which a pod has to end."""


def rounds(short: int, long: int) -> range:
    return range(long if LONG else short)


class Fleet:
    """The processes of a stream, by name. Each may be killed and restarted."""

    def __init__(self, here: Setting, processes: Processes) -> None:
        self.here = here
        self.processes = processes
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, list[str]] = {}
        self.kills = 0
        self.longest_end = 0.0

    def start(self, name: str, command: str = "worker", **sections: Any) -> None:
        """Start a process with the stream's configuration; ``sections``: changes to it."""
        path = self.here.folder / f"{name}.yaml"
        if sections or not path.exists():
            path.write_text(yaml.safe_dump(merged(self.here.data, sections)))
        log = f"{name}-{len(self.logs.setdefault(name, []))}"
        self.logs[name].append(log)
        process = self.processes.start(log, command, "--config", str(path), "--http-port", "0")
        self.running[name] = process

    def worker(self, name: str, **sections: Any) -> None:
        """Start a worker; without ``sections``, a worker that ran before keeps its configuration."""
        own = merged({"worker": {"instance": name}}, sections)
        self.start(name, **(own if sections or name not in self.logs else {}))

    def has_partitions(self, name: str) -> bool:
        """Whether the worker last started with this name has been assigned partitions."""
        return bool(re.search(r"partitions .*, now (?!none$)", self.log(name), re.MULTILINE))

    def has_masked(self, name: str) -> bool:
        """Whether the worker last started with this name has committed records."""
        return self.has_partitions(name) and self.metric(name, "records_in_total") > 0

    def metric(self, name: str, metric: str) -> float:
        """Return a metric of the worker last started with this name; 0 if it has none or does not answer."""
        try:
            return read_metric(self.port(name), metric)
        except OSError:
            return 0.0

    def port(self, name: str) -> int:
        """Return the HTTP port of the process last started with this name."""
        return http_port(self.processes, self.logs[name][-1])

    def log(self, name: str) -> str:
        return self.processes.log(self.logs[name][-1])

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()
        self.processes.running.remove(process)
        self.kills += 1

    def terminate(self, name: str) -> float:
        """End a process in order; return the seconds that it took to stop, without the end of the interpreter.

        On a busy machine the end of the interpreter may take longest; it is not part of the service. A process that its
        watchdog ends there is as one that was killed: infinite seconds.
        """
        process, start = self.running.pop(name), time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(SETTLING)
        assert code in (0, LATE_EXIT_CODE), self.log(name)
        self.longest_end = max(self.longest_end, time.monotonic() - start)
        self.processes.running.remove(process)
        if code:
            assert WATCHDOG in self.log(name), self.log(name)
            self.kills += 1
            return math.inf
        return seconds_between(self.log(name), "SIGTERM: stopping", (" left the group", " stopped"))

    def check_alive(self) -> None:
        """Fail if a process has ended by itself."""
        for name, process in self.running.items():
            assert process.poll() is None, f"{name} ended with {process.returncode}:\n{self.log(name)[-3000:]}"

    def every_log(self) -> Iterator[tuple[str, str]]:
        for logs in self.logs.values():
            for log in logs:
                yield log, self.processes.log(log)


def read_metric(port: int, metric: str) -> float:
    """Return a metric of the process that serves its metrics at this port; 0 if it does not exist."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=60) as answer:
        found = re.search(rf"^stream_masker_{metric}\S* (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def seconds_between(log: str, first: str, last: tuple[str, ...]) -> float:
    """Return the time between two lines of a log: the last one that ends with ``first``, and with one of ``last``."""
    start, end = (
        datetime.fromisoformat([line for line in log.splitlines() if line.endswith(text)][-1].split()[0])
        for text in (first, last)
    )
    return (end - start).total_seconds()


def merged(data: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
    """Return the data with the given keys of sections replaced."""
    both = {name: merged(data.get(name, {}), new) for name, new in sections.items() if isinstance(new, dict)}
    return {**data, **sections, **both}


class Stream:
    """A running stream with its load, checker, and fleet: processes or pods."""

    def __init__(self, cluster: Cluster, here: Setting, fleet: Any, load: Load, checker: Checker) -> None:
        self.cluster = cluster
        self.here = here
        self.fleet = fleet
        self.load = load
        self.checker = checker
        self.audit = Audit(checker, load.kinds)
        self.random = random.Random(7)

    def wait(self, reached: Callable[[], bool], what: str, timeout: float = SETTLING) -> None:
        """Wait until ``reached()``; fail at once on a violation or if a process has ended."""
        for _ in attempts(timeout):
            if reached():
                return
            self.check()
        raise AssertionError(f"no {what} after {timeout:.0f} s\n{self.tails()}")

    def check(self) -> None:
        self.checker.check()
        self.fleet.check_alive()

    def pause(self, seconds: float = WINDOW) -> None:
        """Wait for some seconds, and check meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.check()
            time.sleep(0.05)

    def wait_for_partitions(self, *names: str) -> None:
        """Wait until these workers have been assigned partitions."""
        for name in names:
            self.wait(lambda name=name: self.fleet.has_partitions(name), f"partitions of {name}")

    def wait_for_masking(self, *names: str) -> None:
        """Wait until these workers have committed records."""
        for name in names:
            self.wait(lambda name=name: self.fleet.has_masked(name), f"records masked by {name}")

    def wait_for_shares(self, *names: str) -> None:
        """Wait until each of these workers has a share of the partitions."""
        for name in names:
            self.wait(lambda name=name: self.fleet.metric(name, "assigned_partitions") > 0, f"share of {name}")

    def wait_for_progress(self, records: int = 200) -> None:
        """Wait until this many more records have an outcome."""
        goal = self.checker.settled + records
        self.wait(lambda: self.checker.settled >= goal, f"progress: {self.checker.settled} of {goal}")

    def settle(self) -> None:
        """Pause the load, wait until every record has an outcome, and audit them all."""
        with self.load.paused() as records:
            while self.checker.settled < records:
                self.wait_for_progress(1)
            self.pause(0.5)
            self.audit.run(records)

    def recover(self) -> None:
        """Start all brokers, wait for both workers' shares and for the outcome of every record, and audit them all."""
        self.cluster.heal()
        self.wait_for_shares("one", "two")
        self.settle()

    def tails(self) -> str:
        """Return the state of the stream and the ends of the logs of its processes."""
        seen = self.checker.seen
        missing = sorted(set(range(self.load.sent)) - seen.masked.keys() - seen.rejected.keys())
        state = f"{seen.settled} of {self.load.sent} settled, {len(missing)} missing: {missing[:20]}\n"
        return state + "\n".join(f"--- {name}\n{self.fleet.log(name)[-2500:]}" for name in self.fleet.running)


def stream_setting(cluster: Cluster, folder: Path) -> Setting:
    """Return a setting with small batches, statistics every two seconds, and short timeouts."""
    here = setting(cluster.bootstrap, folder)
    here.data["kafka"]["properties"] = {"session.timeout.ms": 6_000, "transaction.timeout.ms": 6_000}
    here.data |= {
        "message": {"key": "pseudonymize", "headers": ["n"]},
        "worker": {"batch_delay": 0.02, "batch_records": 400},
        "calibration": {
            "window_records": 2_000,
            "every_records": 500,
            "every_seconds": 2,
            "min_records": 200,
            "sampling": False,
        },
    }
    return here


@contextmanager
def running_stream(
    cluster: Cluster,
    folder: Path,
    *,
    program: tuple[str, ...] = PROGRAM,
    rate: float = RATE,
    mechanism: Mapping[str, Any] | None = None,
    worker: Mapping[str, Any] | None = None,
    **calibration: Any,
) -> Iterator[Stream]:
    """Run a stream with two workers and a calibrator, of the release ``program``; at the end their logs must be clean.

    ``rate``: records published per second. ``mechanism``, ``worker``, ``calibration``: settings of these sections.

    The kernels are compiled before the start, so that workers are not killed while they compile. The first version is
    published before it, unless the processes are of another release.
    """
    here = stream_setting(cluster, folder)
    here.data["calibration"] |= calibration
    here.data["worker"] |= worker or {}
    here.data["mechanism"] = here.data["mechanism"] if mechanism is None else dict(mechanism)
    if program == PROGRAM:
        here.data["topics"]["provenance"] = here.topics["drift"].replace("drift", "provenance")
    configuration = here.configuration()
    prepare_topics(configuration, partitions=PARTITIONS)
    if program == PROGRAM:
        here.publish(1)
    with ExitStack() as stack:
        fleet = Fleet(here, stack.enter_context(Processes(folder, program)))
        fleet.processes.told("prepare", "--config", str(here.path))
        hashes = [] if program == PROGRAM else [hash_of(fleet.processes, here)]
        checker = stack.enter_context(Checker(configuration, PARTITIONS, hashes))
        load = stack.enter_context(Load(here.bootstrap, here.topics["input"], rate))
        stream = Stream(cluster, here, fleet, load, checker)
        fleet.start("calibrator", "calibrator")
        fleet.worker("one", worker={"static_member": True})
        fleet.worker("two")
        stream.wait_for_masking("one", "two")
        yield stream
        for name, log in fleet.every_log():
            check_log(name, log)


def hash_of(processes: Processes, here: Setting) -> bytes:
    """Return the hash of the configuration in the release of the processes."""
    told = processes.told("config", "check", "--config", str(here.path))
    [found] = re.findall(r"\(hash ([0-9a-f]{16})\)", told)
    return str(found).encode()


def check_log(name: str, log: str) -> None:
    """Check that a log has no traceback and no value of a record."""
    assert "Traceback" not in log, f"{name}: {log[log.index('Traceback') :][:2000]}"
    for code in (*CODES, "Z99"):
        assert code not in log, f"{name} logs a code"


def detoured(cluster: Cluster) -> str:
    """Return the bootstrap address of the forwarder's ports."""
    return ",".join(f"{LOOPBACK}:{broker.ports.detour}" for broker in cluster.brokers.values())


def detours(cluster: Cluster) -> dict[int, int]:
    """Return the forwarder's ports with the brokers' ports behind them."""
    return {broker.ports.detour: broker.ports.behind for broker in cluster.brokers.values()}


__all__ = ["GRACE", "LONG", "ON_REQUEST", "Stream", "detoured", "detours", "rounds", "running_stream", "wait"]
