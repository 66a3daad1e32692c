"""Which attributes of a window are arrays, for transport."""

from dataclasses import replace

import numpy as np
import pytest

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transport.star.edges import array_attributes
from stream_masker.core.statistics.counts import count_batch, merge

SIZES = (4, 4, 4)


def scalar(*codes):
    return Column(np.array(codes, np.int32))


def array(*records):
    codes = np.array([code for record in records for code in record], np.int32)
    return Column(codes, offsets_from_lengths(np.array([len(record) for record in records])))


def counted(*columns, lost=None):
    size = len(columns[0].codes if columns[0].offsets is None else columns[0].offsets[1:])
    return count_batch(Batch(size, columns), SIZES[: len(columns)], lost=lost)


SOME = counted(scalar(1, 2), array([1, 2], []), array([3], [2]))


@pytest.mark.parametrize(
    ("counts", "arrays"),
    [
        (SOME, [1, 2]),
        (counted(scalar(1, 2), scalar(1, 2)), []),
        (counted(scalar(1, 2), array([1], [])), [1]),
        (counted(array([1, 2], [3])), [0]),
    ],
)
def test_arrays_are_those_with_lengths_of_however_few_elements(counts, arrays):
    assert array_attributes(counts) == arrays


def test_a_scalar_whose_values_were_suppressed_is_no_array():
    counts = counted(scalar(1, -1), array([1, 2], [3]), scalar(0, 0), lost=[9, 0, 0])
    assert array_attributes(counts) == [1]
    assert array_attributes(replace(counts, lengths={})) == [0, 1]


@pytest.mark.parametrize("other", [SOME, counted(scalar(1), array([1]), array([]))])
def test_events_without_lengths_do_not_hide_an_array(other):
    """The window may hold blocks of older workers, which do not count lengths."""
    older = replace(SOME, lengths={})
    assert array_attributes(older) == array_attributes(merge([older, other])) == [1, 2]
