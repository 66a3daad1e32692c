"""Progress of a command: lines about what takes more than two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TypeAlias

ShowActivity: TypeAlias = Callable[[str], None]
"""Says what the command does from now on, as a present participle such as ``calibrating``."""

FIRST_LINE_SECONDS, LINE_SECONDS = 2.0, 5.0


@contextmanager
def shown_activity(
    stream: IO[str] | None,
    *,
    first: float = FIRST_LINE_SECONDS,
    every: float = LINE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[ShowActivity]:
    """Write lines to ``stream`` until the block ends: one after ``first`` seconds, and then one ``every`` few seconds.

    A line has the current activity and the seconds that it has taken. A stream that is None or cannot be written gets
    none.
    """
    current, ended = ("starting", clock()), threading.Event()

    def show(what: str) -> None:
        nonlocal current
        current = (what, clock())

    def write_lines() -> None:
        wait = first
        while not ended.wait(wait):
            wait, (what, since) = every, current
            with suppress(OSError, ValueError):
                print(f"{what} ({clock() - since:.0f} s)", file=stream, flush=True)

    if stream is None:
        yield show
        return
    writer = threading.Thread(target=write_lines, name="activity", daemon=True)
    writer.start()
    try:
        yield show
    finally:
        ended.set()
        writer.join()
