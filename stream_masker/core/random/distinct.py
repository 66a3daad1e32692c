"""Estimates of the number of distinct keys, from the smallest keyed hashes of the keys.

A sketch holds the ``SKETCH_SIZE`` smallest hashes. Sketches of several sets merge into the sketch of their union, so
keys that occur in several sets count once (Bar-Yossef et al. 2002, "Counting distinct elements in a data stream",
algorithm 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.random.keys import SecretHash

SKETCH_SIZE: Final = 64
"""Maximum number of hashes in a sketch. The count of fewer keys is exact; otherwise its standard error is 13 %."""

HASH_BITS: Final = 63
"""Bits of a hash. 63 bits fit into the signed 64-bit integers of messages."""

Sketch: TypeAlias = tuple[int, ...]
"""The smallest hashes of a set of keys, ascending, each in [0, 2⁶³)."""


class KeyHasher:
    """Hashes keys with BLAKE2b under a secret. Without the secret, nobody can test whether a hash is that of a given
    key."""

    def __init__(self, secret: bytes) -> None:
        """Raises ParameterError if the secret is empty."""
        self._hash = SecretHash(secret, person=b"masker-distinct")

    def hashes(self, keys: Sequence[bytes]) -> Int64Array:
        """Return (n,) int64: the hashes of n keys, in [0, 2⁶³)."""
        return (self._hash.words(0, keys)[:, 0] >> np.uint64(64 - HASH_BITS)).astype(np.int64)


def sketch(hashes: Int64Array) -> Sketch:
    """Return the sketch of (n,) hashes, in any order and with repetitions."""
    return tuple(np.unique(hashes)[:SKETCH_SIZE].tolist())


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """Return the sketch of the union of the sets."""
    return tuple(sorted({one for found in sketches for one in found})[:SKETCH_SIZE])


def distinct(found: Sketch) -> int:
    """Return the number of distinct keys.

    Below ``SKETCH_SIZE`` it is exact; from there on it is an estimate, rounded down.
    """
    if len(found) < SKETCH_SIZE:
        return len(found)
    return ((SKETCH_SIZE - 1) << HASH_BITS) // max(found[-1], 1)
