"""Compiled sums over blocks of a distance matrix, 32 columns wide, where depths do not tell distances."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def times_counts(block, shift, offsets, rows, counts, result):  # type: ignore[no-untyped-def]
    """``result`` (l, 32): each column b of N times the block less ``shift``, Σ_a N_ab · (block[a] - shift).

    ``block``: (k, 32). Column b's counts are those from offsets[b] to offsets[b + 1], of the rows a in ``rows``.
    """
    result[:] = 0.0
    for b in range(offsets.size - 1):
        for p in range(offsets[b], offsets[b + 1]):
            a = rows[p]
            count = counts[p]
            for lane in range(block.shape[1]):
                result[b, lane] += count * (block[a, lane] - shift)


@njit(cache=True, nogil=True)
def hold(products, row, held):  # type: ignore[no-untyped-def]
    """Stores ``products`` (l, 32) as the rows from ``row`` on of ``held`` (tiles, rows, 32), 32 columns in a tile."""
    lanes = held.shape[2]
    for tile in range(held.shape[0]):
        end = min(lanes, products.shape[0] - tile * lanes)
        for lane in range(min(lanes, held.shape[1] - row)):
            for b in range(end):
                held[tile, row + lane, b] = products[tile * lanes + b, lane]


@njit(cache=True, nogil=True)
def row_products(held, block, shift, first, second, counts):  # type: ignore[no-untyped-def]
    """Σ N_ab · (row a of ``held``)·(row b of ``block`` less ``shift``): (r, 32) and (k, 32)."""
    lanes = np.zeros(block.shape[1], np.float64)
    for p in range(first.size):
        a = first[p]
        b = second[p]
        count = counts[p]
        for lane in range(lanes.size):
            lanes[lane] += count * held[a, lane] * (block[b, lane] - shift)
    return lanes.sum()


@njit(cache=True, nogil=True)
def order_by(column, offsets):  # type: ignore[no-untyped-def]
    """(p,) int64: the indices of the entries of ``column`` from the least on, equal ones as they come."""
    next_of = offsets[:-1].copy()
    order = np.empty(column.size, np.int64)
    for p in range(column.size):
        order[next_of[column[p]]] = p
        next_of[column[p]] += 1
    return order
