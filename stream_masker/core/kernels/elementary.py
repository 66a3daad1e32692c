"""Functions of arrays whose every bit is the same on all processors with fused multiplication.

NumPy has an exponential and a logarithm for each family of processors, and a BLAS has sums for each of them. The rounds
of a search make the differences of their last bits great enough to change masks. Here, each number is that of the C
library, and the order of sums is that of ``core.kernels.simd``.
"""

from __future__ import annotations

import math
from typing import TypeVar, cast

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.kernels.simd import sum_of_products

Numbers = TypeVar("Numbers", bound=Float64Array)
"""float64 of any shape."""

DEPENDENT = 1e-20
"""The share of a row's square that must be left after its projection on the rows before it."""


def exponentials(values: Numbers) -> Numbers:
    """Return exp of each value of an array of any shape."""
    return cast(Numbers, _exponentials(values.ravel()).reshape(values.shape))


def logarithms(values: Numbers) -> Numbers:
    """Return ln of each value of an array of any shape; −inf for 0."""
    return cast(Numbers, _logarithms(values.ravel()).reshape(values.shape))


def logarithm(value: float) -> float:
    """Return ln of a number; −inf for 0, where ``math.log`` raises an error."""
    return math.log(value) if value else -math.inf


@kernel
def _exponentials(values: Float64Array) -> Float64Array:
    result = np.empty(values.size)
    for i in range(values.size):
        result[i] = np.exp(values[i])
    return result


@kernel
def _logarithms(values: Float64Array) -> Float64Array:
    result = np.empty(values.size)
    for i in range(values.size):
        result[i] = np.log(values[i])
    return result


@kernel
def inner_product(one: Float64Array, other: Float64Array) -> float:
    """Return Σ one·other of two arrays of equal size."""
    total: float = sum_of_products(one, other)
    return total


@kernel
def least_squares(rows: Float64Matrix, wanted: Float64Array) -> Float64Array:
    """Return (h,) the coefficients of the sum of rows that is nearest to what is wanted, by Gram and Schmidt's method.

    ``rows``: (h, m), h far less than m. ``wanted``: (m,). A row that depends on those before it has the coefficient 0.
    """
    size = rows.shape[0]
    basis, rest = rows.copy(), wanted.copy()
    squares, parts, shares = np.zeros(size), np.zeros(size), np.zeros((size, size))
    for i in range(size):
        vector = basis[i]
        before = sum_of_products(vector, vector)
        for j in range(i):
            if squares[j] > 0.0:
                other = basis[j]
                share = sum_of_products(vector, other) / squares[j]
                shares[j, i] = share
                for x in range(vector.size):
                    vector[x] -= share * other[x]
        left = sum_of_products(vector, vector)
        if left > DEPENDENT * before:
            squares[i] = left
            parts[i] = sum_of_products(vector, rest) / left
            for x in range(vector.size):
                rest[x] -= parts[i] * vector[x]
    result = np.zeros(size)
    for i in range(size - 1, -1, -1):
        if squares[i] > 0.0:
            result[i] = parts[i]
            for k in range(i + 1, size):
                result[i] -= shares[i, k] * result[k]
    return result
