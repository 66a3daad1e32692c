"""What all benchmarks share: options, times, tables, the example events, and the environments of other programs."""

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

ROOT = Path(__file__).parents[2]
NESTED = ROOT / "examples" / "nested" / "stream-masker.yaml"
"""The configuration of the nested events of the documentation."""

COMMAND = (sys.executable, "-P", "-m", "stream_masker")
os.environ["STREAM_MASKER_SECRET"] = "a secret of the benchmarks"
"""The secret of the examples' configurations, also for the commands that a benchmark runs."""

ResultT = TypeVar("ResultT")


def arguments(text: str | None, options: Mapping[str, Any]) -> argparse.Namespace:
    """Parse the command line. ``options``: the default of each option, or a dictionary for ``add_argument``."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, given in options.items():
        parser.add_argument(name, **(given if isinstance(given, dict) else {"type": type(given), "default": given}))
    return parser.parse_args()


def best(run: Callable[[], object], *, repeats: int = 5) -> float:
    """Return the least processor time of several runs in seconds; the first run may compile and is not counted."""
    run()
    return min(timed(run)[0] for _ in range(repeats))


def timed(run: Callable[[], ResultT]) -> tuple[float, ResultT]:
    """Return the processor time of one run in this process, in seconds, and its result."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


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
    """Another program. ``script``: what runs it, in ``peers``. ``pins``: requirements with versions, its own first."""

    script: str
    pins: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its package, by which the script knows it."""
        return self.pins[0].partition("==")[0].partition("[")[0]

    @property
    def title(self) -> str:
        """The name and version of the program."""
        return f"{self.name} {self.pins[0].partition('==')[2]}"

    @property
    def command(self) -> list[str]:
        """The command that runs the program in its environment, which is created if it does not exist."""
        digest = hashlib.sha256("\n".join((sys.version, *self.pins)).encode()).hexdigest()[:12]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        python = cache / "stream-masker-peers" / f"{self.name}-{digest}" / "bin" / "python"
        if not python.with_name("complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(python.parents[1])], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *self.pins], check=True)
            python.with_name("complete").touch()
        return [str(python), str(Path(__file__).with_name("peers") / f"{self.script}.py"), self.name]
