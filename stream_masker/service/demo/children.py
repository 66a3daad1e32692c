"""The service's processes as child processes of the demonstration, started through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import stream_masker
from stream_masker.errors import ServiceError

PACKAGE_PARENT = Path(stream_masker.__file__).parents[1]
"""The folder that contains this package. Children import it from there, even if another copy is installed."""

TERMINATE_SECONDS = 0.1
"""The time to stop before a child is killed: nothing of the demonstration outlives it, so nothing is lost."""

SHOWN_LINES = 5


class ChildProcesses:
    """Runs ``stream-masker`` commands, each with its log in ``folder``; terminates them all on exit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> ChildProcesses:
        return self

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start ``stream-masker NAME ARGUMENTS…``."""
        with self._log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-P", "-m", "stream_masker", name, *arguments],
                stdout=log,
                stderr=log,
                env=_child_environment(),
            )

    def check(self, *, finished: Sequence[str] = ()) -> None:
        """Raise ServiceError with the end of its log if a child has stopped; ``finished`` ones may exit with 0."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None and (code != 0 or name not in finished):
                raise ServiceError(f"{name} stopped with exit code {code}: {self._last_lines(name)}")

    def last_words(self) -> str:
        """Return the end of the log of every child."""
        return "; ".join(f"{name}: {self._last_lines(name)}" for name in self._running)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            _wait(process)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _last_lines(self, name: str) -> str:
        with self._log(name).open(errors="replace") as lines:
            return " | ".join(line.strip() for line in deque(lines, SHOWN_LINES)) or "no output"


def _child_environment() -> dict[str, str]:
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE_PARENT), *([path] if path else [])])}


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(TERMINATE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
