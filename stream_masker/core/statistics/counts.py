"""Counts: all that the statistics need to know of a window (exact, mergeable, small).

Every statistic of the papers depends on a window only through how often each value, and each pair of values,
occurs. ``Counts`` is that, immutable and sparse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SparseCounts:
    """``counts[k]`` rows hold ``keys[k]``: (m,) int64 ascending, unique; (m,) int64, all positive.

    A key is a position in the attribute's taxonomy or, for a pair of attributes (A, B),
    ``position in A * len(taxonomy of B) + position in B``.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def rows(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of ``records`` events. ``values[j]`` of attribute j; ``pairs[i, j]``, i < j, of rows that have both.

    Rows: an event whose array attribute has k elements is k rows (its scalars repeated); with none it is one row of
    its scalars alone. ``unknown[j]``: values of attribute j that found no concept (before the policy was applied).
    """

    records: int
    values: tuple[SparseCounts, ...]
    pairs: Mapping[tuple[int, int], SparseCounts]
    unknown: tuple[int, ...]
