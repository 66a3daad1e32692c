"""Record linkage by an intruder (2019: section 3.5), and the k of k-anonymity.

Record linkage is the number of masked records that an intruder links to their originals. The intruder knows the
original values of a person and takes the nearest masked record; if several are equally near, one of them at random.
This is distance-based record linkage (Domingo-Ferrer and Torra 2001, reference 9 of 2019). The distance of two records
is the mean of the semantic distances of their attributes (2019: equation 9). It applies to every mechanism.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.arrays import Float64Array, Int64Array
from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.distance import Distance

ROUNDING = 1e-9
"""By how much sums of distances may differ and still count as equal."""

DISTANCES_AT_ONCE = 1 << 22
"""The most distances that are computed at once."""


def record_linkage(original: Batch, masked: Sequence[Column], distances: Sequence[Distance]) -> Float64Array:
    """Return (n,) in [0, 1]: the probability that the intruder links each original record to its own masked record.

    It is 1/m if that is one of the m nearest records, otherwise 0. The mean is the expected share of correctly linked
    records; probabilistic k-anonymity bounds it by 1/k.

    ``masked``: the masked columns of the same records, in order. An array attribute counts as several attributes: one
    for each element of its longest record. An absent value has distance 1 to any value, and 0 to another absent value.
    Takes O(r·s) for r distinct original and s distinct masked records. Raises ValueError if the columns and distances
    do not correspond.
    """
    sides = [_indexed(one, other, d) for one, other, d in zip(original.columns, masked, distances, strict=True)]
    tables = [table for index, table in sides for _ in range(index.shape[2])]
    first, second = np.concatenate([index for index, _ in sides], axis=2)
    known, kind = np.unique(first, axis=0, return_inverse=True)
    others, place, counts = np.unique(second, axis=0, return_inverse=True, return_counts=True)
    step, result = max(1, DISTANCES_AT_ONCE // max(1, len(others))), np.zeros(original.size)
    for start in range(0, len(known), step):
        some = known[start : start + step]
        apart = np.sum(
            [table[own][:, masks] for table, own, masks in zip(tables, some.T, others.T, strict=True)], axis=0
        )
        nearest = apart <= apart.min(axis=1, keepdims=True) + ROUNDING
        records = np.flatnonzero((kind >= start) & (kind < start + step))
        row = kind[records] - start
        result[records] = nearest[row, place[records]] / (nearest @ counts)[row]
    return result


def _indexed(before: Column, after: Column, d: Distance) -> tuple[Int64Array, Float64Array]:
    """Return the values of n records before and after masking, (2, n, k), as indices into a table of distances.

    k is the number of elements of the longest record. A record with fewer has absent values.
    """
    sides = []
    for column in (before, after):
        rows = np.full((column.lengths.size, int(column.lengths.max(initial=0))), ABSENT, np.int32)
        rows[np.arange(rows.shape[1]) < column.lengths[:, None]] = np.maximum(column.codes, ABSENT)
        sides.append(rows)
    values, index = np.unique(sides, return_inverse=True)
    return index.reshape(2, *sides[0].shape), d.matrix_with_absent(values)


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
