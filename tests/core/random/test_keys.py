"""Random words: test vectors of the ciphers, independence of the batch, and differences between records and blocks."""

from __future__ import annotations

import copy
import hashlib
import pickle

import numpy as np
import pytest

from stream_masker.core.random import keys as randomness
from stream_masker.core.random.keys import FieldKeys, Keys, PositionKeys, keystream
from stream_masker.errors import ParameterError

OFFSETS = {
    "contiguous": np.arange(100, 200),
    "with the gap of a commit marker": np.array([5, 6, 8, 9, 10]),
    "sparse": np.array([0, 1_000_000, 2_000_000_000, 2_000_000_001]),
    "beyond the end of the counter": np.arange((1 << 32) - 3, (1 << 32) + 3),
    "descending and repeated": np.array([9, 7, 7, 8, 1]),
    "large": np.array([(1 << 62) + 1, (1 << 62) + 2]),
}


def position_keys(offsets, secret=b"secret", topic="discharges", partition=0) -> Keys:
    return PositionKeys(secret, topic, partition, np.asarray(offsets, dtype=np.int64))


def test_the_keystream_is_that_of_rfc_8439():
    """RFC 8439, section 2.3.2: the test vector of the block function."""
    nonce = bytes.fromhex("000000090000004a00000000")
    block = keystream(bytes(range(32)), 1 | int.from_bytes(nonce, "little") << 32, 1)
    assert block.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS.keys())
def test_an_offset_has_the_same_words_in_any_batch(offsets):
    words = position_keys(offsets).words(3)
    assert words.shape == (len(offsets), 8)
    assert words.dtype == np.uint64
    for offset, row in zip(offsets, words, strict=True):
        np.testing.assert_array_equal(position_keys([offset]).words(3)[0], row)


def test_the_blocks_between_sparse_offsets_are_not_generated(monkeypatch):
    generated = []
    monkeypatch.setattr(
        randomness,
        "keystream",
        lambda key, position, blocks: generated.append(blocks) or keystream(key, position, blocks),
    )
    position_keys(OFFSETS["sparse"]).words(0)
    assert generated == [1, 1, 2]


def test_a_counter_never_wraps_into_another_block(monkeypatch):
    ranges = []
    monkeypatch.setattr(
        randomness,
        "keystream",
        lambda key, position, blocks: ranges.append((position, blocks)) or keystream(key, position, blocks),
    )
    position_keys(OFFSETS["beyond the end of the counter"]).words(0)
    assert ranges == [((1 << 32) - 3, 3), (1 << 32, 3)]


@pytest.mark.parametrize(
    "keys",
    [position_keys([4, 5, 6, 900, 2]), FieldKeys(b"secret", [b"a", b"b", b"", b"a\x00", b"c" * 500])],
    ids=["position", "field"],
)
def test_the_words_of_some_rows_are_those_rows_of_all_words(keys):
    rows = np.array([3, 0, 1])
    np.testing.assert_array_equal(keys.words(7, rows), keys.words(7)[rows])
    assert keys.words(7, rows[:0]).shape == (0, 8)
    assert len(keys) == 5


@pytest.mark.parametrize("keys", [position_keys([]), FieldKeys(b"secret", [])], ids=["position", "field"])
def test_an_empty_batch_has_no_words(keys):
    assert keys.words(0).shape == (0, 8)


def test_topic_partition_block_offset_and_secret_all_change_the_words():
    variants = [
        position_keys([1]).words(0),
        position_keys([2]).words(0),
        position_keys([1 + (1 << 32)]).words(0),
        position_keys([1]).words(1),
        position_keys([1], partition=1).words(0),
        position_keys([1], topic="discharge").words(0),
        position_keys([1], secret=b"other").words(0),
    ]
    assert len({words.tobytes() for words in variants}) == len(variants)


def test_topic_and_partition_cannot_be_confused():
    longer = position_keys([1], topic="t\x01\x00\x00\x00", partition=0)
    assert longer.words(0).tobytes() != position_keys([1], topic="t", partition=1).words(0).tobytes()


def test_a_field_key_has_the_same_words_in_any_batch():
    many = FieldKeys(b"secret", [b"p1", b"p2", b"p1"]).words(2)
    np.testing.assert_array_equal(many[0], many[2])
    np.testing.assert_array_equal(FieldKeys(b"secret", [b"p2"]).words(2)[0], many[1])
    assert many[0].tobytes() != many[1].tobytes()
    assert FieldKeys(b"secret", [b"p1"]).words(3)[0].tobytes() != many[0].tobytes()
    assert FieldKeys(b"other", [b"p1"]).words(2)[0].tobytes() != many[0].tobytes()


@pytest.mark.parametrize("secret", [b"x", b"x" * 64, b"x" * 200])
def test_the_words_of_a_field_key_are_its_keyed_hash(secret):
    keys = [b"a", b"patient 17", b"k" * 119, b"k" * 120, b"k" * 121, b"k" * 5000]
    key = secret if len(secret) <= 64 else hashlib.blake2b(secret).digest()
    for row, message in zip(FieldKeys(secret, keys).words(3), keys, strict=True):
        expected = hashlib.blake2b((3).to_bytes(8, "little") + message, digest_size=64, key=key, person=b"masker-field")
        assert row.tobytes() == expected.digest()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda keys: pickle.loads(pickle.dumps(keys))])
def test_copied_field_keys_have_the_same_words(copied):
    keys = FieldKeys(b"x" * 200, [b"a", b"b"])
    np.testing.assert_array_equal(copied(keys).words(3), keys.words(3))


def test_words_look_uniform():
    bits = np.unpackbits(position_keys(range(4096)).words(0).view(np.uint8)).reshape(4096, 512)
    assert abs(bits.mean() - 0.5) < 0.002
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.05


@pytest.mark.parametrize("secret", [b"x", b"x" * 64, b"x" * 65])
def test_secrets_of_any_length_are_accepted(secret):
    assert position_keys([0], secret=secret).words(0).any()
    assert FieldKeys(secret, [b"k"]).words(0).any()


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (b"", "the secret is empty: use at least 1 byte, preferably 32 random bytes"),
        ("text", "the secret must be bytes, not str"),
        (None, "the secret must be bytes, not NoneType"),
    ],
)
def test_other_secrets_are_rejected(secret, message):
    with pytest.raises(ParameterError, match=f"^{message}$"):
        position_keys([0], secret=secret)
    with pytest.raises(ParameterError, match=f"^{message}$"):
        FieldKeys(secret, [b"k"])


def test_negative_offsets_are_rejected():
    with pytest.raises(ParameterError, match=r"^an offset is negative: use offsets from 0$"):
        position_keys([3, -1])
