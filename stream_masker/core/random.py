"""Random words of records, reproducible from the secret, the key and the value, in any batch.

Everything starts from one keyed hash of a record's key, its *digest* of 128 bits:

1. The digest of a noise key is its BLAKE2b hash keyed by the secret (RFC 7693). That of an offset is the AES encryption
   of the offset XOR the digest of topic and partition.
2. A value has 64-bit words. Two of them are the AES encryption (FIPS 197) of digest XOR layout, where the layout holds
   the attribute, the value's position in its taxonomy, the index of the array element and a counter.
3. Pseudonyms and slots of noise keys are AES encryptions of the same digest. Each purpose has its own AES-256 key, a
   BLAKE2b hash of the purpose keyed by the secret.

Why words are unpredictable without the secret: BLAKE2b and AES are assumed to be pseudo-random. The layouts of one
record are distinct, and so are its blocks. Blocks of two records are equal only if the XOR of their digests equals that
of two layouts. Digests are random and nobody sees them, so the chance is 2⁻¹²⁸ for each pair of blocks, whatever values
an attacker chooses: below q²/2¹²⁹ for q blocks. That is also the advantage of telling AES, a permutation, from a random
function. For 2⁴⁸ blocks, 10,000 a second for 900 years, both are below 2⁻³².
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from stream_masker.core.arrays import Float64Array, Int32Array, Int64Array, UInt64Array, UInt64Matrix, slices
from stream_masker.core.batch import Batch, Column
from stream_masker.core.kernels import mixed_word
from stream_masker.core.validation import checked_seed

MAX_KNOWN: Final = 1 << 15
"""The number of digests from which a secret forgets those that it remembers."""


class _Digests(dict[bytes, bytes]):
    """The digests of recent keys: noise, slot and pseudonym of a record need the same one. ``start``: of the hash."""

    def __init__(self, start: hashlib.blake2b) -> None:
        super().__init__()
        self._start = start

    def __missing__(self, key: bytes) -> bytes:
        state = self._start.copy()
        state.update(key)
        digest = self[key] = state.digest()
        return digest


class Secret:
    """What is derived from one secret: digests of keys, and a cipher for each purpose."""

    def __init__(self, secret: bytes) -> None:
        """Raises ParameterError for a secret of less than 16 bytes."""
        self._secret = checked_seed(secret)
        self._digests = _Digests(self._keyed(b"masker-digest", 16))
        self._ciphers: dict[bytes, Any] = {}

    def __reduce__(self) -> tuple[type[Secret], tuple[bytes]]:
        """A secret is pickled and copied without the states of its hash and ciphers."""
        return Secret, (self._secret,)

    def digests(self, keys: Iterable[bytes]) -> UInt64Matrix:
        """Return (n, 2) uint64: the digests of n keys, such as the bytes of a patient's id."""
        if len(self._digests) > MAX_KNOWN:
            self._digests.clear()
        return np.frombuffer(b"".join(map(self._digests.__getitem__, keys)), "<u8").reshape(-1, 2)

    def words(self, purpose: bytes, blocks: UInt64Array) -> UInt64Array:
        """Return the encrypted blocks of a purpose, a name of at most 16 bytes. Words of different purposes are
        unrelated.

        ``blocks``: (…, 2) uint64, all of them different where words must be; the result has the same shape.
        """
        if purpose not in self._ciphers:
            cipher = Cipher(AES(self._keyed(purpose, 32).digest()), ECB())  # noqa: S305 - a pseudo-random function
            self._ciphers[purpose] = cipher.encryptor()
        words = np.empty(blocks.size + 2, np.uint64)  # the cipher wants room for one block more
        plain = blocks.reshape(-1)
        self._ciphers[purpose].update_into(plain.view(np.uint8).data, words.view(np.uint8).data)
        return words[: blocks.size].reshape(blocks.shape)

    def _keyed(self, person: bytes, size: int) -> hashlib.blake2b:
        """Return the state of a BLAKE2b hash with ``size`` bytes, keyed by the secret."""
        return hashlib.blake2b(digest_size=size, key=self._secret, person=person)


class Keys:
    """The digests of n records. The words of a record depend on its own digest alone, not on other records."""

    numbers_elements: ClassVar[bool] = True
    """Whether the words of an array element depend on its index."""

    def __init__(self, secret: bytes | Secret, digests: UInt64Matrix) -> None:
        """``digests``: (n, 2) uint64. Raises ParameterError for a secret of less than 16 bytes."""
        self.secret = _as_secret(secret)
        self.digests = digests

    def __len__(self) -> int:
        """Return the number n of records."""
        return len(self.digests)

    def words(self, blocks: UInt64Array) -> UInt64Array:
        """Return the words of (…, 2) uint64 blocks, which are digests XOR layouts."""
        return self.secret.words(b"masker-words", blocks)


class PositionKeys(Keys):
    """The digests of records from their partitions and offsets in one topic."""

    def __init__(self, secret: bytes | Secret, topic: str, partition: int | Int64Array, offsets: Int64Array) -> None:
        """``partition``: that of all records, or (n,) int64; ``offsets``: (n,) int64; in any order.

        Equal topics, partitions and offsets have equal words, so ``topic`` should distinguish topics of the same name.
        Raises ParameterError for a secret of less than 16 bytes.
        """
        secret = _as_secret(secret)
        name = topic.encode()
        partitions, which = np.unique(np.broadcast_to(partition, offsets.shape), return_inverse=True)
        sources = secret.digests(b"%d %d " % (number, len(name)) + name for number in partitions.tolist())
        blocks = sources[which]
        blocks[:, 0] ^= offsets.astype(np.uint64)
        super().__init__(secret, secret.words(b"masker-position", blocks))


class FieldKeys(Keys):
    """The digests of records, from a key field such as a patient's id.

    Several records can have the same key. A value then has the same words in all of them, at any index of an array.
    """

    numbers_elements: ClassVar[bool] = False

    def __init__(self, secret: bytes | Secret, keys: Sequence[bytes]) -> None:
        """``keys``: n byte strings; equal keys have equal words.

        Raises ParameterError for a secret of less than 16 bytes.
        """
        secret = _as_secret(secret)
        super().__init__(secret, secret.digests(keys))


def _as_secret(secret: bytes | Secret) -> Secret:
    return secret if isinstance(secret, Secret) else Secret(secret)


class WordLayout(NamedTuple):
    """A range of the words of a value: ``width`` words, numbered from ``first``."""

    width: int
    first: int


ROUNDING_WORD: Final = 2
TIES: Final = 3

VALUES: Final = WordLayout(width=4, first=0)
"""Four words for each value: two for a normal variate, ``ROUNDING_WORD``, ``TIES``."""

EXPONENTIALS: Final = WordLayout(width=1, first=4)
"""One more word for each value, for the exponential variate of Laplace noise."""

_KEY_ALONE = np.uint64(2 << 48)
"""The mark of a layout that is of a record's key alone, and of no value."""

_ATTRIBUTE_BIT: Final = np.uint64(32)
"""The bits of the second word of a layout: 0 … 31 the counter, 32 … 47 the attribute, from 48 on ``_KEY_ALONE``."""


def draw_words(keys: Keys, batch: Batch, layout: WordLayout = VALUES, *, distinct: bool = False) -> list[UInt64Matrix]:
    """Return the words of each column of k values, absent scalars included: (k, width) uint64 per column.

    They depend on the record's key, the attribute and the value, and on the element's index if ``numbers_elements``.
    distinct: whether equal values of one key get different words, by their index in the column.
    """
    columns, sizes = batch.columns, [column.codes.size for column in batch.columns]
    if not columns:
        return []
    digests = keys.digests.take(np.concatenate([column.owners for column in columns]), axis=0)
    values = np.concatenate([column.codes for column in columns]).astype(np.uint32).astype(np.uint64)
    if distinct or keys.numbers_elements:
        indices = [_indices(column, distinct) for column in columns]
        values |= np.concatenate(indices).astype(np.uint64) << np.uint64(32)
    attributes = np.repeat(np.arange(len(columns), dtype=np.uint64) << _ATTRIBUTE_BIT, sizes)
    counters = np.arange(layout.first // 2, (layout.first + layout.width + 1) // 2, dtype=np.uint64)
    blocks = np.empty((values.size, counters.size, 2), np.uint64)
    blocks[..., 0] = (digests[:, 0] ^ values)[:, None]
    blocks[..., 1] = (digests[:, 1] ^ attributes)[:, None] ^ counters
    words = keys.words(blocks).reshape(-1, 2 * counters.size)[:, layout.first % 2 :]
    return slices(np.ascontiguousarray(words[:, : layout.width]), sizes)


def _indices(column: Column, distinct: bool) -> Int64Array:
    """Return the index of each value in its column if ``distinct``, otherwise in its record."""
    every = np.arange(column.codes.size)
    if distinct:
        return every
    return every - (every if column.offsets is None else np.repeat(column.offsets[:-1], column.lengths))


def key_words(keys: Keys) -> UInt64Array:
    """Return (n,) uint64: a word of each record that depends on its key alone."""
    return keys.words(keys.digests ^ np.array([0, _KEY_ALONE], np.uint64))[:, 0].copy()


def uniforms(words: UInt64Array) -> Float64Array:
    """Return float64 in [0, 1), each from the 53 high bits of a random word, in the shape of ``words``."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def normals(words: UInt64Matrix) -> Float64Array:
    """Return (k,) float64: standard normal variates, by Box and Muller from the first two words of each of k rows."""
    shares = uniforms(words[:, :2])
    return np.asarray(np.sqrt(-2.0 * np.log1p(-shares[:, 0])) * np.cos(2.0 * np.pi * shares[:, 1]))


def exponential_roots(words: UInt64Array) -> Float64Array:
    """Return (k,) float64: √W with W ~ Exp(1), from (k,) random words."""
    return np.asarray(np.sqrt(-np.log1p(-uniforms(words))))


def salts_of(positions: Int32Array) -> UInt64Array:
    """Return (k,) uint64: a salt of each concept for ``kernels.draw_product``, the same in every window."""
    return mixed_word(positions.astype(np.uint64))
