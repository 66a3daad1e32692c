"""Distances between the distinct values of a group as integers, so that equal distances and sums compare exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int32Matrix, Int64Array
from stream_masker.core.kernels.jit import kernel

Levels: TypeAlias = NDArray[np.uint16] | Int32Array

UNIT = 232_792_560
"""The distance 1 as an integer: the least common multiple of 1 to 20.

Wu–Palmer distances in taxonomies that are not very deep are fractions with such denominators. They become exact
integers, and equal sums of them compare as equal.
"""

MAX_TABLE_VALUES = 4096
"""The largest number of values whose levels are kept: 32 MiB."""

MAX_UINT16_LEVEL = (1 << 16) - 1
"""The largest level that fits into two bytes."""

TABLE_ROWS = 256
"""The number of rows of distances that are held as floats at a time."""

INITIAL_SLOTS = 1 << 11
"""The initial number of slots of the hash table of distances, twice its capacity."""


@dataclass(frozen=True, slots=True)
class ValueDistances:
    """The distances between d values, by level: few distinct distances occur. Immutable.

    * ``levels``: (d, d) uint16 (int32 beyond 65,535 levels), the index of each distance among the distinct ones.
    * ``level_units``: (l,) int64 ascending, the distinct distances in units of 1/``UNIT``.
    """

    levels: Levels
    level_units: Int64Array

    @classmethod
    def of(cls, d: Distance, values: Int32Array) -> ValueDistances:
        """Compute the distances of ``values``, (d,) positions, in O(d²) time and memory plus the values' ancestors."""
        numbers, found = _number_distances(d, values)
        ascending = np.argsort(found)
        level_of = np.empty(ascending.size, numbers.dtype)
        level_of[ascending] = np.arange(ascending.size)
        for start in range(0, values.size, TABLE_ROWS):
            numbers[start : start + TABLE_ROWS] = level_of[numbers[start : start + TABLE_ROWS]]
        return cls(numbers, in_units(found[ascending]))

    @property
    def distances(self) -> Int32Array:
        """(d, d) int32: the distances in units of 1/``UNIT``."""
        return self.level_units.astype(np.int32)[self.levels]


@dataclass(frozen=True, slots=True)
class DistanceTable:
    """Precomputed distances between expected values; distances between other values are computed when needed.

    Immutable.

    * ``values``: (d,) int32 ascending positions, at most ``MAX_TABLE_VALUES``.
    * ``distances``: the distances between them.
    """

    distance: Distance
    values: Int32Array
    distances: ValueDistances

    @classmethod
    def of(cls, distance: Distance, expected: NDArray[np.integer]) -> DistanceTable:
        """Precompute the distances of ``expected`` ascending positions, unless there are too many."""
        values = expected.astype(np.int32) if expected.size <= MAX_TABLE_VALUES else np.empty(0, np.int32)
        return cls(distance, values, ValueDistances.of(distance, values))

    def between(self, values: Int32Array) -> ValueDistances:
        """Return the distances between distinct ascending positions."""
        at = np.searchsorted(self.values, values)
        if not values.size or at[-1] >= self.values.size or not np.array_equal(self.values[at], values):
            return ValueDistances.of(self.distance, values)
        return ValueDistances(self.distances.levels[at][:, at], self.distances.level_units)


def in_units(distances: Float64Array) -> Int64Array:
    """Return distances as integers in units of 1/``UNIT``."""
    return np.rint(distances * UNIT).astype(np.int64)


def _number_distances(d: Distance, values: Int32Array) -> tuple[Levels, Float64Array]:
    """Return (d, d) numbers of the values' distances, and the distances by number."""
    index = _DistanceIndex()
    numbers: Levels = np.empty((values.size, values.size), np.uint16)
    for start in range(0, values.size, TABLE_ROWS):
        rows = index.numbers(d.between(values[start : start + TABLE_ROWS], values))
        if index.found.size > MAX_UINT16_LEVEL and numbers.dtype == np.uint16:
            numbers = numbers.astype(np.int32)
        numbers[start : start + TABLE_ROWS] = rows
    return numbers, index.found


class _DistanceIndex:
    """Numbers distinct distances from 0, in the order in which they first occur."""

    def __init__(self) -> None:
        self.found = np.empty(0, np.float64)
        self._grow(INITIAL_SLOTS)

    def numbers(self, rows: Float64Array) -> Int32Array:
        """Return the numbers of the distances in ``rows``."""
        numbers = np.empty((rows.shape[0], rows.shape[1]), np.int32)
        while (
            count := number_rows(rows, numbers, self._slots, self._slot_numbers, self._distances, self.found.size)
        ) < 0:
            self._grow(2 * self._slots.size)
        self.found = self._distances[:count]
        return numbers

    def _grow(self, slots: int) -> None:
        known = self.found[None, :]
        self._slots, self._slot_numbers = np.full(slots, -1.0), np.empty(slots, np.int32)
        self._distances = np.empty(slots // 2, np.float64)
        number_rows(known, np.empty(known.shape, np.int32), self._slots, self._slot_numbers, self._distances, 0)


@kernel
def number_rows(
    rows: Float64Matrix,
    numbers: Int32Matrix,
    slots: Float64Array,
    slot_numbers: Int32Array,
    distances: Float64Array,
    count: int,
) -> int:
    """Number the distances in ``rows`` and return the number of distinct ones so far; −1 if there is no room for more.

    * ``rows``: (k, l) float64. ``numbers``: (k, l) int32, filled with the number of each distance.
    * ``slots``, ``slot_numbers``: a hash table with a power of two of slots; a free slot is −1.
    * ``distances``: the distances by number; the first ``count`` are known.
    """
    mask = slots.size - 1
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            x = rows[i, j]
            slot = ((np.uint64(x * 2.0**53) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & np.uint64(mask)
            while slots[slot] != x and slots[slot] >= 0.0:
                slot = (slot + np.uint64(1)) & np.uint64(mask)
            if slots[slot] != x:
                if count == distances.size:
                    return -1
                slots[slot] = x
                slot_numbers[slot] = count
                distances[count] = x
                count += 1
            numbers[i, j] = slot_numbers[slot]
    return count
