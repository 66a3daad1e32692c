"""A stream of many workers, simulated: only the records that they sample are drawn, so that its rate costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.distance import Distance
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.core.statistics.summary import Statistics
from stream_masker.pipeline.calibration.blocks import STRATA
from stream_masker.pipeline.records import Block, Stratum

RUN_RECORDS = 5_000
"""The records of a worker's run, which it counts in one block, or in one block for each stratum."""

SQUARE = 0.04


@dataclass(frozen=True)
class Population:
    """Correlated pairs of codes: a record is one of the rows, (m,) int32 each, with equal chances."""

    first: np.ndarray
    second: np.ndarray
    sizes: tuple[int, int]

    @classmethod
    def random(cls, sizes: tuple[int, int], *, codes: int = 300, rows: int = 2_000, seed: int = 1) -> Population:
        """At most ``codes`` codes of skewed frequency; in half of the rows both attributes have the same one.

        ``sizes``: of the taxonomies, of which one is a part of the other.
        """
        rng = np.random.default_rng(seed)
        chosen = rng.integers(0, min(sizes), codes).astype(np.int32)
        first, own = (chosen[(codes * rng.random(rows) ** 2).astype(np.int64)] for _ in range(2))
        return cls(first, np.where(rng.random(rows) < 0.5, first, own), sizes)

    def counts(self, rows: np.ndarray) -> Counts:
        return count_batch(Batch(len(rows), (Column(self.first[rows]), Column(self.second[rows]))), self.sizes)

    def statistics(self, names: tuple[str, ...], distances: tuple[Distance, ...]) -> Statistics:
        """The statistics of the whole stream."""
        return compute_statistics(self.counts(np.arange(len(self.first))), names, distances, version=1)


class SimulatedWorkers:
    """Workers that together mask ``rate`` records a second. ``level``: that of the version that they follow."""

    def __init__(self, population: Population, *, workers: int, rate: float, seed: int = 0) -> None:
        self.population = population
        self.level: int | None = None
        self._workers = workers
        self._rate = rate
        self._rng = np.random.default_rng(seed)
        self._next_offset = 0
        self._runs = 0.0
        self._counts_of = cache(lambda row: population.counts(np.array([row])))

    def blocks(self, start: float, end: float) -> Iterator[Block]:
        """The blocks of all records between two times, in seconds, in their order."""
        return self._all_records(start, end) if self.level is None else self._samples(start, end, self.level)

    def _all_records(self, start: float, end: float) -> Iterator[Block]:
        self._runs += self._rate * (end - start) / RUN_RECORDS
        runs, self._runs = int(self._runs), self._runs % 1
        for number in range(runs):
            rows = self._rng.integers(0, len(self.population.first), RUN_RECORDS)
            yield self._block(start + (end - start) * number / runs, self.population.counts(rows))

    def _samples(self, start: float, end: float, level: int) -> Iterator[Block]:
        """Every sampled record has a run of its own, as almost all have if there are far more runs than samples."""
        number = self._rng.poisson(self._rate * (end - start) * 2.0**-level)
        times = np.sort(self._rng.uniform(start, end, number)).tolist()
        levels = (level + np.minimum(self._rng.geometric(0.5, number) - 1, STRATA - 1)).tolist()
        rows = self._rng.integers(0, len(self.population.first), number).tolist()
        for time, one, row in zip(times, levels, rows, strict=True):
            yield replace(self._block(time, self._counts_of(row)), stratum=Stratum(level, one))

    def _block(self, time: float, counts: Counts) -> Block:
        first, self._next_offset = self._next_offset, self._next_offset + RUN_RECORDS
        squares = counts.records * SQUARE
        distortions = (Distortion(counts.records, squares, squares),) * 2
        partition = int(self._rng.integers(0, self._workers))
        where = ("discharges", partition, first, first + RUN_RECORDS - 1)
        return Block(*where, round(time * 1000), 1, counts, counts, distortions, {})
