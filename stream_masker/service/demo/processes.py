"""The broker of the demonstration in this process, and the commands of stream-masker in others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException, Producer

import stream_masker
from stream_masker.errors import ServiceError

PACKAGE_PARENT = Path(stream_masker.__file__).parents[1]
"""The folder that contains this package. Children import it from there, even if another copy is installed."""

CHILD = "stream_masker.service.demo.child"
TERMINATE_SECONDS = 0.1
"""The time to stop before a child is killed: nothing of the demonstration outlives it, so nothing is lost."""

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


class ChildProcesses:
    """Runs ``stream-masker`` commands, each with its log in ``folder``; terminates them all on exit.

    They end also if this process is killed (``child``).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start ``stream-masker NAME ARGUMENTS…``."""
        path = os.pathsep.join(filter(None, (str(PACKAGE_PARENT), os.environ.get("PYTHONPATH"))))
        with self._log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-P", "-m", CHILD, name, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
            )

    def check(self) -> None:
        """Raise ServiceError with the end of its log if a child has stopped."""
        for name, process in self.running.items():
            if (code := process.poll()) is not None:
                raise ServiceError(f"{name} stopped with exit code {code}: {self._last_lines(name)}")

    def last_words(self) -> str:
        """Return the end of the log of every child."""
        return "; ".join(f"{name}: {self._last_lines(name)}" for name in self.running)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(TERMINATE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _last_lines(self, name: str) -> str:
        with self._log(name).open(errors="replace") as lines:
            return " | ".join(line.strip() for line in deque(lines, SHOWN_LINES)) or "no output"
