"""Compiled sums over blocks of rows of a distance matrix, for taxonomies in which depths do not tell distances."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def times_counts(block, first, second, counts, columns):  # type: ignore[no-untyped-def]
    """(r, columns): ``block`` (r, k), rows of ΔA, times N, whose non-zeros are ``counts`` at (first, second)."""
    result = np.zeros((block.shape[0], columns), np.float64)
    for i in range(block.shape[0]):
        for p in range(first.size):
            result[i, second[p]] += counts[p] * block[i, first[p]]
    return result


@njit(cache=True, nogil=True)
def row_products(spread, centred, first, second, counts):  # type: ignore[no-untyped-def]
    """Σ N_ab · (row a of ΔA N)·(row b of ΔB): ``spread`` and ``centred`` hold those rows."""
    total = 0.0
    for p in range(first.size):
        inner = 0.0
        for k in range(spread.shape[1]):
            inner += spread[first[p], k] * centred[second[p], k]
        total += counts[p] * inner
    return total
