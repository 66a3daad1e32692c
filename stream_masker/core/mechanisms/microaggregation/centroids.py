"""Masked values of groups: their means, or values within their radius (2013: Algorithm 1)."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.numeric import Numeric
from stream_masker.core.random.draws import index_below

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
        chosen = -1
        for a in range(group.size):
            if totals[a] <= bound and (chosen < 0 or words[group[a]] < words[chosen]):
                chosen = group[a]
        for a in group:
            result[a] = codes[chosen]
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
            found = 0
            for v in range(table.shape[0]):
                if table[codes[a], v] <= radius:
                    near[found] = v
                    found += 1
            result[a] = near[index_below(words[a], found)]
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
