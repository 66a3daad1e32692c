"""Waiting for a condition, and the resident memory of processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PAUSES = 0.1, 1.0
"""The shortest and the longest pause between two checks, in seconds."""

PAUSE_PER_CHECK = 3.0
"""How many times as long as a check the pause after it is: a check may read whole topics or metrics of a process."""


def attempts(timeout: float) -> Iterator[None]:
    """Yield before each check of the state, with pauses between, and end after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while (start := time.monotonic()) < end:
        yield
        time.sleep(min(max(PAUSE_PER_CHECK * (time.monotonic() - start), PAUSES[0]), PAUSES[1]))


def wait(reached: Callable[[], bool], what: str, timeout: float = 240.0) -> None:
    """Wait until ``reached()``."""
    assert any(reached() for _ in attempts(timeout)), f"no {what} after {timeout} s"


def resident(pid: int) -> int:
    """Return a process's resident memory in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
