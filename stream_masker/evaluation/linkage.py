"""Record linkage: how many masked records an intruder finds who knows the original values (2019: section 3.5).

The intruder knows the values of a person's record, and takes the masked record that is nearest to it, any of several
equally near ones: distance-based record linkage (Domingo-Ferrer and Torra 2001, reference 9 of 2019). The distance of
two records is the mean of their attributes' semantic distances (2019: equation 9). Works for every mechanism.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.core.mechanisms.swapping.rank.distance_table import UNIT, ValueDistances
from stream_masker.errors import ParameterError

LINKAGE_BLOCK = 1 << 22
"""Distances that are held at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Linkage:
    """What an intruder links.

    probabilities: (n,) in [0, 1], of each record the probability that the intruder takes its own masked record: 1/m if
    that is one of the m nearest, else 0. unchanged: the share of records that masking left as they were, in [0, 1].
    """

    probabilities: Float64Array
    unchanged: float

    @property
    def risk(self) -> float:
        """The expected share of records that are linked rightly, in [0, 1]."""
        return float(self.probabilities.mean()) if self.probabilities.size else 0.0

    @property
    def anonymity(self) -> float:
        """The k for which the intruder's mean success is 1/k, as probabilistic k-anonymity bounds it; ∞ for none."""
        return 1.0 / self.risk if self.risk else float("inf")


def record_linkage(original: Batch, masked: Sequence[Column], distances: Sequence[Distance]) -> Linkage:
    """Links every original record to the nearest masked ones; ``masked``: the same records' columns, in order.

    An array counts as so many attributes as it has places; what a record lacks is at distance 1 from a value, at 0 from
    what another lacks. O(r·s) for r distinct original and s distinct masked records. Raises ParameterError for columns
    that do not fit.
    """
    after = Batch(original.size, tuple(masked))
    if not len(original.columns) == len(after.columns) == len(distances):
        raise ParameterError(
            f"there are {len(original.columns)} original and {len(after.columns)} masked columns for "
            f"{len(distances)} distances: give as many of each"
        )
    places = [place for j, d in enumerate(distances) for place in _places(original, after, j, d)]
    if not original.size or not places:
        return Linkage(np.zeros(original.size), 0.0)
    first, second = np.stack([place[0] for place in places], axis=1), np.stack([place[1] for place in places], axis=1)
    probabilities = _probabilities(first, second, [place[2] for place in places])
    return Linkage(probabilities, float((first == second).all(axis=1).mean()))


_Place = tuple[Int64Array, Int64Array, NDArray[np.int32]]
"""Of one place of an attribute: the indices of originals and of masked values, and the distances of these."""


def _places(original: Batch, masked: Batch, j: int, d: Distance) -> Iterator[_Place]:
    before, after = _padded(original.columns[j], original.size), _padded(masked.columns[j], masked.size)
    if before.shape != after.shape:
        raise ParameterError(f"column {j} has other places masked than it had before")
    values = np.unique(np.concatenate([before.ravel(), after.ravel()]))
    values = values[values >= 0]
    table = _with_none(ValueDistances.of(d, values))
    for place in range(before.shape[1]):
        yield _indices(values, before[:, place]), _indices(values, after[:, place]), table


def _padded(column: Column, size: int) -> Int32Array:
    """(n, places) int32 codes, -1 where a record has no value."""
    if column.offsets is None:
        return np.maximum(column.codes, -1)[:, None]
    lengths = np.diff(column.offsets)
    rows = np.full((size, int(lengths.max(initial=0))), -1, np.int32)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = np.maximum(column.codes, -1)
    return rows


def _indices(values: Int32Array, codes: Int32Array) -> Int64Array:
    """Of each code among the values; one beyond the last for none."""
    return np.where(codes < 0, values.size, np.searchsorted(values, codes))


def _with_none(distances: ValueDistances) -> NDArray[np.int32]:
    """The distances, with a last row and column for no value."""
    size = len(distances.levels)
    table = np.full((size + 1, size + 1), UNIT, np.int32)
    table[:size, :size] = distances.distances
    table[size, size] = 0
    return table


def _probabilities(first: Int64Array, second: Int64Array, tables: Sequence[NDArray[np.int32]]) -> Float64Array:
    """(n,) from the (n, places) indices of originals and of masked values."""
    known, kind = np.unique(first, axis=0, return_inverse=True)
    masked, own, counts = np.unique(second, axis=0, return_inverse=True, return_counts=True)
    step = max(1, LINKAGE_BLOCK // len(masked))
    result = np.zeros(len(first))
    for start in range(0, len(known), step):
        between = _between(known[start : start + step], masked, tables)
        nearest = between == between.min(axis=1, keepdims=True)
        here = np.flatnonzero((kind >= start) & (kind < start + step))
        result[here] = nearest[kind[here] - start, own[here]] / (nearest @ counts)[kind[here] - start]
    return result


def _between(known: Int64Array, masked: Int64Array, tables: Sequence[NDArray[np.int32]]) -> Int64Array:
    """The distances of known to masked records, times their number of places."""
    total = np.zeros((len(known), len(masked)), np.int64)
    for j, table in enumerate(tables):
        total += table[known[:, j]][:, masked[:, j]]
    return total
