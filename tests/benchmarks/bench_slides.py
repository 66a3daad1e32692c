"""Accumulated rounding errors of a window that slides over ten million records, compared with recomputation.

Run by hand (about 15 minutes on one core): ``python tests/benchmarks/bench_slides.py [--records 10000000]``.

On the Human Phenotype Ontology. The semantic mean and variance slide record by record; the distance variances,
covariance and correlation slide by ``--step`` records. At a hundred checkpoints all of them are recomputed from the
records in the window. Prints a Markdown table of the greatest differences.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from measuring import table, taxonomy

from stream_masker.core.distance import Distance, WuPalmer
from stream_masker.core.statistics import (
    SlidingCovariance,
    SlidingMean,
    SparseCounts,
    correlation_from_counts,
    covariance_from_counts,
    distance_variance_from_counts,
    mean_from_counts,
    variance_from_counts,
)
from stream_masker.core.statistics.counts import count_keys, difference, marginals

VALUES = 100
CHECKS = 100
Keys = np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--window", type=int, default=1_000)
    parser.add_argument("--only", choices=SLIDING, help="only one of the two")
    parser.add_argument("--step", type=int, default=1, help="records by which the covariance slides at a time")
    given = parser.parse_args()
    d = WuPalmer(taxonomy("hpo"))
    keys = drifting(d, given.window + given.records)
    head = ["figure", "records that went", "slides", "µs a slide", "new computations", "greatest relative difference"]
    chosen = [given.only] if given.only else list(SLIDING)
    rows = (row for name in chosen for row in SLIDING[name](d, keys, given))
    table(f"Ten million slides: a window of {given.window:,} records with {VALUES} distinct values", head, rows)


def drifting(d: Distance, records: int) -> Keys:
    """Return pairs of correlated values as keys; the frequent values change continuously."""
    rng = np.random.default_rng(7)
    places = rng.permutation(len(d.taxonomy))[:VALUES].astype(np.int64)
    turn = np.arange(records) * 3 // records
    first = (np.minimum(VALUES * rng.random(records) ** 2.5, VALUES - 1).astype(np.int64) + turn) % VALUES
    other = (np.minimum(VALUES * rng.random(records) ** 2.5, VALUES - 1).astype(np.int64) + turn) % VALUES
    second = np.where(rng.random(records) < 0.6, (7 * first + 3) % VALUES, other)
    return places[first] * len(d.taxonomy) + places[second]


@dataclass
class Worst:
    """The greatest relative difference of a statistic, and the number of comparisons."""

    difference: float = 0.0
    checks: int = 0

    def compare(self, sliding: float, recomputed: float) -> None:
        self.difference = max(self.difference, abs(sliding - recomputed) / abs(recomputed))
        self.checks += 1


@dataclass
class Timed:
    """The time of the slides alone, in seconds."""

    seconds: float = 0.0
    slides: int = 0
    worst: dict[str, Worst] = field(default_factory=dict)

    def run(self, slide: Callable[[], object]) -> None:
        start = time.perf_counter()
        slide()
        self.seconds += time.perf_counter() - start
        self.slides += 1

    def rows(self, records: int) -> Iterator[list[object]]:
        each = self.seconds / self.slides * 1e6
        for name, worst in self.worst.items():
            yield [name, records, self.slides, each, worst.checks, f"{worst.difference:.0e}" if worst.difference else 0]


def slide_mean(d: Distance, keys: Keys, given: argparse.Namespace) -> Iterator[list[object]]:
    values = keys // len(d.taxonomy)
    sliding = SlidingMean(d)
    sliding.slide(count_keys(values[: given.window]))
    timed = Timed(worst={"sMean (1: another concept)": Worst(), "sVar": Worst()})
    for end in checkpoints(values, given, 1, sliding.slide, timed, read=lambda: sliding.mean):
        window = count_keys(values[end - given.window : end])
        timed.worst["sMean (1: another concept)"].compare(1.0 + (sliding.mean != mean_from_counts(window, d)), 1.0)
        timed.worst["sVar"].compare(sliding.variance, variance_from_counts(window, d))
    yield from timed.rows(given.records)


def slide_covariance(d: Distance, keys: Keys, given: argparse.Namespace) -> Iterator[list[object]]:
    sliding = SlidingCovariance(d, d)
    sliding.slide(count_keys(keys[: given.window]))
    timed = Timed(worst={name: Worst() for name in ("sdVar", "sdCov", "sdCor")})
    for end in checkpoints(keys, given, given.step, sliding.slide, timed, read=lambda: sliding.covariance):
        window = count_keys(keys[end - given.window : end])
        of_a, _ = marginals(window, len(d.taxonomy))
        timed.worst["sdVar"].compare(sliding.variances[0], distance_variance_from_counts(of_a, d))
        timed.worst["sdCov"].compare(sliding.covariance, covariance_from_counts(window, d, d))
        timed.worst["sdCor"].compare(sliding.correlation, correlation_from_counts(window, d, d))
    yield from timed.rows(given.records)


def checkpoints(
    keys: Keys,
    given: argparse.Namespace,
    step: int,
    slide: Callable[[SparseCounts], None],
    timed: Timed,
    *,
    read: Callable[[], object],
) -> Iterator[int]:
    """Slide to the end and yield the window's end at each checkpoint, without recomputation in between."""
    read()
    every = max(step, given.records // CHECKS)
    for start in range(0, given.records - step + 1, step):
        end = start + given.window
        change = difference(count_keys(keys[end : end + step]), count_keys(keys[start : start + step]))
        timed.run(lambda change=change: slide(change))
        if (start + step) % every < step:
            yield end + step


SLIDING = {"mean": slide_mean, "covariance": slide_covariance}

if __name__ == "__main__":
    main()
