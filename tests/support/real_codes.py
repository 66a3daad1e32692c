"""The codes of the real discharges, read once by each process, and a sample of strongly related ones."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
from support.data import discharges, icd9cm

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import WindowedMechanism
from stream_masker.core.ontology import UNKNOWN, ConceptMap, Taxonomy
from stream_masker.core.statistics import Statistics, compute_statistics, count_batch

PAIRS = 18
LEAST_RECORDS = 30
PAIRS_OF_CHAPTER = 2
RECORDS = 1350
RANDOM_SHARE = 0.03


def real_pairs() -> np.ndarray:
    """(2, n) int32: the principal and the first secondary diagnosis of the 101,388 discharges that have both."""
    return real_codes(("diag_1", "diag_2"))


@cache
def real_codes(columns: tuple[str, ...]) -> np.ndarray:
    """(columns, n) int32, read-only: the diagnoses of the discharges that have all of these.

    An unknown code is the longest known one that it begins with.
    """
    codes = np.ascontiguousarray(_resolved(columns)[real_rows(columns)].T)
    codes.flags.writeable = False
    return codes


def real_rows(columns: tuple[str, ...]) -> np.ndarray:
    """(n,) int64: the numbers of the discharges of ``real_codes``."""
    return np.flatnonzero((_resolved(columns) != UNKNOWN).all(axis=1))


@cache
def _resolved(columns: tuple[str, ...]) -> np.ndarray:
    """(discharges, columns) int32: the positions of diagnoses, or ``UNKNOWN``."""
    find = ConceptMap(icd9cm().taxonomy(), unknown="ancestor", ontology=icd9cm()).resolve
    return np.array([[find(row[name])[0] for name in columns] for row in discharges()], np.int32)


def strong_sample(codes: np.ndarray, tau: Taxonomy, *, seed: int = 0) -> np.ndarray:
    """(2, 1350) int32: records of 18 frequent pairs of related codes, 3 % of which are replaced at random.

    Pairs are taken in order of falling frequency, ties by code, if they have at least 30 records, both codes lie in one
    chapter (child of the root), neither occurs in a pair taken before, and their chapter has less than two of these.
    """
    rng = np.random.default_rng(seed)
    chosen = _related_pairs(codes, tau)
    rows = np.flatnonzero([pair in chosen for pair in zip(*codes.tolist(), strict=True)])
    sample = codes[:, rng.choice(rows, RECORDS, replace=False)].copy()
    replaced = rng.random(RECORDS) < RANDOM_SHARE
    sample[:, replaced] = codes[:, rng.integers(0, codes.shape[1], int(replaced.sum()))]
    return sample


def _related_pairs(codes: np.ndarray, tau: Taxonomy) -> set[tuple[int, int]]:
    counts = Counter(zip(*codes.tolist(), strict=True))
    ordered = sorted(counts, key=lambda pair: (-counts[pair], tau.ids[pair[0]], tau.ids[pair[1]]))
    used: set[int] = set()
    chapters: Counter[int] = Counter()
    chosen: set[tuple[int, int]] = set()
    for a, b in ordered:
        chapter = _chapter(a, tau)
        free = a != b and not {a, b} & used and chapters[chapter] < PAIRS_OF_CHAPTER
        if len(chosen) < PAIRS and counts[a, b] >= LEAST_RECORDS and chapter == _chapter(b, tau) and free:
            chosen.add((a, b))
            used |= {a, b}
            chapters[chapter] += 1
    return chosen


def _chapter(code: int, tau: Taxonomy) -> int:
    """The child of the root above a code; the code itself if it is the root."""
    while tau.depth[code] > 2:
        code = int(tau.parents[tau.parent_offsets[code]])
    return code


def as_batch(codes: np.ndarray) -> Batch:
    """Return the batch of scalar columns."""
    return Batch(codes.shape[1], tuple(Column(np.ascontiguousarray(column, np.int32)) for column in codes))


def statistics_of(batch: Batch) -> Statistics:
    """Return the statistics of a batch of ICD-9-CM by Wu–Palmer; the attributes have the names of their numbers."""
    tau, p = icd9cm().taxonomy(), len(batch.columns)
    counts = count_batch(batch, [len(tau)] * p)
    return compute_statistics(counts, tuple(map(str, range(p))), [WuPalmer(tau)] * p, version=1)


def correlation_of(codes: np.ndarray) -> float:
    """Return sdCor of two columns of codes of ICD-9-CM."""
    return float(statistics_of(as_batch(codes)).correlation[0, 1])


def in_force(made: WindowedMechanism[Any], batch: Batch) -> WindowedMechanism[Any]:
    """Return a mechanism with the statistics of a batch in force."""
    counts = count_batch(batch, [len(d.taxonomy) for d in made.distances])
    return made.with_statistics(made.compute(counts, version=1), counts)
