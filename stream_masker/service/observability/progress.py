"""Progress of a command: lines about what takes more than two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TypeAlias

ShowActivity: TypeAlias = Callable[[str], None]
"""Says what the command does from now on, as a present participle such as ``calibrating``."""


@contextmanager
def shown_activity(stream: IO[str], *, first: float = 2.0, every: float = 5.0) -> Iterator[ShowActivity]:
    """Write lines to ``stream`` until the block ends: one after ``first`` seconds, and then one ``every`` few seconds.

    A line has the current activity and the seconds that it has taken. A stream that cannot be written gets none.
    """
    current, ended = ("starting", time.monotonic()), threading.Event()

    def show(what: str) -> None:
        nonlocal current
        current = (what, time.monotonic())

    def write_lines() -> None:
        wait = first
        while not ended.wait(wait):
            wait, (what, since) = every, current
            with suppress(OSError, ValueError):
                print(f"{what} ({time.monotonic() - since:.0f} s)", file=stream, flush=True)

    writer = threading.Thread(target=write_lines, name="activity", daemon=True)
    writer.start()
    try:
        yield show
    finally:
        ended.set()
        writer.join()
