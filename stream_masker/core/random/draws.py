"""Numbers drawn from random words: uniform fractions, indices, normal and exponential variates."""

from __future__ import annotations

import math

import numpy as np

from stream_masker.core.dtypes import Float64Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels.jit import int64, kernel


@kernel
def uniform(word: np.uint64) -> float:
    """A number in [0, 1) with the 53 high bits of a random word."""
    return (word >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def index_below(word: np.uint64, size: int) -> int:
    """An integer in 0 … size - 1, for sizes up to 2³¹, from the 32 high bits of a random word.

    The probability of each integer differs from 1 / size by less than 2⁻³².
    """
    return int64(((word >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


def uniforms(words: UInt64Array) -> Float64Array:
    """(k,) float64 in [0, 1): the 53 high bits of each random word."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


@kernel
def normals(words: UInt64Matrix) -> Float64Array:
    """(k,) float64: standard normal variates from (k, 2) random words, the first of each Box–Muller pair."""
    result = np.empty(len(words), np.float64)
    for i in range(len(words)):
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform(words[i, 0])))
        result[i] = radius * math.cos(2.0 * math.pi * uniform(words[i, 1]))
    return result


@kernel
def exponential_roots(words: UInt64Array) -> Float64Array:
    """(k,) float64: √W from (k,) random words, W ~ Exp(1)."""
    result = np.empty(len(words), np.float64)
    for i in range(len(words)):
        result[i] = math.sqrt(-math.log(1.0 - uniform(words[i])))
    return result
