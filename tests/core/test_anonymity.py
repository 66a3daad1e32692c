"""Unique records of a batch."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.anonymity import class_sizes
from stream_masker.core.batch import Batch, Column


def batch(*columns: list[int]) -> Batch:
    return Batch(len(columns[0]), tuple(Column(np.array(codes, np.int32)) for codes in columns))


@pytest.mark.parametrize(
    ("columns", "share"),
    [
        (([1, 1, 2, 3],), 0.5),
        (([1, 1, 2, 2], [1, 2, 3, 3]), 0.5),
        (([1, 1, 2, 2], [1, 1, 3, 3]), 0.0),
        (([1, 2, 3, 4], [1, 1, 1, 1]), 1.0),
    ],
)
def test_unique_records_are_equal_to_no_other_one(columns, share):
    assert (class_sizes(batch(*columns)) == 1).mean() == share


def test_nothing_is_unique_in_an_empty_batch():
    assert class_sizes(batch([])).size == 0
