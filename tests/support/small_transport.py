"""A small table of pairs, and what masks tell of its values, for the oracles of transport."""

from __future__ import annotations

import numpy as np
import pytest
from stream_masker.core.risk.meaning import Guess, MeaningRisk, Membership

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


KINDS = (np.array([0, 1, 4]), np.array([2, 3, 4]), np.array([5, 6]))
"""Kinds of values, one of which is of two."""


def literal_meaning(by_value, slack=1e-5):
    """What masks tell of ``KINDS`` and of the values 0 to 2; ``by_value``: (k, m) P(value, mask)."""
    masks = by_value.sum(axis=0)
    by_value, masks = by_value[:, masks > 1e-9], masks[masks > 1e-9]
    of_kinds = np.array([by_value[kind].sum(axis=0) for kind in KINDS])
    group = by_value[:3].sum(axis=0)
    best, found = of_kinds.max(axis=0), group[group > 0.5 * masks].sum() / group.sum()
    guess = (of_kinds.sum(axis=1).max(), best.sum(), (best / masks).max())
    member = (group.sum(), found, (group / masks).max())
    return MeaningRisk(
        {"chapter": Guess(*(pytest.approx(figure, abs=slack) for figure in guess))},
        {"group": Membership(*(pytest.approx(figure, abs=slack) for figure in member))},
    )
