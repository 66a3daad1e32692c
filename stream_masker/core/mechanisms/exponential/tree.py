"""Draws by the exponential mechanism in a tree, without visiting its concepts one by one.

The concepts at one distance from a are the descendants, at one depth, of an ancestor s of a, except those below the
child of s that leads to a (see ``core.replacement.level_bitsets``). Each such *region* has one weight, exp(−ε·sd/2),
and a known number of candidates. There are at most depth · height regions, whatever the size of the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.distance.kernels import tree_distance
from stream_masker.core.dtypes import Float64Array, Float64Cube, Int32Array, Int64Array, Int64Matrix, UInt64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.random.draws import index_below, uniform
from stream_masker.core.replacement.rule import Candidates

FIRST, INCLUDED, EXCLUDED_FIRST, EXCLUDED = range(4)
"""The columns of ``ranges``.

A region consists of ``INCLUDED`` candidates from rank ``FIRST`` on; ``EXCLUDED`` ranks from ``EXCLUDED_FIRST`` on are
skipped.
"""


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
        """Draw the new positions of k values: (k,) int32. Absent values stay absent.

        ``words``: (k, 2) random words.
        """
        max_regions = self._weights.shape[0] ** 2
        totals, ranges = np.empty(max_regions), np.empty((max_regions, 4), np.int64)
        return draw_in_tree(codes, words[:, 0].copy(), words[:, 1].copy(), self._tree, self._weights, totals, ranges)


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
def fill_regions(a: int, tree: CandidateTree, weights: Float64Cube, totals: Float64Array, ranges: Int64Matrix) -> int:
    """Fill the non-empty regions around the value a, from the value upwards, and return their number.

    ``totals``: the cumulative weights of the regions. ``ranges``: their ranks, see ``FIRST``.
    """
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
                totals[size] = total
                ranges[size, FIRST] = first
                ranges[size, INCLUDED] = count - excluded_count
                ranges[size, EXCLUDED_FIRST] = excluded_first
                ranges[size, EXCLUDED] = excluded_count
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
    totals: Float64Array,
    ranges: Int64Matrix,
) -> Int32Array:
    """Draw new positions for k values, (k,) int32; negative codes stay.

    The first word of a value selects a region, the second one a candidate in it. ``totals`` and ``ranges`` are scratch.
    """
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            size = fill_regions(codes[k], tree, weights, totals, ranges)
            i = region_above(totals, size, uniform(first_words[k]) * totals[size - 1])
            rank = ranges[i, FIRST] + index_below(second_words[k], ranges[i, INCLUDED])
            if rank >= ranges[i, EXCLUDED_FIRST]:
                rank += ranges[i, EXCLUDED]
            drawn[k] = tree.positions[rank]
    return drawn
