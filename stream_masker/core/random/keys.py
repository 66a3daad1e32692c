"""The random words of records: reproducible from a secret and the record's key, and independent of the batch.

A record has 2⁶⁴ *word blocks* of 64 pseudo-random bytes each. ``core.random.layout`` defines which draw uses which
block.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from stream_masker.core.dtypes import Int64Array, UInt64Array
from stream_masker.errors import ParameterError

KEYSTREAM_BLOCK_BYTES = 64
"""Bytes of a word block, the size of a ChaCha20 block and of the longest BLAKE2b digest."""

MAX_SKIPPED = 64
"""Maximum step between two offsets that share a cipher call.

Generating the blocks of missing offsets and dropping them is cheaper than another call.
"""


class Keys(ABC):
    """The random words of n records. The words of a record depend on its own key alone, not on other records."""

    numbers_elements: ClassVar[bool] = True
    """Whether the words of an array element depend on its index (``core.random.layout``)."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number n of records."""

    @abstractmethod
    def words(self, block: int, rows: Int64Array | None = None) -> UInt64Array:
        """Return (n, 8) uint64: word block number ``block`` (0 … 2⁶⁴-1) of each record.

        ``rows``: (k,) int64 indices of records. If given, the result is (k, 8), for these records only.
        """


class PositionKeys(Keys):
    """The words of the records of one partition, derived from the offsets: the keystream of ChaCha20 (RFC 8439).

    The key of the cipher is the BLAKE2b hash of (topic, partition, block) keyed by the secret. The low 32 bits of the
    offset are the block counter and the others the nonce, so the counter never wraps into the block of another record.
    """

    def __init__(self, secret: bytes, topic: str, partition: int, offsets: NDArray[np.int64]) -> None:
        """``offsets``: (n,) int64, none negative, in any order; each contiguous run costs one call of the cipher.

        Equal topics, partitions and offsets have equal words, so ``topic`` should distinguish topics of the same name.
        Raises ParameterError if the secret is empty or an offset is negative.
        """
        self._secret = checked_secret(secret)
        self._source = length_prefixed(topic.encode()) + partition.to_bytes(4, "little")
        self._offsets = offsets
        if offsets.size and int(offsets.min()) < 0:
            raise ParameterError("an offset is negative: use offsets from 0")

    def __len__(self) -> int:
        return len(self._offsets)

    def words(self, block: int, rows: Int64Array | None = None) -> UInt64Array:
        offsets = self._offsets if rows is None else self._offsets[rows]
        key = self._key(block)
        blocks = [_blocks(key, offsets[start:end]) for start, end in contiguous_runs(offsets)]
        return blocks[0] if len(blocks) == 1 else np.concatenate([np.empty((0, 8), np.uint64), *blocks])

    def _key(self, block: int) -> bytes:
        message = self._source + block.to_bytes(8, "little")
        return hashlib.blake2b(message, digest_size=32, key=self._secret, person=b"masker-position").digest()


class FieldKeys(Keys):
    """The words of records, derived from a key field such as a patient's id: the keyed BLAKE2b hash of (block, key).

    Several records can have the same key. A value then has the same words in all of them, at any index of an array.
    """

    numbers_elements: ClassVar[bool] = False

    def __init__(self, secret: bytes, keys: Sequence[bytes]) -> None:
        """``keys``: n byte strings; equal keys have equal words. Raises ParameterError if the secret is empty."""
        self._hash = SecretHash(secret, person=b"masker-field")
        self._keys = keys

    def first_block(self, key: bytes) -> UInt64Array:
        """Return (8,) uint64: word block 0 of another key."""
        return np.frombuffer(self._hash.digest(bytes(8) + key), "<u8")

    def __len__(self) -> int:
        return len(self._keys)

    def words(self, block: int, rows: Int64Array | None = None) -> UInt64Array:
        keys = self._keys if rows is None else [self._keys[row] for row in rows]
        return self._hash.words(block, keys)


class SecretHash:
    """BLAKE2b keyed by a secret. Each digest starts from a copy of one state, because keying a state takes time.

    An instance can be pickled and copied, unlike a state.
    """

    def __init__(self, secret: bytes, *, person: bytes, digest_size: int = KEYSTREAM_BLOCK_BYTES) -> None:
        """Raises ParameterError if the secret is empty."""
        self._secret, self._person, self._digest_size = checked_secret(secret), person, digest_size
        self._start = hashlib.blake2b(digest_size=digest_size, key=self._secret, person=person)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(SecretHash, person=self._person, digest_size=self._digest_size), (self._secret,)

    def digests(self, messages: Iterable[bytes], *, prefix: bytes = b"") -> bytes:
        """Return the digests of messages, one after another. ``prefix``: the bytes before each message."""
        start = self._start.copy()
        start.update(prefix)
        copy, digests = start.copy, []
        for message in messages:
            state = copy()
            state.update(message)
            digests.append(state.digest())
        return b"".join(digests)

    def digest(self, message: bytes) -> bytes:
        """Return the digest of one message."""
        state = self._start.copy()
        state.update(message)
        return state.digest()

    def words(self, block: int, keys: Iterable[bytes]) -> UInt64Array:
        """Return (n, 8) uint64: word block number ``block`` of n keys."""
        return _as_words(self.digests(keys, prefix=block.to_bytes(8, "little")))


def checked_secret(secret: bytes) -> bytes:
    """Return the secret as a key of BLAKE2b. A secret of more than 64 bytes, the longest key, is hashed.

    Raises ParameterError if the secret is empty or not bytes.
    """
    if not isinstance(secret, bytes):
        raise ParameterError(f"the secret must be bytes, not {type(secret).__name__}")
    if not secret:
        raise ParameterError("the secret is empty: use at least 1 byte, preferably 32 random bytes")
    return secret if len(secret) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(secret).digest()


MIN_SEED_BYTES = 16
"""The minimum length of the secret of a mechanism: 128 bits, as a configuration demands."""


def checked_seed(seed: object) -> bytes:
    """Return the seed of a mechanism. Raises ParameterError unless it is at least ``MIN_SEED_BYTES`` bytes."""
    if not isinstance(seed, bytes) or len(seed) < MIN_SEED_BYTES:
        given = f"{len(seed)} bytes" if isinstance(seed, bytes) else f"of type {type(seed).__name__}"
        raise ParameterError(
            f"seed is {given}: use at least {MIN_SEED_BYTES} secret bytes, such as secrets.token_bytes(32)"
        )
    return seed


def length_prefixed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


def _as_words(data: bytes) -> UInt64Array:
    return np.frombuffer(data, dtype="<u8").reshape(-1, KEYSTREAM_BLOCK_BYTES // 8)


def contiguous_runs(offsets: Int64Array) -> Iterator[tuple[int, int]]:
    """Return the runs of ascending offsets with small gaps and equal high bits, as (start, end) indices.

    Each run needs one call of the cipher.
    """
    before, after = offsets[:-1], offsets[1:]
    step = after - before
    apart = (step < 1) | (step > MAX_SKIPPED) | (before >> 32 != after >> 32)
    return pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(offsets)])


def _blocks(key: bytes, offsets: Int64Array) -> UInt64Array:
    """Return (k, 8) uint64: the word blocks of one run of offsets."""
    if not len(offsets):
        return np.empty((0, 8), np.uint64)
    first = int(offsets[0])
    stream = _as_words(keystream(key, first, int(offsets[-1]) - first + 1))
    return stream if len(stream) == len(offsets) else stream[offsets - first]


def keystream(key: bytes, position: int, blocks: int) -> bytes:
    """Return ``blocks`` · 64 bytes of the ChaCha20 keystream, starting at block ``position``.

    The blocks must not cross a multiple of 2³².
    """
    nonce = (position & 0xFFFFFFFF).to_bytes(4, "little") + (position >> 32).to_bytes(12, "little")
    return Cipher(ChaCha20(key, nonce), mode=None).encryptor().update(bytes(blocks * KEYSTREAM_BLOCK_BYTES))


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

    def hashes(self, keys: Iterable[bytes]) -> Int64Array:
        """Return (n,) int64: the hashes of n keys, in [0, 2⁶³)."""
        return (self._hash.words(0, keys)[:, 0] >> np.uint64(64 - HASH_BITS)).astype(np.int64)


def sketch(hashes: Int64Array) -> Sketch:
    """Return the sketch of (n,) hashes, in any order and with repetitions."""
    size = 4 * SKETCH_SIZE
    least = np.unique(np.partition(hashes, size)[:size] if len(hashes) > size else hashes)
    return tuple((least if len(least) >= SKETCH_SIZE else np.unique(hashes))[:SKETCH_SIZE].tolist())


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """Return the sketch of the union of the sets."""
    return tuple(sorted({value for values in sketches for value in values})[:SKETCH_SIZE])


def distinct(sketch: Sketch) -> int:
    """Return the number of distinct keys.

    Below ``SKETCH_SIZE`` it is exact; from there on it is an estimate, rounded down.
    """
    if len(sketch) < SKETCH_SIZE:
        return len(sketch)
    return ((SKETCH_SIZE - 1) << HASH_BITS) // max(sketch[-1], 1)
