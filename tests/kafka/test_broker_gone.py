"""A broker that goes or hangs while a worker and calibrators run: /readyz says so, and they go on soon after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_broker import Cluster
from service import Service, service, wait

NOTICED_SECONDS = 50
"""Less than the minute after which librdkafka gives up a request, and far more than the processes need."""

GOES_ON_SECONDS = 120
"""Far more than librdkafka's pause between connections: other tests may keep the machine busy."""

COMMANDS = {"worker": "worker", "one": "calibrator", "other": "calibrator"}
GONE = "no broker answers at"

OUTAGES = ((Cluster.stop, Cluster.start), (Cluster.freeze, Cluster.thaw))
"""How a broker goes, and how it comes back. A frozen one keeps its connections and answers nothing."""


@pytest.fixture
def here(lone_broker: Cluster, tmp_path: Path) -> Iterator[Service]:
    made = service(lone_broker.bootstrap, tmp_path)
    made.create()
    yield made
    made.end()


def test_readyz_names_a_broker_that_is_gone_until_it_is_back(lone_broker: Cluster, here: Service) -> None:
    worker, one, other = (here.start(command, name) for name, command in COMMANDS.items())
    every = {worker.name: worker, one.name: one, other.name: other}
    gone = lambda: {name for name, process in every.items() if process.says(GONE)}  # noqa: E731
    shared = lambda: one.ready() and other.ready() and one.says("standby") != other.says("standby")  # noqa: E731
    worker.wait(lambda: worker.says("no statistics yet") and not gone(), "a worker that holds its input")
    for go, come_back in OUTAGES:
        wait(shared, "an active calibrator and a standby")
        go(lone_broker, 1)
        wait(lambda: gone() == every.keys(), "the reason", NOTICED_SECONDS)
        assert all(process.says("kafka.bootstrap_servers") for process in every.values())
        assert not any(process.ready() for process in every.values())
        come_back(lone_broker, 1)
        wait(lambda: not gone(), "processes that go on", GOES_ON_SECONDS)
    wait(shared, "an active calibrator and a standby again")
    assert all(process.log.count("Connection refused") < 20 for process in every.values())
    assert [process.stop() for process in every.values()] == [0, 0, 0]
