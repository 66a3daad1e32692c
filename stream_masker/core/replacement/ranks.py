"""Ranges of ranks of candidates, for the engines for trees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.kernels.jit import inlined

SPAN = np.dtype([("first", np.int32), ("size", np.int32)])
"""The candidates at one depth below a concept: the rank of the first, and their number."""


class RankRange(NamedTuple):
    """Consecutive ranks of candidates."""

    first: int
    size: int


@inlined
def skip_ranges(first: int, one: RankRange, other: RankRange, index: int) -> int:
    """Return the rank with an index among the ranks from ``first`` on that are in neither of two disjoint ranges."""
    if one.first > other.first:
        one, other = other, one
    rank = first + index
    if rank >= one.first:
        rank += one.size
    return rank + other.size if rank >= other.first else rank
