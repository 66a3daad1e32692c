"""Shared helpers of the benchmarks: taxonomies, times, memory and tables."""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

from support.large import phenotypes, snomed_shaped

from stream_masker.core.ontology import Ontology, Taxonomy

SNOMED_CONCEPTS = 357_406
"""The number of concepts of the SNOMED CT release on which HESML was measured."""


def best(run: Callable[[], object], *, repeats: int = 7) -> float:
    """Return the shortest of several times in seconds; the first run may compile and is not counted."""
    run()
    return min(once(run) for _ in range(repeats))


def once(run: Callable[[], object]) -> float:
    """Return the processor time of one run in this process, in seconds."""
    start = time.process_time()
    run()
    return time.process_time() - start


def processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, including system time."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def peak_megabytes(run: Callable[[], object]) -> float:
    """Return the peak memory of a run in megabytes, beyond the memory in use before."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table; numbers have three significant digits."""
    print(f"\n### {title}\n")
    print("|", " | ".join(head), "|")
    print("|", " | ".join(["---"] * len(head)), "|")
    for row in rows:
        print("|", " | ".join(cell(value) for value in row), "|", flush=True)


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
