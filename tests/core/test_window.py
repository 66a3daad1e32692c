"""The sliding window against a new count of its records, after any sequence of additions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core import window as module
from stream_masker.core.batch import Batch, Column
from stream_masker.core.statistics import count_batch
from stream_masker.core.statistics.counts import NO_SLOT
from stream_masker.core.window import SlidingWindow
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
ADDITIONS = st.lists(
    st.tuples(st.lists(RECORDS, max_size=4), st.integers(0, 12), st.booleans(), st.booleans()), max_size=12
)
LIMITS = st.none() | st.integers(1, 6)


def literal_window(added, records, age):
    """The last records without those that are too old; ``added``: (record, time) in order."""
    last = added if records is None else added[-records:]
    newest = max((time for _, time in last), default=0)
    return [record for record, time in last if age is None or time >= newest - age]


def plain(counts):
    columns = [*counts.values, *counts.pairs.values()]
    lengths = {j: (c.keys.tolist(), c.counts.tolist()) for j, c in counts.lengths.items() if c.keys.size}
    return counts.records, counts.unknown, [(c.keys.tolist(), c.counts.tolist()) for c in columns], lengths


def assert_counts(window, left):
    """The window counts these records; ``left``: each with whether its noise key is known.

    Those without a known noise key add no unit beside others.
    """
    slots = np.array([slots_of([record])[0] if known else NO_SLOT for record, known in left], dtype=np.int64)
    expected = count_batch(replace(batch_of([record for record, _ in left]), slots=slots), SIZES)
    assert len(window) == len(left)
    assert plain(window.counts()) == plain(expected)
    for found, column in zip(window.counts().values, expected.values, strict=True):
        units = column.counts if found.key_bits is None else column.units
        assert found.units.tolist() == units.tolist()
        assert found.key_bits is not None or not (slots != NO_SLOT).any()


@given(additions=ADDITIONS, records=LIMITS, age=LIMITS, pending=st.sampled_from([1, 5, 1000]))
def test_counts_equal_those_of_the_records_in_the_window(additions, records, age, pending):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PENDING_RECORDS", pending)
        window, added = SlidingWindow(SIZES, records=records, age=age), []
        for batch, time, known, look in additions:
            window.add(replace(batch_of(batch), slots=slots_of(batch) if known else None), float(time))
            added += [((record, known), time) for record in batch]
            if look:
                assert_counts(window, literal_window(added, records, age))
        assert_counts(window, literal_window(added, records, age))


def scalars(*codes):
    return Batch(len(codes), (Column(np.array(codes, dtype=np.int32)),))


def test_age_is_relative_to_the_newest_record():
    """A late record is not counted, and one from the future excludes others until it leaves the window."""
    window = SlidingWindow([9], records=3, age=10.0)
    steps = [(100, [0]), (105, [0, 1]), (110, [0, 1, 2]), (111, [1, 2, 3]), (50, [2, 3]), (9_999, [5])]
    steps += [(112, [5]), (113, [5]), (114, [6, 7, 8])]
    for code, (time, left) in enumerate(steps):
        window.add(scalars(code), float(time))
        assert window.counts().values[0].keys.tolist() == left


def test_a_window_with_an_age_needs_times():
    window = SlidingWindow([9], records=None, age=10.0)
    for time in (None, float("nan"), float("inf")):
        with pytest.raises(ParameterError, match="needs the time"):
            window.add(scalars(1), time)
    assert len(window) == 0


def test_lengths_are_right_after_batches_without_any_array(monkeypatch):
    """A batch of records that all lack the array looks like one of a scalar."""
    monkeypatch.setattr(module, "PENDING_RECORDS", 1)
    window = SlidingWindow(SIZES, records=3, age=None)
    window.add(Batch(2, (Column(np.array([1, 2], dtype=np.int32)), Column(np.array([-1, -1], dtype=np.int32)))))
    for added, expected in (([(1, [0, 1])], {0: 2, 2: 1}), ([(2, []), (2, [3])], {0: 1, 1: 1, 2: 1})):
        window.add(batch_of(added))
        lengths = window.counts().lengths[1]
        assert dict(zip(lengths.keys.tolist(), lengths.counts.tolist(), strict=True)) == expected


def test_an_attribute_must_be_an_array_in_all_batches_or_in_none():
    window = SlidingWindow(SIZES, records=5, age=None)
    window.add(batch_of([(1, [2])]))
    window.add(Batch(1, (Column(np.array([1], dtype=np.int32)),) * 2))
    with pytest.raises(ParameterError, match="array in some batches"):
        window.counts()
