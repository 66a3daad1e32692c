"""The broker of the demonstration in this process, and the commands of stream-masker in others.

``python -m stream_masker.service.demo.processes COMMAND ARGUMENTS…`` is a command that ends with the process that
started it, which holds the other end of its standard input. The system closes that end when the process ends, in any
way, on Linux and macOS.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException, Producer

import stream_masker
from stream_masker.errors import ServiceError

PACKAGE_PARENT = Path(stream_masker.__file__).parents[1]
"""The folder that contains this package. Children import it from there, even if another copy is installed."""

STANDARD_INPUT = 0
START_SECONDS = 10.0
SHOWN_LINES = 5


@contextmanager
def embedded_broker() -> Iterator[str]:
    """Run librdkafka's in-memory broker, and give its address, host:port.

    It supports consumer groups and transactions. It has no CreateTopics: topics are created on first use with four
    partitions. It does not hide aborted transactions from readers, and describes no topics, which noise by position
    needs. Raises ServiceError if it does not start.
    """
    client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "embedded", "log_level": 3})
    try:
        brokers = client.list_topics(timeout=START_SECONDS).brokers.values()
    except KafkaException:
        raise ServiceError("the embedded broker did not start") from None
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del client


@contextmanager
def running(folder: Path, commands: Mapping[str, Sequence[str]]) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Run ``stream-masker NAME ARGUMENTS…`` for each name while the block runs, each with its log in a folder.

    They end also if this process is killed. Nothing of the demonstration outlives it, so they are killed.
    """
    path = os.pathsep.join(filter(None, (str(PACKAGE_PARENT), os.environ.get("PYTHONPATH"))))
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, arguments in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                processes[name] = subprocess.Popen(  # noqa: S603 - our own command line
                    [sys.executable, "-P", "-m", __name__, name, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "PYTHONPATH": path},
                )
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def check(folder: Path, processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Raise ServiceError with the end of its log if a process has stopped."""
    for name, process in processes.items():
        if (code := process.poll()) is not None:
            raise ServiceError(f"{name} stopped with exit code {code}: {last_lines(folder, name)}")


def last_lines(folder: Path, name: str) -> str:
    """Return the end of the log of a process."""
    with (folder / f"{name}.log").open(errors="replace") as lines:
        return " | ".join(line.strip() for line in deque(lines, SHOWN_LINES)) or "no output"


def end_with_parent() -> None:
    """Wait for the end of standard input, to which nothing is written, and kill this process."""
    os.read(STANDARD_INPUT, 1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    runpy.run_module("stream_masker", run_name="__main__")
