"""Sampling by position: uniform, nested, reproducible in any batch, and unpredictable without the secret."""

from __future__ import annotations

import hashlib
from itertools import chain, pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.random.draws import MAX_LEVEL, PositionSampler
from stream_masker.errors import ParameterError

SECRET = b"a secret of the tests"
SAMPLER = PositionSampler(SECRET)


def levels(offsets: list[int] | np.ndarray, *, partition: int = 3) -> list[int]:
    return SAMPLER.levels("discharges", partition, np.array(offsets, np.int64)).tolist()


def literal_level(offset: int) -> int:
    """The level of one offset, from the definition."""
    message = (10).to_bytes(4, "little") + b"discharges" + (3).to_bytes(4, "little")
    key = hashlib.blake2b(message, digest_size=32, key=SECRET, person=b"masker-sampling").digest()
    block, word = divmod(offset, 8)
    nonce = (block & 0xFFFFFFFF).to_bytes(4, "little") + (block >> 32).to_bytes(12, "little")
    stream = Cipher(ChaCha20(key, nonce), mode=None).encryptor().update(bytes(64))
    number = int.from_bytes(stream[8 * word : 8 * word + 8], "little")
    return min(64 - number.bit_length(), MAX_LEVEL)


@given(st.lists(st.integers(0, 2**40), unique=True, max_size=30).map(sorted))
def test_level_is_the_number_of_leading_zeros_of_the_word_of_the_position(offsets: list[int]) -> None:
    assert levels(offsets) == [literal_level(offset) for offset in offsets]


@given(first=st.integers(0, 2**36), cuts=st.lists(st.integers(0, 300), max_size=5), gap=st.sampled_from([1, 2, 1000]))
def test_levels_do_not_depend_on_the_batch(first: int, cuts: list[int], gap: int) -> None:
    offsets = first + gap * np.arange(300)
    bounds = [0, *sorted(cuts), 300]
    parts = [levels(offsets[start:end]) for start, end in pairwise(bounds)]
    assert list(chain.from_iterable(parts)) == levels(offsets)


def test_each_level_has_half_of_the_positions_of_the_one_below() -> None:
    n, depth = 1 << 18, 12
    observed = np.bincount(np.minimum(levels(np.arange(n)), depth), minlength=depth + 1)
    expected = n * np.array([2.0 ** -(level + 1) for level in range(depth)] + [2.0**-depth])
    assert (np.abs(observed - expected) < 5 * np.sqrt(expected)).all()


def test_samples_of_other_secrets_topics_and_partitions_are_independent() -> None:
    offsets = np.arange(1 << 14)
    sampled = np.array(levels(offsets)) >= 1
    others = [
        PositionSampler(b"another secret of the tests").levels("discharges", 3, offsets),
        SAMPLER.levels("other", 3, offsets),
        SAMPLER.levels("discharges", 4, offsets),
    ]
    for other in others:
        assert abs(np.mean(sampled & (other >= 1)) - 0.25) < 0.02


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ParameterError, match="empty"):
        PositionSampler(b"")
