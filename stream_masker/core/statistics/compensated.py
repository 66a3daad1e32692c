"""Sums that stay exact to the last bit or so however many numbers are added to and taken from them."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


SPLITTER = 134217729.0
"""2²⁷ + 1: parts a number into halves of 26 bits."""


class CompensatedSums:
    """k running sums of products, each with the rounding errors of all its products and additions beside it. Mutable.

    By Dekker's product and Knuth's sum (Ogita, Rump and Oishi 2005: algorithms 3.1 and 3.3): a sum is off by some
    2⁻¹⁰⁶ of the greatest sum on the way for each addition, beside what the numbers that were added are off themselves.
    """

    def __init__(self, values: Floats) -> None:
        """The sums to begin with, (k,)."""
        self._sums = np.stack((values, np.zeros_like(values)))

    @property
    def values(self) -> Floats:
        """(k,): the sums, rounded once."""
        return np.asarray(self._sums[0] + self._sums[1])

    def rearranged(self, index: NDArray[np.int64], known: NDArray[np.bool_]) -> CompensatedSums:
        """New sums: that of ``index[i]`` where ``known[i]``, else 0; (l,) each."""
        result = CompensatedSums(np.zeros(index.size))
        result._sums[:, known] = self._sums[:, index[known]]
        return result

    def add(self, numbers: Floats) -> None:
        """Adds a number to each sum: (k,)."""
        self.add_products(numbers[:, None], np.ones(1))

    def add_products(self, matrix: Floats, factors: Floats) -> None:
        """Adds Σ_j matrix[i, j]·factors[j], one by one, to each sum i: (k, c) and (c,)."""
        add_products(self._sums, matrix, factors)


@njit(cache=True, nogil=True)
def add_products(sums, matrix, factors):  # type: ignore[no-untyped-def]
    """Adds each product, and what it is off, to ``sums``: (2, k), sums and errors."""
    for i in range(matrix.shape[0]):
        total = sums[0, i]
        error = sums[1, i]
        for j in range(matrix.shape[1]):
            x = matrix[i, j]
            y = factors[j]
            product = x * y
            x_high = SPLITTER * x - (SPLITTER * x - x)
            y_high = SPLITTER * y - (SPLITTER * y - y)
            x_low = x - x_high
            y_low = y - y_high
            error += x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low)
            after = total + product
            part = after - total
            error += (total - (after - part)) + (product - part)
            total = after
        sums[0, i] = total
        sums[1, i] = error
