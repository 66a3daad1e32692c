"""Keyed BLAKE2b gives the digests of ``hashlib``."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.random.blake2b import digests, keyed_state


def hashlib_digest(key, person, prefix, message):
    whole = prefix.to_bytes(8, "little") + message
    return hashlib.blake2b(whole, digest_size=64, key=key, person=person).digest()


@given(
    key=st.binary(min_size=1, max_size=64),
    person=st.binary(max_size=16),
    prefix=st.integers(0, 2**64 - 1),
    messages=st.lists(st.binary(max_size=300), max_size=5) | st.lists(st.binary(max_size=130), max_size=40),
)
def test_digests_are_those_of_hashlib(key, person, prefix, messages):
    found = digests(keyed_state(key, person), prefix, messages)
    assert found.shape == (len(messages), 8)
    assert [row.tobytes() for row in found] == [hashlib_digest(key, person, prefix, message) for message in messages]


@pytest.mark.parametrize("length", [0, 1, 119, 120, 121, 247, 248, 249, 376, 1000])
def test_the_last_block_of_a_message_may_be_full(length):
    message = bytes(range(256)) * 4
    found = digests(keyed_state(b"key", b""), 7, [b"before", message[:length], b"after"])
    assert [row.tobytes() for row in found] == [
        hashlib_digest(b"key", b"", 7, m) for m in (b"before", message[:length], b"after")
    ]


def test_messages_of_one_block_are_hashed_together():
    """With a longer message among them, and a number that is not a multiple of the lanes."""
    messages = [bytes([k % 256]) * (k % 121) for k in range(1_000)]
    messages[100] = bytes(121)
    found = digests(keyed_state(b"key", b""), 2**63, messages)
    assert [row.tobytes() for row in found] == [hashlib_digest(b"key", b"", 2**63, m) for m in messages]


def test_a_state_can_be_used_again():
    state = keyed_state(b"key", b"person")
    before = state.copy()
    first = digests(state, 1, [b"message"])
    np.testing.assert_array_equal(digests(state, 1, [b"message"]), first)
    np.testing.assert_array_equal(state, before)
