"""Arrays in a mechanism's model, as JSON texts: base64 of the zlib-compressed little-endian bytes."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import BoolArray, Int32Array, Int64Array
from stream_masker.errors import StatisticsError

MAX_BYTES = 1 << 28
"""The maximum size of an array: a small text could stand for one that fills the memory."""


def pack_array(array: NDArray[Any]) -> str:
    """Return the text of an array's numbers, in order; the reader must know shape and type."""
    return base64.b64encode(zlib.compress(array.astype(array.dtype.newbyteorder("<")).tobytes())).decode("ascii")


def unpack_array(text: object, dtype: type[np.generic], size: int | None = None) -> NDArray[Any]:
    """Unpack what ``pack_array`` returns: (size,) numbers, or any number if ``size`` is None.

    Raises StatisticsError unless the text is a packed array of that type and size, of at most ``MAX_BYTES``.
    """
    unpacked = zlib.decompressobj()
    try:
        data = unpacked.decompress(base64.b64decode(str(text), validate=True), MAX_BYTES)
        array = np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype)
    except (ValueError, zlib.error):
        raise StatisticsError("a packed array of the model cannot be decoded") from None
    if not unpacked.eof:
        raise StatisticsError("a packed array of the model is damaged, or too large")
    if size is not None and array.size != size:
        raise StatisticsError("a packed array of the model has an unexpected size")
    return array


def read_model_field(model: object, field: str) -> object:
    """Return a field of a model. Raises StatisticsError if it is missing."""
    if not isinstance(model, Mapping) or field not in model:
        raise StatisticsError(f"the model has no {field}")
    return model[field]


def pack_counts(values: NDArray[np.integer], counts: Int64Array) -> dict[str, Any]:
    """Pack an attribute's values, ascending positions, and the count of each."""
    return {"values": pack_array(values.astype(np.int32)), "counts": pack_array(counts)}


def unpack_counts(model: object) -> tuple[Int32Array, Int64Array]:
    """Return what ``pack_counts`` packed: (v,) int32 positions, ascending, and (v,) int64 counts.

    Raises StatisticsError for anything else. A packed array has a checksum, so that its numbers need no check.
    """
    values = unpack_array(read_model_field(model, "values"), np.int32)
    return values, unpack_array(read_model_field(model, "counts"), np.int64, values.size)


def pack_observed(observed: BoolArray) -> str:
    """Return the text of a mask; the first concept is the highest bit of the first byte."""
    return pack_array(np.packbits(observed))


def unpack_observed(text: str, size: int) -> BoolArray:
    """Return (size,) bool: the inverse of ``pack_observed``. Raises StatisticsError for any other text."""
    return np.unpackbits(unpack_array(text, np.uint8, (size + 7) // 8), count=size).astype(np.bool_)
