"""Block splitting: records that are too many for one message are counted in several blocks, which add up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.statistics.counts import count_batch, merge
from stream_masker.pipeline.calibration import blocks
from stream_masker.pipeline.calibration.blocks import (
    PAIR_BYTES,
    VALUE_BYTES,
    CountedRecords,
    limit_elements,
    split_into_blocks,
)
from stream_masker.pipeline.records import Rejected

SIZES = (50, 50)
CODES = st.integers(0, 49)
UNKNOWN, LOST = [5, 6], [2, 3]
DISTORTIONS = (Distortion(7, 1.5, 2.5, 3, 4), Distortion(11, 0.5, 0.25, 1, 0))


def codes_of(draw: st.DrawFn, count: int) -> Int32Array:
    return np.array(draw(st.lists(CODES, min_size=count, max_size=count)), dtype=np.int32)


@st.composite
def counted_records(draw: st.DrawFn) -> tuple[CountedRecords, int]:
    """Up to 40 records, some of them rejected, with a scalar and an array attribute; and the number of records."""
    lengths = draw(st.lists(st.none() | st.integers(0, 4), min_size=1, max_size=40))
    kept = [index for index, length in enumerate(lengths) if length is not None]
    offsets = np.cumsum([0, *(lengths[index] for index in kept)]).astype(np.int64)

    def columns() -> tuple[Column, Column]:
        return Column(codes_of(draw, len(kept))), Column(codes_of(draw, int(offsets[-1])), offsets)

    rejected = {index: Rejected(100 + index, "missing") for index, length in enumerate(lengths) if length is None}
    batch, masked = Batch(len(kept), columns()), MaskedBatch(columns(), DISTORTIONS)
    return CountedRecords(batch, masked, np.array(kept, dtype=np.int64), rejected, UNKNOWN, LOST), len(lengths)


def split(counted: CountedRecords, size: int, limit: int) -> list[tuple[int, int, CountedRecords]]:
    """Split the records into blocks of about ``limit`` bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MAX_BLOCK_BYTES", limit)
        return list(split_into_blocks(counted, size))


@given(records=counted_records(), most=st.integers(0, 5))
def test_the_first_elements_of_each_record_are_counted(records, most):
    (scalar, array), _ = records[0].batch.columns, records[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MAX_COUNTED_ELEMENTS", most)
        same, limited = limit_elements((scalar, array))
    assert same is scalar
    spans = pairwise(array.offsets.tolist())
    expected = [array.codes[start:end][:most].tolist() for start, end in spans]
    assert [limited.codes[start:end].tolist() for start, end in pairwise(limited.offsets.tolist())] == expected


@given(records=counted_records(), limit=st.integers(1, 5_000))
def test_blocks_are_consecutive_and_add_up(records, limit):
    whole, size = records
    parts = split(whole, size, limit)
    assert [start for start, _, _ in parts] == [0, *(end for _, end, _ in parts[:-1])]
    assert parts[-1][1] == size
    assert all(start < end for start, end, _ in parts)
    for side in (lambda part: part.batch, lambda part: Batch(part.batch.size, part.masked.columns)):
        check_counts(merge(count_batch(side(part), SIZES) for _, _, part in parts), count_batch(side(whole), SIZES))
    assert [sum((part.masked.distortions[j] for _, _, part in parts), Distortion()) for j in range(2)] == list(
        DISTORTIONS
    )
    assert [sum(part.unknown[j] for _, _, part in parts) for j in range(2)] == UNKNOWN
    assert [sum(part.lost[j] for _, _, part in parts) for j in range(2)] == LOST
    rejected = [(start + index, one) for start, _, part in parts for index, one in part.rejected.items()]
    assert rejected == list(whole.rejected.items())
    assert [start + i for start, _, part in parts for i in part.indices.tolist()] == whole.indices.tolist()


@given(records=counted_records(), limit=st.integers(1, 5_000))
def test_only_records_that_do_not_fit_into_one_block_are_split(records, limit):
    whole, size = records
    rows = max(len(column.codes) for column in whole.batch.columns)
    fits = rows * (2 * VALUE_BYTES + PAIR_BYTES) <= limit
    parts = split(whole, size, limit)
    assert (len(parts) == 1) == (fits or size == 1)
    assert len(parts) > 1 or parts == [(0, size, whole)]


def check_counts(found, expected):
    assert found.records == expected.records
    assert list(found.lengths) == list(expected.lengths) == [1]
    for one, other in zip(
        [*found.values, *found.pairs.values(), *found.lengths.values(), *found.events.values()],
        [*expected.values, *expected.pairs.values(), *expected.lengths.values(), *expected.events.values()],
        strict=True,
    ):
        np.testing.assert_array_equal(one.keys, other.keys)
        np.testing.assert_array_equal(one.counts, other.counts)
