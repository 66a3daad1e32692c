"""The commands of the service: those that go on run as child processes with logs, those that end in this process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner, Result
from polling import attempts

from stream_masker.cli import main

PROGRAM = ("-P", "-m", "stream_masker")
"""What the Python interpreter runs."""


class Processes:
    """Context manager that starts ``stream-masker`` commands and kills the remaining ones on exit.

    ``program``: of the processes that are started from now on, to run another release.
    """

    def __init__(self, folder: Path, program: tuple[str, ...] = PROGRAM) -> None:
        self.folder = folder
        self.program = program
        self.running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start ``stream-masker ARGUMENTS…`` with output to NAME.log."""
        command = [sys.executable, *self.program, *arguments]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self.running.append(process)
        return process

    def run(self, *arguments: str, code: int = 0) -> Result:
        """Run ``stream-masker ARGUMENTS…`` in this process; it must end with this exit code."""
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == code, f"{' '.join(arguments)}: exit {done.exit_code}\n{done.output}"
        return done

    def told(self, *arguments: str, timeout: float = 600.0) -> str:
        """Run a command of ``program`` as a process; return what it prints."""
        command = [sys.executable, *self.program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True).stdout

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def wait(self, reached: Callable[[], bool], what: str, timeout: float = 240.0) -> None:
        """Wait until ``reached``; fails with the logs if a process ends first or on timeout."""
        for _ in attempts(timeout):
            if reached():
                return
            dead = [process.args for process in self.running if process.poll() is not None]
            assert not dead, f"ended while waiting for {what}: {dead}\n{self.logs()}"
        raise AssertionError(f"no {what} after {timeout} s\n{self.logs()}")

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.stem}\n{path.read_text(errors='replace')[-3000:]}" for path in self.folder.glob("*.log")
        )


def terminate(process: subprocess.Popen[bytes], timeout: float = 120.0) -> int:
    """Send SIGTERM, wait, and return the exit code."""
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout)
