"""Counting of masked records in blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.random import Secret
from stream_masker.core.statistics.counts import merge, same_counts
from stream_masker.pipeline import blocks
from stream_masker.pipeline.blocks import MAX_COUNTED_ELEMENTS, BlockCounter, limited, merge_blocks
from stream_masker.pipeline.codec import RecordPart
from stream_masker.pipeline.records import Block, Inputs, Rejected
from stream_masker.pipeline.style import StyleCounts

SIZES = (5, 5)
COUNTER = BlockCounter(Secret(b"a secret of the tests"), SIZES)


def counted(codes: Sequence[int], rejected: Sequence[int] = (), keys: Sequence[bytes] = ()) -> RecordPart:
    """Return records of two attributes, the second of which is masked by the next code."""
    column = Column(np.array(codes, np.int32))
    after = Column(np.array([(code + 1) % SIZES[0] for code in codes], np.int32))
    total = len(codes) + len(rejected)
    part = RecordPart(
        indices=np.array([index for index in range(total) if index not in rejected]),
        batch=Batch(len(codes), (column, column)),
        keys=keys,
        rejected={index: Rejected(index, "missing") for index in rejected},
        unknown=[1, 0],
        lost=[1, 0],
        styles=[StyleCounts((len(codes),)), StyleCounts()],
        emptied={},
        documents=(),
        codes=(),
    )
    distortions = (Distortion(len(codes)), Distortion(len(codes), 1.5))
    part.masked, part.values = MaskedBatch((column, after), distortions), [b""] * total
    return part


def inputs(size: int, first: int = 100) -> Inputs:
    return Inputs(offsets=range(first, first + size), values=[b""] * size, keys=[None] * size, timestamps=range(size))


def made(part: RecordPart, size: int, counter: BlockCounter = COUNTER) -> list[Block]:
    return list(counter.blocks("discharges", 3, inputs(size), [part]))


def test_a_block_counts_a_run_before_and_after_masking() -> None:
    [block] = made(counted([0, 1, 1], rejected=[1]), 4)
    assert (block.topic, block.partition, block.first_offset, block.last_offset) == ("discharges", 3, 100, 103)
    assert block.timestamp == 3
    assert block.original.values[1].keys.tolist() == [0, 1]
    assert block.masked.values[1].keys.tolist() == [1, 2]
    assert block.masked.values[1].counts.tolist() == [1, 2]
    assert block.unchanged == 0
    assert block.styles[0].texts == (3,)


def test_large_runs_are_split_without_changing_their_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    records = counted([code % 5 for code in range(50)], rejected=[7, 30])
    [whole] = made(records, 52)
    monkeypatch.setattr(blocks, "MAX_BLOCK_ROWS", 30)
    several = made(records, 52)
    assert len(several) == 5
    assert [b.first_offset for b in several[1:]] == [b.last_offset + 1 for b in several[:-1]]
    merged = merge_blocks(several)
    assert (merged.first_offset, merged.last_offset, merged.timestamp) == (100, 151, 51)
    assert (merged.distortions, merged.styles) == (whole.distortions, whole.styles)
    total = merge(block.masked for block in several)
    assert all(map(same_counts, total.values, whole.masked.values))
    assert same_counts(total.pairs[0, 1], whole.masked.pairs[0, 1])


def test_blocks_tell_how_many_noise_keys_a_value_has() -> None:
    [block] = made(counted([0, 0, 0], keys=[b"a", b"a", b"b"]), 3)
    assert block.original.values[0].units.tolist() == [2]
    assert block.masked.values[0].key_bits is None
    others = BlockCounter(Secret(b"another secret of theirs"), SIZES)
    [other] = made(counted([0, 0, 0], keys=[b"a", b"a", b"b"]), 3, others)
    bits = [each.original.values[0].key_bits for each in (block, other)]
    assert bits[0] is not None
    assert bits[0] != bits[1], "the slots depend on the secret"


def test_one_record_counts_a_bounded_number_of_elements() -> None:
    lengths = np.array([2, 1_000, 0, 3])
    column = Column(np.arange(lengths.sum()).astype(np.int32), offsets_from_lengths(lengths))
    assert limited(column).lengths.tolist() == [2, MAX_COUNTED_ELEMENTS, 0, 3]
    assert limited(column).codes[-3:].tolist() == [1002, 1003, 1004]
    assert limited(Column(column.codes)).codes is column.codes
