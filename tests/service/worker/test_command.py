"""The worker's command without a broker."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from service import service

NO_BROKER = "127.0.0.1:1"


@pytest.mark.exhaustive
def test_the_command_waits_for_a_broker_and_reports_it(tmp_path: Path) -> None:
    worker = service(NO_BROKER, tmp_path).start("worker")
    worker.wait(lambda: worker.says("no broker answers"), "the reason")
    assert worker.get("/healthz")[0] == 200
    worker.signal(signal.SIGINT)
    worker.process.join(60)
    assert worker.process.exitcode == 0


def test_the_command_reports_that_its_port_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = service(NO_BROKER, tmp_path).command("worker", code=2, http={"port": port})
    assert f"127.0.0.1:{port}" in done.stderr
    assert "http.port" in done.stderr
