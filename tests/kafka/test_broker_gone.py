"""A broker that goes and comes back while a worker runs: /readyz says so, and the worker goes on soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kafka_broker import KafkaUnavailableError, running
from processes import Processes
from workers import get, http_port, setting

GOES_ON_SECONDS = 30
"""More than librdkafka's pause between connections, also on a busy machine."""


def test_readyz_names_a_broker_that_is_gone_until_it_is_back(tmp_path: Path) -> None:
    try:
        with running(tmp_path / "kafka", heap="384m") as cluster:
            here = setting(cluster.bootstrap, tmp_path)
            with Processes(tmp_path) as processes:
                processes.run("topics", "--config", str(here.path))
                processes.start("worker", "worker", "--config", str(here.path))
                port = http_port(processes, "worker")
                held = lambda: "no statistics yet: none are published" in str(get(port, "/readyz"))  # noqa: E731
                gone = lambda: "no broker answers at" in str(get(port, "/readyz"))  # noqa: E731
                processes.wait(lambda: held() and not gone(), "a worker that holds its input")
                cluster.stop(1)
                processes.wait(gone, "the reason", 60)
                assert "kafka.bootstrap_servers" in str(get(port, "/readyz"))
                cluster.start(1)
                start = time.monotonic()
                processes.wait(lambda: not gone(), "a worker that goes on", GOES_ON_SECONDS)
                print(f"connected {time.monotonic() - start:.1f} s after the broker is back")
                assert processes.log("worker").count("Connection refused") < 20
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
