"""k-anonymity: the number of records, or of their units, that are equal to each record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int64Array


def class_sizes(batch: Batch) -> Int64Array:
    """Return (n,) int64: for each record the number of units that have a record with the same values, including its
    own.

    Without units, every record counts. Scalars are compared; absent values are equal to each other. Arrays are ignored.
    """
    if not batch.size:
        return np.zeros(0, np.int64)
    which = np.unique(_rows(batch), axis=0, return_inverse=True)[1].reshape(-1)
    units = np.arange(batch.size) if batch.units is None else batch.units
    counted = np.unique(np.column_stack([which, units]), axis=0)[:, 0]
    return np.asarray(np.bincount(counted)[which], dtype=np.int64)


def least_class(batch: Batch) -> int:
    """Return the k of the k-anonymity of a batch, by its scalars; 0 for an empty batch."""
    return int(class_sizes(batch).min(initial=batch.size))


def _rows(batch: Batch) -> NDArray[np.int64]:
    """Return (n, 1 + p) int64: equal rows are equal records."""
    scalars = [column.codes.astype(np.int64) for column in batch.columns if not column.is_array]
    return np.column_stack([np.zeros(batch.size, np.int64), *scalars])
