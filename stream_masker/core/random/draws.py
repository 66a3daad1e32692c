"""Numbers drawn from random words: fractions, indices, variates, and which records are counted."""

from __future__ import annotations

import hashlib
import math
from typing import Final

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.random.keys import checked_secret, contiguous_runs, keystream, length_prefixed


@kernel
def uniform(word: np.uint64) -> float:
    """Return a number in [0, 1) from the 53 high bits of a random word."""
    return int64(word >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def index_below(word: np.uint64, size: int) -> int:
    """Return an integer in 0 … size - 1 from the 32 high bits of a random word; ``size`` is at most 2³¹.

    The probability of each integer differs from 1 / size by less than 2⁻³².
    """
    return int64(((word >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@inlined
def mixed_word(word: np.uint64) -> np.uint64:
    """Return another random word, computed by the finalizer of SplitMix64."""
    word += np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def salts_of(positions: Int32Array) -> UInt64Array:
    """Return (k,) uint64: a salt of each concept for ``accepts``. A concept has the same salt in every window."""
    result = np.empty(positions.size, np.uint64)
    for i in range(positions.size):
        result[i] = mixed_word(np.uint64(positions[i]))
    return result


@inlined
def accepts(word: np.uint64, salt: np.uint64, weight: float, left: float) -> bool:
    """Return whether a candidate is drawn when candidates are visited one after the other.

    The candidate is drawn with probability ``weight`` / ``left``, where ``left`` is the total weight of this and all
    later candidates. The candidates are thus drawn in proportion to their weights. The random number of a candidate
    depends only on the word and on its ``salt``. A small change of the weights therefore changes few draws: the
    decision on a visited candidate changes only with the probability by which its own probability changed.
    """
    mixed = (word ^ salt) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    return uniform(mixed) * left < weight


def uniforms(words: UInt64Array) -> Float64Array:
    """Return (k,) float64 in [0, 1), each from the 53 high bits of a random word."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


@kernel
def normals(words: UInt64Matrix) -> Float64Array:
    """Return (k,) float64: standard normal variates from k rows of random words: the first of the Box–Muller pair of
    the first two words of each."""
    result = np.empty(len(words), np.float64)
    for i in range(len(words)):
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform(words[i, 0])))
        result[i] = radius * math.cos(2.0 * math.pi * uniform(words[i, 1]))
    return result


@kernel
def exponential_roots(words: UInt64Array) -> Float64Array:
    """Return (k,) float64: √W with W ~ Exp(1), from (k,) random words."""
    result = np.empty(len(words), np.float64)
    for i in range(len(words)):
        result[i] = math.sqrt(-math.log(1.0 - uniform(words[i])))
    return result


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
