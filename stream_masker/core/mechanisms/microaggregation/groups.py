"""Comparable records, their distances, and their groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.draws import index_below
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.mechanisms.microaggregation import mdav
from stream_masker.core.numeric import Numeric

MARGINALITY_TIE = 1e-12
"""Totals of a group are tied if they differ by no more than this, relative to the smallest one."""


@kernel
def least_marginal_value(
    codes: Int32Array, members: Int64Array, offsets: Int64Array, words: UInt64Array, table: Float64Matrix
) -> Int32Array:
    """Return for every record the least marginal value of its group, (n,) int32 (2013: equation 3).

    * ``codes``: (n,) int32 values, as rows of ``table``, the (v, v) float64 distances.
    * ``members``: (n,) int64 records by group; the records of group g are those from offsets[g] to offsets[g + 1] − 1.
    * ``words``: (n,) uint64; among equally marginal values, that of the record with the smallest word is taken.
    """
    result = np.empty(codes.size, np.int32)
    for g in range(offsets.size - 1):
        group = members[offsets[g] : offsets[g + 1]]
        totals = np.zeros(group.size)
        for a in range(group.size):
            for b in group:
                totals[a] += table[codes[group[a]], codes[b]]
        bound = totals.min() * (1.0 + MARGINALITY_TIE)
        least = -1
        for a in range(group.size):
            if totals[a] <= bound and (least < 0 or words[group[a]] < words[least]):
                least = group[a]
        for a in group:
            result[a] = codes[least]
    return result


@kernel
def within_radius(
    codes: Int32Array, members: Int64Array, offsets: Int64Array, words: UInt64Array, table: Float64Matrix
) -> Int32Array:
    """Return for every record a random value within the radius of its group, (n,) int32 (2013: Algorithm 1).

    The value is one of the v values that are no farther from the record's own value than the farthest value of its
    group; the record's word selects it. Arguments: see ``least_marginal_value``.
    """
    result = np.empty(codes.size, np.int32)
    near = np.empty(table.shape[0], np.int32)
    for g in range(offsets.size - 1):
        group = members[offsets[g] : offsets[g + 1]]
        for a in group:
            radius = 0.0
            for b in group:
                radius = max(radius, table[codes[a], codes[b]])
            near_count = 0
            for v in range(table.shape[0]):
                if table[codes[a], v] <= radius:
                    near[near_count] = v
                    near_count += 1
            result[a] = near[index_below(words[a], near_count)]
    return result


def mean_numbers(
    numbers: Float64Array, members: Int64Array, offsets: Int64Array, words: UInt64Array, attribute: Numeric
) -> Float64Array:
    """Return (n,) float64: for each record the mean number of its group.

    The mean is rounded (ties to even) if the attribute is an integer. Numbers are added in the order of the words, so
    the sum does not depend on the order of the records.
    """
    groups = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    ordered = members[np.lexsort((words[members], groups))]
    means = np.add.reduceat(numbers[ordered], offsets[:-1]) / np.diff(offsets) if len(groups) else numbers[:0]
    result = np.empty_like(numbers)
    result[members] = np.clip(means, attribute.lower, attribute.upper)[groups]
    return np.rint(result) if attribute.integer else result


def numbers_within_radius(
    numbers: Float64Array, members: Int64Array, offsets: Int64Array, uniforms: Float64Array, attribute: Numeric
) -> Float64Array:
    """Return (n,) float64: for each record a random number within the radius of its group (2013: Algorithm 1).

    The number is uniform among the attribute's numbers that are no farther from the record's own number than the
    farthest number of its group. ``uniforms``: (n,) float64 in [0, 1).
    """
    radius = _radius(numbers, members, offsets)
    low, high = np.maximum(numbers - radius, attribute.lower), np.minimum(numbers + radius, attribute.upper)
    if attribute.integer:
        return np.asarray(np.minimum(low + np.floor(uniforms * (high - low + 1.0)), high))
    return np.asarray(low + uniforms * (high - low))


def _radius(numbers: Float64Array, members: Int64Array, offsets: Int64Array) -> Float64Array:
    """Return (n,) float64: the distance of each number to the farthest one of its group."""
    radius = np.zeros_like(numbers)
    if len(members):
        groups = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        smallest = np.minimum.reduceat(numbers[members], offsets[:-1])[groups]
        largest = np.maximum.reduceat(numbers[members], offsets[:-1])[groups]
        radius[members] = np.maximum(numbers[members] - smallest, largest - numbers[members])
    return radius


def group_members(group: Int32Array) -> tuple[Int64Array, Int64Array]:
    """Return the records by group, (n,) int64, and the offset of each group among them, (groups + 1,) int64.

    Groups are numbered from 0.
    """
    members = np.argsort(group, kind="stable")
    return members, np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(group), dtype=np.int64)))


@dataclass(frozen=True)
class NominalValues:
    """The values of one nominal attribute in n records. Frozen; derived values are cached.

    * ``codes``: (n,) int32 positions, none absent.
    * ``semantic``: whether to use the distance of concepts; otherwise it is 0 for equal values and 1 for others.
    """

    codes: Int32Array
    d: Distance
    semantic: bool

    @cached_property
    def distinct(self) -> Int32Array:
        """(v,) int32: the distinct positions, ascending."""
        return self._unique[0]

    @cached_property
    def indices(self) -> Int32Array:
        """(n,) int32: the index of each record's value among the distinct ones."""
        return self._unique[1]

    def distances(self) -> Float64Array:
        """Return (v, v) float64: the distances between the distinct values."""
        if self.semantic:
            return self.d.matrix(self.distinct)
        return 1.0 - np.eye(len(self.distinct))

    @cached_property
    def _unique(self) -> tuple[Int32Array, Int32Array]:
        distinct, indices = np.unique(self.codes, return_inverse=True)
        return distinct, indices.reshape(-1).astype(np.int32)


@dataclass(frozen=True)
class ComparableRecords:
    """n records with values of the same attributes. Frozen; derived values are cached.

    * ``values``, ``weights``: of p nominal attributes. ``numbers``: (n, q) float64 and ``numeric_weights``: (q,) of the
      numeric ones. A weight multiplies the variance over two records (2013: equation 7).
    * ``words``: (n,) uint64 random words, which break ties between equally near or far records.
    * ``units``: (n,) int64, the unit of each record; None if each is a unit of its own.
    """

    values: Sequence[NominalValues]
    weights: Float64Array
    numbers: Float64Array
    numeric_weights: Float64Array
    words: UInt64Array
    units: Int64Array | None = None

    @property
    def unit_count(self) -> int:
        """The number of different units."""
        return len(self.words) if self.units is None else len(np.unique(self.units))

    @cached_property
    def tables(self) -> list[Float64Matrix]:
        """The distances between the distinct values of each attribute, views of ``_tables``."""
        firsts = offsets_from_lengths(self._sizes**2)
        return [self._tables[a:b].reshape(v, v) for a, b, v in zip(firsts, firsts[1:], self._sizes, strict=False)]

    @cached_property
    def _sizes(self) -> Int64Array:
        return np.array([len(value.distinct) for value in self.values], np.int64)

    @cached_property
    def _tables(self) -> Float64Array:
        """The tables of all attributes, one after the other: 8·Σv² bytes, which dominate the memory."""
        return np.concatenate([np.zeros(0), *(value.distances().ravel() for value in self.values)])

    def groups(self, k: int) -> tuple[Int64Array, Int64Array]:
        """Return the records by group of at least k units, computed by MDAV, and each group's offset among them.

        If each record is a unit of its own, groups have k to 2k − 1 records.
        """
        order, types = self._types()
        group = np.empty(len(order), np.int32)
        units = np.arange(len(order)) if self.units is None else np.unique(self.units, return_inverse=True)[1]
        group[order] = mdav.mdav_partition(types, units.reshape(-1)[order], k)
        return group_members(group)

    def _types(self) -> tuple[Int64Array, mdav.RecordTypes]:
        """Return the records ordered by type and word, and their types."""
        numbers = with_exact_sums(self.numbers)
        rows = np.column_stack([value.indices.astype(np.float64) for value in self.values] + list(numbers.T))
        _, firsts, which, counts = np.unique(
            rows + 0.0, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.lexsort((self.words, which.reshape(-1)))
        return order, mdav.RecordTypes(
            codes=np.array([value.indices[firsts] for value in self.values], np.int32)
            .reshape(-1, len(firsts))
            .T.copy(),
            sizes=self._sizes,
            tables=self._tables,
            numbers=numbers[firsts],
            starts=offsets_from_lengths(counts),
            words=self.words[order],
            weights=self.weights,
            numeric_weights=self.numeric_weights / 2.0,
        )


def with_exact_sums(numbers: Float64Array) -> Float64Array:
    """Return n rows of numbers, rounded so that all sums of rows are exact, in any order.

    Each column is rounded to multiples of a power of two: the n-th part of the precision of its largest number.
    """
    largest = np.abs(numbers).max(axis=0, initial=0.0)
    exponents = np.frexp(largest)[1] + len(numbers).bit_length() - 53
    return np.asarray(np.ldexp(np.rint(np.ldexp(numbers, -exponents)), exponents))
