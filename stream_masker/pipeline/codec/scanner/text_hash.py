"""The keyed hash of texts: a polynomial modulo the prime 2^61 - 1, evaluated at a secret point.

Without the key, nobody can choose texts that collide. A text of ``size`` bytes is cut into words c_1 … c_n of
seven bytes. Its hash is ``offset + size · factor^(n + 1) + c_1 · factor^n + … + c_n · factor``. The difference of two
different texts is a polynomial of ``factor`` that is not constant, of degree at most n + 1, so it takes any given value
at no more than n + 1 points (Carter and Wegman 1979, section 3). There are 2^60 - 1 factors to draw from: two texts of
at most b bytes have the same hash with a probability of at most (b / 7 + 2) / 2^60. Because ``offset`` is drawn too,
the hashes of two texts are also nearly independent of each other, and so are their slots in a table.
"""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple

import numpy as np

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.kernels.bits import multiply_high, word_at
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.pipeline.codec.scanner.tokens import ENDS

MODULUS: Final = (1 << 61) - 1
FACTOR_BITS: Final = 60
WORD_BYTES: Final = 7

_MODULUS: Final = np.uint64(MODULUS)
_MODULUS_BITS: Final = np.uint64(61)
_HIGH_SHIFT: Final = np.uint64(3)
_FOLD: Final = np.uint64(29)
_SLOT_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_SLOT_SHIFT: Final = np.uint64(20)


class HashKey(NamedTuple):
    """The key of a hash. factor: 1 … 2^60 - 1; offset: 0 … 2^61 - 2. Kernels need it as an argument: compiled kernels
    are kept for other processes."""

    factor: np.uint64
    offset: np.uint64


def random_key() -> HashKey:
    factor, offset = 1 + secrets.randbelow((1 << FACTOR_BITS) - 1), secrets.randbelow(MODULUS)
    return HashKey(np.uint64(factor), np.uint64(offset))


@inlined
def scan_text_hash(data: UInt8Array, start: int, size: int, key: HashKey) -> np.uint64:
    """Return the hash of ``size`` bytes; it is less than ``MODULUS``.

    ``total`` stays below 2^62 + 2^57: a product is below 2^122.1, and its two parts below 2^61 and ``total / 2``.
    """
    total = np.uint64(size)
    for at in range(0, size, WORD_BYTES):
        word = word_at(data, start + at) & ENDS[min(size - at, WORD_BYTES)]
        total = _times(total, key.factor) + word
    total = _times(total, key.factor) + key.offset
    total = (total & _MODULUS) + (total >> _MODULUS_BITS)
    return total - _MODULUS if total >= _MODULUS else total


@inlined
def _times(value: np.uint64, factor: np.uint64) -> np.uint64:
    """Return a number that equals the product modulo ``MODULUS``, not reduced further."""
    low = value * factor
    return (low & _MODULUS) + ((multiply_high(value, factor) << _HIGH_SHIFT) | (low >> _MODULUS_BITS))


@inlined
def slot_of(hashed: np.uint64, last: int) -> int:
    """Return the first slot to probe for a hash in a table whose last slot is ``last``, a power of two less one."""
    return int64((hashed ^ (hashed >> _FOLD)) * _SLOT_FACTOR >> _SLOT_SHIFT) & last


@kernel
def hash_of(data: UInt8Array, size: int, key: HashKey) -> np.uint64:
    """``scan_text_hash`` of the first ``size`` bytes, for Python. ``PADDING`` more bytes must follow."""
    return scan_text_hash(data, 0, size, key)
