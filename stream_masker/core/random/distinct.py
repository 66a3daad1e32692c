"""Number of distinct keys, from the smallest keyed hashes of the keys of records.

A sketch holds the ``SKETCH_SIZE`` smallest hashes. Sketches of several sets merge into the sketch of their union, so
keys that occur in several sets count once (Bar-Yossef et al. 2002, "Counting distinct elements in a data stream",
algorithm 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.random.blake2b import digests, keyed_state
from stream_masker.core.random.keys import checked_secret

SKETCH_SIZE: Final = 64
"""The most hashes in a sketch. Up to this number of keys the count is exact; above, its standard error is 13 %."""

HASH_BITS: Final = 63
"""Bits of a hash, so that it is a signed 64-bit integer in messages."""

Sketch: TypeAlias = tuple[int, ...]
"""The smallest hashes of a set of keys, ascending, each in [0, 2⁶³)."""


class KeyHasher:
    """Hashes of keys under a secret, by BLAKE2b. Without the secret nobody can tell whether a key has a hash."""

    def __init__(self, secret: bytes) -> None:
        """Raises ParameterError if the secret is empty."""
        self._state = keyed_state(checked_secret(secret), b"masker-distinct")

    def hashes(self, keys: Sequence[bytes]) -> Int64Array:
        """(n,) int64: the hashes, in [0, 2⁶³), of n keys."""
        return (digests(self._state, 0, keys)[:, 0] >> np.uint64(64 - HASH_BITS)).astype(np.int64)


def sketch(hashes: Int64Array) -> Sketch:
    """The sketch of (n,) hashes, in any order and with repetitions."""
    return tuple(np.unique(hashes)[:SKETCH_SIZE].tolist())


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """The sketch of the union of sets."""
    return tuple(sorted({one for found in sketches for one in found})[:SKETCH_SIZE])


def distinct(found: Sketch) -> int:
    """The number of distinct keys: exact below ``SKETCH_SIZE``, an estimate, rounded down, from there on."""
    if len(found) < SKETCH_SIZE:
        return len(found)
    return ((SKETCH_SIZE - 1) << HASH_BITS) // max(found[-1], 1)
