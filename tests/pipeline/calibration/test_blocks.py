"""Blocks that would be too large for a message are cut, and add up to what they were."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.statistics.counts import count_batch, merge
from stream_masker.pipeline.calibration import blocks
from stream_masker.pipeline.calibration.blocks import CountedRecords, split_into_blocks
from stream_masker.pipeline.records import Rejected

SIZES = (50, 50)


def counted(records=40, rejected=(3, 17)):
    """A scalar and an array attribute; two of the records are rejected."""
    rng = np.random.default_rng(1)
    indices = [index for index in range(records) if index not in rejected]
    n = len(indices)
    lengths = rng.integers(0, 5, n)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)

    def columns():
        codes = rng.integers(0, 50, n).astype(np.int32), rng.integers(0, 50, offsets[-1]).astype(np.int32)
        return Column(codes[0]), Column(codes[1], offsets)

    distortions = (Distortion(n, 1.5, 2.5, 3, 4), Distortion(int(offsets[-1]), 0.5, 0.25, 1, 0))
    refused = {index: Rejected(100 + index, "missing") for index in rejected}
    places = np.array(indices, dtype=np.int64)
    return CountedRecords(Batch(n, columns()), MaskedBatch(columns(), distortions), places, refused, [5, 6], [2, 3])


def test_what_fits_is_not_cut():
    whole = counted()
    assert list(split_into_blocks(whole, 40)) == [(0, 40, whole)]


@pytest.mark.parametrize("size", [100, 1_000, 3_000])
def test_parts_are_consecutive_and_add_up(monkeypatch, size):
    monkeypatch.setattr(blocks, "MAX_BLOCK_BYTES", size)
    whole = counted()
    parts = list(split_into_blocks(whole, 40))
    assert len(parts) > 1
    assert [start for start, _, _ in parts] == [0, *(end for _, end, _ in parts[:-1])]
    assert parts[-1][1] == 40
    for side in (lambda part: part.batch, lambda part: Batch(part.batch.size, part.masked.columns)):
        check_counts(merge(count_batch(side(part), SIZES) for _, _, part in parts), count_batch(side(whole), SIZES))
    totals = [sum((part.masked.distortions[j] for _, _, part in parts), Distortion()) for j in range(2)]
    assert totals == list(whole.masked.distortions)
    assert sum(len(part.rejected) for _, _, part in parts) == 2
    assert [sum(part.unknown[j] for _, _, part in parts) for j in range(2)] == [5, 6]
    assert [sum(part.lost[j] for _, _, part in parts) for j in range(2)] == [2, 3]
    assert [start + index for start, _, part in parts for index in part.rejected] == [3, 17]
    assert [start + i for start, _, part in parts for i in part.indices.tolist()] == whole.indices.tolist()


def check_counts(found, expected):
    assert found.records == expected.records
    for one, other in zip(
        [*found.values, *found.pairs.values()], [*expected.values, *expected.pairs.values()], strict=True
    ):
        np.testing.assert_array_equal(one.keys, other.keys)
        np.testing.assert_array_equal(one.counts, other.counts)


def test_a_single_record_is_never_cut(monkeypatch):
    monkeypatch.setattr(blocks, "MAX_BLOCK_BYTES", 1)
    assert len(list(split_into_blocks(counted(records=1, rejected=()), 1))) == 1
