"""Arrays that nobody writes to: those of an ontology made in memory and of one mapped from a file behave alike."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Int32: TypeAlias = NDArray[np.int32]
Int64: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]

Number = TypeVar("Number", bound=np.generic)


def frozen(array: NDArray[Number]) -> NDArray[Number]:
    """A contiguous array that cannot be written to (compiled code has one type for it, wherever it comes from)."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def offsets_of(lengths: NDArray[np.integer]) -> Int64:
    """(n + 1,) int64: where each of n pieces of these lengths starts, one after another, and the last one's end."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
