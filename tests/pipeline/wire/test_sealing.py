"""Sealed messages: they come back as they were, and only under their own topic, key and secret."""

from __future__ import annotations

import hashlib
import os

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.pipeline.wire import sealing
from stream_masker.pipeline.wire.sealing import (
    SALT_BYTES,
    SEAL_BYTES,
    SEAL_MAGIC,
    RefusalCause,
    SealError,
    TopicSeal,
    key_id,
)

SECRET, OTHER = b"one secret of 32 bytes, not more", b"another secret, of other 32 bytes"
SEAL = TopicSeal("stream-masker.statistics", [SECRET])
MESSAGE = b'{"format": 1, "version": 7}'


def refusal(seal: TopicSeal, key: bytes | None, sealed: bytes) -> RefusalCause:
    with pytest.raises(SealError) as found:
        seal.open(key, sealed)
    return found.value.cause


@given(key=st.binary(max_size=40), message=st.binary(max_size=200))
def test_a_message_comes_back_as_it_was(key: bytes, message: bytes) -> None:
    sealed = SEAL.seal(key, message)
    assert SEAL.open(key, sealed) == message
    assert len(sealed) == len(message) + SEAL_BYTES == len(message) + SEAL.added_bytes


def test_large_messages_are_compressed_before_they_are_encrypted() -> None:
    large = MESSAGE * 1_000
    sealed = SEAL.seal(b"7", large)
    assert len(sealed) < len(large) / 10
    assert SEAL.open(b"7", sealed) == large
    random = os.urandom(5_000)
    assert SEAL.open(b"7", SEAL.seal(b"7", random)) == random
    assert len(SEAL.seal(b"7", random)) == len(random) + SEAL_BYTES


def test_nothing_of_the_message_is_readable() -> None:
    sealed = SEAL.seal(b"7", MESSAGE * 20)
    assert not any(MESSAGE[at : at + 4] in sealed for at in range(len(MESSAGE) - 4))
    assert SECRET[:8] not in sealed


def test_a_message_is_valid_under_its_own_key_and_topic_only() -> None:
    sealed = SEAL.seal(b"7", MESSAGE)
    assert refusal(SEAL, b"8", sealed) is RefusalCause.FORGED
    assert refusal(SEAL, b"7:0", sealed) is RefusalCause.FORGED
    assert refusal(SEAL, None, sealed) is RefusalCause.FORGED
    assert refusal(TopicSeal("stream-masker.calibration", [SECRET]), b"7", sealed) is RefusalCause.FORGED


def test_topic_and_key_are_bound_apart() -> None:
    """A key cannot take over the end of the topic's name."""
    sealed = TopicSeal("ab", [SECRET]).seal(b"c", MESSAGE)
    assert refusal(TopicSeal("a", [SECRET]), b"bc", sealed) is RefusalCause.FORGED


def test_every_changed_bit_and_every_cut_is_refused() -> None:
    sealed = SEAL.seal(b"7", MESSAGE)
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        assert refusal(SEAL, b"7", bytes(changed)) in RefusalCause
        assert refusal(SEAL, b"7", sealed[:position]) in RefusalCause
    assert refusal(SEAL, b"7", sealed + b"x") is RefusalCause.FORGED


def test_a_message_of_another_secret_is_refused() -> None:
    assert refusal(TopicSeal(SEAL.topic, [OTHER]), b"7", SEAL.seal(b"7", MESSAGE)) is RefusalCause.UNKNOWN_KEY


def test_a_key_id_of_ours_does_not_make_a_message_authentic() -> None:
    forged = bytearray(TopicSeal(SEAL.topic, [OTHER]).seal(b"7", MESSAGE))
    forged[len(SEAL_MAGIC) : len(SEAL_MAGIC) + 8] = key_id(SECRET)
    assert refusal(SEAL, b"7", bytes(forged)) is RefusalCause.FORGED


def test_previous_secrets_are_read_and_the_current_one_writes() -> None:
    rotated = TopicSeal(SEAL.topic, [OTHER, SECRET])
    assert rotated.open(b"7", SEAL.seal(b"7", MESSAGE)) == MESSAGE
    assert refusal(SEAL, b"7", rotated.seal(b"7", MESSAGE)) is RefusalCause.UNKNOWN_KEY
    assert rotated.key_ids == [key_id(OTHER).hex(), key_id(SECRET).hex()]


def test_plain_messages_are_refused_unless_they_are_accepted() -> None:
    assert refusal(SEAL, b"7", MESSAGE) is RefusalCause.PLAIN
    assert refusal(SEAL, b"7", b"") is RefusalCause.PLAIN
    accepting = TopicSeal(SEAL.topic, [SECRET], accept_plain=True)
    assert accepting.open(b"7", MESSAGE) == MESSAGE
    assert refusal(accepting, b"8", SEAL.seal(b"7", MESSAGE)) is RefusalCause.FORGED


def test_without_encryption_messages_stay_plain_and_sealed_ones_are_refused() -> None:
    plain = TopicSeal(SEAL.topic)
    assert plain.seal(b"7", MESSAGE) == plain.open(b"7", MESSAGE) == MESSAGE
    assert (plain.added_bytes, plain.key_ids) == (0, [])
    assert refusal(plain, b"7", SEAL.seal(b"7", MESSAGE)) is RefusalCause.UNKNOWN_KEY


def test_the_refusals_say_what_to_do() -> None:
    assert "internal_topics.accept_plaintext" in str(SealError(RefusalCause.PLAIN))
    assert "stream-masker calibrate" in str(SealError(RefusalCause.PLAIN))
    assert "internal_topics.previous_secrets" in str(SealError(RefusalCause.UNKNOWN_KEY))


def test_no_cipher_key_and_nonce_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal messages under equal keys, by several writers that restart: each envelope has a key of its own."""
    used: list[bytes] = []

    def recorded(key: bytes) -> AESGCM:
        used.append(key)
        return AESGCM(key)

    monkeypatch.setattr(sealing, "AESGCM", recorded)
    sealed = {TopicSeal(topic, [SECRET]).seal(b"7", MESSAGE) for _ in range(200) for topic in ("one", "two")}
    assert len(sealed) == len(used) == len(set(used)) == 400
    assert len({message[12 : 12 + SALT_BYTES] for message in sealed}) == 400


def test_equal_salts_of_two_topics_give_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    one, two = (TopicSeal(topic, [SECRET]).seal(b"7", MESSAGE) for topic in ("one", "two"))
    assert one[44:] != two[44:]
    assert TopicSeal("one", [SECRET]).seal(b"7", MESSAGE) == one


def test_the_keys_differ_from_those_of_the_noise() -> None:
    purposes = (b"masker-words", b"masker-position", b"masker-slot", b"masker-pseudonym")
    noise = {hashlib.blake2b(digest_size=32, key=SECRET, person=purpose).digest() for purpose in purposes}
    assert sealing._topic_key(SECRET, SEAL.topic) not in noise
