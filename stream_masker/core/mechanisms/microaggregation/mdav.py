"""MDAV: the partition of records into groups of k similar ones (2013: section 3.1; Domingo-Ferrer and Torra 2005).

While at least 3k records are left, two groups are formed: the record farthest from the mean with its k − 1 nearest
records, and the record farthest from that one with its k − 1 nearest. If 2k to 3k − 1 records are left, the one
farthest from the mean and its k − 1 nearest form a group, and the remaining ones form the last group. Fewer than 2k
records form one group.

Where records belong to units, such as patients, all counts are numbers of units. A group is the first record and its
nearest records, until they belong to k units. A group contains all unassigned records of at most k units, so each group
removes at most k units from the remaining ones, and the last group has at least k of them.

Equal records are processed as one *type* with that many members. This changes only the cost, which is O(u·n/k)
distances and O(u·n) comparisons for n records of u types, and O(n·v) for means over v distinct values of an attribute.
Among equally far or near records, the one with the smallest random word is taken. Among equally marginal values, the
mean is the first position, which has the smallest depth. Sums of numbers are exact, so that groups do not depend on
their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int32Matrix, Int64Array, UInt64Array

MDAV_TIE = 1e-9
"""Totals of distances are tied if they differ by no more than this per record; rounding errors are far smaller."""


class RecordTypes(NamedTuple):
    """u types of n records over p nominal and q numeric attributes.

    * ``codes``: (u, p) int32, the rows of the values in ``tables``: (v, v) float64 of each nominal attribute.
    * ``numbers``: (u, q) float64, whose sums over any members are exact.
    * ``starts``: (u + 1,) int64; the members of type t are starts[t] … starts[t + 1] − 1.
    * ``words``: (n,) uint64, the random words of the members, ascending within a type.
    * ``weights``: (p,) float64, the weight of each nominal attribute's distance.
    * ``numeric_weights``: (q,) float64, the weight of each numeric attribute's squared difference.
    """

    codes: Int32Matrix
    tables: Sequence[Float64Matrix]
    numbers: Float64Matrix
    starts: Int64Array
    words: UInt64Array
    weights: Float64Array
    numeric_weights: Float64Array


def mdav_partition(types: RecordTypes, units: Int64Array, k: int) -> Int32Array:
    """Return the group of every member, (n,) int32, so that each group has members of at least k units.

    Groups are numbered in the order of their creation. units: (n,) int64, the unit of each member, numbered from 0
    without gaps; at least k.
    """
    left = _Unassigned(types, units)
    while left.units >= 3 * k:
        distances = left.form_group(left.farthest(left.distances_to_mean()), k)
        left.form_group(left.farthest(distances), k)
    if left.units >= 2 * k:
        left.form_group(left.farthest(left.distances_to_mean()), k)
    left.form_last_group()
    return left.group


class _Unassigned:
    """The members that are not yet assigned to a group, and the groups so far. Mutable.

    * ``group``: (n,) int32, the group of each member, −1 for none. ``units``: the number of unassigned units.
    * ``_active``: the types with unassigned members. ``_next``: (u,) int64, the first unassigned member of each type.
    * ``_counts``, ``_totals``: for each value of an attribute, the unassigned members that have it, and the sum of
      their distances to it. ``_members``: their number. ``_sums``: (q,) float64, the sums of their numbers.
    * ``_unassigned``: the number of unassigned members of each unit. ``_last_group``: the last group with one of them.
    """

    def __init__(self, types: RecordTypes, units: Int64Array) -> None:
        sizes = np.diff(types.starts)
        self.group = np.full(types.words.size, -1, np.int32)
        self._types, self._unit_of, self._groups = types, units, 0
        self._active, self._next = np.arange(sizes.size), types.starts[:-1].copy()
        self._counts = [
            np.bincount(codes, sizes, len(table)) for codes, table in zip(types.codes.T, types.tables, strict=True)
        ]
        self._totals = [counts @ table for counts, table in zip(self._counts, types.tables, strict=True)]
        self._sums, self._members = sizes @ types.numbers, types.words.size
        self._unassigned = np.bincount(units)
        self._last_group = np.full(self._unassigned.size, -1)
        self.units = self._unassigned.size

    def distances_to_mean(self) -> Float64Array:
        """Return the squared distances of the active types to the mean record (2013: equation 3, and numeric means).

        The mean value of an attribute is the unassigned one with the smallest total distance to all of them.
        """
        codes = []
        for counts, totals in zip(self._counts, self._totals, strict=True):
            values = np.flatnonzero(counts > 0)
            tied = totals[values] <= totals[values].min() + MDAV_TIE * self._members
            codes.append(int(values[tied.argmax()]))
        return self._distances(codes, self._sums / self._members)

    def farthest(self, distances: Float64Array) -> int:
        """Return the active type of the greatest distance; among several that of the smallest random word."""
        return self._first(self._active[distances == distances.max()])

    def form_group(self, first: int, k: int) -> Float64Array:
        """Form a group of a type's first member and the nearest ones, equal ones first, until they belong to k units.

        Return the squared distances of the types that are still active from that type; −1 for itself.
        """
        distances = self._distances(self._types.codes[first].tolist(), self._types.numbers[first])
        distances[self._active == first] = -1.0
        missing, ends = k, self._types.starts[1:]
        while missing:
            there = self._next[self._active] < ends[self._active]
            nearest = self._first(self._active[there & (distances == distances[there].min())])
            unit = self._unit_of[self._next[nearest]]
            missing -= int(self._last_group[unit] != self._groups)
            self._last_group[unit] = self._groups
            self._assign(nearest, unit)
        self._groups += 1
        there = self._next[self._active] < ends[self._active]
        self._active = self._active[there]
        return distances[there]

    def form_last_group(self) -> None:
        """Form a group of all unassigned members."""
        self.group[self.group < 0] = self._groups

    def _distances(self, codes: Sequence[int], numbers: Float64Array) -> Float64Array:
        """Return δ² between a record and the members of each active type (2013: equation 7)."""
        types, total = self._types, np.zeros(self._active.size)
        for code, others, table, weight in zip(codes, types.codes.T, types.tables, types.weights, strict=True):
            total += weight * table[code][others[self._active]]
        for number, column, weight in zip(numbers, types.numbers.T, types.numeric_weights, strict=True):
            step = number - column[self._active]
            total += weight * (step * step)
        return total

    def _first(self, types: Int64Array) -> int:
        """Return the type whose first unassigned member has the smallest random word."""
        return int(types[self._types.words[self._next[types]].argmin()])

    def _assign(self, t: int, unit: int) -> None:
        """Assign a type's first unassigned member to the group that is being formed."""
        self.group[self._next[t]] = self._groups
        self._next[t] += 1
        self._members -= 1
        self._sums = self._sums - self._types.numbers[t]
        for j, code in enumerate(self._types.codes[t].tolist()):
            self._counts[j][code] -= 1
            self._totals[j] -= self._types.tables[j][code]
        self._unassigned[unit] -= 1
        self.units -= int(self._unassigned[unit] == 0)
