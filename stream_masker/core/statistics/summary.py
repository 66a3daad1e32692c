"""Versioned statistics of a calibration window, for masking and for measuring drift.

Arrays in them are JSON texts: base64 of the zlib-compressed little-endian bytes.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import BoolArray, Float64Array, Int32Array, Int64Array
from stream_masker.errors import StatisticsError


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The statistics of one window over p attributes. Immutable.

    * ``version``: 1, 2, …
    * ``records``: the number of events in the window.
    * ``attributes``: (p,) names, the order of rows and columns.
    * ``mean[a]``: sMean, a concept id. ``variance[a]``: sVar, in [0, 1].
    * ``covariance``: (p, p) float64, Σ of 2017's equation 22: sdVar on the diagonal, sdCov off it, projected to the
      nearest positive semidefinite matrix. ``projection``: the Frobenius norm of that change; 0 if none was needed.
    * ``correlation``: (p, p) float64, sdCor over the rows that have both attributes; 1 on the diagonal, or 0 for a
      constant attribute.
    * ``observed[a]``: the concepts of a that occur in this or in an earlier window, packed by ``pack_observed``.
    * ``values[a]``: how often each concept of a occurs; for a scalar, in how many events. Empty for statistics that
      people may see.
    * ``model``: what a mechanism needs of the window in addition, JSON-serialisable; empty for most mechanisms.
    """

    version: int
    records: int
    attributes: tuple[str, ...]
    mean: Mapping[str, str]
    variance: Mapping[str, float]
    covariance: Float64Array
    correlation: Float64Array
    projection: float
    observed: Mapping[str, str] = field(repr=False)
    values: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)
    model: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def correlation_change(self, other: Statistics) -> Float64Array:
        """Return (p, p) float64: |ΔsdCor| of each pair. Raises StatisticsError for statistics of other attributes."""
        if self.attributes != other.attributes:
            raise StatisticsError("only statistics of the same attributes, in the same order, can be compared")
        return np.abs(self.correlation - other.correlation)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form. ``from_dict`` restores equal statistics, every float to the last bit.

        ``values`` and ``model`` are left out if they are empty.
        """
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _plain(value) for name, value in held.items() if name not in ("values", "model") or value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Statistics:
        """Restore what ``to_dict`` returns. Raises StatisticsError if a field is missing or has another shape."""
        try:
            names = tuple(map(str, data["attributes"]))
            held: dict[str, Any] = {
                name: {a: read(data[name][a]) for a in names}
                for name, read in (("mean", str), ("variance", float), ("observed", str), ("values", _counts))
                if name in data
            }
            for name in ("covariance", "correlation"):
                held[name] = np.array(data[name], np.float64).reshape([len(names)] * 2)
            return cls(
                version=int(data["version"]),
                records=int(data["records"]),
                attributes=names,
                projection=float(data["projection"]),
                model=dict(data.get("model", {})),
                **held,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StatisticsError(f"the statistics do not have the expected format ({type(error).__name__})") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(own) for name, own in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value


def _counts(given: Mapping[str, Any]) -> dict[str, int]:
    counts = {str(concept): int(count) for concept, count in given.items()}
    if min(counts.values(), default=1) < 1:
        raise ValueError("a count is not positive")
    return counts


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
