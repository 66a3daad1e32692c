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

from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int32Matrix, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import kernel, part

MDAV_TIE = 1e-9
"""Totals of distances are tied if they differ by no more than this per record; rounding errors are far smaller."""


class RecordTypes(NamedTuple):
    """u types of n records over p nominal and q numeric attributes.

    * ``codes``: (u, p) int32, the rows of the values in the tables of the attributes. ``sizes``: (p,) int64, the number
      v of values of each attribute.
    * ``tables``: (Σ v²,) float64, the distances between the values of each attribute, one attribute after the other.
    * ``numbers``: (u, q) float64, whose sums over any members are exact.
    * ``starts``: (u + 1,) int64; the members of type t are starts[t] … starts[t + 1] − 1.
    * ``words``: (n,) uint64, the random words of the members, ascending within a type.
    * ``weights``: (p,) float64, the weight of each nominal attribute's distance.
    * ``numeric_weights``: (q,) float64, the weight of each numeric attribute's squared difference.
    """

    codes: Int32Matrix
    sizes: Int64Array
    tables: Float64Array
    numbers: Float64Matrix
    starts: Int64Array
    words: UInt64Array
    weights: Float64Array
    numeric_weights: Float64Array


class Unassigned(NamedTuple):
    """The members that are not yet assigned to a group, in arrays that kernels change.

    * ``members``: (u,) int64, the first unassigned member of each type.
    * ``counts``, ``totals``: (Σ v,) float64: for each value of an attribute the unassigned members that have it, and
      the sum of their distances to it. ``sums``: (q,) float64, the sums of their numbers.
    * ``of_units``: (m,) int64, the number of unassigned members of each unit. ``last_group``: (m,) int64, the last
      group with one of them.
    """

    members: Int64Array
    counts: Float64Array
    totals: Float64Array
    sums: Float64Array
    of_units: Int64Array
    last_group: Int64Array


def mdav_partition(types: RecordTypes, units: Int64Array, k: int) -> Int32Array:
    """Return the group of every member, (n,) int32, so that each group has members of at least k units.

    Groups are numbered in the order of their creation. units: (n,) int64, the unit of each member, numbered from 0
    without gaps; at least k.
    """
    lengths, firsts, of_units = np.diff(types.starts), offsets_from_lengths(types.sizes), np.bincount(units)
    counts = np.bincount((types.codes + firsts[:-1]).ravel(), np.repeat(lengths, types.sizes.size), firsts[-1])
    left = Unassigned(
        members=types.starts[:-1].copy(),
        counts=counts.astype(np.float64),
        totals=np.zeros(counts.size),
        sums=lengths @ types.numbers,
        of_units=of_units,
        last_group=np.full(of_units.size, -1),
    )
    group = np.full(types.words.size, -1, np.int32)
    form_groups(types, firsts, units, k, left, group)
    return group


@kernel
def form_groups(
    types: RecordTypes, firsts: Int64Array, units: Int64Array, k: int, left: Unassigned, group: Int32Array
) -> None:
    """Assign each member to its ``group``. ``firsts``: (p + 1,), the first value of each attribute in ``left``."""
    number, members, unassigned = 0, group.size, left.of_units.size
    mean, distances = np.empty(types.sizes.size, np.int32), np.empty(left.members.size)
    _add_totals(types, firsts, left)
    while unassigned >= 2 * k:
        pairs = unassigned >= 3 * k
        _find_mean(types, firsts, left, members, mean)
        _measure(types, left, mean, left.sums / members, distances)
        for _ in range(1 + int(pairs)):
            first = _nearest(types, left, distances, -1.0)
            _measure(types, left, types.codes[first], types.numbers[first], distances)
            distances[first] = -1.0
            missing = k
            while missing > 0:
                nearest = _nearest(types, left, distances, 1.0)
                member = left.members[nearest]
                group[member] = number
                missing -= int(left.last_group[units[member]] != number)
                left.last_group[units[member]] = number
                left.of_units[units[member]] -= 1
                unassigned -= int(left.of_units[units[member]] == 0)
                _remove(types, firsts, left, nearest)
                members -= 1
            number += 1
        if not pairs:
            break
    for i in range(group.size):
        if group[i] < 0:
            group[i] = number


@part
def _add_totals(types: RecordTypes, firsts: Int64Array, left: Unassigned) -> None:
    start = 0
    for j in range(types.sizes.size):
        for value in range(firsts[j], firsts[j + 1]):
            for other in range(firsts[j], firsts[j + 1]):
                left.totals[value] += left.counts[other] * types.tables[start]
                start += 1


@part
def _find_mean(types: RecordTypes, firsts: Int64Array, left: Unassigned, members: int, mean: Int32Array) -> None:
    """Find the unassigned value of each attribute with the smallest total distance to all of them."""
    for j in range(types.sizes.size):
        least = np.inf
        for value in range(firsts[j], firsts[j + 1]):
            if left.counts[value] > 0:
                least = min(least, left.totals[value])
        value = firsts[j]
        while left.counts[value] <= 0 or left.totals[value] > least + MDAV_TIE * members:
            value += 1
        mean[j] = value - firsts[j]


@part
def _measure(
    types: RecordTypes, left: Unassigned, codes: Int32Array, numbers: Float64Array, distances: Float64Array
) -> None:
    """Compute δ² between a record and each type that has unassigned members (2013: equation 7, and numbers)."""
    for t in range(distances.size):
        if left.members[t] == types.starts[t + 1]:
            continue
        total, start = 0.0, 0
        for j in range(types.sizes.size):
            total += types.weights[j] * types.tables[start + codes[j] * types.sizes[j] + types.codes[t, j]]
            start += types.sizes[j] ** 2
        for j in range(types.numeric_weights.size):
            step = numbers[j] - types.numbers[t, j]
            total += types.numeric_weights[j] * (step * step)
        distances[t] = total


@part
def _nearest(types: RecordTypes, left: Unassigned, distances: Float64Array, sign: float) -> int:
    """Return the type with unassigned members of the least distance, or of the greatest one if ``sign`` is −1.

    Among several, it is the one whose first unassigned member has the smallest random word.
    """
    best = -1
    for t in range(distances.size):
        if left.members[t] == types.starts[t + 1]:
            continue
        step = -1.0 if best < 0 else sign * (distances[t] - distances[best])
        if step < 0 or (step == 0 and types.words[left.members[t]] < types.words[left.members[best]]):
            best = t
    return best


@part
def _remove(types: RecordTypes, firsts: Int64Array, left: Unassigned, t: int) -> None:
    """Remove the first unassigned member of a type from the counts and sums."""
    left.members[t] += 1
    start = 0
    for j in range(types.sizes.size):
        size, code = types.sizes[j], types.codes[t, j]
        left.counts[firsts[j] + code] -= 1
        for value in range(size):
            left.totals[firsts[j] + value] -= types.tables[start + code * size + value]
        start += size**2
    for j in range(left.sums.size):
        left.sums[j] -= types.numbers[t, j]
