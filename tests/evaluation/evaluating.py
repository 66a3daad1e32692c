"""A small data set for evaluations: two correlated codes, or a code and an array of codes."""

from __future__ import annotations

import numpy as np

from stream_masker.core.batch import Batch, Column
from stream_masker.core.ontology import Ontology
from stream_masker.evaluation.dataset import DataSet

CHAPTERS = 4
LINKS = [(f"C{c}", "root") for c in range(CHAPTERS)]
LINKS += [(f"C{c}{i}", f"C{c}") for c in range(CHAPTERS) for i in range(3)]
LINKS += [(f"C{c}{i}{j}", f"C{c}{i}") for c in range(CHAPTERS) for i in range(3) for j in range(2)]
TAU = Ontology.from_edges(LINKS).taxonomy()
LEAVES = TAU.encode([child for child, _ in LINKS if len(child) == 4])


def dataset(records: int = 240, *, groups: int = 2, arrays: bool = False) -> DataSet:
    """Records whose second code is mostly in the chapter of the first one."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, LEAVES.size, records)
    same = rng.random(records) < 0.7
    second = np.where(same, first // 6 * 6 + rng.integers(0, 6, records), rng.integers(0, LEAVES.size, records))
    parts = np.array_split(np.arange(records), groups)
    batches = tuple(_batch(first[rows], second[rows], arrays) for rows in parts)
    return DataSet(batches, {"a": TAU, "b": TAU}, b"sixteen bytes or more")


def _batch(first, second, arrays):
    columns = [Column(LEAVES[codes].astype(np.int32)) for codes in (first, second)]
    if arrays:
        offsets = np.arange(first.size + 1, dtype=np.int64) * 2
        columns[1] = Column(np.repeat(columns[1].codes, 2), offsets)
    return Batch(first.size, tuple(columns))
