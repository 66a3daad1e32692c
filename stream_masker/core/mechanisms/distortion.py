"""The distortion of mechanisms that add no noise."""

from __future__ import annotations

import numpy as np

from stream_masker.core.batch import Distortion
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Int32Array


def distortion_of(before: Int32Array, after: Int32Array, d: Distance, *, truncated: int = 0) -> Distortion:
    """Return the distortion of one attribute's values; its ``squared_noise`` is 0.

    * ``before``, ``after``: (k,) int32 positions.
    * ``truncated``: the number of values that the mechanism could not mask.
    """
    changed = before != after
    distances = d.pairs(before[changed], after[changed])
    present = int(np.count_nonzero(before >= 0))
    return Distortion(
        values=present,
        squared_distance=float((distances**2).sum()),
        truncated=truncated,
        unchanged=present - int(np.count_nonzero(changed)),
    )
