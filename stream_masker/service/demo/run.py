"""The demonstration from start to end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaException, Producer
from rich.console import Console

import stream_masker
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ServiceError
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.configuration.ontologies import load_ontologies
from stream_masker.service.demo.environment import (
    DemoEnvironment,
    computing_seconds,
    is_served,
    prepare_demo,
    readiness_text,
)
from stream_masker.service.demo.feed import EventFeed
from stream_masker.service.demo.options import DemoOptions
from stream_masker.service.demo.view import (
    DemoView,
    drift_of,
    print_plain,
    promise_line,
    version_lines,
    waiting_text,
)
from stream_masker.service.demo.watch import POLL_SECONDS, Observations, TopicWatcher
from stream_masker.service.kafka.topics import prepare_topics

PACKAGE_PARENT = Path(stream_masker.__file__).parents[1]
"""The folder that contains this package. Children import it from there, even if another copy is installed."""

CHILD = "stream_masker.service.demo.child"

TERMINATE_SECONDS = 0.1
"""The time to stop before a child is killed: nothing of the demonstration outlives it, so nothing is lost."""

SHOWN_LINES = 5


class ChildProcesses:
    """Runs ``stream-masker`` commands, each with its log in ``folder``; terminates them all on exit.

    They end also if this process is killed (``child``).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> ChildProcesses:
        return self

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start ``stream-masker NAME ARGUMENTS…``."""
        with self._log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-P", "-m", CHILD, name, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_child_environment(),
            )

    def check(self, *, finished: Sequence[str] = ()) -> None:
        """Raise ServiceError with the end of its log if a child has stopped; ``finished`` ones may exit with 0."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None and (code != 0 or name not in finished):
                raise ServiceError(f"{name} stopped with exit code {code}: {self._last_lines(name)}")

    def last_words(self) -> str:
        """Return the end of the log of every child."""
        return "; ".join(f"{name}: {self._last_lines(name)}" for name in self._running)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            _wait(process)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _last_lines(self, name: str) -> str:
        with self._log(name).open(errors="replace") as lines:
            return " | ".join(line.strip() for line in deque(lines, SHOWN_LINES)) or "no output"


def _child_environment() -> dict[str, str]:
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE_PARENT), *([path] if path else [])])}


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(TERMINATE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


START_SECONDS = 10.0


class EmbeddedBroker:
    """Context manager that runs the broker; ``address`` is its host:port while it is open.

    It supports consumer groups and transactions. It has no CreateTopics: topics are created on first use with four
    partitions. It does not hide aborted transactions from readers, and describes no topics, which noise by position
    needs.
    """

    def __enter__(self) -> EmbeddedBroker:
        self._client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "embedded", "log_level": 3})
        try:
            brokers = self._client.list_topics(timeout=START_SECONDS).brokers.values()
        except KafkaException:
            raise ServiceError("the embedded broker did not start; name one with --bootstrap-servers") from None
        self.address = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del self._client


STALL_SECONDS = 300.0
SETTLE_SECONDS = 180.0
"""The time without progress after which the demonstration fails, and after which it waits for statistics no longer.

A calibrator that has a twentieth of a core needs minutes for a version. While it computes one, that is no time without
progress.
"""

LOOK_SECONDS, MOST_COMPUTING_SECONDS = 5.0, 1800.0
"""How often the calibrator is looked at while there is no progress, and the longest time of a computation."""

NO_DRIFT = (
    "the drift is not shown: statistics of both halves of the run were not published in time, because this machine is "
    "busy; run it again"
)

HALF_COVERED, RUN_COVERED = 0.49, 0.98
"""The shares of the run that published statistics cover before the second half follows, and at the end."""


class NoProgressError(ServiceError):
    """The demonstration made no progress for ``STALL_SECONDS``."""


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """What a demonstration showed: as text, and as figures."""

    text: str
    figures: dict[str, Any]


def run_demo(options: DemoOptions, console: Console) -> DemoSummary:
    """Run all processes of the service on generated events until every event is accounted for.

    Raises ServiceError if a process stops, or for five minutes without progress and without computing statistics.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-masker-demo-")))
        servers = options.bootstrap_servers or _embedded(stack, console)
        environment = prepare_demo(
            folder,
            bootstrap_servers=servers,
            records=options.records,
            port=options.port,
            mechanism=options.mechanism,
        )
        print_plain(console, "preparing ICD-10-CM, which takes longer when this version runs for the first time")
        load_ontologies(environment.configuration)
        if options.bootstrap_servers:
            prepare_topics(environment.configuration)
        return _run_processes(options, environment, stack, console)


def _embedded(stack: ExitStack, console: Console) -> str:
    print_plain(console, "no --bootstrap-servers: using librdkafka's embedded in-memory broker, for trials only")
    return stack.enter_context(EmbeddedBroker()).address


def _run_processes(
    options: DemoOptions, environment: DemoEnvironment, stack: ExitStack, console: Console
) -> DemoSummary:
    watcher = TopicWatcher(environment.configuration)
    stack.callback(watcher.close)
    children = stack.enter_context(ChildProcesses(environment.folder))
    _start(environment, children)
    for name, port in (("calibrator", environment.calibrator_port), ("worker", environment.worker_port)):
        print_plain(console, f"{name}: http://127.0.0.1:{port}/metrics")
    start = time.monotonic()
    taxonomies = build_taxonomies(environment.configuration)
    observations = watcher.observations
    feed = EventFeed(environment.configuration, options, lambda: observations.outcomes)
    with feed, DemoView(console, options.records, taxonomies) as view:
        computing = partial(computing_seconds, environment.calibrator_port)
        try:
            _watch_until_done(watcher, children, feed, view, options.records, computing)
        except NoProgressError as error:
            raise ServiceError(f"{error}{_states(environment)}; {children.last_words()}") from None
    return _summary(observations, time.monotonic() - start, taxonomies, promise_line(environment.configuration))


def _states(environment: DemoEnvironment) -> str:
    """Say what the processes themselves give as the cause."""
    ports = {"calibrator": environment.calibrator_port, "worker": environment.worker_port}
    return "".join(f"; the {name} says: {readiness_text(port)}" for name, port in ports.items())


def _start(environment: DemoEnvironment, children: ChildProcesses) -> None:
    """Start the processes of the service, the worker last."""
    config = ["--config", str(environment.file)]
    children.start("calibrator", config)
    _await_metrics(children, environment.calibrator_port)
    children.start("worker", [*config, "--http-port", str(environment.worker_port)])
    _await_metrics(children, environment.worker_port)


def _await_metrics(children: ChildProcesses, port: int) -> None:
    """Wait until a process serves its metrics."""
    deadline = time.monotonic() + STALL_SECONDS
    while not is_served(port):
        children.check()
        if time.monotonic() > deadline:
            raise ServiceError(f"no /metrics after {STALL_SECONDS:.0f} s on port {port}; {children.last_words()}")
        time.sleep(POLL_SECONDS)


def _watch_until_done(
    watcher: TopicWatcher,
    children: ChildProcesses,
    feed: EventFeed,
    view: DemoView,
    records: int,
    computing: Callable[[], float],
) -> None:
    """Update the view until every record is masked or rejected, then until statistics of the run follow, or a time
    limit ends.

    ``computing``: returns the seconds that the calibrator has been at its present computation. Raises NoProgressError.
    """
    observations, counted = watcher.observations, 0
    progressed = looked = time.monotonic()
    while True:
        watcher.poll()
        children.check()
        feed.check()
        view.update(observations)
        now = time.monotonic()
        if (count := observations.progress) > counted:
            progressed, counted, observations.computing = now, count, 0.0
        elif now - max(progressed, looked) >= LOOK_SECONDS:
            looked, seconds = now, computing()
            observations.computing = seconds if seconds >= LOOK_SECONDS else 0.0
            if 0 < observations.computing < MOST_COMPUTING_SECONDS:
                progressed = now
        idle = now - progressed
        if observations.covered >= HALF_COVERED * records or idle > SETTLE_SECONDS:
            observations.keep_halfway()
            feed.open_second_half()
        if observations.outcomes >= records and (
            observations.covered >= RUN_COVERED * records or idle > SETTLE_SECONDS
        ):
            return
        if idle > STALL_SECONDS:
            raise NoProgressError(
                f"no progress for {STALL_SECONDS:.0f} s; {observations.outcomes:,} of {observations.produced:,} "
                f"published records were processed{waiting_text(observations)}"
            )


def _summary(
    observations: Observations, seconds: float, taxonomies: Mapping[str, Taxonomy], promise: str
) -> DemoSummary:
    version = 0 if observations.statistics is None else observations.statistics.version
    statistics, drift = version_lines(observations, taxonomies), drift_of(observations) or [NO_DRIFT]
    lines = [
        f"{observations.produced:,} events produced, {observations.masked:,} masked, "
        f"{observations.rejected.total():,} rejected: {observations.outcomes:,} accounted for, in {seconds:.1f} s",
        f"{version} statistics versions, the last one of {observations.covered:,} records",
        *statistics,
        *drift,
        f"promise: {promise}",
    ]
    figures = {
        "produced": observations.produced,
        "masked": observations.masked,
        "rejected": observations.rejected,
        "seconds": round(seconds, 1),
        "versions": version,
        "records": observations.covered,
        "statistics": statistics,
        "drift": drift,
        "promise": promise,
    }
    return DemoSummary("\n".join(lines), figures)
