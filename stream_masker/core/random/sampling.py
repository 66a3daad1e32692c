"""Sampling of records by position: a secret and the position alone decide which records are counted.

Each position has a *level*, the number of leading zero bits of its keyed pseudo-random word. The records of level l or
more are a uniform sample of rate 2⁻ˡ, and they include those of level l + 1 or more. A replay samples the same records.
Without the secret, nobody can tell or choose which records are sampled.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt64Array
from stream_masker.core.random.keys import checked_secret, contiguous_runs, keystream, length_prefixed

MAX_LEVEL: Final = 53
"""The greatest level. Levels are computed from 53 bits of a word, which a float64 holds exactly."""

WORDS_PER_BLOCK: Final = 8
"""Words in a block of the keystream. The low three bits of an offset select its word in the block."""


class PositionSampler:
    """Computes the levels of positions under a secret."""

    def __init__(self, secret: bytes) -> None:
        """Raises ParameterError if the secret is empty."""
        self._secret = checked_secret(secret)

    def levels(self, topic: str, partition: int, offsets: Int64Array) -> Int64Array:
        """Return (n,) int64: the levels, 0 … ``MAX_LEVEL``, of (n,) offsets of a partition. No offset is negative."""
        message = length_prefixed(topic.encode()) + partition.to_bytes(4, "little")
        key = hashlib.blake2b(message, digest_size=32, key=self._secret, person=b"masker-sampling").digest()
        words = [_words(key, offsets[start:end]) for start, end in contiguous_runs(offsets)]
        high = np.concatenate([np.empty(0, np.uint64), *words]) >> np.uint64(64 - MAX_LEVEL)
        return (MAX_LEVEL - np.frexp(high.astype(np.float64))[1]).astype(np.int64)


def _words(key: bytes, offsets: Int64Array) -> UInt64Array:
    """Return (k,) uint64: the words of one run of ascending offsets with small gaps."""
    if not len(offsets):
        return np.empty(0, np.uint64)
    first, last = int(offsets[0]) // WORDS_PER_BLOCK, int(offsets[-1]) // WORDS_PER_BLOCK
    stream = np.frombuffer(keystream(key, first, last - first + 1), dtype="<u8")
    return stream[offsets - first * WORDS_PER_BLOCK]
