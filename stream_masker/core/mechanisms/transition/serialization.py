"""Serialization of a mechanism's model: arrays as JSON texts.

An array is packed as base64 of its zlib-compressed little-endian bytes.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.mechanisms.transition.trie import Domain
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.errors import StatisticsError


def pack_array(array: NDArray[Any]) -> str:
    """Return the text of an array's numbers, in order; the reader must know shape and type."""
    return base64.b64encode(zlib.compress(array.astype(array.dtype.newbyteorder("<")).tobytes())).decode("ascii")


def unpack_array(
    text: object, dtype: type[np.generic], size: int | None = None, *, max_size: int = 1 << 22
) -> NDArray[Any]:
    """Unpack what ``pack_array`` returns: (size,) numbers, or at most ``max_size`` if ``size`` is None.

    Raises StatisticsError unless the text is a packed array of that type and size.
    """
    element_type = np.dtype(dtype).newbyteorder("<")
    data = _inflated(text, (max_size if size is None else size) * element_type.itemsize)
    if len(data) % element_type.itemsize or (size is not None and len(data) != size * element_type.itemsize):
        raise StatisticsError("a packed array of the model has an unexpected size")
    return np.frombuffer(data, element_type).astype(dtype)


def _inflated(text: object, limit: int) -> bytes:
    """Return the decompressed bytes. Raises StatisticsError if there are more than ``limit``."""
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(base64.b64decode(str(text), validate=True), limit + 1)
    except (ValueError, binascii.Error, zlib.error):
        raise StatisticsError("a packed array of the model cannot be decoded") from None
    if len(data) > limit or not stream.eof:
        raise StatisticsError("a packed array of the model has an unexpected size or is truncated")
    return data


def read_model_field(model: object, field: str) -> object:
    """Return a field of a model. Raises StatisticsError if it is missing."""
    if not isinstance(model, Mapping) or field not in model:
        raise StatisticsError(f"the model has no {field}")
    return model[field]


def read_array(
    model: object, field: str, dtype: type[np.generic], size: int | None = None, *, low: float, high: float = np.inf
) -> NDArray[Any]:
    """Return a packed array of a model: (size,) numbers in [low, high]. Raises StatisticsError."""
    array = unpack_array(read_model_field(model, field), dtype, size)
    if not ((array >= low) & (array <= high)).all():
        raise StatisticsError(f"the {field} of the model are not from {low:g} to {high:g}")
    return array


def read_float(model: object, field: str, low: float, high: float) -> float:
    """Return a number of a model in [low, high]. Raises StatisticsError."""
    number = read_model_field(model, field)
    if not isinstance(number, float) or not low <= number <= high:
        raise StatisticsError(f"the {field} of the model is not a number from {low:g} to {high:g}")
    return number


def pack_counts(column: SparseCounts) -> dict[str, Any]:
    """Pack an attribute's values and the count of each, in their order."""
    return {"values": pack_array(column.keys.astype(np.int32)), "counts": pack_array(column.counts)}


def unpack_counts(model: Mapping[str, Any], taxonomy_size: int) -> Domain:
    """Return the domain that ``pack_counts`` packed; ``taxonomy_size``: the number of concepts.

    Raises StatisticsError.
    """
    values = unpack_array(read_model_field(model, "values"), np.int32)
    return Domain.of(values, unpack_array(read_model_field(model, "counts"), np.int64, values.size), taxonomy_size)
