"""SipHash-2-4: the literal algorithm of the paper, its published test vectors, and the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.random.layout import value_words

MASK = (1 << 64) - 1
KEY = bytes(range(16))

VECTORS = {
    0: "310e0edd47db6f72",
    1: "fd67dc93c539f874",
    7: "37d1018bf50002ab",
    8: "6224939a79f5f593",
    9: "b0e4a90bdf82009e",
    15: "e545be4961ca29a1",
}
"""The output for the message 00 01 02 … of each length, from the authors' reference implementation; that of 15 bytes
is in appendix A of the paper."""

WORDS = st.integers(0, MASK)


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4, line by line (Aumasson and Bernstein 2012: section 2)."""
    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for i in range(0, len(padded), 8):
        block = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= block
        sip_rounds(v, 2)
        v[0] ^= block
    v[2] ^= 0xFF
    sip_rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def sip_rounds(v: list[int], count: int) -> None:
    """The rounds of figure 2.1."""
    for _ in range(count):
        for a, b, bits in ((0, 1, 13), (2, 3, 16)):
            v[a] = (v[a] + v[b]) & MASK
            v[b] = rotated(v[b], bits) ^ v[a]
        v[0] = rotated(v[0], 32)
        for a, b, bits in ((2, 1, 17), (0, 3, 21)):
            v[a] = (v[a] + v[b]) & MASK
            v[b] = rotated(v[b], bits) ^ v[a]
        v[2] = rotated(v[2], 32)


def rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & MASK


@pytest.mark.parametrize(("length", "output"), VECTORS.items())
def test_the_literal_algorithm_has_the_published_outputs(length, output):
    assert siphash(KEY, bytes(range(length))).to_bytes(8, "little").hex() == output


def test_the_kernel_has_the_published_output_of_nine_bytes():
    seeds = np.frombuffer(bytes(48) + KEY, "<u8").reshape(1, 8)
    message = np.frombuffer(bytes(range(8)), "<u8").copy()
    assert value_words(seeds, 6, np.array([0, 1]), message, 8, 1).tobytes().hex() == VECTORS[9]


@given(st.lists(st.tuples(WORDS, WORDS, st.lists(WORDS, max_size=3)), max_size=5), st.integers(0, 250))
def test_the_kernel_equals_the_literal_algorithm(records, first):
    seeds = np.zeros((len(records), 8), np.uint64)
    seeds[:, 2:4] = np.array([record[:2] for record in records], np.uint64).reshape(-1, 2)
    seeds.flags.writeable = False
    offsets = np.cumsum([0, *(len(values) for _, _, values in records)])
    messages = np.array([value for _, _, values in records for value in values], np.uint64)
    expected = [
        [
            siphash(
                low.to_bytes(8, "little") + high.to_bytes(8, "little"), value.to_bytes(8, "little") + bytes([number])
            )
            for number in range(first, first + 4)
        ]
        for low, high, values in records
        for value in values
    ]
    words = value_words(seeds, 2, offsets, messages, first, 4)
    np.testing.assert_array_equal(words, np.array(expected, np.uint64).reshape(-1, 4))
