"""Replacements in a tree, without looking at its concepts one by one.

In a tree sd(c, a) depends on two depths alone: that of the least common subsumer of c and a, and that of c. So the
concepts at one distance of a are a union of *regions*: the descendants, at one depth, of an ancestor s of a, less those
below the child of s on the way to a. The tree's numbering makes these ranges of positions.

Against a reference r, with M the least common subsumer of a and r, a region is equally far from r throughout, but for
that of s = M where r lies below M: it splits along the way from M to r in the same manner. So two climbs, from a to
the root and from r to M, give regions that partition the taxonomy, each with one distance to a and one to r: at most
depth² of them, whatever the size of the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from stream_masker.core.distance import Distance
from stream_masker.core.distance.kernels import tree_distance, tree_lcs
from stream_masker.core.mechanisms.candidates import (
    UNSIGNED,
    Candidates,
    Floats,
    Int32,
    Int64,
    Replacement,
    Task,
    admissible,
    index_below,
    settle,
)


class Tree(NamedTuple):
    """The tree for the kernels: of ``TreeTable``, with its ranges of positions as ranges of candidates' ranks."""

    kind: int
    parent: Int32
    depth: Int32
    level_offsets: Int64
    level_lo: Int32
    level_hi: Int32


class Regions(NamedTuple):
    """Room for the regions of one value. to_value: sd(c, a); to_reference: sd(c, r), both float64.

    ranges: (regions, 6) int32: first rank and size of a range of candidates, and of two ranges within it (ascending,
    perhaps empty) that are no part of the region.
    """

    to_value: Floats
    to_reference: Floats
    ranges: Int32


class TreeReplacer:
    """The ``Replacer`` of trees, for distances that depend on depths alone (``tree_distance``)."""

    def __init__(self, distance: Distance, *, candidates: str, calibrated: bool) -> None:
        """``candidates``: all or leaves; ``calibrated``: the rounding."""
        tau = distance.taxonomy
        eligible = Candidates.of(tau, candidates)
        self._calibrated = calibrated
        self._table = (eligible.positions, eligible.rank)
        self._height = int(tau.tree.level_offsets[1])
        self._tree = Tree(
            kind=distance.kind,
            parent=tau.tree.parent,
            depth=tau.depth,
            level_offsets=tau.tree.level_offsets,
            level_lo=eligible.rank[tau.tree.level_lo],
            level_hi=eligible.rank[tau.tree.level_hi],
        )

    def replace(self, task: Task) -> Replacement:
        rows = (task.codes, task.references, task.noise, task.rounding, task.ties)
        return Replacement(*replace_all(self._tree, *self._table, self._room(), self._calibrated, *rows))

    def _room(self) -> Regions:
        """Regions partition the candidates, so that there are no more than these."""
        most = min(len(self._table[0]), (self._height + 1) ** 2) + 1
        return Regions(np.empty(most), np.empty(most), np.empty((most, 6), np.int32))


@njit(cache=True, nogil=True, inline="always")
def span(tree, s, level):  # type: ignore[no-untyped-def]
    """The candidates ``level`` levels below s: the rank of the first and their number; none for s = -1."""
    k = tree.level_offsets[s] + level
    if s < 0 or level < 0 or k >= tree.level_offsets[s + 1]:
        return np.int64(0), np.int64(0)
    return np.int64(tree.level_lo[k]), np.int64(tree.level_hi[k] - tree.level_lo[k])


@njit(cache=True, nogil=True, inline="always")
def size_of(ranges, i):  # type: ignore[no-untyped-def]
    """The number of candidates in region i."""
    return np.int64(ranges[i, 1]) - ranges[i, 3] - ranges[i, 5]


@njit(cache=True, nogil=True, inline="always")
def store(regions, count, whole, one, two):  # type: ignore[no-untyped-def]
    """Writes a region's ranges, the excluded ones in order; whether it has any candidate."""
    ranges = regions.ranges
    ranges[count, 0], ranges[count, 1] = whole
    ranges[count, 2], ranges[count, 3] = one if one < two else two
    ranges[count, 4], ranges[count, 5] = two if one < two else one
    return size_of(ranges, count) > 0


@njit(cache=True, nogil=True)
def climb(tree, depths, start, top, skip, side, regions, count):  # type: ignore[no-untyped-def]
    """Adds the regions of ``start`` and of its ancestors down from depth ``top``; returns their new number.

    depths: of the value and the reference, and the most that a subsumer shared with each may have. skip: 1 to leave
    ``start`` itself out. side: a concept whose descendants and which itself belong to another climb (-1: none).
    """
    depth_a, depth_r, most_a, most_r = depths
    s = start
    child = -1
    for common in range(tree.depth[start], top - 1, -1):
        beside = side if side >= 0 and tree.parent[side] == s else -1
        for level in range(skip, tree.level_offsets[s + 1] - tree.level_offsets[s]):
            inner = span(tree, child, level - 1)
            if store(regions, count, span(tree, s, level), inner, span(tree, beside, level - 1)):
                regions.to_value[count] = tree_distance(tree.kind, min(common, most_a), depth_a, common + level)
                regions.to_reference[count] = tree_distance(tree.kind, min(common, most_r), depth_r, common + level)
                count += 1
        skip = 0
        child = s
        s = tree.parent[s]
    return count


@njit(cache=True, nogil=True)
def branch(tree, meet, r):  # type: ignore[no-untyped-def]
    """The child of ``meet`` on the way to r; -1 where r is ``meet``."""
    child = -1
    while r != meet:
        child = r
        r = tree.parent[r]
    return child


@njit(cache=True, nogil=True)
def partition(tree, a, r, regions):  # type: ignore[no-untyped-def]
    """Fills the regions of a against r; returns their number and sd(a, r)."""
    meet = tree_lcs(a, r, tree.parent)
    depth_a, depth_r, common = tree.depth[a], tree.depth[r], tree.depth[meet]
    side = branch(tree, meet, r)
    count = climb(tree, (depth_a, depth_r, depth_a, common), a, 1, 1, side, regions, 0)
    count = climb(tree, (depth_a, depth_r, common, depth_r), r, common + 1, 0, -1, regions, count)
    return count, tree_distance(tree.kind, common, depth_a, depth_r)


@njit(cache=True, nogil=True)
def bracket(regions, count, own, sign, target):  # type: ignore[no-untyped-def]
    """The admissible levels next to ``target``: the greatest below it (-1 for none), the least not below (or inf)."""
    below = -1.0
    above = np.inf
    for i in range(count):
        if admissible(sign, regions.to_reference[i], own):
            level = regions.to_value[i]
            if level >= target:
                above = min(above, level)
            else:
                below = max(below, level)
    return below, above


@njit(cache=True, nogil=True)
def on_level(regions, count, own, sign, level):  # type: ignore[no-untyped-def]
    """Moves the admissible regions at the distance ``level`` to the front; their number and their candidates'."""
    total = 0
    found = 0
    for i in range(count):
        if regions.to_value[i] == level and admissible(sign, regions.to_reference[i], own):
            for k in range(6):
                regions.ranges[found, k] = regions.ranges[i, k]
            total += size_of(regions.ranges, found)
            found += 1
    return found, total


@njit(cache=True, nogil=True)
def pick(regions, k):  # type: ignore[no-untyped-def]
    """The rank of the k-th candidate of the first regions together."""
    ranges = regions.ranges
    i = 0
    while k >= size_of(ranges, i):
        k -= size_of(ranges, i)
        i += 1
    rank = ranges[i, 0] + k
    if rank >= ranges[i, 2]:
        rank += ranges[i, 3]
    return rank + ranges[i, 5] if rank >= ranges[i, 4] else rank


@njit(cache=True, nogil=True)
def replace_one(tree, regions, calibrated, stays, a, r, noise, rounding, tie):  # type: ignore[no-untyped-def]
    """(rank of a* or -1 for a itself, sd(a, a*), flags) of one value; r = a for no sign condition."""
    target = abs(noise)
    sign = 0 if r == a else (1 if noise > 0.0 else -1)
    dropped = 0
    count, own = partition(tree, a, r, regions)
    below, above = bracket(regions, count, own, sign, target)
    if below < 0.0 and above == np.inf and count > 0:
        sign = 0
        dropped = UNSIGNED
        below, above = bracket(regions, count, own, sign, target)
    level, flags = settle(target, below, above, stays, calibrated, rounding)
    if level == 0.0:
        return np.int64(-1), 0.0, flags | dropped
    total = on_level(regions, count, own, sign, level)[1]
    return np.int64(pick(regions, index_below(tie, total))), level, flags | dropped


@njit(cache=True, nogil=True)
def replace_all(  # type: ignore[no-untyped-def]
    tree, positions, rank, regions, calibrated, codes, references, noise, rounding, ties
):
    """Replaces k values: their new positions, distances and flags."""
    chosen = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    for i in range(codes.size):
        a = codes[i]
        if a >= 0 and noise[i] != 0.0:
            r = references[i] if references[i] >= 0 else a
            stays = rank[a + 1] > rank[a]
            found, distances[i], flags[i] = replace_one(
                tree, regions, calibrated, stays, a, r, noise[i], rounding[i], ties[i]
            )
            if found >= 0:
                chosen[i] = positions[found]
    return chosen, distances, flags
