"""Shared helpers of the benchmarks: options, taxonomies, times, memory and tables."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

from support.large import phenotypes, snomed_shaped

from stream_masker.core.ontology import Ontology, Taxonomy

ResultT = TypeVar("ResultT")
START = "<!-- measured: {} -->\n"
CODES = ("I10", "E11.9", "J45.909", "M54.5", "N39.0", "K21.9", "F32.9", "E78.5", "Z23", "R07.9")
SNOMED_CONCEPTS = 357_406
"""The number of concepts of the SNOMED CT release on which HESML was measured."""


def arguments(text: str | None, options: Mapping[str, Any]) -> argparse.Namespace:
    """Parse the command line. ``options``: the default of each option, or a dictionary for ``add_argument``."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, given in options.items():
        flag = {"action": "store_true"} if given is False else {"type": type(given), "default": given}
        parser.add_argument(name, **(given if isinstance(given, dict) else flag))
    return parser.parse_args()


def best(run: Callable[[], object], *, repeats: int = 7) -> float:
    """Return the shortest of several times in seconds; the first run may compile and is not counted."""
    run()
    return min(once(run) for _ in range(repeats))


def once(run: Callable[[], object]) -> float:
    """Return the processor time of one run in this process, in seconds."""
    return timed(run)[0]


def timed(run: Callable[[], ResultT], clock: Callable[[], float] = time.process_time) -> tuple[float, ResultT]:
    """Return the processor time of one run in this process, in seconds, and its result."""
    start = clock()
    result = run()
    return clock() - start, result


def processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, including system time."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def ended_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def peak(pid: int) -> int:
    """Return the greatest resident memory of a process so far, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def peak_megabytes(run: Callable[[], object]) -> float:
    """Return the peak memory of a run in megabytes, beyond the memory in use before."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table, row by row; numbers have three significant digits."""
    print(f"\n### {title}\n\n{markdown(head, [])}", end="")
    for row in rows:
        print(f"| {' | '.join(map(cell, row))} |", flush=True)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables(page: str) -> dict[str, str]:
    """Return the measured tables of a page by name."""
    return dict(re.findall(START.format(r"(\S+)") + "(.*?)<!-- end of measured -->\n", page, re.DOTALL))


def show(page: Path, name: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, write: bool) -> None:
    """Print a table, or write it into a page in place of the table of a name."""
    if not write:
        return table(name, head, rows)
    text, mark = page.read_text(), START.format(name)
    page.write_text(text.replace(mark + tables(text)[name], mark + markdown(head, rows)))


def cell(value: object) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else None
    return f"{value:.2g}" if digits is None else f"{value:,.{digits}f}"


@cache
def taxonomy(name: str) -> Taxonomy:
    """Return a taxonomy by name: ``icd10cm`` (a tree), ``hpo`` (Human Phenotype Ontology), or ``snomed:CONCEPTS``."""
    if name == "hpo":
        return phenotypes()
    if name.startswith("snomed:"):
        return snomed_shaped(int(name.removeprefix("snomed:")))
    return Ontology.load(name).taxonomy()


def random_positions(tau: Taxonomy, size: int, *, seed: int = 0) -> np.ndarray:
    """Return (size,) uniformly distributed int32 positions."""
    return np.random.default_rng(seed).integers(0, len(tau), size).astype(np.int32)
