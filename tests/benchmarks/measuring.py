"""Shared helpers of the benchmarks: options, times, tables, and the environments of other programs."""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

SCRIPTS = Path(__file__).parent / "peers"
"""The scripts of other programs."""

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


@dataclass(frozen=True)
class Peer:
    """Another program. ``name``: its script. ``pins``: requirements with versions, its own first."""

    name: str
    pins: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name and version of the program."""
        package, version = self.pins[0].split("==")
        return f"{package.partition('[')[0]} {version}"

    @property
    def command(self) -> list[str]:
        """The command that runs the script in its environment, which is created if it does not exist."""
        digest = hashlib.sha256("\n".join((sys.version, *self.pins)).encode()).hexdigest()[:12]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        python = cache / "stream-masker-peers" / f"{self.name}-{digest}" / "bin" / "python"
        if not python.with_name("complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(python.parents[1])], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *self.pins], check=True)
            python.with_name("complete").touch()
        return [str(python), str(SCRIPTS / f"{self.name}.py")]
