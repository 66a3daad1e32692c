"""Shared helpers of the benchmarks: options, times and tables."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

ResultT = TypeVar("ResultT")


def arguments(text: str | None, options: Mapping[str, Any]) -> argparse.Namespace:
    """Parse the command line. ``options``: the default of each option, or a dictionary for ``add_argument``."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, given in options.items():
        flag = {"action": "store_true"} if given is False else {"type": type(given), "default": given}
        parser.add_argument(name, **(given if isinstance(given, dict) else flag))
    return parser.parse_args()


def best(run: Callable[[], object], *, repeats: int = 5) -> float:
    """Return the least processor time of several runs in seconds; the first run may compile and is not counted."""
    run()
    return min(timed(run)[0] for _ in range(repeats))


def timed(run: Callable[[], ResultT], clock: Callable[[], float] = time.process_time) -> tuple[float, ResultT]:
    """Return the processor time of one run in this process, in seconds, and its result."""
    start = clock()
    result = run()
    return clock() - start, result


def processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, including system time."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table, row by row; numbers have three significant digits."""
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(map(cell, row))} |", flush=True)


def cell(value: object) -> str:
    """Return a value for a table."""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
