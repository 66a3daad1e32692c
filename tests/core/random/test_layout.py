"""The random words of a value depend on its record, its attribute and its index alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.random.keys import Keys, PositionKeys
from stream_masker.core.random.layout import EXPONENTIALS, FIRST_STREAMED, VALUES, draw_words, record_words

LAYOUTS = pytest.mark.parametrize("layout", [VALUES, EXPONENTIALS], ids=["values", "exponentials"])


def keys_of(offsets) -> Keys:
    return PositionKeys(b"secret", "topic", 0, np.asarray(offsets, np.int64))


def scalar(size) -> Column:
    return Column(np.zeros(size, np.int32))


def array(lengths) -> Column:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Column(np.zeros(int(offsets[-1]), np.int32), offsets)


class Counting(Keys):
    """Counts the records for which each word block is drawn."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.drawn: list[int] = []

    def __len__(self) -> int:
        return len(self.keys)

    def words(self, block, rows=None):
        self.drawn.append(len(self.keys) if rows is None else len(rows))
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
    lengths = [3, 0, FIRST_STREAMED + 7, 1, 2 * FIRST_STREAMED, FIRST_STREAMED]
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


def test_blocks_are_drawn_for_records_with_enough_elements():
    """The number of draws is not the number of records times the length of the longest array."""
    n, longest = 1000, 5000
    counting = Counting(keys_of(range(n)))
    draw_words(counting, Batch(n, (array([2] * (n - 1) + [longest]),)))
    assert sum(counting.drawn) <= n + FIRST_STREAMED
    assert len(counting.drawn) <= FIRST_STREAMED


def test_scalars_share_blocks():
    counting = Counting(keys_of(range(10)))
    draw_words(counting, Batch(10, (scalar(10), scalar(10), scalar(10))))
    assert counting.drawn == [10, 10]


def test_record_words_differ_from_the_words_of_values():
    words = draw_words(keys_of(range(4)), Batch(4, (scalar(4), scalar(4))))
    assert not set(record_words(keys_of(range(4))).tolist()) & set(np.concatenate(words).reshape(-1).tolist())
