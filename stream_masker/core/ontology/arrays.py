"""Arrays that nobody writes to: those of an ontology made in memory and of one mapped from a file behave alike."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Int64Array

Number = TypeVar("Number", bound=np.generic)


def frozen_array(array: NDArray[Number]) -> NDArray[Number]:
    """A contiguous array that cannot be written to (compiled code has one type for it, wherever it comes from)."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def offsets_from_lengths(lengths: NDArray[np.integer]) -> Int64Array:
    """(n + 1,) int64: where each of n pieces of these lengths starts, one after another, and the last one's end."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
