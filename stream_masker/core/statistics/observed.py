"""The set of concepts that have occurred so far: one bit per concept, packed to travel with the statistics."""

from __future__ import annotations

import base64
import binascii
import zlib

import numpy as np

from stream_masker.core.dtypes import BoolArray
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.errors import StatisticsError


def pack_observed(observed: BoolArray) -> str:
    """Return base64 of the mask's zlib-compressed bits; the first concept is the highest bit of the first byte."""
    return base64.b64encode(zlib.compress(np.packbits(observed).tobytes())).decode("ascii")


def unpack_observed(text: str, size: int) -> BoolArray:
    """Return (size,) bool: the inverse of ``pack_observed``. Raises StatisticsError for any other text."""
    length = (size + 7) // 8
    try:
        packed = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), length + 1)
    except (ValueError, binascii.Error, zlib.error):
        raise StatisticsError("the packed mask of observed concepts cannot be decoded") from None
    if len(packed) != length:
        raise StatisticsError("the packed mask of observed concepts belongs to a taxonomy of another size")
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=size).astype(np.bool_)


def observed_concepts(counts: SparseCounts, size: int) -> BoolArray:
    """Return (size,) bool: the positions that occur in the counts."""
    mask = np.zeros(size, dtype=np.bool_)
    mask[counts.keys] = True
    return mask


def novel_share(counts: SparseCounts, observed: BoolArray) -> float:
    """Return the share, in [0, 1], of the values whose concept had not been observed before; 0 for no values."""
    return int(counts.counts[~observed[counts.keys]].sum()) / max(counts.rows, 1)
