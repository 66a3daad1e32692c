"""Distances between the distinct values of a group, as whole numbers: equal ones are equal, sums of them exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int32Matrix, Int64Array
from stream_masker.core.kernels.jit import kernel

Ranks: TypeAlias = NDArray[np.uint16] | Int32Array

UNIT = 232_792_560
"""The distance 1: the least common multiple of 1 to 20, so that fractions with these denominators, as distances of
Wu and Palmer in taxonomies that are not very deep, are whole, and sums of them tie where they are equal."""

MOST_KNOWN = 4096
"""Values between which levels are held: 32 MiB."""

MOST_SMALL = (1 << 16) - 1
"""Levels that are told by two bytes."""

TABLE_ROWS = 256
"""Rows of distances that are held at a time as floats."""

SLOTS = 1 << 11
"""Of the first table in which distances are looked up: twice as many as it can hold."""


@dataclass(frozen=True, slots=True)
class ValueDistances:
    """The distances of d values to each other, which take few distinct values.

    ranks: (d, d) uint16 (int32 beyond 65,535 levels): a distance's index among all. units: (l,) int64 ascending, the
    distances themselves in units of 1/``UNIT``.
    """

    ranks: Ranks
    units: Int64Array

    @classmethod
    def of(cls, d: Distance, values: Int32Array) -> ValueDistances:
        """``values``: (d,) positions. O(d²) time and memory, plus the ancestors of the values."""
        numbers, found = _numbered(d, values)
        ascending = np.argsort(found)
        ranks = np.empty(ascending.size, numbers.dtype)
        ranks[ascending] = np.arange(ascending.size)
        for start in range(0, values.size, TABLE_ROWS):
            numbers[start : start + TABLE_ROWS] = ranks[numbers[start : start + TABLE_ROWS]]
        return cls(numbers, in_units(found[ascending]))

    @property
    def distances(self) -> Int32Array:
        """(d, d) in units."""
        return self.units.astype(np.int32)[self.ranks]


@dataclass(frozen=True, slots=True)
class DistanceTable:
    """The levels between values that are expected, made once; those between any values from it, or anew.

    known: (d,) int32 ascending positions, at most ``MOST_KNOWN``; levels: theirs.
    """

    distance: Distance
    known: Int32Array
    levels: ValueDistances

    @classmethod
    def of(cls, distance: Distance, expected: NDArray[np.integer]) -> DistanceTable:
        """``expected``: ascending positions; of too many, none are held."""
        known = expected.astype(np.int32) if expected.size <= MOST_KNOWN else np.empty(0, np.int32)
        return cls(distance, known, ValueDistances.of(distance, known))

    def between(self, values: Int32Array) -> ValueDistances:
        """The levels of distinct ascending positions."""
        at = np.searchsorted(self.known, values)
        if not values.size or at[-1] >= self.known.size or not np.array_equal(self.known[at], values):
            return ValueDistances.of(self.distance, values)
        return ValueDistances(self.levels.ranks[at][:, at], self.levels.units)


def in_units(distances: Float64Array) -> Int64Array:
    """Distances as whole numbers of 1/``UNIT``."""
    return np.rint(distances * UNIT).astype(np.int64)


def _numbered(d: Distance, values: Int32Array) -> tuple[Ranks, Float64Array]:
    """(d, d) numbers of the values' distances, and these by number."""
    index = _Index()
    numbers: Ranks = np.empty((values.size, values.size), np.uint16)
    for start in range(0, values.size, TABLE_ROWS):
        rows = index.numbers(d.between(values[start : start + TABLE_ROWS], values))
        if index.found.size > MOST_SMALL and numbers.dtype == np.uint16:
            numbers = numbers.astype(np.int32)
        numbers[start : start + TABLE_ROWS] = rows
    return numbers, index.found


class _Index:
    """Numbers distinct distances from 0, in the order in which they come."""

    def __init__(self) -> None:
        self.found = np.empty(0, np.float64)
        self._grow(SLOTS)

    def numbers(self, rows: Float64Array) -> Int32Array:
        """The numbers of the distances in ``rows``."""
        numbers = np.empty((rows.shape[0], rows.shape[1]), np.int32)
        while (count := number_rows(rows, numbers, self._keys, self._numbers, self._known, self.found.size)) < 0:
            self._grow(2 * self._keys.size)
        self.found = self._known[:count]
        return numbers

    def _grow(self, slots: int) -> None:
        known = self.found[None, :]
        self._keys, self._numbers = np.full(slots, -1.0), np.empty(slots, np.int32)
        self._known = np.empty(slots // 2, np.float64)
        number_rows(known, np.empty(known.shape, np.int32), self._keys, self._numbers, self._known, 0)


@kernel
def number_rows(
    rows: Float64Matrix,
    numbers: Int32Matrix,
    keys: Float64Array,
    key_numbers: Int32Array,
    known: Float64Array,
    count: int,
) -> int:
    """Numbers the distances of ``rows``; how many distinct ones there are then, or -1 when there is no room for more.

    ``keys``, ``key_numbers``: a hash table of 2**b slots, -1 where free; ``known``: the distances by number.
    """
    most = keys.size - 1
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            x = rows[i, j]
            at = ((np.uint64(x * 2.0**53) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & np.uint64(most)
            while keys[at] != x and keys[at] >= 0.0:
                at = (at + np.uint64(1)) & np.uint64(most)
            if keys[at] != x:
                if count == known.size:
                    return -1
                keys[at] = x
                key_numbers[at] = count
                known[count] = x
                count += 1
            numbers[i, j] = key_numbers[at]
    return count
