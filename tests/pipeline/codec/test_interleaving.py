"""Batches of both codecs, joined in the order of the records and split again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.pipeline.codec.base import DecodedBatch
from stream_masker.pipeline.codec.fallback import insertion_places, interleave, spliced, split_masked
from stream_masker.pipeline.records import Rejected
from stream_masker.pipeline.style import StyleCounts


def decoded(indices: list[int], arrays: list[list[int]], *, alphas: bool) -> DecodedBatch[None]:
    """Records with a scalar, an array and a number that follow from their indices."""
    elements = [arrays[index] for index in indices]
    offsets = np.cumsum([0, *map(len, elements)]).astype(np.int64)
    columns = (
        Column(np.array(indices, np.int32)),
        Column(np.array([code for codes in elements for code in codes], np.int32), offsets),
    )
    numbers = np.array(indices, np.float64)[:, None] * [1.0, 2.0]
    alpha = np.array(indices, np.float64) if alphas else None
    return DecodedBatch(
        indices=np.array(indices, np.int64),
        batch=Batch(len(indices), columns, alpha, numbers, context=np.array(indices, np.int64)),
        keys=[b"%d" % index for index in indices],
        rejected={},
        undecided=np.array([], np.int64),
        unknown=[1, 2],
        lost=[0, 1],
        styles=[StyleCounts(codes=1)] * 2,
        templates=None,
    )


@given(data=st.data(), arrays=st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=12))
def test_batches_are_joined_in_the_order_of_the_records_and_split_again(
    data: st.DataObject, arrays: list[list[int]]
) -> None:
    who = data.draw(
        st.lists(st.sampled_from(["first", "second", "neither"]), min_size=len(arrays), max_size=len(arrays))
    )
    alphas = data.draw(st.booleans())
    first, second = (
        decoded([k for k, name in enumerate(who) if name == source], arrays, alphas=alphas and source == "second")
        for source in ("first", "second")
    )
    joined = interleave(first, second, "templates")
    present = [k for k, name in enumerate(who) if name != "neither"]
    expected = decoded(present, arrays, alphas=False)
    assert joined.indices.tolist() == present
    assert list(joined.keys) == expected.keys
    assert (joined.unknown, joined.lost, joined.templates) == ([2, 4], [0, 2], "templates")
    for column, wanted in zip(joined.batch.columns, expected.batch.columns, strict=True):
        assert column.codes.dtype == np.int32
        assert same(column, wanted)
    assert joined.batch.numeric.tolist() == expected.batch.numeric.tolist()
    assert joined.batch.context.tolist() == present
    if alphas:
        known = [k if who[k] == "second" else np.nan for k in present]
        assert np.array_equal(joined.batch.alpha, np.array(known, np.float64), equal_nan=True)
    places = insertion_places(first, second)
    masked = MaskedBatch(joined.batch.columns, (Distortion(),) * 2, joined.batch.numeric)
    for part, batch in zip(split_masked(masked, places, first.batch.size), (first, second), strict=True):
        assert all(same(a, b) for a, b in zip(part.columns, batch.batch.columns, strict=True))
        assert part.numeric.tolist() == batch.batch.numeric.tolist()
    assert spliced(first.keys, second.keys, places) == expected.keys


def same(a: Column, b: Column) -> bool:
    if a.offsets is None or b.offsets is None:
        return a.offsets is b.offsets and a.codes.tolist() == b.codes.tolist()
    return a.codes.tolist() == b.codes.tolist() and a.offsets.tolist() == b.offsets.tolist()


def test_rejections_of_both_batches_are_kept() -> None:
    arrays: list[list[int]] = [[], [], []]
    first, second = decoded([0], arrays, alphas=False), decoded([1], arrays, alphas=False)
    second = replace(second, rejected={2: REJECTED})
    assert interleave(first, second, None).rejected == {2: REJECTED}


REJECTED = Rejected(2, "not_json")
