"""Distances as integers: equal ones stay equal, and a missing value is at distance 1."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from support.graphs import taxonomies

from stream_masker.core.distance import UNIT, WuPalmer, unit_distances


@given(taxonomies(most=20))
def test_integers_have_the_order_of_the_distances(tau):
    values = np.arange(len(tau), dtype=np.int32)
    matrix, units = WuPalmer(tau).matrix(values), unit_distances(WuPalmer(tau), values)
    assert np.abs(units[:-1, :-1] / UNIT - matrix).max() < 1e-8
    equal = units[:-1, :-1, None] == units[:-1, None, :-1]
    assert (equal == (np.abs(matrix[:, :, None] - matrix[:, None, :]) < 1e-9)).all()
    assert units[-1, -1] == 0
    assert (units[-1, :-1] == UNIT).all()
    assert (units[:-1, -1] == UNIT).all()
