"""k-anonymity: how many records each record is equal to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int64Array


def class_sizes(batch: Batch) -> Int64Array:
    """(n,) int64: of each record the number of records, itself included, that have the same values.

    Scalars and numbers count, absent ones too; elements of arrays do not.
    """
    if not batch.size:
        return np.zeros(0, np.int64)
    _, which, counts = np.unique(_rows(batch), axis=0, return_inverse=True, return_counts=True)
    return np.asarray(counts[which.reshape(-1)], dtype=np.int64)


def least_class(batch: Batch) -> int:
    """The k of the k-anonymity that a batch has by its scalars and numbers; 0 of no records."""
    return int(class_sizes(batch).min(initial=batch.size))


def _rows(batch: Batch) -> NDArray[np.int64]:
    """(n, p + q): equal rows are equal records; numbers by their bits, absent ones alike, −0 as 0."""
    scalars = [column.codes.astype(np.int64) for column in batch.columns if not column.is_array]
    numbers = [] if batch.numeric is None else list(batch.numeric.T)
    bits = [np.where(np.isnan(column), np.nan, column + 0.0).view(np.int64) for column in numbers]
    return np.column_stack([np.zeros(batch.size, np.int64), *scalars, *bits])
