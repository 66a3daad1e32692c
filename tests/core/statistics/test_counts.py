"""Counts of batches against literal counting row by row; merging and subtracting counts."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.statistics.counts import (
    KEY_SLOTS,
    NO_SLOT,
    Counts,
    count_batch,
    merge,
)
from stream_masker.errors import ParameterError, StatisticsError

SIZES = (4, 6, 5)


def scalar(*codes):
    return Column(np.array(codes, dtype=np.int32))


def array(*records):
    lengths = [len(record) for record in records]
    codes = np.array([code for record in records for code in record], dtype=np.int32)
    return Column(codes, np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))


SHAPES = st.lists(st.booleans(), min_size=1, max_size=3)


@st.composite
def batches(draw, shapes=SHAPES, most=12):
    """Batches of one to three attributes with some absent values; ``shapes`` selects the arrays."""
    arrays = draw(shapes)
    n = draw(st.integers(0, most))
    columns = []
    for is_array, size in zip(arrays, SIZES, strict=False):
        if is_array:
            elements = st.lists(st.integers(ABSENT, size - 1), max_size=4)
            columns.append(array(*(draw(elements) for _ in range(n))))
        else:
            columns.append(scalar(*(draw(st.integers(ABSENT, size - 1)) for _ in range(n))))
    return Batch(n, tuple(columns))


def literal_rows(batch):
    """The rows of each event, as ``Counts`` defines them: one per element of any array, or one of the scalars alone."""
    for i in range(batch.size):
        scalars = [None if c.is_array else c.codes[i] for c in batch.columns]
        elements = [
            (j, code)
            for j, c in enumerate(batch.columns)
            if c.is_array
            for code in c.codes[c.offsets[i] : c.offsets[i + 1]]
        ]
        for j, code in elements or [(None, None)]:
            row = [code if k == j else value for k, value in enumerate(scalars)]
            yield [None if value is None or value < 0 else int(value) for value in row]


def literal_counts(batch):
    rows = list(literal_rows(batch))
    p = len(batch.columns)
    values = [Counter(row[j] for row in rows if row[j] is not None) for j in range(p)]
    pairs = {
        (i, j): Counter((r[i], r[j]) for r in rows if r[i] is not None and r[j] is not None)
        for i, j in combinations(range(p), 2)
    }
    return values, pairs


def as_dict(sparse):
    return dict(zip(sparse.keys.tolist(), sparse.counts.tolist(), strict=True))


def plain(counts: Counts):
    return (
        counts.records,
        [as_dict(column) for column in counts.values],
        {key: as_dict(column) for key, column in counts.pairs.items()},
        counts.unknown,
        {j: as_dict(column) for j, column in counts.lengths.items()},
    )


def literal_lengths(batch):
    return {
        j: Counter(
            sum(code >= 0 for code in column.codes[start:end]) for start, end in pairwise(column.offsets.tolist())
        )
        for j, column in enumerate(batch.columns)
        if column.is_array
    }


def literal_events(batch):
    scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
    events = {}
    if len(scalars) < len(batch.columns):
        for js in [*((j,) for j in scalars), *combinations(scalars, 2)]:
            rows = zip(*(batch.columns[j].codes.tolist() for j in js), strict=True)
            events[js] = Counter(row for row in rows if min(row) >= 0)
    return events


def events_of(counts):
    return {
        js: {(key,) if len(js) == 1 else divmod(key, SIZES[js[1]]): n for key, n in as_dict(column).items()}
        for js, column in counts.events.items()
    }


def check_form(sparse):
    assert sparse.keys.dtype == sparse.counts.dtype == np.int64
    assert (np.diff(sparse.keys) > 0).all()
    assert (sparse.counts > 0).all()


@given(batch=batches())
def test_counts_equal_those_of_the_literal_rows(batch):
    counts = count_batch(batch, SIZES[: len(batch.columns)])
    values, pairs = literal_counts(batch)
    assert counts.records == batch.size
    assert [as_dict(column) for column in counts.values] == values
    for (i, j), pair in counts.pairs.items():
        assert {divmod(key, SIZES[j]): n for key, n in as_dict(pair).items()} == pairs[i, j]
    assert {j: as_dict(column) for j, column in counts.lengths.items()} == literal_lengths(batch)
    assert events_of(counts) == literal_events(batch)
    for sparse in (*counts.values, *counts.pairs.values(), *counts.lengths.values(), *counts.events.values()):
        check_form(sparse)
        assert sparse.rows == sum(as_dict(sparse).values())


@given(parts=st.lists(batches(shapes=st.just([False, True, False])), min_size=1, max_size=5))
def test_merged_parts_equal_the_whole(parts):
    counts = [count_batch(part, SIZES, unknown=[1, 0, 2]) for part in parts]
    values = [sum((literal_counts(part)[0][j] for part in parts), Counter()) for j in range(3)]
    merged = merge(counts)
    assert [as_dict(column) for column in merged.values] == values
    assert merged.records == sum(part.size for part in parts)
    assert merged.unknown == (len(parts), 0, 2 * len(parts))
    assert as_dict(merged.lengths[1]) == sum((literal_lengths(part)[1] for part in parts), Counter())
    every = [literal_events(part) for part in parts]
    assert events_of(merged) == {js: sum((events[js] for events in every), Counter()) for js in ((0,), (2,), (0, 2))}
    for sparse in (*merged.values, *merged.pairs.values(), *merged.lengths.values()):
        check_form(sparse)


def test_merging_rejects_no_counts_and_other_attributes():
    with pytest.raises(StatisticsError, match="no counts"):
        merge([])
    with pytest.raises(StatisticsError, match="same attributes"):
        merge([count_batch(Batch(1, (scalar(0),)), [4]), count_batch(Batch(1, (scalar(0), scalar(1))), [4, 4])])


@pytest.mark.parametrize("given", [{"sizes": [4, 4]}, {"sizes": [4], "unknown": []}])
def test_every_attribute_needs_its_size_and_unknown_count(given):
    with pytest.raises(ParameterError, match="entries"):
        count_batch(Batch(1, (scalar(0),)), **given)


def with_patients(batches_of, shapes, **options):
    """A batch with one slot for each record, which stands for its patient."""

    @st.composite
    def drawn(draw):
        batch = draw(batches_of(shapes=shapes, **options))
        return batch, np.array([draw(st.integers(0, NO_SLOT)) for _ in range(batch.size)], np.int64)

    return drawn()


def literal_slots(batch, slots):
    """The slots of each value's rows, and of each pair's, without those of unknown noise keys."""
    p = len(batch.columns)
    values, pairs = [defaultdict(set) for _ in range(p)], defaultdict(lambda: defaultdict(set))
    for i in range(batch.size):
        columns = []
        for c in batch.columns:
            codes = c.codes[c.offsets[i] : c.offsets[i + 1]] if c.is_array else c.codes[i : i + 1]
            columns.append(Column(codes, np.array([0, len(codes)]) if c.is_array else None))
        for row in literal_rows(Batch(1, tuple(columns))):
            for j, value in enumerate(row):
                if value is not None:
                    values[j][value] |= {int(slots[i])} - {NO_SLOT}
            for j, k in combinations(range(p), 2):
                if row[j] is not None and row[k] is not None:
                    pairs[j, k][row[j] * SIZES[k] + row[k]] |= {int(slots[i])} - {NO_SLOT}
    return values, pairs


def slots_of(sparse):
    bits = [{slot for slot in range(KEY_SLOTS) if int(word) >> slot & 1} for word in sparse.key_bits]
    return dict(zip(sparse.keys.tolist(), bits, strict=True))


SCALARS_AND_ARRAYS = with_patients(batches, SHAPES)
ONE_SHAPE = with_patients(batches, st.just([False, True, False]))


@given(drawn=SCALARS_AND_ARRAYS)
def test_bits_are_those_of_the_patients_of_the_rows(drawn):
    batch, slots = drawn
    counts = count_batch(replace(batch, slots=slots), SIZES[: len(batch.columns)])
    values, pairs = literal_slots(batch, slots)
    assert [slots_of(column) for column in counts.values] == values
    assert {pair: slots_of(column) for pair, column in counts.pairs.items()} == {
        pair: pairs[pair] for pair in counts.pairs
    }
    assert plain(counts) == plain(count_batch(batch, SIZES[: len(batch.columns)]))


@given(parts=st.lists(ONE_SHAPE, min_size=1, max_size=4))
def test_merged_bits_are_those_of_all_parts(parts):
    counts = [count_batch(replace(batch, slots=slots), SIZES) for batch, slots in parts]
    merged, literal = merge(counts), [literal_slots(*part)[0] for part in parts]
    for j, column in enumerate(merged.values):
        slots = slots_of(column)
        assert slots == {key: set().union(*(values[j].get(key, set()) for values in literal)) for key in slots}
    twice = merge([*counts, *counts])
    for once, again in zip(merged.values, twice.values, strict=True):
        assert np.array_equal(once.key_bits, again.key_bits)


@given(drawn=SCALARS_AND_ARRAYS)
def test_units_lie_between_the_slots_and_the_rows(drawn):
    batch, slots = drawn
    counts = count_batch(replace(batch, slots=slots), SIZES[: len(batch.columns)])
    for column in (*counts.values, *counts.pairs.values()):
        assert (column.units <= column.counts).all()
        assert (column.units >= [max(1, len(keys)) for keys in slots_of(column).values()]).all()


def test_rows_without_a_noise_key_add_nothing_beside_others():
    rows = Batch(3, (scalar(1, 1, 2),))
    known = count_batch(replace(rows, slots=np.array([5, 6, 5])), [4])
    column = merge([known, count_batch(rows, [4])]).values[0]
    assert column.counts.tolist() == [4, 2]
    assert column.units.tolist() == [2, 1]
    unknown = count_batch(replace(rows, slots=np.full(3, NO_SLOT)), [4])
    assert unknown.values[0].units.tolist() == [1, 1]


@given(batch=batches(), seed=st.integers(0, 9), keyed=st.booleans())
def test_each_context_is_counted_as_its_records_alone(batch, seed, keyed):
    generator = np.random.default_rng(seed)
    context, slots = generator.integers(0, 3, batch.size) * 7, generator.integers(0, 65, batch.size)
    whole = replace(batch, slots=slots if keyed else None)
    sizes = SIZES[: len(batch.columns)]
    counts = count_batch(replace(whole, context=context), sizes)
    assert counts.contexts.keys() == set(context.tolist())
    for number, part in counts.contexts.items():
        assert entries_of(part) == entries_of(count_batch(whole.take(np.flatnonzero(context == number)), sizes))
    assert entries_of(replace(counts, contexts={})) == entries_of(count_batch(whole, sizes))


def entries_of(counts):
    def entries(column):
        return (
            column.keys.tolist(),
            column.counts.tolist(),
            None if column.key_bits is None else column.key_bits.tolist(),
        )

    columns = [list(map(entries, counts.values)), {pair: entries(c) for pair, c in counts.pairs.items()}]
    lengths, events = ({key: entries(c) for key, c in kind.items()} for kind in (counts.lengths, counts.events))
    return counts.records, counts.given, counts.unknown, columns, lengths, events, dict(counts.contexts)
