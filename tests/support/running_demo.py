"""The demonstration as a running process, for tests that look at its endpoints."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_broker import die_with_parent, free_ports

RECORDS, RATE = 40_000, 400
ENDPOINT = re.compile(r"^(calibrator|worker): http://127\.0\.0\.1:(\d+)/metrics")
STOP_SECONDS = 60


@contextlib.contextmanager
def running_demo(folder: Path) -> Iterator[Mapping[str, int]]:
    """Run ``stream-masker demo`` until the block ends; yields the ports of the calibrator and the worker."""
    command = [
        sys.executable,
        "-P",
        "-u",
        "-m",
        "stream_masker",
        "demo",
        "--records",
        str(RECORDS),
        "--rate",
        str(RATE),
        "--port",
        str(free_ports(1)[0]),
    ]
    with (folder / "demo.log").open("wb") as errors:
        demo = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it only calls prctl
        )
    try:
        yield _ports(demo, folder / "demo.log")
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=STOP_SECONDS)


def _ports(demo: subprocess.Popen[bytes], log: Path) -> Mapping[str, int]:
    assert demo.stdout is not None
    ports: dict[str, int] = {}
    for line in demo.stdout:
        if found := ENDPOINT.match(line.decode()):
            ports[found[1]] = int(found[2])
        if len(ports) == 2:
            return ports
    raise AssertionError(f"the demonstration ended with {demo.wait()}: {log.read_text()}")
