"""Array types that the whole package shares.

An ``…Array`` has one dimension where a kernel's signature names it, and any number elsewhere; a ``…Matrix`` has two
dimensions, a ``…Cube`` three.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Float64Array: TypeAlias = NDArray[np.float64]
Float32Array: TypeAlias = NDArray[np.float32]
Int32Array: TypeAlias = NDArray[np.int32]
Int64Array: TypeAlias = NDArray[np.int64]
UInt8Array: TypeAlias = NDArray[np.uint8]
UInt64Array: TypeAlias = NDArray[np.uint64]
BoolArray: TypeAlias = NDArray[np.bool_]
Levels: TypeAlias = NDArray[np.unsignedinteger]
"""Indices into the distinct distances of a taxonomy: uint8 for up to 256 of them, otherwise uint16 (or uint32)."""

Float64Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Float32Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32]]
Int32Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int32]]
Int64Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int64]]
UInt16Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint16]]
UInt64Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint64]]

Float64Cube: TypeAlias = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]
Int32Cube: TypeAlias = np.ndarray[tuple[int, int, int], np.dtype[np.int32]]
