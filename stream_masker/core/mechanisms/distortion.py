"""What masking did to values, where there is no noise to hold it against."""

from __future__ import annotations

import numpy as np

from stream_masker.core.batch import Tally
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Int32Array


def distortion_tally(before: Int32Array, after: Int32Array, d: Distance, *, truncated: int = 0) -> Tally:
    """Of the values of one attribute, (k,) positions each; ``truncated``: those that the mechanism could not mask."""
    changed = before != after
    apart = d.pairs(before[changed], after[changed])
    there = int(np.count_nonzero(before >= 0))
    return Tally(values=there, squared_distance=float((apart**2).sum()), truncated=truncated)
