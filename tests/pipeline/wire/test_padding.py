"""What the size of an encrypted block tells of the masks of its records."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch, unchanged_records
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics.counts import count_batch
from stream_masker.core.statistics.units import KEY_SLOTS
from stream_masker.pipeline.records import Block, Stratum
from stream_masker.pipeline.style import StyleCounts
from stream_masker.pipeline.wire.blocks import block_key, decode_block, encode_block
from stream_masker.pipeline.wire.consistency import MAX_PADDED_BYTES, padded_size
from stream_masker.pipeline.wire.sealing import COMPRESSED_FROM_BYTES, SEAL_BYTES, TopicSeal, size_class

SEAL = TopicSeal("blocks", [b"the secret of all processes"])
CODES = [f"{chapter}{group:02d}{leaf}" for chapter in "AB" for group in range(6) for leaf in ("", ".1", ".25", ".2511")]
TREE = Ontology.from_edges(
    [(chapter, "root") for chapter in "AB"]
    + [(code, code[0]) for code in CODES if len(code) == 3]
    + [(code, code[:3]) for code in CODES if len(code) > 3]
).taxonomy()
TAXONOMIES = {"principal": TREE, "secondary": TREE}
LEAVES = TREE.encode([code for code in CODES if len(code) > 3])
KEYS = 400

Size = Callable[[Block], int]


def sealed_size(block: Block, *, padded: bool) -> int:
    raw = encode_block(block, TAXONOMIES, configuration="0123456789abcdef")
    return len(SEAL.seal(block_key(block), raw, padded=padded_size(block, TAXONOMIES) if padded else 0))


def mechanism() -> SemanticNoise:
    made = SemanticNoise(TAXONOMIES, alpha=0.3, rounding="calibrated", reference="mean", seed=b"a secret of the tests")
    window = np.random.default_rng(3).choice(LEAVES, (2, 2_000))
    for row in window.T.tolist():
        made.learn_one(dict(zip(TAXONOMIES, TREE.decode(np.array(row)), strict=True)))
    made.calibrate()
    return made


def block_of(before: Batch, after: MaskedBatch, **more: Any) -> Block:
    """Return the block of a batch as workers count it."""
    sizes = [len(TREE)] * len(TAXONOMIES)
    return Block(
        topic="discharges",
        partition=3,
        first_offset=1_000,
        last_offset=999 + before.size,
        timestamp=1_700_000_000_123,
        statistics_version=4,
        original=count_batch(before, sizes),
        masked=count_batch(Batch(before.size, after.columns), sizes),
        distortions=after.distortions,
        rejected={},
        styles=(StyleCounts(),) * len(TAXONOMIES),
        unchanged=int(unchanged_records(before, after).sum()),
        **more,
    )


def masked_by_many_keys(records: int) -> list[Block]:
    """Return the blocks of random records, each masked under a key of its own. The first record is that of interest."""
    made, rng, found = mechanism(), np.random.default_rng(5), []
    for number in range(KEYS):
        batch = Batch(records, tuple(Column(rng.choice(LEAVES, records).astype(np.int32)) for _ in TAXONOMIES))
        keys = PositionKeys(b"secret %d of many bytes" % number, "attack", 0, np.arange(records))
        found.append(block_of(batch, made.mask_batch(batch, keys)))
    return found


def area_under_curve(sizes: list[int], changed: list[bool]) -> float:
    """Return the chance that the block of a changed record is larger than that of an unchanged one; ties count half."""
    values, flags = np.array(sizes), np.array(changed)
    more = values[flags][:, None] - values[~flags][None, :]
    return float((more > 0).mean() + (more == 0).mean() / 2)


def test_the_size_of_a_lone_records_block_does_not_tell_whether_it_changed() -> None:
    blocks = masked_by_many_keys(1)
    changed = [block.unchanged == 0 for block in blocks]
    assert 40 < sum(changed) < KEYS - 40
    assert area_under_curve([sealed_size(block, padded=False) for block in blocks], changed) > 0.9
    padded = [sealed_size(block, padded=True) for block in blocks]
    assert (area_under_curve(padded, changed), len(set(padded))) == (0.5, 1)


@pytest.mark.parametrize("records", [2, 400])
def test_blocks_of_equally_many_records_have_one_size(records: int) -> None:
    blocks = masked_by_many_keys(records)[:60]
    assert len({sealed_size(block, padded=False) for block in blocks}) > 3
    assert len({sealed_size(block, padded=True) for block in blocks}) == 1


def test_padded_blocks_are_read_as_before() -> None:
    block = masked_by_many_keys(2)[0]
    raw = encode_block(block, TAXONOMIES, configuration="0")
    sealed = SEAL.seal(b"k", raw, padded=padded_size(block, TAXONOMIES))
    assert SEAL.open(b"k", sealed) == raw
    assert decode_block(SEAL.open(b"k", sealed), TAXONOMIES).unchanged == block.unchanged
    assert TopicSeal("blocks").seal(b"k", raw, padded=10_000) == raw


def test_a_block_of_one_record_takes_at_most_four_kilobytes() -> None:
    assert sealed_size(masked_by_many_keys(1)[0], padded=True) < 4_096


@pytest.mark.parametrize("size", [0, 1, 900, 4_000, 70_000, 300_000])
def test_the_envelope_of_a_padded_message_has_the_size_that_is_asked_for_or_one_of_few(size: int) -> None:
    sealed = SEAL.seal(b"7", os.urandom(size), padded=5_000)
    packed = len(sealed) - SEAL_BYTES + 1
    assert packed == 5_000 if size < 4_900 else size < packed <= 1.13 * (size + 100) and size_class(packed) == packed


def test_size_classes_add_less_than_an_eighth() -> None:
    classes = [size_class(size) for size in range(1, 5_000)]
    assert all(size <= one <= size * 1.125 for size, one in enumerate(classes, start=1))
    assert len({size_class(size) for size in range(COMPRESSED_FROM_BYTES, 2 * COMPRESSED_FROM_BYTES)}) == 9


@st.composite
def any_block(draw: st.DrawFn) -> tuple[Block, dict[str, Taxonomy]]:
    """A block with an array, extreme numbers, and any of the optional fields."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 4, n))))
    codes = [rng.integers(-1, len(TREE), n), rng.integers(0, len(TREE), offsets[-1])]
    columns = (Column(codes[0].astype(np.int32)), Column(codes[1].astype(np.int32), offsets))
    shuffled = (
        Column(np.where(codes[0] < 0, -1, codes[0][::-1].clip(0)).astype(np.int32)),
        Column(codes[1][::-1].astype(np.int32), offsets),
    )
    extreme = Distortion(2**60, 1e-300 / 3, 1e300 / 3, 2**60, 2**60, 2**60)
    slots = draw(st.sampled_from([None, rng.integers(0, KEY_SLOTS, n)]))
    found = block_of(Batch(n, columns, slots=slots), MaskedBatch(shuffled, (extreme, extreme)))
    largest = StyleCounts(*[2**60] * len(StyleCounts.__dataclass_fields__))
    return replace(
        found,
        first_offset=2**62,
        timestamp=2**62,
        styles=draw(st.sampled_from([(), (largest, largest)])),
        stratum=draw(st.sampled_from([None, Stratum(30, 33)])),
    ), TAXONOMIES


@given(any_block())
def test_no_block_is_larger_than_it_is_padded_to(drawn: tuple[Block, dict[str, Taxonomy]]) -> None:
    block, taxonomies = drawn
    raw = encode_block(block, taxonomies, configuration="0123456789abcdef")
    assert len(raw) <= padded_size(block, taxonomies) <= MAX_PADDED_BYTES


def test_the_size_is_that_of_public_numbers_alone() -> None:
    made = mechanism()
    batch = Batch(3, tuple(Column(LEAVES[:3].astype(np.int32)) for _ in TAXONOMIES))
    whole = made.mask_batch(batch, PositionKeys(b"secret of many bytes", "attack", 0, np.arange(3)))
    other = replace(whole, columns=batch.columns, distortions=(Distortion(3),) * 2)
    assert padded_size(block_of(batch, whole), TAXONOMIES) == padded_size(block_of(batch, other), TAXONOMIES)
    assert WuPalmer(TREE).taxonomy.id_bytes == len("A00.2511")
