"""Numbers drawn from random words: uniform fractions and indices."""

from __future__ import annotations

import numpy as np

from stream_masker.core.kernels.jit import int64, kernel


@kernel
def uniform(word: np.uint64) -> float:
    """A float64 in [0, 1) of the 53 high bits of a random word."""
    return (word >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def index_below(word: np.uint64, size: int) -> int:
    """A random integer in 0 … size − 1, for sizes up to 2³¹; its bias is below size / 2³²."""
    return int64(((word >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))
