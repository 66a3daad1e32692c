"""Uniform fractions and indices from random words, for kernels."""

from __future__ import annotations

import numpy as np

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
