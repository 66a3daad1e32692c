"""Progress of a command: a bar on a terminal, otherwise lines; and lines for what takes more than two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import IO, Final, TextIO, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

ShowActivity: TypeAlias = Callable[[str], None]
"""Says what the command does from now on, as a present participle such as ``calibrating``."""

FIRST_LINE_SECONDS, LINE_SECONDS = 2.0, 5.0


class Activity:
    """The current activity of a command, and when it began. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._current = ("starting", clock())

    def show(self, what: str) -> None:
        """Set the current activity."""
        self._current = (what, self._clock())

    def line(self) -> str:
        """Return the activity and its duration."""
        what, since = self._current
        return f"{what} ({self._clock() - since:.0f} s)"


@contextmanager
def shown_activity(
    stream: IO[str] | None, *, first: float = FIRST_LINE_SECONDS, every: float = LINE_SECONDS
) -> Iterator[ShowActivity]:
    """Write lines to ``stream`` until the block ends: one after ``first`` seconds, and then one ``every`` few seconds.

    A line has the current activity and the seconds that it has taken. A stream that is None or cannot be written gets
    none.
    """
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
        yield activity.show
    finally:
        ended.set()
        writer.join()


ReportProgress: TypeAlias = Callable[[int], None]
"""Reports the number of records so far; cheap enough to call for each record."""

CompletedFraction: TypeAlias = Callable[[int], float]
"""Returns the completed fraction of the run, from 0 to 1, for a number of records."""

Clock: TypeAlias = Callable[[], float]

BAR_COLUMNS: Final = (BarColumn, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn)
"""What a bar shows beside its text: the bar, the share, and the times since the start and to the end."""

PROGRESS_LINE_SECONDS, PROGRESS_BAR_SECONDS = 5.0, 0.1


@contextmanager
def progress(
    what: str, *, done: CompletedFraction, stream: TextIO, clock: Clock = time.monotonic
) -> Iterator[ReportProgress]:
    """Show a run's progress on ``stream`` until the block ends.

    ``what``: the past participle of the operation, such as ``produced``.
    """
    if stream.isatty():
        with _bar(what, done, stream, clock) as show:
            yield show
    else:
        yield _lines(what, done, stream, clock)


@contextmanager
def task_progress(what: str, *, total: int, stream: TextIO) -> Iterator[Callable[[], None]]:
    """Show how many of ``total`` tasks are done: a bar on a terminal, otherwise a line for every tenth of them."""
    if not stream.isatty():
        yield _task_lines(what, total, stream)
        return
    with _columns(stream) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def _task_lines(what: str, total: int, stream: TextIO) -> Callable[[], None]:
    numbers = count(1)

    def done() -> None:
        number = next(numbers)
        if number * 10 // total > (number - 1) * 10 // total:
            print(f"{what} {number} of {total}", file=stream, flush=True)

    return done


@contextmanager
def _bar(what: str, done: CompletedFraction, stream: TextIO, clock: Clock) -> Iterator[ReportProgress]:
    with _columns(stream) as bar:
        task = bar.add_task(what, total=1.0)
        yield _throttled(
            PROGRESS_BAR_SECONDS,
            lambda records, rate: bar.update(
                task, completed=done(records), description=f"{what} {records:,} records, {rate:,.0f}/s"
            ),
            clock,
        )


def _columns(stream: TextIO) -> Progress:
    text = TextColumn("{task.description}")
    return Progress(text, *(column() for column in BAR_COLUMNS), console=Console(file=stream), transient=True)


def _lines(what: str, done: CompletedFraction, stream: TextIO, clock: Clock) -> ReportProgress:
    def report(records: int, rate: float) -> None:
        print(f"{what} {records:,} records ({done(records):.0%}), {rate:,.0f}/s", file=stream, flush=True)

    return _throttled(PROGRESS_LINE_SECONDS, report, clock)


def _throttled(every: float, report: Callable[[int, float], None], clock: Clock) -> ReportProgress:
    start = reported = clock()

    def show(records: int) -> None:
        nonlocal reported
        now = clock()
        if now - reported >= every:
            reported = now
            report(records, records / (now - start))

    return show
