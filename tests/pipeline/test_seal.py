"""Sealed messages of the internal topics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.messages import REFUSAL_CAUSES, SEAL_MAGIC, SealError, TopicSeal, key_id

OLD, NEW = b"the old secret, of 32 bytes or so", b"the new secret, of 32 bytes or so"
SEAL = TopicSeal("calibration", [NEW, OLD])


def cause(seal: TopicSeal, key: bytes | None, message: bytes) -> str:
    with pytest.raises(SealError) as refused:
        seal.open(key, message)
    assert isinstance(refused.value, StatisticsError)
    return refused.value.cause


@given(st.binary(max_size=300), st.binary(max_size=20))
def test_a_sealed_message_is_opened_with_its_key(message: bytes, key: bytes) -> None:
    sealed = SEAL.seal(key, message)
    assert sealed.startswith(SEAL_MAGIC + key_id(NEW))
    assert SEAL.open(key, sealed) == message
    assert SEAL.seal(key, message) != sealed, "each message has a salt of its own"


def test_nothing_of_a_message_can_be_read_in_its_envelope() -> None:
    sealed = SEAL.seal(b"k", b"I21.4 " * 10)
    assert b"I21" not in sealed
    assert not any(secret in sealed for secret in (OLD, NEW))


def test_a_message_is_valid_for_its_topic_and_key_alone() -> None:
    sealed = SEAL.seal(b"k", b"message")
    assert cause(SEAL, b"other", sealed) == "forged"
    assert cause(SEAL, None, sealed) == "forged"
    assert cause(TopicSeal("statistics", [NEW]), b"k", sealed) == "forged"
    assert cause(SEAL, b"k", b"{}") == "plain"


@pytest.mark.parametrize("place", [0, 5, 20, 50, -1])
def test_a_changed_or_cut_message_is_refused(place: int) -> None:
    sealed = bytearray(SEAL.seal(b"k", b"message"))
    assert cause(SEAL, b"k", bytes(sealed[:place])) in REFUSAL_CAUSES
    sealed[place] ^= 1
    assert cause(SEAL, b"k", bytes(sealed)) in REFUSAL_CAUSES


def test_earlier_secrets_open_old_messages_and_two_secrets_are_told_apart() -> None:
    old = TopicSeal("calibration", [OLD])
    assert SEAL.open(b"k", old.seal(b"k", b"message")) == b"message"
    assert cause(old, b"k", SEAL.seal(b"k", b"message")) == "unknown_key"
    assert SEAL.key_ids == [key_id(NEW).hex(), key_id(OLD).hex()]
    assert len({key_id(OLD), key_id(NEW)}) == 2
