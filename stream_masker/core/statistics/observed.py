"""Which concepts have ever occurred, in a bit each: small enough to travel with the statistics."""

from __future__ import annotations

import base64
import binascii
import zlib

import numpy as np

from stream_masker.core.dtypes import BoolArray
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.errors import StatisticsError


def pack_mask(seen: BoolArray) -> str:
    """Base64 of the zlib-compressed bits, the first concept in the highest bit of the first byte."""
    return base64.b64encode(zlib.compress(np.packbits(seen).tobytes())).decode("ascii")


def unpack_mask(text: str, size: int) -> BoolArray:
    """(size,) bool: the inverse of ``pack_mask``. Raises StatisticsError for anything else."""
    length = (size + 7) // 8
    try:
        packed = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), length + 1)
    except (ValueError, binascii.Error, zlib.error):
        raise StatisticsError("the packed concepts of the statistics cannot be read") from None
    if len(packed) != length:
        raise StatisticsError("the packed concepts of the statistics are those of a taxonomy of another size")
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=size).astype(np.bool_)


def occurring(counts: SparseCounts, size: int) -> BoolArray:
    """(size,) bool: the positions that occur."""
    mask = np.zeros(size, dtype=np.bool_)
    mask[counts.keys] = True
    return mask


def novel_share(counts: SparseCounts, seen: BoolArray) -> float:
    """The share, in [0, 1], of the values whose concept had not been seen; 0 for no values."""
    return int(counts.counts[~seen[counts.keys]].sum()) / max(counts.rows, 1)
