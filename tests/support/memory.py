"""The resident memory of processes over time, and its growth rate with a confidence interval."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STATM = Path("/proc/self/statm")
BLOCKS = 20
NORMAL = 1.96
MB = 1e6


@dataclass(frozen=True)
class Slope:
    """A slope and its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def slope(x: Floats, y: Floats) -> Slope:
    """Return the Theil–Sen slope, with Sen's confidence interval from the variance of Kendall's statistic.

    The points are first reduced to ``BLOCKS`` medians, because autocorrelation would make the interval too narrow.
    """
    xs = np.array([np.median(part) for part in np.array_split(x, min(BLOCKS, len(x)))])
    ys = np.array([np.median(part) for part in np.array_split(y, min(BLOCKS, len(y)))])
    slopes = np.sort([(ys[j] - ys[i]) / (xs[j] - xs[i]) for i, j in combinations(range(len(xs)), 2) if xs[j] != xs[i]])
    n, reach = len(xs), NORMAL * sqrt(len(xs) * (len(xs) - 1) * (2 * len(xs) + 5) / 18)
    low, high = max(0, int((len(slopes) - reach) / 2)), min(len(slopes) - 1, int((len(slopes) + reach) / 2) + 1)
    assert n >= 4, f"{n} points are too few"
    return Slope(float(np.median(slopes)), float(slopes[low]), float(slopes[high]))


class Watch:
    """Samples the resident memory of processes and the value of ``progress`` every second, in a thread."""

    def __init__(self, pids: Mapping[str, int], progress: Callable[[], int], every: float = 1.0) -> None:
        self._pids = dict(pids)
        self._progress = progress
        self._every = every
        self._rows: list[tuple[float, ...]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self._rows.append((time.monotonic(), self._progress(), *map(resident, self._pids.values())))

    def growth(self, name: str) -> Growth:
        """Return a process's memory in the second half of the run; its caches fill in the first half."""
        rows = np.array(self._rows[len(self._rows) // 2 :], np.float64)
        return Growth(rows[:, 0], rows[:, 1], rows[:, 2 + list(self._pids).index(name)] / MB)


@dataclass(frozen=True)
class Growth:
    """Samples of times in seconds, records so far, and resident memory in MB."""

    times: Floats
    records: Floats
    sizes: Floats

    @property
    def total(self) -> float:
        """The growth in MB from the first tenth of the samples to the last."""
        tenth = max(1, len(self.sizes) // 10)
        return float(np.median(self.sizes[-tenth:]) - np.median(self.sizes[:tenth]))

    @property
    def hourly(self) -> Slope:
        return slope(self.times / 3600, self.sizes)

    @property
    def per_million(self) -> Slope:
        """MB per million records."""
        return slope(self.records / 1e6, self.sizes)

    def __str__(self) -> str:
        return (
            f"{self.sizes[-1]:.1f} MB at the end, {self.total:+.2f} MB in {self.times[-1] - self.times[0]:.0f} s and "
            f"{(self.records[-1] - self.records[0]) / 1e6:.2f} million records: "
            f"{self.hourly} MB per hour, {self.per_million} MB per million records"
        )


def resident(pid: int) -> int:
    """Return a process's resident memory in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
