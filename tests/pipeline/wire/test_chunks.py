"""Splitting of a version's message into chunks, and their assembly."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schemas import schema_validator

from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.pipeline.wire.chunks import (
    MAX_HEAD_BYTES,
    Chunk,
    ChunkAssembler,
    Versions,
    chunk_position,
    count_chunks,
    split_message,
    tombstones,
)


def versions_of(pieces: list[Chunk]) -> Versions:
    found = Versions()
    for piece in pieces:
        found.take(*chunk_position(piece.key), piece.value)
    return found


def collected(pieces: list[Chunk]) -> ChunkAssembler:
    [found] = versions_of(pieces).values()
    return found


@given(st.binary(max_size=9_000), st.integers(MAX_HEAD_BYTES, 5_000), st.integers(1, 10**18 - 1), st.randoms())
def test_chunks_in_any_order_are_assembled_to_the_message(message, limit, version, random):
    pieces = split_message(version, message, limit)
    assert all(len(piece.value) <= limit for piece in pieces)
    assert {chunk_position(piece.key)[0] for piece in pieces} == {version}
    assert [piece.key for piece in pieces][-1] == str(version).encode()
    random.shuffle(pieces)
    found = collected(pieces)
    assert found.complete
    assert found.message() == message


def test_a_message_that_fits_is_not_split():
    assert split_message(7, b"x" * MAX_HEAD_BYTES, MAX_HEAD_BYTES) == [Chunk(b"7", b"x" * MAX_HEAD_BYTES)]


def test_the_head_describes_the_chunks_and_fits_its_schema():
    *parts, head = split_message(7, b"x" * 4_000, 1_500)
    assert [len(part.value) for part in parts] == [1_500, 1_500, 1_000]
    assert count_chunks(head.value) == 3
    assert len(head.value) < MAX_HEAD_BYTES / 2
    schema_validator("statistics").validate(orjson.loads(head.value))


@pytest.mark.parametrize("lost", range(3))
def test_a_version_is_incomplete_without_its_head_or_a_chunk(lost):
    pieces = split_message(7, b"x" * 1_000, 512)
    found = collected([piece for number, piece in enumerate(pieces) if number != lost])
    assert not found.complete
    with pytest.raises(StatisticsError, match="a chunk is missing, or is not the one that was written"):
        found.message() if found.head else collected([Chunk(b"7", pieces[-1].value)]).message()


@pytest.mark.parametrize("changed", [b"y" * 512, b"x" * 511, b"x" * 513, b""])
def test_rejects_a_changed_chunk(changed):
    found = collected(split_message(7, b"x" * 1_000, 512))
    found.put(0, changed)
    assert found.complete
    with pytest.raises(StatisticsError, match="a chunk is missing, or is not the one that was written"):
        found.message()


@pytest.mark.parametrize("parts", ["0", '"3"', "-1", "[]", "true", "1.5"])
def test_rejects_an_invalid_head(parts):
    head = b'{"format":1,"version":7,"parts":%s,"bytes":1,"sha256":"x"}' % parts.encode()
    found = collected([Chunk(b"7", head)])
    assert count_chunks(head) == 0
    assert found.complete
    with pytest.raises(StatisticsError, match="parts is missing"):
        found.message()


@pytest.mark.parametrize("head", [b"", b"E11.9", b"[]", b'{"format":2,"parts":3}', b'{"format":1,"version":7}'])
def test_any_other_message_is_the_version_itself(head):
    found = collected([Chunk(b"7", head)])
    assert (found.complete, found.message(), count_chunks(head)) == (True, head, 0)


@pytest.mark.parametrize("key", [None, b"", b"-1", b"x", b"1.0", b"9" * 40, b"1:", b":1", b"1:2:3", b"1:-1", b"1:x"])
def test_other_keys_have_no_position(key):
    assert chunk_position(key) is None


def test_a_version_is_removed_with_all_its_chunks():
    assert tombstones(7, 0) == [Chunk(b"7", None)]
    assert tombstones(7, 2) == [Chunk(b"7", None), Chunk(b"7:0", None), Chunk(b"7:1", None)]


def test_rejects_a_limit_without_room_for_the_head():
    with pytest.raises(ParameterError, match="use at least 512"):
        split_message(1, b"", MAX_HEAD_BYTES - 1)


def test_a_tombstone_removes_a_version_by_its_head_or_a_single_chunk():
    seven, eight = split_message(7, b"x" * 1_000, 512), split_message(8, b"y" * 1_000, 512)
    head, *parts = tombstones(7, 2)
    assert versions_of([*seven, *eight, head, *parts]).keys() == {8}
    without = versions_of([*seven, *eight, parts[1]])
    assert [without[7].complete, without[8].complete] == [False, True]
