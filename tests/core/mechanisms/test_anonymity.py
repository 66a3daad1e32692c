"""The k of k-anonymity: the least number of records, or of units, that are equal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.grouped import least_class


def scalars(*columns):
    return tuple(Column(np.array(column, np.int32)) for column in columns)


@pytest.mark.parametrize(
    ("columns", "least"),
    [
        (([1, 1, 2, 3],), 1),
        (([1, 1, 2, 2], [1, 2, 3, 3]), 1),
        (([1, 1, 2, 2], [1, 1, 3, 3]), 2),
        (([1, -1, -1, 1], [1, 1, 1, 1]), 2),
        (([],), 0),
    ],
)
def test_records_are_as_anonymous_as_the_rarest_of_them(columns, least):
    assert least_class(Batch(len(columns[0]), scalars(*columns))) == least


def test_the_records_of_one_unit_count_once():
    assert least_class(replace(Batch(6, scalars([1, 1, 1, 2, 2, 2])), units=np.array([1, 2, 3, 4, 4, 5]))) == 2
