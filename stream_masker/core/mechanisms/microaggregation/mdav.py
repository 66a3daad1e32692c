"""MDAV: the partition of records into groups of k similar ones (2013: section 3.1; Domingo-Ferrer and Torra 2005).

While at least 3k records are left, two groups are formed: the record farthest from the mean with its k − 1 nearest
records, and the record farthest from that one with its k − 1 nearest. If 2k to 3k − 1 records are left, the one
farthest from the mean and its k − 1 nearest form a group, and the others form the last one. Fewer than 2k records form
one group.

Equal records are processed as one *type* with that many members. This changes only the cost, which is O(u·n/k)
distances for n records of u types, and O(n·v) for means over v distinct values of an attribute. Among equally far or
near records, the one with the smallest random word is taken. Among equally marginal values, the mean is the first
position, which has the smallest depth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int32Matrix, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import inlined, kernel

MDAV_TIE = 1e-9
"""Totals of distances are tied if they differ by no more than this per record; rounding errors are far smaller."""


class Types(NamedTuple):
    """u types of n records over p nominal and q numeric attributes.

    * ``codes``: (u, p) int32, indices of the attributes' distinct values.
    * ``numbers``: (u, q) float64, scaled so that S-distances are sums of squared differences.
    * ``starts``: (u + 1,) int64; the members of type t are starts[t] … starts[t + 1] − 1.
    * ``words``: (n,) uint64, the random words of the members, ascending within a type.
    * ``tables``: float64; attribute j's distance table has sizes[j]² entries from corners[j] on.
    * ``corners``, ``sizes``, ``firsts``: (p,) int64; attribute j's values are numbered from firsts[j] on.
    * ``weights``: (p,) float64, the weight of each attribute's distance.
    """

    codes: Int32Matrix
    numbers: Float64Matrix
    starts: Int64Array
    words: UInt64Array
    tables: Float64Array
    corners: Int64Array
    sizes: Int64Array
    firsts: Int64Array
    weights: Float64Array


class MdavState(NamedTuple):
    """The members that are left, and the groups so far.

    * ``active``: the types with members left, the first ``size[0]`` entries.
    * ``next``: (u,) the first member left of each type.
    * ``size``: the numbers of active types, of members left, and of groups so far.
    * ``counts``, ``totals``: for each value, the members left that have it and the sum of their distances to it.
    * ``sums``: (q,) the sums of the numbers of the members left.
    * ``near``: (u,) the squared distance of each type to the record last measured from.
    * ``best``: (k,) the nearest types.
    * ``group``: (n,) int32, the group of each member, −1 for none.
    """

    active: Int64Array
    next: Int64Array
    size: Int64Array
    counts: Float64Array
    totals: Float64Array
    sums: Float64Array
    near: Float64Array
    best: Int64Array
    group: Int32Array


@kernel
def mdav_partition(types: Types, k: int) -> Int32Array:
    """(n,) int32: the group of every member, numbered in the order in which they were made."""
    state = begin(types, k)
    while state.size[1] >= 3 * k:
        group_around(types, state, farthest_from_mean(types, state), k)
        group_around(types, state, farthest(types, state), k)
    if state.size[1] >= 2 * k:
        group_around(types, state, farthest_from_mean(types, state), k)
    group_rest(types, state)
    return state.group


@kernel
def begin(types: Types, k: int) -> MdavState:
    """The state of all members left."""
    u, q = types.numbers.shape
    n = types.words.size
    values = types.sizes.sum()
    state = MdavState(
        np.arange(u),
        types.starts[:-1].copy(),
        np.array([u, n, 0]),
        np.zeros(values),
        np.zeros(values),
        np.zeros(q),
        np.zeros(u),
        np.zeros(k, np.int64),
        np.full(n, -1, np.int32),
    )
    for t in range(u):
        change(types, state, t, types.starts[t + 1] - types.starts[t])
    return state


@kernel
def change(types: Types, state: MdavState, t: int, members: int) -> None:
    """Adds members of a type to counts, totals and sums; a negative number takes them away."""
    for j in range(types.sizes.size):
        first = types.firsts[j]
        row = types.corners[j] + types.codes[t, j] * types.sizes[j]
        state.counts[first + types.codes[t, j]] += members
        for v in range(types.sizes[j]):
            state.totals[first + v] += members * types.tables[row + v]
    for i in range(types.numbers.shape[1]):
        state.sums[i] += members * types.numbers[t, i]


@inlined
def squared(types: Types, codes: Int32Array | Int64Array, numbers: Float64Array, t: int) -> float:
    """δ² of a record and a type's members (2013: equation 7)."""
    total = 0.0
    for j in range(types.sizes.size):
        row = types.corners[j] + codes[j] * types.sizes[j]
        total += types.weights[j] * types.tables[row + types.codes[t, j]]
    for i in range(types.numbers.shape[1]):
        step = numbers[i] - types.numbers[t, i]
        total += step * step
    return total


@kernel
def farthest_from_mean(types: Types, state: MdavState) -> int:
    """The type farthest from the mean record of what is left (2013: equation 3, and numeric means)."""
    codes = np.empty(types.sizes.size, np.int64)
    for j in range(codes.size):
        codes[j] = least_marginal_record(types, state, j)
    look_from(types, state, codes, state.sums / state.size[1])
    return farthest(types, state)


@kernel
def least_marginal_record(types: Types, state: MdavState, j: int) -> int:
    """The value of attribute j, of those left, with the least total distance to them."""
    first, last = types.firsts[j], types.firsts[j] + types.sizes[j]
    least = np.inf
    for v in range(first, last):
        if state.counts[v] > 0:
            least = min(least, state.totals[v])
    for v in range(first, last):
        if state.counts[v] > 0 and state.totals[v] <= least + MDAV_TIE * state.size[1]:
            return v - first
    return 0


@kernel
def look_from(types: Types, state: MdavState, codes: Int32Array | Int64Array, numbers: Float64Array) -> None:
    """Puts the distances of all active types to a record into ``near``."""
    for a in range(state.size[0]):
        t = state.active[a]
        state.near[t] = squared(types, codes, numbers, t)


@kernel
def farthest(types: Types, state: MdavState) -> int:
    """The active type that was farthest from the record last looked from."""
    found = state.active[0]
    for a in range(1, state.size[0]):
        t = state.active[a]
        if state.near[t] > state.near[found] or (
            state.near[t] == state.near[found] and head(types, state, t) < head(types, state, found)
        ):
            found = t
    return found


@inlined
def head(types: Types, state: MdavState, t: int) -> np.uint64:
    """The random word of the type's first member left."""
    return types.words[state.next[t]]


@inlined
def nearer(types: Types, state: MdavState, t: int, other: int) -> bool:
    """Whether a type comes before another: by distance, then by random word."""
    if state.near[t] != state.near[other]:
        return state.near[t] < state.near[other]
    return bool(head(types, state, t) < head(types, state, other))


@kernel
def group_around(types: Types, state: MdavState, t: int, k: int) -> None:
    """Makes a group of a type's first member and the k - 1 nearest to it, equal ones before any other.

    They are members of the k nearest types, as each of these has one at least.
    """
    look_from(types, state, types.codes[t], types.numbers[t])
    state.near[t] = -1.0
    found = nearest_types(types, state, k)
    for _ in range(k):
        best = -1
        for b in range(found):
            candidate = state.best[b]
            if state.next[candidate] < types.starts[candidate + 1] and (
                best < 0 or nearer(types, state, candidate, best)
            ):
                best = candidate
        take(types, state, best, 1)
    drop_empty(types, state)
    state.size[2] += 1


@kernel
def nearest_types(types: Types, state: MdavState, k: int) -> int:
    """Fills ``best`` with the nearest types, nearest first, k at most; their number."""
    found = 0
    for a in range(state.size[0]):
        t = state.active[a]
        if found == k and not nearer(types, state, t, state.best[k - 1]):
            continue
        place = min(found, k - 1)
        while place > 0 and nearer(types, state, t, state.best[place - 1]):
            state.best[place] = state.best[place - 1]
            place -= 1
        state.best[place] = t
        found = min(found + 1, k)
    return found


@kernel
def take(types: Types, state: MdavState, t: int, members: int) -> None:
    """Moves a type's first members left into the group that is being made."""
    change(types, state, t, -members)
    for _ in range(members):
        state.group[state.next[t]] = state.size[2]
        state.next[t] += 1
    state.size[1] -= members


@kernel
def drop_empty(types: Types, state: MdavState) -> None:
    """Keeps only types with members left among the active ones."""
    kept = 0
    for a in range(state.size[0]):
        t = state.active[a]
        if state.next[t] < types.starts[t + 1]:
            state.active[kept] = t
            kept += 1
    state.size[0] = kept


@kernel
def group_rest(types: Types, state: MdavState) -> None:
    """Makes a group of all that is left."""
    for a in range(state.size[0]):
        t = state.active[a]
        take(types, state, t, types.starts[t + 1] - state.next[t])
    state.size[0] = 0
    state.size[2] += 1
