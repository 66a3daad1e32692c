"""The codes of the real discharges, read once by each process."""

from __future__ import annotations

from functools import cache

import numpy as np
from support.data import discharges, icd9cm

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import Mechanism
from stream_masker.core.ontology import UNKNOWN, ConceptMap
from stream_masker.core.statistics import Statistics, compute_statistics, count_batch


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
    find = ConceptMap(icd9cm().taxonomy(), unknown="ancestor").find
    return np.array([[find(row[name]).position for name in columns] for row in discharges()], np.int32)


def as_batch(codes: np.ndarray) -> Batch:
    """Return the batch of scalar columns."""
    return Batch(codes.shape[1], tuple(Column(np.ascontiguousarray(column, np.int32)) for column in codes))


def statistics_of(batch: Batch) -> Statistics:
    """Return the statistics of a batch of ICD-9-CM by Wu–Palmer; the attributes have the names of their numbers."""
    tau, p = icd9cm().taxonomy(), len(batch.columns)
    counts = count_batch(batch, [len(tau)] * p)
    return compute_statistics(counts, tuple(map(str, range(p))), [WuPalmer(tau)] * p, version=1)


def in_force(made: Mechanism, batch: Batch) -> Mechanism:
    """Return a mechanism with the statistics of a batch in force."""
    counts = count_batch(batch, [len(d.taxonomy) for d in made.distances])
    return made.with_statistics(made.compute(counts, version=1), counts)
