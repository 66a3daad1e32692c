"""Draws by the exponential mechanism in a tree, without visiting its concepts one by one.

The concepts at one distance from a are the descendants, at one depth, of an ancestor s of a, except those below the
child of s that leads to a (see ``core.replacement.tree``). Each such *region* has one weight, exp(−ε·sd/2), and a known
number of candidates. There are at most depth · height regions, independent of the size of the tree.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.distance.kernels import tree_distance
from stream_masker.core.dtypes import Float64Array, Float64Cube, Int32Array, Int64Array, Int64Matrix, UInt64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.random.draws import index_below, uniform
from stream_masker.core.replacement.rule import Candidates


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
        self._positions = eligible.positions
        self._tree = (tau.depth, table.parent, table.level_offsets)
        self._levels = (eligible.rank[table.level_lo], eligible.rank[table.level_hi])
        self._weights = np.asarray(weights_by_depths(distance.kind, int(tau.depth.max()), epsilon))

    def draw(self, codes: Int32Array, words: UInt64Array) -> Int32Array:
        """(k,) int32: draw the new positions of k values; absent values stay absent. ``words``: (k, 2) random words."""
        first, second = words[:, 0].copy(), words[:, 1].copy()
        depth, parent, offsets = self._tree
        low, high = self._levels
        max_regions = self._weights.shape[0] ** 2
        totals, ranges = np.empty(max_regions), np.empty((max_regions, 4), np.int64)
        return draw_in_tree(
            codes, first, second, depth, parent, offsets, low, high, self._positions, self._weights, totals, ranges
        )


@kernel
def weights_by_depths(kind: int, height: int, epsilon: float) -> Float64Cube:
    """exp(-ε·sd/2) by the depths of the least common subsumer, of the value and of the candidate; 0 for none such."""
    weights = np.zeros((height + 1, height + 1, height + 1), np.float64)
    for common in range(1, height + 1):
        for own in range(common, height + 1):
            for other in range(common, height + 1):
                weights[common, own, other] = np.exp(-0.5 * epsilon * tree_distance(kind, common, own, other))
    return weights


@part
def fill_regions(
    a: int,
    depth: Int32Array,
    parent: Int32Array,
    offsets: Int64Array,
    low: Int32Array,
    high: Int32Array,
    weights: Float64Cube,
    totals: Float64Array,
    ranges: Int64Matrix,
) -> int:
    """Fills the regions of a; their number. totals: cumulative weights; ranges: first rank, number, the excluded ones'
    first rank and number."""
    count = 0
    total = 0.0
    s = int64(a)
    child = int64(-1)
    while s >= 0:
        common = depth[s]
        for level in range(offsets[s + 1] - offsets[s]):
            first = int64(low[offsets[s] + level])
            size = int64(high[offsets[s] + level]) - first
            inner = first
            without = int64(0)
            if child >= 0 and level > 0 and level - 1 < offsets[child + 1] - offsets[child]:
                inner = int64(low[offsets[child] + level - 1])
                without = int64(high[offsets[child] + level - 1]) - inner
            if size > without:
                total += weights[common, depth[a], common + level] * (size - without)
                totals[count] = total
                ranges[count, 0] = first
                ranges[count, 1] = size - without
                ranges[count, 2] = inner
                ranges[count, 3] = without
                count += 1
        child = s
        s = int64(parent[s])
    return count


@part
def region_above(totals: Float64Array, count: int, target: float) -> int:
    """The first region whose cumulative weight is greater; the last for none."""
    for i in range(count - 1):
        if totals[i] > target:
            return i
    return count - 1


@kernel
def draw_in_tree(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    depth: Int32Array,
    parent: Int32Array,
    offsets: Int64Array,
    low: Int32Array,
    high: Int32Array,
    positions: Int32Array,
    weights: Float64Cube,
    totals: Float64Array,
    ranges: Int64Matrix,
) -> Int32Array:
    """Draws k values. totals, ranges: room for the regions of one value."""
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            count = fill_regions(codes[k], depth, parent, offsets, low, high, weights, totals, ranges)
            i = region_above(totals, count, uniform(first[k]) * totals[count - 1])
            rank = ranges[i, 0] + index_below(second[k], ranges[i, 1])
            if rank >= ranges[i, 2]:
                rank += ranges[i, 3]
            drawn[k] = positions[rank]
    return drawn
