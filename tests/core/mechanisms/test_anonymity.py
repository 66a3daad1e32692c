"""The k of k-anonymity: the least number of units with the same values."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.mechanisms.microaggregation import least_class


@pytest.mark.parametrize(
    ("columns", "least"),
    [
        (([1, 1, 2, 3],), 1),
        (([1, 1, 2, 2], [1, 2, 3, 3]), 1),
        (([1, 1, 2, 2], [1, 1, 3, 3]), 2),
        (([1, -1, -1, 1], [1, 1, 1, 1]), 2),
    ],
)
def test_records_are_as_anonymous_as_the_rarest_of_them(columns, least):
    assert least_class([np.array(column, np.int32) for column in columns], np.arange(4)) == least


def test_the_records_of_one_unit_count_once():
    assert least_class([np.array([1, 1, 1, 2, 2, 2], np.int32)], np.array([1, 2, 3, 4, 4, 5])) == 2
