"""Sums of arrays, for kernels. All arrays are contiguous and one-dimensional, and the sum has their type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.kernels.jit import summing


@summing
def sum_of(array: NDArray[np.floating[Any]]) -> float:
    """Return the sum of an array."""
    total = array.dtype.type(0)
    for i in range(array.size):
        total += array[i]
    return total  # type: ignore[return-value]  # of the array's type


@summing
def sum_of_products(one: NDArray[np.floating[Any]], other: NDArray[np.floating[Any]]) -> float:
    """Return Σ ``one[i] * other[i]`` of two arrays of equal size and type."""
    total = one.dtype.type(0)
    for i in range(one.size):
        total += one[i] * other[i]
    return total  # type: ignore[return-value]  # of the array's type
