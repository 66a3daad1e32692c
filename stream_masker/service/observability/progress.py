"""Progress of a command: a bar on a terminal, otherwise lines; and lines for what takes more than two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import IO, TextIO, TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

ShowActivity: TypeAlias = Callable[[str], None]
"""Says what the command does from now on, as a present participle such as ``calibrating``."""

ReportProgress: TypeAlias = Callable[[int], None]
"""Reports the number of records so far; cheap enough to call for each record."""

FIRST_LINE_SECONDS, LINE_SECONDS, BAR_SECONDS = 2.0, 5.0, 0.1


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


@contextmanager
def progress(
    what: str, *, done: Callable[[int], float], stream: TextIO, clock: Callable[[], float] = time.monotonic
) -> Iterator[ReportProgress]:
    """Show a run's progress on ``stream`` until the block ends: a bar on a terminal, otherwise a line now and then.

    ``what``: the past participle of the operation, such as ``produced``. ``done``: returns the completed fraction of
    the run, from 0 to 1, for a number of records.
    """
    bar = _bar(stream) if stream.isatty() else None
    every, start = LINE_SECONDS if bar is None else BAR_SECONDS, clock()
    reported = start

    def report(records: int) -> None:
        nonlocal reported
        now = clock()
        if now - reported < every:
            return
        reported, rate = now, records / (now - start)
        if bar is None:
            print(f"{what} {records:,} records ({done(records):.0%}), {rate:,.0f}/s", file=stream, flush=True)
        else:
            bar.update(task, completed=done(records), description=f"{what} {records:,} records, {rate:,.0f}/s")

    with bar or nullcontext():
        task = TaskID(0) if bar is None else bar.add_task(what, total=1.0)
        yield report


def _bar(stream: TextIO) -> Progress:
    """Return a bar with a text, the share, and the times since the start and to the end."""
    columns = (BarColumn, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn)
    text = TextColumn("{task.description}")
    return Progress(text, *(column() for column in columns), console=Console(file=stream), transient=True)
