"""Draws by the exponential mechanism in a tree, without visiting its concepts one by one.

The concepts at one distance from a are the descendants, at one depth, of an ancestor s of a, except those below the
child of s that leads to a (see ``core.replacement.tree``). Each such *region* has one weight, exp(−ε·sd/2), and a known
number of candidates. There are at most depth · height regions, independent of the size of the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.distance.kernels import tree_distance
from stream_masker.core.dtypes import Float64Array, Float64Cube, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.random.draws import index_below, uniform
from stream_masker.core.replacement.rule import Candidates


class CandidateTree(NamedTuple):
    """A tree of m concepts, and its r candidates; the *rank* of a candidate is its index in ascending position.

    * ``depth``, ``parent``: (m,) int32 of each position; the root's parent is −1.
    * ``offsets``: (m + 1,) int64; entry offsets[s] + k describes the descendants k levels below s.
    * ``low``, ``high``: int32, the half-open range of ranks of the candidates among these descendants.
    * ``positions``: (r,) int32, the position of each candidate by rank.
    """

    depth: Int32Array
    parent: Int32Array
    offsets: Int64Array
    low: Int32Array
    high: Int32Array
    positions: Int32Array


class Regions(NamedTuple):
    """The regions around one value, from the value upwards; scratch that kernels fill.

    A region consists of ``included_count`` candidates from rank ``first`` on; ``excluded_count`` ranks from
    ``excluded_first`` on are skipped.

    * ``totals``: float64, the cumulative weights of the regions.
    * ``first``, ``included_count``, ``excluded_first``, ``excluded_count``: int64.
    """

    totals: Float64Array
    first: Int64Array
    included_count: Int64Array
    excluded_first: Int64Array
    excluded_count: Int64Array

    @classmethod
    def of(cls, size: int) -> Regions:
        """Return scratch for up to ``size`` regions."""
        first, included_count, excluded_first, excluded_count = (np.empty(size, np.int64) for _ in range(4))
        return cls(np.empty(size), first, included_count, excluded_first, excluded_count)


class TreeExponential:
    """The drawer for a tree whose distance depends only on depths."""

    def __init__(self, distance: Distance, *, candidates: str, epsilon: float) -> None:
        """Create a drawer for one attribute.

        * ``candidates``: ``all`` concepts or ``leaves``.
        * ``epsilon``: ε of one value.
        """
        tau = distance.taxonomy
        eligible = Candidates.of(tau, candidates)
        table = tau.tree
        self._tree = CandidateTree(
            tau.depth,
            table.parent,
            table.level_offsets,
            eligible.rank[table.level_lo],
            eligible.rank[table.level_hi],
            eligible.positions,
        )
        self._weights = weights_by_depths(distance.kind, int(tau.depth.max()), epsilon)

    def draw(self, codes: Int32Array, words: UInt64Array) -> Int32Array:
        """(k,) int32: draw the new positions of k values; absent values stay absent. ``words``: (k, 2) random words."""
        regions = Regions.of(self._weights.shape[0] ** 2)
        return draw_in_tree(codes, words[:, 0].copy(), words[:, 1].copy(), self._tree, self._weights, regions)


@kernel
def weights_by_depths(kind: int, height: int, epsilon: float) -> Float64Cube:
    """Return exp(−ε·sd/2) by the depths of the least common subsumer, of the value and of the candidate.

    Each depth ranges from 1 to ``height``; impossible combinations have weight 0.
    """
    weights = np.zeros((height + 1, height + 1, height + 1), np.float64)
    for common in range(1, height + 1):
        for own in range(common, height + 1):
            for other in range(common, height + 1):
                weights[common, own, other] = np.exp(-0.5 * epsilon * tree_distance(kind, common, own, other))
    return weights


@part
def fill_regions(a: int, tree: CandidateTree, weights: Float64Cube, regions: Regions) -> int:
    """Fill the non-empty regions around the value a, and return their number."""
    size = 0
    total = 0.0
    s = int64(a)
    child = int64(-1)
    while s >= 0:
        common = tree.depth[s]
        for level in range(tree.offsets[s + 1] - tree.offsets[s]):
            first = int64(tree.low[tree.offsets[s] + level])
            count = int64(tree.high[tree.offsets[s] + level]) - first
            excluded_first = first
            excluded_count = int64(0)
            if child >= 0 and level > 0 and level - 1 < tree.offsets[child + 1] - tree.offsets[child]:
                excluded_first = int64(tree.low[tree.offsets[child] + level - 1])
                excluded_count = int64(tree.high[tree.offsets[child] + level - 1]) - excluded_first
            if count > excluded_count:
                total += weights[common, tree.depth[a], common + level] * (count - excluded_count)
                regions.totals[size] = total
                regions.first[size] = first
                regions.included_count[size] = count - excluded_count
                regions.excluded_first[size] = excluded_first
                regions.excluded_count[size] = excluded_count
                size += 1
        child = s
        s = int64(tree.parent[s])
    return size


@part
def region_above(totals: Float64Array, size: int, target: float) -> int:
    """Return the first of ``size`` regions whose cumulative weight exceeds ``target``; the last one if none does."""
    for i in range(size - 1):
        if totals[i] > target:
            return i
    return size - 1


@kernel
def draw_in_tree(
    codes: Int32Array,
    first_words: UInt64Array,
    second_words: UInt64Array,
    tree: CandidateTree,
    weights: Float64Cube,
    regions: Regions,
) -> Int32Array:
    """Draw new positions for k values, (k,) int32; negative codes stay.

    The first word of a value selects a region, the second one a candidate in it. ``regions`` is scratch.
    """
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            size = fill_regions(codes[k], tree, weights, regions)
            i = region_above(regions.totals, size, uniform(first_words[k]) * regions.totals[size - 1])
            rank = regions.first[i] + index_below(second_words[k], regions.included_count[i])
            if rank >= regions.excluded_first[i]:
                rank += regions.excluded_count[i]
            drawn[k] = tree.positions[rank]
    return drawn
