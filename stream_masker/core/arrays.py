"""Types of arrays that the whole package shares, read-only arrays, variable-length rows, and arrays as texts.

An ``…Array`` has one dimension where a kernel's signature names it, and any number elsewhere; a ``…Matrix`` has two
dimensions, a ``…Cube`` three. Variable-length rows are stored as *compressed rows*: one array of values, and an array
of offsets such that row k is ``values[offsets[k]:offsets[k + 1]]``. Arrays in JSON are texts: base64 of the
zlib-compressed little-endian bytes.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.errors import StatisticsError

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
Int32Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int32]]
Int64Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int64]]
UInt64Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint64]]

Float32Cube: TypeAlias = np.ndarray[tuple[int, int, int], np.dtype[np.float32]]
Float64Cube: TypeAlias = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]
Int32Cube: TypeAlias = np.ndarray[tuple[int, int, int], np.dtype[np.int32]]

Number = TypeVar("Number", bound=np.generic)
Floats = TypeVar("Floats", NDArray[np.float32], NDArray[np.float64])


def frozen_array(array: NDArray[Number]) -> NDArray[Number]:
    """Return a contiguous, read-only view of an array.

    Compiled functions have one specialisation for such arrays, whether they were computed or mapped from a file.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def offsets_from_lengths(lengths: NDArray[np.integer]) -> Int64Array:
    """Return (n + 1,) int64: the offsets of n consecutive rows of the given lengths."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return offsets


def run_edges(values: NDArray[Number]) -> Int64Array:
    """Return (k + 1,) int64: the index of the first entry of each run of equal values, and n at the end.

    ``values``: (n,). If they are sorted, each run is one distinct value.
    """
    is_edge = np.ones(values.size + 1, np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_edge[1:-1])
    return is_edge.nonzero()[0]


def ratio(part: Floats | np.float32, whole: Floats) -> Floats:
    """Return part / whole; 0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0.0)


def slices(array: NDArray[Number], lengths: Iterable[int]) -> list[NDArray[Number]]:
    """Return consecutive parts of an array, of these lengths; views."""
    stops = list(accumulate(lengths, initial=0))
    return [array[start:stop] for start, stop in pairwise(stops)]


def ranges(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """Concatenate the index ranges ``starts[k] … starts[k] + lengths[k] - 1``."""
    ends = lengths.cumsum()
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if ends.size else 0)


def pack_array(array: NDArray[Any]) -> str:
    """Return the text of an array's numbers, in order; the reader must know shape and type."""
    return base64.b64encode(zlib.compress(array.astype(array.dtype.newbyteorder("<")).tobytes())).decode("ascii")


def unpack_array(text: object, dtype: type[np.generic], size: int | None = None) -> NDArray[Any]:
    """Unpack what ``pack_array`` returns: (size,) numbers, or any number if ``size`` is None.

    Raises StatisticsError unless the text is a packed array of that type and size.
    """
    try:
        data = zlib.decompress(base64.b64decode(str(text), validate=True))
        array = np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype)
    except (ValueError, zlib.error):
        raise StatisticsError("a packed array of the model cannot be decoded") from None
    if size is not None and array.size != size:
        raise StatisticsError("a packed array of the model has an unexpected size")
    return array


def pack_observed(observed: BoolArray) -> str:
    """Return the text of a mask; the first concept is the highest bit of the first byte."""
    return pack_array(np.packbits(observed))


def unpack_observed(text: str, size: int) -> BoolArray:
    """Return (size,) bool: the inverse of ``pack_observed``. Raises StatisticsError for any other text."""
    return np.unpackbits(unpack_array(text, np.uint8, (size + 7) // 8), count=size).astype(np.bool_)
