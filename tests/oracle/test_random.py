"""Random words by the definition: hashlib and AES one block at a time, against ``core.random``."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from hypothesis import given
from hypothesis import strategies as st
from support.core_parts import Batch, Column, Pseudonyms, key_slots
from support.core_parts import random as fast

SECRET = b"a secret of the tests"
NOMINAL, KEY = 0, 2

TEXTS = st.binary(max_size=200)
CODES = st.integers(-1, 2**31 - 1)


def blake(person: bytes, size: int, message: bytes = b"", secret: bytes = SECRET) -> bytes:
    return hashlib.blake2b(message, digest_size=size, key=secret, person=person).digest()


def aes(purpose: bytes, block: int, secret: bytes = SECRET) -> int:
    """One block of 16 bytes, little-endian, under the key of a purpose."""
    encryptor = Cipher(AES(blake(purpose, 32, secret=secret)), ECB()).encryptor()
    return int.from_bytes(encryptor.update(block.to_bytes(16, "little")) + encryptor.finalize(), "little")


def field_digest(key: bytes, secret: bytes = SECRET) -> int:
    return int.from_bytes(blake(b"masker-digest", 16, key, secret), "little")


def position_digest(topic: str, partition: int, offset: int) -> int:
    """The digest of a record by its position; the length of the topic is that of its UTF-8."""
    text = topic.encode()
    source = field_digest(b"%d %d " % (partition, len(text)) + text)
    return aes(b"masker-position", source ^ offset)


def layout(kind: int, attribute: int, counter: int, value: int, element: int = 0) -> int:
    return value | element << 32 | counter << 64 | attribute << 96 | kind << 112


def word(digest: int, number: int, kind: int, attribute: int, value: int, element: int = 0) -> int:
    """Word ``number`` of a value: the lower or upper half of the block number // 2."""
    block = aes(b"masker-words", digest ^ layout(kind, attribute, number // 2, value, element))
    return block >> 64 * (number % 2) & (2**64 - 1)


def unsigned(code: int) -> int:
    return code % 2**32


def test_aes_is_that_of_the_standard() -> None:
    """FIPS 197, appendix C.3: AES-256 of one block."""
    key, plain = bytes(range(32)), bytes.fromhex("00112233445566778899aabbccddeeff")
    assert Cipher(AES(key), ECB()).encryptor().update(plain).hex() == "8ea2b7ca516745bfeafc49904b496089"


@pytest.mark.parametrize("layout_", [fast.VALUES, fast.EXPONENTIALS, fast.WordLayout(width=3, first=7)], ids=str)
@given(records=st.lists(st.tuples(TEXTS, CODES, st.lists(CODES, max_size=3)), min_size=1, max_size=4))
def test_words_of_values(records: list[tuple[bytes, int, list[int]]], layout_: fast.WordLayout) -> None:
    keys = fast.FieldKeys(SECRET, [key for key, _, _ in records])
    scalars = Column(np.array([code for _, code, _ in records], np.int32))
    offsets = np.cumsum([0, *(len(codes) for _, _, codes in records)])
    lists = Column(np.array([code for _, _, codes in records for code in codes], np.int32), offsets)
    numbers = range(layout_.first, layout_.first + layout_.width)
    digests = [field_digest(key) for key, _, _ in records]
    expected = (
        [
            [word(digest, n, NOMINAL, 0, unsigned(code)) for n in numbers]
            for digest, (_, code, _) in zip(digests, records, strict=True)
        ],
        [
            [word(digest, n, NOMINAL, 1, unsigned(code)) for n in numbers]
            for digest, (_, _, codes) in zip(digests, records, strict=True)
            for code in codes
        ],
    )
    words = fast.draw_words(keys, Batch(len(records), (scalars, lists)), layout_)
    assert tuple(each.tolist() for each in words) == expected


@given(st.integers(0, 2**62), st.integers(0, 2**16), st.text(max_size=9), st.lists(CODES, min_size=1, max_size=3))
def test_words_by_position(offset: int, partition: int, topic: str, codes: list[int]) -> None:
    keys = fast.PositionKeys(SECRET, topic, partition, np.array([offset]))
    column = Column(np.array(codes, np.int32), np.array([0, len(codes)]))
    digest = position_digest(topic, partition, offset)
    expected = [
        [word(digest, n, NOMINAL, 0, unsigned(code), element) for n in range(4)] for element, code in enumerate(codes)
    ]
    assert fast.draw_words(keys, Batch(1, (column,)))[0].tolist() == expected


def test_the_digests_of_several_partitions_are_those_of_each() -> None:
    partitions, offsets = np.array([3, 0, 3]), np.array([5, 5, 7])
    keys = fast.PositionKeys(SECRET, "topic", partitions, offsets)
    assert keys.digests.tolist() == [
        fast.PositionKeys(SECRET, "topic", p, np.array([o])).digests[0].tolist()
        for p, o in zip(partitions.tolist(), offsets.tolist(), strict=True)
    ]


@given(TEXTS)
def test_words_of_records(key: bytes) -> None:
    keys, digest = fast.FieldKeys(SECRET, [key]), field_digest(key)
    assert fast.key_words(keys).tolist() == [word(digest, 0, KEY, 0, 0)]


@pytest.mark.parametrize("secret", [b"x" * 16, b"x" * 64, b"x" * 200])
@given(text=TEXTS)
def test_pseudonyms_and_slots(text: bytes, secret: bytes) -> None:
    key = secret if len(secret) <= 64 else hashlib.blake2b(secret).digest()
    digest = field_digest(text, key)
    pseudonym = aes(b"masker-pseudonym", digest, key).to_bytes(16, "little").hex()
    assert Pseudonyms(secret).of_bytes(text) == pseudonym
    assert Pseudonyms(secret).of_texts([text, text]) == [pseudonym, pseudonym]
    assert key_slots(fast.FieldKeys(secret, [text])).tolist() == [aes(b"masker-slot", digest, key) % 64]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=5))
def test_variates(words: list[tuple[int, int]]) -> None:
    array = np.array(words, np.uint64).reshape(-1, 2)
    fractions = [[(one >> 11) / 2**53, (other >> 11) / 2**53] for one, other in words]
    assert fast.uniforms(array).tolist() == fractions
    normals = [math.sqrt(-2 * math.log1p(-u)) * math.cos(2 * math.pi * v) for u, v in fractions]
    np.testing.assert_allclose(fast.normals(array), normals, rtol=1e-12, atol=1e-12)
    roots = [math.sqrt(-math.log1p(-u)) for u, _ in fractions]
    np.testing.assert_allclose(fast.exponential_roots(array[:, 0]), roots, rtol=1e-12)
