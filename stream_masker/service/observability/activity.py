"""What a command is doing, whenever it takes more than two seconds: a line every few seconds, from another thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TypeAlias

ShowActivity: TypeAlias = Callable[[str], None]
"""Says what the command does from now on, as a present participle such as ``calibrating``."""

FIRST_LINE_SECONDS, LINE_SECONDS = 2.0, 5.0


class Activity:
    """The current activity of a command, and when it began. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._current = ("starting", clock())
        self._compiled = 0

    def show(self, what: str) -> None:
        """Set the current activity."""
        self._current = (what, self._clock())

    def compiling(self, kernel: str) -> None:
        """Set the kernel that is being compiled, which belongs to the current activity."""
        self._compiled += 1
        what, since = self._current
        self._current = (f"{what.partition(', compiling')[0]}, compiling {kernel} ({self._compiled})", since)

    def line(self) -> str:
        """Return the activity and its duration."""
        what, since = self._current
        return f"{what} ({self._clock() - since:.0f} s)"


@contextmanager
def shown_activity(
    stream: IO[str] | None, *, first: float = FIRST_LINE_SECONDS, every: float = LINE_SECONDS
) -> Iterator[ShowActivity]:
    """Write lines to ``stream`` until the block ends: one after ``first`` seconds, and then one ``every`` few seconds.

    A line has the current activity, the kernel that is compiled for it, and the seconds that it has taken. A stream
    that is None or cannot be written gets none.
    """
    from stream_masker.core.kernels.compilations import compilations_reported

    activity, ended = Activity(), threading.Event()

    def write_lines() -> None:
        wait = first
        while not ended.wait(wait):
            wait = every
            with suppress(OSError, ValueError):
                print(activity.line(), file=stream, flush=True)

    if stream is None:
        yield activity.show
        return
    writer = threading.Thread(target=write_lines, name="activity", daemon=True)
    writer.start()
    try:
        with compilations_reported(activity.compiling):
            yield activity.show
    finally:
        ended.set()
        writer.join()
