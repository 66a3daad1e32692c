"""k-anonymity: the number of records, or of their units, that are equal to each record."""

from __future__ import annotations

import numpy as np

from stream_masker.core.batch import Batch


def least_class(batch: Batch) -> int:
    """Return the k of the k-anonymity of a batch: the least number of units whose records have the same scalars.

    Without units, every record counts. Absent values are equal to each other. Arrays are ignored. 0 for an empty batch.
    """
    scalars = [column.codes for column in batch.columns if not column.is_array]
    rows = np.column_stack([np.zeros(batch.size, np.int32), *scalars])
    which = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    units = np.arange(batch.size) if batch.units is None else batch.units
    counted = np.unique(np.column_stack([which, units]), axis=0)[:, 0]
    return int(np.bincount(counted).min(initial=batch.size))
