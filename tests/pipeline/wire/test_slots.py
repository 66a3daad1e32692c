"""The slots of noise keys in calibration blocks: encoding, decoding, blocks without them, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schemas import schema_validator

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics.counts import KEY_SLOTS, MANY_KEYS, count_batch, merge
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import decode_block, encode_block
from stream_masker.pipeline.wire.slots import ALL_BITS, MANY_SLOTS, bits_of_slots, slot_list

TAU = Ontology.from_edges([("b", "a"), ("c", "a"), ("d", "b"), ("e", "b")]).taxonomy()
TAXONOMIES = {"first": TAU, "second": TAU}
HASH = "0123456789abcdef"


def block_of(patients: list[int] | None, size: int = 12) -> Block:
    """A block of records of these patients' slots; masking moves each value to the next concept."""
    codes = np.arange(size, dtype=np.int32) % 5
    before = (Column(codes), Column((codes // 2).astype(np.int32)))
    after = tuple(Column((column.codes + 1) % 5) for column in before)
    slots = None if patients is None else np.resize(np.array(patients), size)
    return Block(
        topic="discharges",
        partition=0,
        first_offset=0,
        last_offset=size - 1,
        timestamp=1,
        statistics_version=1,
        original=count_batch(Batch(size, before, slots=slots), [5, 5]),
        masked=count_batch(Batch(size, after), [5, 5]),
        distortions=(Distortion(values=size),) * 2,
        rejected={},
    )


def encoded(block: Block) -> bytes:
    return encode_block(block, TAXONOMIES, configuration=HASH)


def changed(block: Block, change: Any) -> bytes:
    data = orjson.loads(encoded(block))
    change(data)
    return orjson.dumps(data)


@given(st.lists(st.integers(0, KEY_SLOTS - 1), min_size=1, max_size=12))
def test_the_bits_survive_encoding_and_decoding(patients: list[int]) -> None:
    block = block_of(patients)
    raw = encoded(block)
    schema_validator("calibration-block").validate(orjson.loads(raw))
    found = decode_block(raw, TAXONOMIES)
    for before, after in zip(block.original.values, found.original.values, strict=True):
        assert np.array_equal(before.key_bits, after.key_bits)
    assert np.array_equal(block.original.pairs[0, 1].key_bits, found.original.pairs[0, 1].key_bits)
    assert [column.key_bits for column in found.masked.values] == [None, None]


def test_a_block_with_noise_by_position_has_no_slots() -> None:
    raw = encoded(block_of(None))
    assert b"slots" not in raw
    found = decode_block(raw, TAXONOMIES).original.values[0]
    assert found.units.tolist() == found.counts.tolist()


def test_a_block_of_an_older_release_adds_nothing_to_the_number_of_noise_keys() -> None:
    def without_slots(data: Any) -> None:
        for section in (*data["attributes"].values(), *data["pairs"]):
            section["original"].pop("slots")

    new = block_of([3], 10)
    old = decode_block(changed(new, without_slots), TAXONOMIES)
    both = merge([decode_block(encoded(new), TAXONOMIES).original, old.original])
    assert both.values[0].counts.tolist() == [4] * 5
    assert both.values[0].units.tolist() == [1] * 5


def test_entries_with_many_noise_keys_are_sent_without_detail() -> None:
    block = block_of(list(range(MANY_KEYS)), 5 * MANY_KEYS)
    sides = [*orjson.loads(encoded(block))["attributes"].values()]
    assert sides[0]["original"]["slots"] == [MANY_SLOTS] * 5
    found = decode_block(encoded(block), TAXONOMIES).original.values[0]
    assert found.units.tolist() == found.counts.tolist() == [MANY_KEYS] * 5


@given(st.lists(st.integers(1, 2**KEY_SLOTS - 1) | st.integers(0, KEY_SLOTS - 1).map(lambda slot: 1 << slot)))
def test_lists_of_slots_restore_all_bits_below_the_limit(words: list[int]) -> None:
    bits = np.array(words, np.uint64)
    slots = slot_list(bits)
    found = bits_of_slots(slots, bits.size)
    assert found is not None
    assert np.array_equal(found, np.where(np.bitwise_count(bits) < MANY_KEYS, bits, ALL_BITS))
    assert bits_of_slots(slots, bits.size + 1) is None


@pytest.mark.parametrize(
    "slots",
    [[], [0], [0] * 4, [0] * 6, [64, 0, 0, 0, 0], [0, 0, 0, 0, 129], [0, 0, 0, 0, -1], [0, 0, 0, 0, "0"], "0", {}],
)
def test_refuses_slots_that_are_not_those_of_the_entries(slots: Any) -> None:
    def change(data: Any) -> None:
        data["attributes"]["first"]["original"]["slots"] = slots

    with pytest.raises(StatisticsError, match=r"slots is missing or not"):
        decode_block(changed(block_of([3]), change), TAXONOMIES)


@pytest.mark.parametrize("slots", [[0, 65, 66, 67, 1, 2, 3, 4], [MANY_SLOTS, 1, 2, 3, 4]])
def test_refuses_more_noise_keys_than_rows(slots: list[int]) -> None:
    """The first value occurs three times."""

    def change(data: Any) -> None:
        data["attributes"]["first"]["original"]["slots"] = slots

    with pytest.raises(StatisticsError, match="original slots is missing or not at most one for each row"):
        decode_block(changed(block_of([3]), change), TAXONOMIES)


def test_slots_follow_their_entries_into_the_order_of_positions() -> None:
    def reversed_entries(data: Any) -> None:
        section = data["attributes"]["first"]["original"]
        section.update({name: section[name][::-1] for name in ("concepts", "counts", "slots")})
        for side in (data["pairs"][0]["original"],):
            side["first"] = [len(section["concepts"]) - 1 - index for index in side["first"]]

    block = block_of([1, 2, 3, 4, 5], 5)
    found = decode_block(changed(block, reversed_entries), TAXONOMIES)
    assert np.array_equal(found.original.values[0].key_bits, block.original.values[0].key_bits)


def test_blocks_counted_twice_have_the_same_number_of_noise_keys() -> None:
    block = block_of([7, 9])
    again = merge([block.original, replace(block.original)])
    assert again.values[0].units.tolist() == block.original.values[0].units.tolist()
