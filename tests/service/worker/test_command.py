"""The worker's command without a broker."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from processes import Processes
from workers import get, http_port, setting


@pytest.mark.exhaustive
def test_the_command_waits_for_a_broker_and_reports_it(tmp_path: Path) -> None:
    here = setting("127.0.0.1:1", tmp_path)
    with Processes(tmp_path) as processes:
        worker = processes.start("worker", "worker", "--config", str(here.path))
        port = http_port(processes, "worker")
        processes.wait(lambda: "no broker answers" in str(get(port, "/readyz")), "the reason")
        assert get(port, "/healthz")[0] == 200
        worker.send_signal(signal.SIGINT)
        assert worker.wait(60) == 0


def test_the_command_reports_that_its_port_is_taken(tmp_path: Path) -> None:
    here = setting("127.0.0.1:1", tmp_path)
    with socket.socket() as taken, Processes(tmp_path) as processes:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = processes.run("worker", "--config", str(here.path), "--http-port", port, code=2)
    assert f"127.0.0.1:{port}" in done.stderr
    assert "http.port" in done.stderr
