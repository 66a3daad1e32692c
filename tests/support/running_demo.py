"""The processes of the demonstration on its embedded broker, for tests that look at their endpoints."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from stream_masker.service.configuration import load_configuration
from stream_masker.service.demo.environment import DemoEnvironment, prepare_demo
from stream_masker.service.demo.options import DemoOptions
from stream_masker.service.demo.processes import ChildProcesses, embedded_broker
from stream_masker.service.demo.watch import TopicWatcher

EVENTS = 1_000_000
"""Far more events than a test processes before it ends."""

START_SECONDS = 600


@dataclass(frozen=True)
class RunningDemo:
    """A calibrator, a worker and a simulation of events that drift."""

    environment: DemoEnvironment
    children: ChildProcesses

    @property
    def ports(self) -> dict[str, int]:
        return self.environment.ports


@contextmanager
def running_demo(
    folder: Path, *, records: int, rate: int, drift_after: int, changes: Mapping[str, Any] | None = None
) -> Iterator[RunningDemo]:
    """Run the processes until the block ends.

    ``records``: for how many the demonstration chooses its window and its batches. ``rate``: of events per second.
    ``changes``: other sections of its configuration.
    """
    with ExitStack() as stack:
        broker = stack.enter_context(embedded_broker())
        environment = changed(prepare_demo(folder, broker, DemoOptions(records=records, port=0)), changes or {})
        TopicWatcher(environment.configuration).close()  # its requests create the topics
        children = stack.enter_context(ChildProcesses(folder))
        demo, config = RunningDemo(environment, children), ["--config", str(environment.file)]
        children.start("calibrator", config)
        children.start("worker", [*config, "--http-port", str(environment.worker_port)])
        await_served(demo)
        events = ["--synthetic", str(EVENTS), "--rate", str(rate), "--outbreak-after", str(drift_after)]
        children.start("produce", [*config, *events])
        yield demo


def changed(environment: DemoEnvironment, changes: Mapping[str, Any]) -> DemoEnvironment:
    content = yaml.safe_load(environment.file.read_text())
    content["calibration"] |= {"every_seconds": 3, "every_records": content["calibration"]["window_records"]}
    content |= changes
    content["http"] = {"port": environment.calibrator_port}
    environment.file.write_text(yaml.safe_dump(content, sort_keys=False))
    return replace(environment, configuration=load_configuration(environment.file, {}))


def is_served(port: int) -> bool:
    """Return whether a server accepts connections on a local port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def await_served(demo: RunningDemo) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not all(map(is_served, demo.ports.values())):
        demo.children.check()
        assert time.monotonic() < deadline
        time.sleep(0.1)
