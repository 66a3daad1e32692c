"""Sums that stay exact to the last bit or so however many numbers are added to and taken from them."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.kernels.jit import inlined, kernel

SPLITTER = 134217729.0
"""2²⁷ + 1: parts a number into halves of 26 bits."""


class CompensatedSums:
    """k running sums of products, each with the rounding errors of all its products and additions beside it. Mutable.

    By Dekker's product and Knuth's sum (Ogita, Rump and Oishi 2005: algorithms 3.1 and 3.3): a sum is off by some
    2⁻¹⁰⁶ of the greatest sum on the way for each addition, beside what the numbers that were added are off themselves.
    ``parts``: (k, 2) float64, each sum and its error.
    """

    def __init__(self, values: Float64Array) -> None:
        """The sums to begin with, (k,)."""
        self.parts = np.stack((values, np.zeros_like(values)), axis=1)

    @property
    def values(self) -> Float64Array:
        """(k,): the sums, rounded once."""
        return np.asarray(self.parts[:, 0] + self.parts[:, 1])

    def add(self, numbers: Float64Array) -> None:
        """Adds a number to each sum: (k,)."""
        self.add_products(numbers[:, None], np.ones(1))

    def add_products(self, matrix: Float64Array, factors: Float64Array) -> None:
        """Adds Σ_j matrix[i, j]·factors[j], one by one, to each sum i: (k, c) and (c,)."""
        add_products(self.parts, matrix, factors)


@inlined
def exact_product(x: float, y: float | int) -> tuple[float, float]:
    """Dekker's product: x·y rounded, and what it is off."""
    product = x * y
    x_high = SPLITTER * x - (SPLITTER * x - x)
    y_high = SPLITTER * y - (SPLITTER * y - y)
    x_low = x - x_high
    y_low = y - y_high
    return product, x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low)


@inlined
def exact_sum(x: float, y: float) -> tuple[float, float]:
    """Knuth's sum: x + y rounded, and what it is off."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@kernel
def add_products(parts: Float64Matrix, matrix: Float64Matrix, factors: Float64Array) -> None:
    """Adds each product, and what it is off, to ``parts``: (k, 2), sums and errors."""
    for i in range(matrix.shape[0]):
        total = parts[i, 0]
        error = parts[i, 1]
        for j in range(matrix.shape[1]):
            product, product_error = exact_product(matrix[i, j], factors[j])
            total, sum_error = exact_sum(total, product)
            error += product_error
            error += sum_error
        parts[i, 0] = total
        parts[i, 1] = error
