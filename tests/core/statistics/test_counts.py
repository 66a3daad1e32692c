"""Counts of batches and of merged batches against literal counting, event by event."""

from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.statistics import counts as counts_module
from stream_masker.core.statistics.counts import KEY_SLOTS, NO_SLOT, count_batch, count_groups, merge
from stream_masker.errors import StatisticsError

SIZES = (4, 6, 5)
SHAPES = st.lists(st.booleans(), min_size=1, max_size=3)


def column_of(records, is_array):
    codes = np.array([code for record in records for code in record], dtype=np.int32)
    return Column(codes, np.cumsum([0, *map(len, records)]) if is_array else None)


@st.composite
def batches(draw, shapes=SHAPES, context=True):
    """Batches of one to three attributes with some absent values, of some patients; ``shapes`` selects the arrays."""
    n, columns = draw(st.integers(0, 12)), []
    for is_array, size in zip(draw(shapes), SIZES, strict=False):
        code = st.integers(ABSENT, size - 1)
        columns.append(
            column_of([draw(st.lists(code, max_size=4)) if is_array else [draw(code)] for _ in range(n)], is_array)
        )
    slots, contexts = (draw(st.lists(st.integers(0, most), min_size=n, max_size=n)) for most in (NO_SLOT, 2))
    numbers = 7 * np.array(contexts, np.int64) if context and draw(st.booleans()) else None
    keyed = np.array(slots, np.int64) if draw(st.booleans()) else None
    return Batch(n, tuple(columns), slots=keyed, context=numbers)


def literal(batch, only=None):
    """The slots of the rows of each key, by the kind of counts and the attributes; ``only``: of some records."""
    p, arrays = len(batch.columns), [j for j, c in enumerate(batch.columns) if c.is_array]
    found, which = defaultdict(lambda: defaultdict(list)), [*((j,) for j in range(p)), *combinations(range(p), 2)]
    for i in range(batch.size) if only is None else only:
        parts = [c.codes[slice(*c.offsets[i : i + 2])] if c.is_array else c.codes[i : i + 1] for c in batch.columns]
        event = [part.tolist() for part in parts]
        scalar = {j: event[j][0] for j in range(p) if j not in arrays}
        elements = [{j: code} for j in arrays for code in event[j]]
        pattern = sum(1 << j for j in range(p) if all(code < 0 for code in event[j]))
        slot = [] if batch.slots is None else [int(batch.slots[i])]
        for number, row in enumerate(scalar | element for element in elements or [{}]):
            for js in which:
                if min(row.get(j, ABSENT) for j in js) < 0:
                    continue
                key = row[js[0]] if len(js) == 1 else row[js[0]] * SIZES[js[1]] + row[js[1]]
                found["rows", js][key].append(slot)
                if arrays and number == 0 and len(js) == 1 and js[0] not in arrays:
                    found["events", js][key].append([])
                if pattern and (number == 0 or len(js) == 2 or js[0] in arrays):
                    found["lacking", js][key << p | pattern].append(slot)
        for j in arrays:
            found["lengths", (j,)][sum(code >= 0 for code in event[j])].append([])
    return plain(
        {
            kind: {k: (len(v), [slot for own in v for slot in own]) for k, v in keys.items()}
            for kind, keys in found.items()
        }
    )


def plain(found):
    """The number of rows of each key, and the slots of known patients; without kinds that have no key."""
    return {
        kind: {key: (n, set(slots) - {NO_SLOT}) for key, (n, slots) in keys.items()}
        for kind, keys in found.items()
        if keys
    }


def entries(counts):
    """What ``literal`` returns, of counts."""
    found = {("rows", (j,)): column for j, column in enumerate(counts.values)}
    found |= {("rows", pair): column for pair, column in counts.pairs.items()}
    found |= {("lengths", (j,)): column for j, column in counts.lengths.items()}
    found |= {(kind, js): c for kind in ("events", "lacking") for js, c in getattr(counts, kind).items()}
    for column in found.values():
        assert (np.diff(column.keys) > 0).all()
        assert (column.units <= column.counts).all()
        assert (column.units >= 1).all()
    return plain({kind: dict(of_keys(column)) for kind, column in found.items()})


def of_keys(column):
    words = [0] * column.keys.size if column.key_bits is None else column.key_bits.tolist()
    for key, n, word in zip(column.keys.tolist(), column.counts.tolist(), words, strict=True):
        yield key, (n, [slot for slot in range(KEY_SLOTS) if word >> slot & 1])


@given(batch=batches())
def test_counts_equal_those_of_the_literal_rows(batch):
    counts = count_batch(batch, SIZES[: len(batch.columns)])
    assert (counts.records, entries(counts)) == (batch.size, literal(batch))
    numbers = [] if batch.context is None else batch.context.tolist()
    assert {c: entries(part) for c, part in counts.contexts.items()} == {
        c: literal(batch, [i for i, number in enumerate(numbers) if number == c]) for c in set(numbers)
    }


@given(batch=batches(), data=st.data())
@pytest.mark.parametrize("most", [None, 50])
def test_groups_are_counted_as_their_records_alone(most, batch, data):
    """Also where keys and groups together are too large for a word."""
    numbers = np.array(data.draw(st.lists(st.integers(0, 3), min_size=batch.size, max_size=batch.size)), np.int64)
    with patch.object(counts_module, "MAX_KEY", most or counts_module.MAX_KEY):
        [counted] = count_groups([batch], SIZES[: len(batch.columns)], numbers, 4)
    for group, counts in enumerate(counted):
        own = np.flatnonzero(numbers == group)
        assert (counts.records, entries(counts)) == (own.size, literal(batch, own.tolist()))
        contexts = [] if batch.context is None else batch.context[own].tolist()
        assert counts.contexts.keys() == set(contexts)
        assert sum(part.records for part in counts.contexts.values()) == len(contexts)


@given(parts=st.lists(batches(shapes=st.just([False, True, False])), min_size=1, max_size=5))
def test_merged_parts_equal_the_whole(parts):
    counts = [count_batch(part, SIZES) for part in parts]
    merged, found = merge(counts), defaultdict(lambda: defaultdict(lambda: (0, [])))
    for kind, keys in ((kind, keys) for part in parts for kind, keys in literal(part).items()):
        for key, (n, slots) in keys.items():
            found[kind][key] = found[kind][key][0] + n, [*found[kind][key][1], *slots]
    assert entries(merged) == plain(found)
    assert merged.records == sum(part.size for part in parts)
    twice = merge([merged, merged])
    assert [{k: 2 * n for k, (n, _) in of_keys(c)} for c in merged.values] == [
        {k: n for k, (n, _) in of_keys(c)} for c in twice.values
    ]
    for once, again in zip(merged.values, twice.values, strict=True):
        assert np.array_equal(once.key_bits, again.key_bits)
    assert merged.contexts.keys() == {c for part in counts for c in part.contexts}


def test_merging_rejects_no_counts_and_other_attributes():
    one, two = (Batch(1, (column_of([[0]], False),) * n) for n in (1, 2))
    with pytest.raises(StatisticsError, match="no counts"):
        merge([])
    with pytest.raises(StatisticsError, match="same attributes"):
        merge([count_batch(one, [4]), count_batch(two, [4, 4])])


def test_rows_without_a_noise_key_add_nothing_beside_others():
    rows = Batch(3, (column_of([[1], [1], [2]], False),))
    known = count_batch(replace(rows, slots=np.array([5, 6, 5])), [4])
    column = merge([known, count_batch(rows, [4])]).values[0]
    assert (column.counts.tolist(), column.units.tolist()) == ([4, 2], [2, 1])
    unknown = count_batch(replace(rows, slots=np.full(3, NO_SLOT)), [4])
    assert unknown.values[0].units.tolist() == [1, 1]
