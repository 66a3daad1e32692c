"""A small table of pairs, and what masks tell of its values, for the oracles of transport."""

from __future__ import annotations

import numpy as np

from stream_masker.core.mechanisms.transport.scaling.table import Table

SHAPE = (9, 7)


def squares(rng, size):
    points = rng.random((size, 2)) / 1.5
    return ((points[:, None] - points[None]) ** 2).sum(axis=2)


def small_table():
    """A table of 30 pairs."""
    rng = np.random.default_rng(2)
    cells = np.sort(rng.choice(SHAPE[0] * SHAPE[1], 30, replace=False))
    return Table.of(*np.divmod(cells, SHAPE[1]), SHAPE)
