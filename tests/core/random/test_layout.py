"""The random words of a value depend on its key, its attribute and itself; by position on its index, too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.random.keys import FieldKeys, Keys, PositionKeys
from stream_masker.core.random.layout import (
    EXPONENTIALS,
    VALUES,
    draw_number_words,
    draw_words,
    number_record_words,
    one_record_words,
    record_words,
)

LAYOUTS = pytest.mark.parametrize("layout", [VALUES, EXPONENTIALS], ids=["values", "exponentials"])


def keys_of(offsets) -> Keys:
    return PositionKeys(b"secret", "topic", 0, np.asarray(offsets, np.int64))


def field_keys(*names) -> Keys:
    return FieldKeys(b"secret", [name.encode() for name in names])


def coded(*codes) -> Column:
    return Column(np.array(codes, np.int32))


def scalar(size) -> Column:
    return Column(np.zeros(size, np.int32))


def array(lengths) -> Column:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Column(np.zeros(int(offsets[-1]), np.int32), offsets)


class Counting(Keys):
    """Counts the word blocks that are drawn."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.drawn = 0

    def __len__(self) -> int:
        return len(self.keys)

    def words(self, block, rows=None):
        self.drawn += 1
        return self.keys.words(block, rows)


@LAYOUTS
@pytest.mark.parametrize(
    "columns",
    [
        lambda n: (scalar(n),),
        lambda n: (scalar(n), scalar(n), scalar(n)),
        lambda n: (array(np.arange(n) % 4),),
        lambda n: (scalar(n), array(np.arange(n)[::-1] % 5)),
        lambda n: (array(np.arange(n) * 9), scalar(n), array(np.arange(n) % 3)),
    ],
)
def test_no_two_values_share_words(layout, columns):
    n = 12
    batch = Batch(n, columns(n))
    words = draw_words(keys_of(range(n)), batch, layout)
    assert [block.shape for block in words] == [(c.codes.size, layout.width) for c in batch.columns]
    rows = np.concatenate([block.reshape(-1) for block in words])
    assert len(np.unique(rows)) == rows.size


@LAYOUTS
def test_an_array_has_the_same_words_in_any_batch(layout):
    lengths = [3, 0, 40, 1, 70, 33]
    batch = Batch(6, (scalar(6), array(lengths)))
    together = draw_words(keys_of(range(6)), batch, layout)
    bounds = itertools.pairwise(batch.columns[1].offsets)
    for i, (start, end) in enumerate(bounds):
        alone = draw_words(keys_of([i]), Batch(1, (scalar(1), array(lengths[i : i + 1]))), layout)
        np.testing.assert_array_equal(together[1][start:end], alone[1])
        np.testing.assert_array_equal(together[0][i : i + 1], alone[0])


@LAYOUTS
def test_a_longer_array_begins_like_a_shorter_one(layout):
    short = draw_words(keys_of([5]), Batch(1, (array([3]),)), layout)[0]
    long = draw_words(keys_of([5]), Batch(1, (array([100]),)), layout)[0]
    np.testing.assert_array_equal(long[:3], short)


def test_an_array_does_not_change_the_words_of_a_scalar():
    scalars = draw_words(keys_of([1]), Batch(1, (scalar(1), scalar(1))))
    with_array = draw_words(keys_of([1]), Batch(1, (array([4]), scalar(1))))
    np.testing.assert_array_equal(scalars[1], with_array[1])


def test_four_attributes_share_a_word_block_whatever_the_length_of_arrays():
    counting = Counting(keys_of(range(10)))
    draw_words(counting, Batch(10, (scalar(10), array([500] * 10), scalar(10), scalar(10))))
    assert counting.drawn == 1
    draw_words(counting, Batch(10, (scalar(10),) * 5))
    assert counting.drawn == 3


@LAYOUTS
def test_a_value_of_a_field_key_has_the_same_words_in_any_record_and_at_any_index(layout):
    offsets = np.array([0, 3, 4], np.int64)
    first, second = draw_words(
        field_keys("p", "p"), Batch(2, (coded(5, 7), Column(coded(8, 9, 8, 9).codes, offsets))), layout
    )
    assert first[0].tolist() != first[1].tolist()
    np.testing.assert_array_equal(second[[0, 1]], second[[2, 3]])
    alone = draw_words(field_keys("q", "p"), Batch(2, (coded(7, 5), coded(9, 9))), layout)
    np.testing.assert_array_equal(alone[0][1], first[0])
    np.testing.assert_array_equal(alone[1][1], second[1])
    assert alone[1][0].tolist() != second[1].tolist()


def test_attributes_of_a_field_key_have_different_words_for_one_value():
    first, second = draw_words(field_keys("p"), Batch(1, (coded(5), coded(5))))
    assert not set(first.reshape(-1)) & set(second.reshape(-1))


def test_distinct_words_for_equal_values_of_a_field_key():
    batch = Batch(2, (coded(5, 5), Column(coded(8, 8, 8).codes, np.array([0, 2, 3], np.int64))))
    for words in draw_words(field_keys("p", "p"), batch, distinct=True):
        assert len(np.unique(words)) == words.size


def test_equal_numbers_of_a_field_key_have_the_same_words():
    numbers = np.array([[1.5, 0.0], [1.5, -0.0], [2.5, 0.0]])
    first, second = draw_number_words(field_keys("p", "p", "p"), numbers)
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(second[0], second[1])
    assert not set(first[2]) & set(first[0])
    assert not set(first.reshape(-1)) & set(second.reshape(-1))


def test_an_absent_number_shares_no_words_with_other_records_of_its_key():
    """Its variate is part of the correlated noise of the record's other numbers."""
    words = draw_number_words(field_keys("p", "p"), np.array([[np.nan, 1.0], [np.nan, 2.0]]))[0]
    assert not set(words[0]) & set(words[1])


def test_the_word_of_a_record_depends_on_its_key_and_every_scalar():
    batch = Batch(5, (coded(1, 1, 2, 1, 1), coded(3, 3, 3, 4, 3), array([0, 2, 0, 0, 1])))
    words = record_words(field_keys("p", "p", "p", "p", "q"), batch)
    assert words[0] == words[1]
    assert len(set(words.tolist())) == 4
    values = draw_words(keys_of(range(5)), batch)
    assert not set(record_words(keys_of(range(5)), batch)) & set(np.concatenate(values).reshape(-1))


def test_the_word_of_a_record_depends_on_every_number():
    words = number_record_words(field_keys("p", "p", "p"), np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]]))
    assert words[0] == words[2] != words[1]


def test_the_words_of_different_values_of_one_key_are_uncorrelated():
    """Within four standard errors: the variates of value 0 and of value 1 of 40,000 keys."""
    n = 40_000
    keys = FieldKeys(b"secret", [b"%d" % i for i in range(n)])
    pairs = [(draw_words(keys, Batch(n, (Column(np.full(n, code, np.int32)),)))[0] >> np.uint64(11)) for code in (0, 1)]
    for first, second in itertools.product(pairs[0].T, pairs[1].T):
        assert abs(np.corrcoef(first.astype(float), second.astype(float))[0, 1]) < 4 / np.sqrt(n)


@LAYOUTS
def test_the_words_of_one_record_are_those_of_a_batch(layout):
    columns = (coded(7), Column(np.array([3, 9, 3], np.int32), np.array([0, 3])), array([0]), coded(0))
    keys = field_keys("k")
    alone = one_record_words(keys.first_block(b"k"), [7, 3, 9, 3, 0], [0, 1, 4, 4, 5], layout)
    assert np.array_equal(alone, np.concatenate(draw_words(keys, Batch(1, columns), layout)))
