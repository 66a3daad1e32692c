"""The sliding window against a new count of its records, after any sequence of additions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import Batch, Column
from stream_masker.core.statistics import count_batch
from stream_masker.core.statistics import counts as module
from stream_masker.core.statistics.counts import NO_SLOT, SlidingWindow
from stream_masker.errors import ParameterError

SIZES = (4, 5)


def batch_of(records):
    """A batch of records, each given as (code of the scalar, codes of the array)."""
    scalars = np.array([a for a, _ in records], dtype=np.int32)
    elements = np.array([code for _, codes in records for code in codes], dtype=np.int32)
    offsets = np.concatenate(([0], np.cumsum([len(codes) for _, codes in records], dtype=np.int64)))
    return Batch(len(records), (Column(scalars), Column(elements, offsets.astype(np.int64))))


def slots_of(records):
    """A slot for each record; those without elements have no known noise key."""
    return np.array([NO_SLOT if not codes else (a + len(codes)) % 4 for a, codes in records], dtype=np.int64)


RECORDS = st.tuples(st.integers(-1, 3), st.lists(st.integers(0, 4), max_size=3))
ADDITIONS = st.lists(st.tuples(st.lists(RECORDS, max_size=4), st.booleans()), max_size=12)


def plain(counts):
    columns = [*counts.values, *counts.pairs.values()]
    lengths = {j: (c.keys.tolist(), c.counts.tolist()) for j, c in counts.lengths.items() if c.keys.size}
    return counts.records, [(c.keys.tolist(), c.counts.tolist()) for c in columns], lengths


@given(additions=ADDITIONS, records=st.integers(1, 6), pending=st.sampled_from([1, 5, 1000]))
def test_counts_and_units_are_those_of_the_records_in_the_window(additions, records, pending):
    """Records that entered without noise keys add nothing to the units beside others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PENDING_RECORDS", pending)
        window, added = SlidingWindow(SIZES, records=records), []
        for batch, known in additions:
            window.add(replace(batch_of(batch), slots=slots_of(batch) if known else None))
            added += [(record, known) for record in batch]
            left = added[-records:]
            slots = np.array([slots_of([record])[0] if known else NO_SLOT for record, known in left], dtype=np.int64)
            expected, found = (replace(batch_of([r for r, _ in left]), slots=slots), window.counts())
            expected = count_batch(expected, SIZES)
            assert plain(found) == plain(expected)
            for own, column in zip(found.values, expected.values, strict=True):
                assert own.units.tolist() == (column.counts if own.key_bits is None else column.units).tolist()
                assert own.key_bits is not None or not (slots != NO_SLOT).any()


def test_lengths_are_right_after_batches_without_any_array(monkeypatch):
    """A batch of records that all lack the array looks like one of a scalar."""
    monkeypatch.setattr(module, "PENDING_RECORDS", 1)
    window = SlidingWindow(SIZES, records=3)
    window.add(Batch(2, (Column(np.array([1, 2], dtype=np.int32)), Column(np.array([-1, -1], dtype=np.int32)))))
    for added, expected in (([(1, [0, 1])], {0: 2, 2: 1}), ([(2, []), (2, [3])], {0: 1, 1: 1, 2: 1})):
        window.add(batch_of(added))
        lengths = window.counts().lengths[1]
        assert dict(zip(lengths.keys.tolist(), lengths.counts.tolist(), strict=True)) == expected


def test_an_attribute_must_be_an_array_in_all_batches_or_in_none():
    window = SlidingWindow(SIZES, records=5)
    window.add(batch_of([(1, [2])]))
    window.add(Batch(1, (Column(np.array([1], dtype=np.int32)),) * 2))
    with pytest.raises(ParameterError, match="array in some batches"):
        window.counts()
