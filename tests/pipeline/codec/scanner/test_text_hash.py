"""The scanner's hash equals its definition, and no texts collide under every key."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from stream_masker.pipeline.codec.scanner.text_hash import (
    FACTOR_BITS,
    MODULUS,
    WORD_BYTES,
    HashKey,
    hash_of,
    random_key,
)
from stream_masker.pipeline.codec.scanner.tokens import PADDING

KEYS = st.builds(
    HashKey,
    factor=st.integers(1, (1 << FACTOR_BITS) - 1).map(np.uint64),
    offset=st.integers(0, MODULUS - 1).map(np.uint64),
)
EXTREME = HashKey(np.uint64((1 << FACTOR_BITS) - 1), np.uint64(MODULUS - 1))


def compiled_hash(text: bytes, key: HashKey) -> int:
    return int(hash_of(np.frombuffer(text + b"\xff" * PADDING, np.uint8), len(text), key))


def literal_hash(text: bytes, key: HashKey) -> int:
    """The polynomial of the module's documentation, in integers of any size."""
    words = [int.from_bytes(text[at : at + WORD_BYTES], "little") for at in range(0, len(text), WORD_BYTES)]
    coefficients = [len(text), *words]
    powers = range(len(coefficients), 0, -1)
    return (
        int(key.offset) + sum(c * int(key.factor) ** e for c, e in zip(coefficients, powers, strict=True))
    ) % MODULUS


@given(text=st.binary(max_size=80), key=KEYS)
@example(text=b"\xff" * 400, key=EXTREME)
@example(text=b"", key=EXTREME)
def test_hash_is_the_polynomial_at_the_key(text, key):
    assert compiled_hash(text, key) == literal_hash(text, key)


@given(text=st.binary(min_size=1, max_size=40), data=st.data())
def test_different_texts_collide_under_no_more_keys_than_the_proof_allows(text, data):
    other = data.draw(st.binary(max_size=40) | changed(text) | st.just(text + b"\0") | st.just(text[:-1]))
    keys = [random_key() for _ in range(20)]
    collisions = sum(compiled_hash(text, key) == compiled_hash(other, key) for key in keys)
    assert collisions == (20 if text == other else 0)


def changed(text: bytes) -> st.SearchStrategy[bytes]:
    """The text with some of its bits inverted."""
    return st.binary(min_size=len(text), max_size=len(text)).map(
        lambda mask: bytes(a ^ b for a, b in zip(text, mask, strict=True))
    )


def test_bit_differences_that_cancel_in_a_multiplicative_hash_do_not_collide():
    """The difference in bit 62 of a word of eight bytes becomes, after a multiplication and a shift by 29 bits, one in
    the bits 62 and 33, which the next word cancels, for half of all seeds of such a hash."""
    one, other = b"aaaaaaa!" + b"aaaaaaa!", b"aaaaaaaa" + b"aaaacaaa"
    assert not any(compiled_hash(one, key) == compiled_hash(other, key) for key in (random_key() for _ in range(200)))
