"""What no posterior may exceed: the promise of a target, for the values of one attribute.

For every masked record, every value x and every sensitive group G, P(x | masks) ≤ max(β, P(x)) and P(G | masks) ≤
max(β_G, P(G)), in each law of an attacker: of rows, and of events where these differ (``statistics.counts.Counts``). A
value or a group that is more frequent than its limit may be ``PRIOR_ROOM`` more frequent, relatively.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import int64, part
from stream_masker.core.kernels.sums import sum_of, sum_of_products

NO_LIMIT = 2.0
"""A limit that no probability exceeds."""
PRIOR_ROOM = 0.01
FITTING_SLACK = 0.01
"""By which share limits are lowered while a transport is fitted, so that the result meets them."""
LIMIT_ROUNDS = 1000
"""How often the values and the groups of a column are limited in turn."""
BLOCK = 256
"""So many values are compared with a limit at once."""
LIMIT_ERROR = 1e-9
"""The rounds end when the sum of a column changes by at most this share; less than this relative excess is none."""


Groups: TypeAlias = Mapping[str, tuple[BoolArray, float]]
"""Of each sensitive group, by name: its members among the values, and its limit."""


class Caps(NamedTuple):
    """The limits of the k values of one attribute, and of g sensitive groups of them, in each of l laws of an attacker.

    * ``weights``: (l, k) P(x) of each law, divided by that of the first one, by which a transport is fitted.
    * ``values``: (l, k) max(β, P(x)). ``groups``: (l, g) max(β_G, P(G)).
    * ``starts``, ``members``: the values of each group, as compressed rows.
    * ``least``: (l,) the least of all limits; nothing is limited if it is ``NO_LIMIT``.
    """

    weights: Float64Matrix
    values: Float64Matrix
    groups: Float64Matrix
    starts: Int64Array
    members: Int32Array
    least: Float64Array

    @classmethod
    def of(cls, laws: Float64Matrix, certainty: float | None, groups: Groups, *, fitting: bool) -> Caps:
        """Return the limits of values with these priors; lower ones for ``fitting``.

        * ``laws``: (l, k) P(x). ``certainty``: β, or None. ``groups``: for each name (k,) bool its members, and β_G.
        """
        scale, room = (1.0 - FITTING_SLACK, PRIOR_ROOM / 2.0) if fitting else (1.0, PRIOR_ROOM)
        values = np.full(laws.shape, NO_LIMIT)
        if certainty is not None:
            values = np.maximum(certainty * scale, laws * (1.0 + room))
        members = [np.flatnonzero(inside).astype(np.int32) for inside, _ in groups.values()]
        limits = np.empty((len(laws), len(groups)))
        for g, (inside, limit) in enumerate(groups.values()):
            limits[:, g] = np.maximum(limit * scale, laws[:, inside].sum(axis=1) * (1.0 + room))
        return cls(
            laws / np.maximum(laws[0], np.finfo(np.float64).tiny),
            values,
            limits,
            offsets_from_lengths(np.array([each.size for each in members], np.int64)),
            np.concatenate([np.empty(0, np.int32), *members]),
            np.minimum(values.min(axis=1), limits.min(axis=1, initial=NO_LIMIT)),
        )

    @classmethod
    def none(cls, size: int) -> Caps:
        """Return limits of ``size`` values that limit nothing."""
        return cls.of(np.zeros((1, size)), None, {}, fitting=False)

    @property
    def both(self) -> Float64Matrix:
        """(l, k + g) the limits of values, then of groups."""
        return np.concatenate([self.values, self.groups], axis=1)

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        return bool(self.least.min() < NO_LIMIT)


@part
def inside_of(column: Float64Array, limits: Caps, group: int) -> float:
    """Return the sum of the values of a group in a column."""
    result = 0.0
    for k in range(limits.starts[group], limits.starts[group + 1]):
        result += column[limits.members[k]]
    return result


@part
def excess_of(column: Float64Array, limits: Caps, law: int, total: float) -> float:
    """Return by how much a value or a group of a column exceeds its limit at most, times the sum of the column."""
    result = -np.inf
    for x in range(column.size):
        result = max(result, column[x] - limits.values[law, x] * total)
    for group in range(limits.groups.shape[1]):
        result = max(result, inside_of(column, limits, group) - limits.groups[law, group] * total)
    return result


@part
def cut_values(
    column: Float64Array, limits: Caps, total: float, factors: Float64Array, laws: Int64Array, scratch: Float64Matrix
) -> float:
    """Cut the values of a column that exceed their limits, in any law, and return what its sum is then.

    ``factors``: (k,) are multiplied by what is cut. ``laws``: (k,), overwritten with the law that cuts each value, or
    −1. ``scratch``: (4, 2), overwritten. The greatest excess is cut first; the others' shares then grow.
    """
    laws[:] = -1
    rest, sums, shares = scratch[0], scratch[1], scratch[2:]
    rest[:], sums[:], shares[:] = 0.0, 0.0, 0.0
    for law in range(limits.least.size):
        rest[law] = total if law == 0 else sum_of_products(column, limits.weights[law])
        sums[law] = rest[law]
    while True:
        found, into, excess = int64(-1), int64(0), 1.0 + LIMIT_ERROR
        for law in range(limits.least.size):
            bound, weights = limits.least[law] * sums[law], limits.weights[law]
            for start in range(0, column.size, BLOCK):
                block = slice(start, min(start + BLOCK, column.size))
                if not exceeding(column[block], weights[block], laws[block], law, bound):
                    continue
                for x in range(block.start, block.stop):
                    mass = column[x] * weights[x]
                    if laws[x] >= 0:
                        mass = cut_share(limits, x, laws[x], law) * sums[laws[x]]
                    ratio = mass / (limits.values[law, x] * sums[law])
                    if ratio > excess:
                        found, into, excess = int64(x), int64(law), ratio
        if found < 0:
            break
        before = laws[found]
        move(column, limits, found, before, into, rest, shares)
        if not solve_sums(rest, shares, sums):
            move(column, limits, found, into, before, rest, shares)
            solve_sums(rest, shares, sums)
            break
        laws[found] = into
    for x in range(column.size):
        if laws[x] >= 0:
            wanted = cut_share(limits, x, laws[x], 0) * sums[laws[x]]
            factors[x] *= min(wanted / column[x], 1.0)
            column[x] = min(wanted, column[x])
    whole: float = sums[0]
    return whole


@part
def exceeding(column: Float64Array, weights: Float64Array, laws: Int64Array, law: int, bound: float) -> bool:
    """Return whether a value that a law does not cut may exceed its limit there.

    The sum of integers is computed for many values at once; within the loops of the caller, it would not be.
    """
    above = int64(0)
    for x in range(column.size):
        above += (column[x] * weights[x] > bound) & (laws[x] != law)
    return above > 0


@part
def cut_share(limits: Caps, x: int, by: int, law: int) -> float:
    """Return what a value that a law cuts has in another one, divided by the sum of the column in the first of both."""
    share: float = limits.values[by, x] * limits.weights[law, x] / limits.weights[by, x]
    return share


@part
def move(
    column: Float64Array, limits: Caps, x: int, before: int, into: int, rest: Float64Array, shares: Float64Matrix
) -> None:
    """Count a value with those that the law ``into`` cuts, or, if it is −1, with the rest; see ``solve_sums``."""
    for law in range(limits.least.size):
        for which, sign in ((before, -1.0), (into, 1.0)):
            if which >= 0:
                shares[law, which] += sign * cut_share(limits, x, which, law)
            else:
                rest[law] += sign * column[x] * limits.weights[law, x]


@part
def solve_sums(rest: Float64Array, shares: Float64Matrix, sums: Float64Array) -> bool:
    """Set ``sums``, (2,), to T = rest + shares·T, the sums of a column in two laws; return whether there are such.

    ``rest``: (2,) what is not cut. ``shares``: (2, 2) for each law (row) what each law cuts, divided by its sum.
    """
    first, second = 1.0 - shares[0, 0], 1.0 - shares[1, 1]
    scale = first * second - shares[0, 1] * shares[1, 0]
    if min(first, second, scale) <= 0.0:
        return False
    sums[0] = max(second * rest[0] + shares[0, 1] * rest[1], 0.0) / scale
    sums[1] = max(first * rest[1] + shares[1, 0] * rest[0], 0.0) / scale
    return True


@part
def cut_groups(column: Float64Array, limits: Caps, law: int, factors: Float64Array) -> float:
    """Cut the groups of a column that exceed their limits in a law, and return its sum in the first one then."""
    weights = limits.weights[law]
    total = sum_of_products(column, weights)
    for group in range(limits.groups.shape[1]):
        members, limit = limits.members[limits.starts[group] : limits.starts[group + 1]], limits.groups[law, group]
        inside = 0.0
        for x in members:
            inside += column[x] * weights[x]
        if inside > limit * total and limit < 1.0:
            wanted = limit / (1.0 - limit) * max(total - inside, 0.0)
            for x in members:
                column[x] *= wanted / inside
                factors[x] *= wanted / inside
            total += wanted - inside
    whole: float = sum_of(column)
    return whole


@part
def cut_column(
    column: Float64Array, limits: Caps, total: float, factors: Float64Array, laws: Int64Array, scratch: Float64Matrix
) -> float:
    """Set ``factors``, (k,), such that no limit is exceeded, cut the column by them, and return its sum.

    ``laws``: (k,), ``scratch``: (4, 2), overwritten.
    """
    factors[:] = 1.0
    before = -1.0
    for _ in range(LIMIT_ROUNDS):
        total = cut_values(column, limits, total, factors, laws, scratch)
        if limits.groups.size == 0:
            break
        for law in range(limits.least.size):
            total = cut_groups(column, limits, law, factors)
        if abs(total - before) <= LIMIT_ERROR * total:
            break
        before = total
    return total


@part
def fill_weighted(column: Float64Array, limits: Caps, law: int, weighted: Float64Array) -> float:
    """Set ``weighted``, (k,), to a column in another law, and return its sum."""
    weights = limits.weights[law]
    for x in range(column.size):
        weighted[x] = column[x] * weights[x]
    total: float = sum_of(weighted)
    return total


@part
def exceeds(column: Float64Array, limits: Caps, law: int, total: float) -> bool:
    """Return whether a value or a group of a column in a law exceeds its limit."""
    above, bounds = int64(0), limits.values[law]
    for x in range(column.size):
        above += column[x] > bounds[x] * total
    exceeded = above > 0
    for group in range(limits.groups.shape[1]):
        exceeded = exceeded or inside_of(column, limits, group) > limits.groups[law, group] * total
    return exceeded


@part
def within_limits(column: Float64Array, limits: Caps, total: float, scratch: Float64Array) -> bool:
    """Return whether no value and no group of a column exceeds its limit in any law; ``scratch``: (k,)."""
    exceeded = exceeds(column, limits, 0, total)
    for law in range(1, limits.least.size):
        exceeded = exceeded or exceeds(scratch, limits, law, fill_weighted(column, limits, law, scratch))
    return not exceeded
