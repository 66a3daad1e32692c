"""A broker that goes or hangs while a worker and calibrators run: /readyz says so, and they go on soon after it."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from kafka_broker import Cluster, KafkaUnavailableError, free_ports, running
from processes import Processes
from workers import Setting, get, http_port, setting

from stream_masker.service.calibrator.page.live import FORWARDED

NOTICED_SECONDS = 50
"""Less than the minute after which librdkafka gives up a request, and far more than the watch needs."""

GOES_ON_SECONDS = 120
"""Far more than librdkafka's pause between connections: other tests may keep the machine busy."""

PROCESSES = {"worker": "worker", "calibrator": "calibrator", "other": "calibrator"}
ACTIVE = "The active calibrator is at 127.0.0.1."
HELD = "no statistics yet: none are published"


def roles(said: Callable[[str], str]) -> set[bool]:
    """Return for the calibrators that are ready whether they stand by."""
    texts = (said(name) for name, command in PROCESSES.items() if command == "calibrator")
    return {"standby" in text for text in texts if "'ready': True" in text}


def page_of(port: int, query: str = "") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/?{query}", timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def ports_of(configurations: Mapping[str, Setting]) -> dict[str, int]:
    """Write the configurations of the processes. The port in that of a calibrator is the one of the other calibrator,
    as in pods, which all have the same port at different addresses. Return the ports of the processes."""
    ports = dict(zip(configurations, free_ports(len(configurations)), strict=True))
    others = {"worker": ports["worker"], "calibrator": ports["other"], "other": ports["calibrator"]}
    for name, one in configurations.items():
        one.configuration(http={"port": others[name]})
    return ports


def forwards(port: int) -> bool:
    """Return whether one that stands by shows the page of the active calibrator, and says on its own where that is."""
    return ACTIVE in page_of(port, FORWARDED) and ACTIVE not in page_of(port)


OUTAGES = ((Cluster.stop, Cluster.start), (Cluster.freeze, Cluster.thaw))
"""How a broker goes, and how it comes back. A frozen one keeps its connections and answers nothing."""


@pytest.mark.kafka
def test_readyz_names_a_broker_that_is_gone_until_it_is_back(tmp_path: Path) -> None:
    try:
        with running(tmp_path / "kafka", heap="384m") as cluster:
            here = setting(cluster.bootstrap, tmp_path)
            with Processes(tmp_path) as processes:
                processes.run("topics", "--config", str(here.path))
                configurations = {name: replace(here, file=f"{name}.yaml") for name in PROCESSES}
                ports = ports_of(configurations)
                for name, command in PROCESSES.items():
                    config = ("--config", str(configurations[name].path), "--http-port", str(ports[name]))
                    processes.start(name, command, *config)
                    http_port(processes, name)
                said = lambda name: str(get(ports[name], "/readyz"))  # noqa: E731
                gone = lambda: {name for name in PROCESSES if "no broker answers at" in said(name)}  # noqa: E731
                processes.wait(lambda: HELD in said("worker") and not gone(), "a worker that holds its input")
                for go, come_back in OUTAGES:
                    processes.wait(lambda: roles(said) == {True, False}, "an active calibrator and a standby")
                    processes.wait(
                        lambda: any(forwards(ports[name]) for name in PROCESSES if "standby" in said(name)),
                        "a standby that shows the page of the active calibrator",
                    )
                    start = time.monotonic()
                    go(cluster, 1)
                    processes.wait(lambda: gone() == PROCESSES.keys(), "the reason", NOTICED_SECONDS)
                    print(f"not ready after {time.monotonic() - start:.1f} s")
                    assert all("kafka.bootstrap_servers" in said(name) for name in PROCESSES)
                    assert all(get(port, "/readyz")[0] == 503 for port in ports.values())
                    come_back(cluster, 1)
                    start = time.monotonic()
                    processes.wait(lambda: not gone(), "processes that go on", GOES_ON_SECONDS)
                    print(f"connected {time.monotonic() - start:.1f} s after the broker is back")
                assert all(processes.log(name).count("Connection refused") < 20 for name in PROCESSES)
                processes.wait(lambda: roles(said) == {True, False}, "an active calibrator and a standby again")
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
