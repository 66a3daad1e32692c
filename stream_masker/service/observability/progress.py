"""How far a run is: a bar on a terminal, else a plain line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

ShowProgress: TypeAlias = Callable[[int], None]
"""Told how many records there are by now; cheap enough to be told of each."""

AddProgress: TypeAlias = Callable[[int], float]
"""The part of the whole, 0 to 1, that so many records are."""

Clock: TypeAlias = Callable[[], float]

LINE_SECONDS, BAR_SECONDS = 5.0, 0.1


@contextmanager
def progress(what: str, *, done: AddProgress, stream: TextIO, clock: Clock = time.monotonic) -> Iterator[ShowProgress]:
    """Shows a run's progress on ``stream`` until the block ends.

    ``what``: such as ``produced``.
    """
    if stream.isatty():
        with _bar(what, done, stream, clock) as show:
            yield show
    else:
        yield _lines(what, done, stream, clock)


@contextmanager
def _bar(what: str, done: AddProgress, stream: TextIO, clock: Clock) -> Iterator[ShowProgress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield _now_and_then(
            BAR_SECONDS,
            lambda records, rate: bar.update(
                task, completed=done(records), description=f"{what} {records:,} records, {rate:,.0f}/s"
            ),
            clock,
        )


def _lines(what: str, done: AddProgress, stream: TextIO, clock: Clock) -> ShowProgress:
    def tell(records: int, rate: float) -> None:
        print(f"{what} {records:,} records ({done(records):.0%}), {rate:,.0f}/s", file=stream, flush=True)

    return _now_and_then(LINE_SECONDS, tell, clock)


def _now_and_then(every: float, tell: Callable[[int, float], None], clock: Clock) -> ShowProgress:
    start = told = clock()

    def show(records: int) -> None:
        nonlocal told
        now = clock()
        if now - told >= every:
            told = now
            tell(records, records / (now - start))

    return show
