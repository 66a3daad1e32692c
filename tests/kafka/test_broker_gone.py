"""A broker that is not there, goes or hangs: processes wait for it and say so, and go on soon after it is back."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_broker import Cluster
from service import Service, service, wait

COMMANDS = {"worker": "worker", "one": "calibrator", "other": "calibrator"}

OUTAGE_SECONDS = 12
"""Longer than the session of a member of a group."""

OUTAGES = ((Cluster.stop, Cluster.start), (Cluster.freeze, Cluster.thaw))
"""How a broker goes, and how it comes back. A frozen one keeps its connections and answers nothing."""


@pytest.fixture
def here(lone_broker: Cluster, tmp_path: Path) -> Iterator[Service]:
    made = service(lone_broker.bootstrap, tmp_path)
    made.create()
    yield made
    made.end()


def test_processes_go_on_after_a_broker_is_back(lone_broker: Cluster, here: Service) -> None:
    worker, one, other = every = [here.start(command, name) for name, command in COMMANDS.items()]
    shared = lambda: one.ready() and other.ready() and one.says("standby") != other.says("standby")  # noqa: E731
    for number, (go, come_back) in enumerate(OUTAGES):
        wait(shared, "an active calibrator and a standby")
        go(lone_broker, 1)
        time.sleep(OUTAGE_SECONDS)
        come_back(lone_broker, 1)
        here.produce(range(300 * number, 300 * (number + 1)))
        worker.wait(lambda: worker.metric("records_in_total") == 300 * (number + 1), "all records")  # noqa: B023
    assert all(process.log.count("Connection refused") < 20 for process in every)
    assert [process.stop() for process in every] == [0, 0, 0]


def test_the_command_waits_for_a_broker_and_reports_it(tmp_path: Path) -> None:
    worker = service("127.0.0.1:1", tmp_path).start("worker")
    worker.wait(lambda: worker.says("no broker answers"), "the reason")
    assert worker.get("/healthz")[0] == 200
    worker.signal(signal.SIGINT)
    worker.process.join(60)
    assert worker.process.exitcode == 0
