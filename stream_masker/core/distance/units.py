"""Distances as integers, so that equal distances and equal sums of distances compare as equal."""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance.measures import Distance
from stream_masker.core.dtypes import Int32Array

UNIT = 232_792_560
"""The distance 1 as an integer: the least common multiple of 1 to 20.

Wu–Palmer distances in taxonomies that are not very deep are fractions with such denominators, so that they are exact.
"""

UNIT_ROWS = 256
"""The number of rows of distances that are held as floats at a time."""


def unit_distances(d: Distance, values: Int32Array) -> Int32Array:
    """Return (k + 1, k + 1) int32: the distances between k positions in units of 1/``UNIT``.

    The last row and column belong to a missing value, which is at distance 1 from every value.
    """
    result = np.full((values.size + 1, values.size + 1), UNIT, np.int32)
    result[-1, -1] = 0
    for start in range(0, values.size, UNIT_ROWS):
        rows = d.between(values[start : start + UNIT_ROWS], values)
        result[start : start + len(rows), :-1] = np.rint(rows * UNIT)
    return result
