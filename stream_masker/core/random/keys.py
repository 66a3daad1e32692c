"""The random bits of records: reproducible from a secret and the record's key, and independent of its batch.

A record has any number of lanes, and each lane 64 pseudo-random bytes. Which lane serves which draw is the business
of ``core.random.layout``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from stream_masker.core.dtypes import Int64Array, UInt64Array
from stream_masker.core.random.blake2b import digests, keyed_state
from stream_masker.errors import ParameterError

KEYSTREAM_BLOCK_BYTES = 64
"""Bytes of a lane; a block of ChaCha20 and the longest digest of BLAKE2b."""

LARGEST_GAP = 64
"""Blocks of missing offsets that are cheaper to generate and drop than to skip by another call."""


class Keys(ABC):
    """The random words of n records. A record's words depend on its own key alone, never on the other records."""

    @abstractmethod
    def __len__(self) -> int:
        """The number n of records."""

    @abstractmethod
    def words(self, lane: int, rows: Int64Array | None = None) -> UInt64Array:
        """(n, 8) uint64: the 64 bytes of each record in ``lane`` (0 … 2⁶⁴−1).

        ``rows``: (k,) int64 indices of records, for (k, 8) words of these only.
        """


class PositionKeys(Keys):
    """The words of records of one partition by offset: the keystream of ChaCha20 (RFC 8439).

    The cipher's key is a keyed BLAKE2b of (topic, partition, lane) under the secret. The low 32 bits of the offset
    are the block counter, its higher bits the nonce, so that the counter never wraps into another record's block.
    """

    def __init__(self, secret: bytes, topic: str, partition: int, offsets: NDArray[np.int64]) -> None:
        """``offsets``: (n,) int64, none negative, in any order; contiguous runs cost one call each."""
        self._secret = checked_secret(secret)
        self._source = _length_prefixed(topic.encode()) + partition.to_bytes(4, "little")
        self._offsets = offsets
        if offsets.size and int(offsets.min()) < 0:
            raise ParameterError("an offset is negative; offsets count from 0")

    def __len__(self) -> int:
        return len(self._offsets)

    def words(self, lane: int, rows: Int64Array | None = None) -> UInt64Array:
        offsets = self._offsets if rows is None else self._offsets[rows]
        key = self._key(lane)
        found = [_blocks(key, offsets[start:end]) for start, end in _runs(offsets)]
        return found[0] if len(found) == 1 else np.concatenate([np.empty((0, 8), np.uint64), *found])

    def _key(self, lane: int) -> bytes:
        message = self._source + lane.to_bytes(8, "little")
        return hashlib.blake2b(message, digest_size=32, key=self._secret, person=b"masker-position").digest()


class FieldKeys(Keys):
    """The words of records by a key of their own, such as a patient's id: a keyed BLAKE2b of (lane, key)."""

    def __init__(self, secret: bytes, keys: Sequence[bytes]) -> None:
        """``keys``: n byte strings; equal keys have equal words."""
        self._state = _field_state(checked_secret(secret))
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def words(self, lane: int, rows: Int64Array | None = None) -> UInt64Array:
        keys = self._keys if rows is None else [self._keys[row] for row in rows]
        return digests(self._state, lane, keys)


@lru_cache(maxsize=8)
def _field_state(secret: bytes) -> UInt64Array:
    return keyed_state(secret, b"masker-field")


def checked_secret(secret: bytes) -> bytes:
    """The secret as a key of BLAKE2b (hashed where longer than the 64 bytes that it takes). Raises ParameterError."""
    if not isinstance(secret, bytes):
        raise ParameterError(f"the secret must be bytes, not {type(secret).__name__}")
    if not secret:
        raise ParameterError("the secret is empty; give at least one byte, better 32 random ones")
    return secret if len(secret) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(secret).digest()


def _length_prefixed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


def _as_words(data: bytes) -> UInt64Array:
    return np.frombuffer(data, dtype="<u8").reshape(-1, KEYSTREAM_BLOCK_BYTES // 8)


def _runs(offsets: Int64Array) -> Iterator[tuple[int, int]]:
    """Slices of ascending offsets with small gaps and equal high bits; each is one call of the cipher."""
    before, after = offsets[:-1], offsets[1:]
    step = after - before
    apart = (step < 1) | (step > LARGEST_GAP) | (before >> 32 != after >> 32)
    return pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(offsets)])


def _blocks(key: bytes, offsets: Int64Array) -> UInt64Array:
    """(k, 8) uint64: the blocks of one run of offsets."""
    if not len(offsets):
        return np.empty((0, 8), np.uint64)
    first = int(offsets[0])
    stream = _as_words(keystream(key, first, int(offsets[-1]) - first + 1))
    return stream if len(stream) == len(offsets) else stream[offsets - first]


def stream_words(seed: UInt64Array, size: int) -> UInt64Array:
    """(size,) uint64: a stream of words of any length, from a record's (8,) words of a lane that serves as its seed."""
    return _as_words(keystream(seed.tobytes()[:32], 0, -(-size // (KEYSTREAM_BLOCK_BYTES // 8)))).reshape(-1)[:size]


def keystream(key: bytes, position: int, blocks: int) -> bytes:
    """``blocks`` · 64 bytes of ChaCha20 from block ``position`` on; they must not cross a multiple of 2³²."""
    nonce = (position & 0xFFFFFFFF).to_bytes(4, "little") + (position >> 32).to_bytes(12, "little")
    return Cipher(ChaCha20(key, nonce), mode=None).encryptor().update(bytes(blocks * KEYSTREAM_BLOCK_BYTES))
