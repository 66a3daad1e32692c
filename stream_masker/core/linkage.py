"""Record linkage and k-anonymity: how many masked records an intruder can tell apart.

Record linkage is the number of masked records that an intruder links to their originals (2019: section 3.5).

The intruder knows the original values of a person and takes the nearest masked record; if several are equally near, one
of them at random. This is distance-based record linkage (Domingo-Ferrer and Torra 2001, reference 9 of 2019). The
distance of two records is the mean of the semantic distances of their attributes (2019: equation 9). It applies to
every mechanism.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.arrays import Float64Array, Int32Array, Int64Array
from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.distance import Distance

UNIT = 232_792_560
"""The distance 1 as an integer, so that sums of distances are exact: the least common multiple of 1 to 20, of which
Wu–Palmer distances in taxonomies that are not very deep are fractions."""

LINKAGE_BLOCK = 1 << 22
"""The most distances that are computed at once."""


def record_linkage(original: Batch, masked: Sequence[Column], distances: Sequence[Distance]) -> Float64Array:
    """Return (n,) in [0, 1]: the probability that the intruder links each original record to its own masked record.

    It is 1/m if that is one of the m nearest records, otherwise 0. The mean is the expected share of correctly linked
    records; probabilistic k-anonymity bounds it by 1/k.

    ``masked``: the masked columns of the same records, in order. An array attribute counts as several attributes: one
    for each element of its longest record. An absent value has distance 1 to any value, and 0 to another absent value.
    Takes O(r·s) for r distinct original and s distinct masked records.

    Raises ValueError if the columns and distances do not correspond.
    """
    indices, tables = [], []
    for one, other, d in zip(original.columns, masked, distances, strict=True):
        sides = np.stack((_padded(one), _padded(other)))
        values, index = np.unique(sides, return_inverse=True)
        known = values >= 0
        table = np.full((values.size,) * 2, UNIT, np.int64)
        table[np.ix_(known, known)] = np.rint(d.matrix(values[known]) * UNIT)
        table[np.ix_(~known, ~known)] = 0
        indices.append(index.reshape(sides.shape))
        tables += [table] * sides.shape[2]
    if not original.size or not tables:
        return np.zeros(original.size)
    whole, changed = np.concatenate(indices, axis=2)
    return _probabilities(whole, changed, tables)


def _padded(column: Column) -> Int32Array:
    """Return (n, k) int32 codes, where k is the number of elements of the longest record; -1 if a record has fewer."""
    rows = np.full((column.lengths.size, int(column.lengths.max(initial=0))), ABSENT, np.int32)
    rows[np.arange(rows.shape[1]) < column.lengths[:, None]] = np.maximum(column.codes, ABSENT)
    return rows


def _probabilities(first: Int64Array, second: Int64Array, tables: Sequence[Int64Array]) -> Float64Array:
    """Return (n,) from the (n, columns) indices of original and masked values in the table of each column."""
    known, kind = np.unique(first, axis=0, return_inverse=True)
    masked, place, counts = np.unique(second, axis=0, return_inverse=True, return_counts=True)
    step, result = max(1, LINKAGE_BLOCK // len(masked)), np.zeros(len(first))
    for start in range(0, len(known), step):
        some = known[start : start + step]
        distances = np.sum([t[some[:, j]][:, masked[:, j]] for j, t in enumerate(tables)], axis=0)
        nearest = distances == distances.min(axis=1, keepdims=True)
        records = np.flatnonzero((kind >= start) & (kind < start + step))
        result[records] = nearest[kind[records] - start, place[records]] / (nearest @ counts)[kind[records] - start]
    return result


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
