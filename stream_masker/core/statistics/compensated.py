"""Running sums with compensated rounding errors."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.kernels.jit import inlined, kernel

SPLITTER = 134217729.0
"""2²⁷ + 1: splits a float64 into two halves of 26 bits (Dekker 1971)."""


class CompensatedSums:
    """k running sums of products, each with its accumulated rounding error. Mutable.

    Uses Dekker's product and Knuth's sum (Ogita, Rump and Oishi 2005: algorithms 3.1 and 3.3). Each addition
    contributes an error of about 2⁻¹⁰⁶ relative to the largest intermediate sum, in addition to the error of the
    numbers themselves.

    ``sums_and_errors``: (k, 2) float64, each sum and its error.
    """

    def __init__(self, values: Float64Array) -> None:
        """Start from the sums ``values``, (k,) float64."""
        self.sums_and_errors = np.stack((values, np.zeros_like(values)), axis=1)

    @property
    def values(self) -> Float64Array:
        """(k,) float64: the sums, rounded once."""
        return np.asarray(self.sums_and_errors[:, 0] + self.sums_and_errors[:, 1])

    def add(self, numbers: Float64Array) -> None:
        """Add one number to each sum; ``numbers``: (k,) float64."""
        self.add_products(numbers[:, None], np.ones(1))

    def add_products(self, matrix: Float64Array, factors: Float64Array) -> None:
        """Add Σ_j matrix[i, j]·factors[j] to each sum i, product by product; ``matrix``: (k, c), ``factors``: (c,)."""
        add_products(self.sums_and_errors, matrix, factors)


@inlined
def exact_product(x: float, y: float | int) -> tuple[float, float]:
    """Return x·y rounded and its error (Dekker's product)."""
    product = x * y
    x_high = SPLITTER * x - (SPLITTER * x - x)
    y_high = SPLITTER * y - (SPLITTER * y - y)
    x_low = x - x_high
    y_low = y - y_high
    return product, x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low)


@inlined
def exact_sum(x: float, y: float) -> tuple[float, float]:
    """Return x + y rounded and its error (Knuth's sum)."""
    total = x + y
    rounded_y = total - x
    return total, (x - (total - rounded_y)) + (y - rounded_y)


@kernel
def add_products(sums_and_errors: Float64Matrix, matrix: Float64Matrix, factors: Float64Array) -> None:
    """Add the products Σ_j matrix[i, j]·factors[j], and their errors, to each row i of ``sums_and_errors``, (k, 2)."""
    for i in range(matrix.shape[0]):
        total = sums_and_errors[i, 0]
        error = sums_and_errors[i, 1]
        for j in range(matrix.shape[1]):
            product, product_error = exact_product(matrix[i, j], factors[j])
            total, sum_error = exact_sum(total, product)
            error += product_error
            error += sum_error
        sums_and_errors[i, 0] = total
        sums_and_errors[i, 1] = error
