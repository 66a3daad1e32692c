"""Arrays in a mechanism's model: base64 of zlib of little-endian bytes, so that they travel as JSON; and what of them
the mechanisms share that mask by transitions between an attribute's values."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.mechanisms.transition.transitions import Domain
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.errors import StatisticsError


def pack_array(array: NDArray[Any]) -> str:
    """The text of an array's numbers, in order; shape and type are the reader's to know."""
    return base64.b64encode(zlib.compress(array.astype(array.dtype.newbyteorder("<")).tobytes())).decode("ascii")


def unpack_array(
    text: object, dtype: type[np.generic], size: int | None = None, *, most: int = 1 << 22
) -> NDArray[Any]:
    """The inverse of ``pack_array``: (size,) numbers, or up to ``most`` for None.

    Raises StatisticsError for what is no packed array of that type and size.
    """
    kind = np.dtype(dtype).newbyteorder("<")
    data = _inflated(text, (most if size is None else size) * kind.itemsize)
    if len(data) % kind.itemsize or (size is not None and len(data) != size * kind.itemsize):
        raise StatisticsError("a packed array of the model has another size")
    return np.frombuffer(data, kind).astype(dtype)


def _inflated(text: object, limit: int) -> bytes:
    """All of what was packed, if it is no more than ``limit`` bytes."""
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(base64.b64decode(str(text), validate=True), limit + 1)
    except (ValueError, binascii.Error, zlib.error):
        raise StatisticsError("a packed array of the model cannot be read") from None
    if len(data) > limit or not stream.eof:
        raise StatisticsError("a packed array of the model has another size, or is cut off")
    return data


def read_model_field(model: object, field: str) -> object:
    """A field of a model. Raises StatisticsError."""
    if not isinstance(model, Mapping) or field not in model:
        raise StatisticsError(f"the model has no {field}")
    return model[field]


def pack_counts(column: SparseCounts) -> dict[str, Any]:
    """An attribute's values and how often each occurs, in their order."""
    return {"values": pack_array(column.keys.astype(np.int32)), "counts": pack_array(column.counts)}


def unpack_counts(model: Mapping[str, Any], concepts: int) -> Domain:
    """The domain of what ``pack_counts`` packed; ``concepts``: of the taxonomy. Raises StatisticsError."""
    values = unpack_array(read_model_field(model, "values"), np.int32)
    return Domain.of(values, unpack_array(read_model_field(model, "counts"), np.int64, values.size), concepts)
