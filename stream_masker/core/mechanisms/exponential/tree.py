"""Draws by the exponential mechanism in a tree, without visiting its concepts one by one.

The concepts at one distance from a are the descendants, at one depth, of an ancestor s of a, except those below the
child of s that leads to a (see ``core.replacement.tree``). Each such *region* has one weight, exp(−ε·sd/2), and a known
number of candidates. There are at most depth · height regions, independent of the size of the tree.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.distance.kernels import tree_distance
from stream_masker.core.dtypes import Int32Array, UInt64Array
from stream_masker.core.kernels.jit import kernel, part
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
        words_by_column = words[:, 0].copy(), words[:, 1].copy()
        scratch = np.empty(self._weights.shape[0] ** 2), np.empty((self._weights.shape[0] ** 2, 4), np.int64)
        arrays = *self._tree, *self._levels, self._positions, self._weights
        return np.asarray(draw_in_tree(codes, *words_by_column, *arrays, *scratch))


@kernel
def weights_by_depths(kind, height, epsilon):  # type: ignore[no-untyped-def]
    """exp(-ε·sd/2) by the depths of the least common subsumer, of the value and of the candidate; 0 for none such."""
    weights = np.zeros((height + 1, height + 1, height + 1), np.float64)
    for common in range(1, height + 1):
        for own in range(common, height + 1):
            for other in range(common, height + 1):
                weights[common, own, other] = np.exp(-0.5 * epsilon * tree_distance(kind, common, own, other))
    return weights


@part
def fill_regions(a, depth, parent, offsets, low, high, weights, totals, ranges):  # type: ignore[no-untyped-def]
    """Fills the regions of a; their number. totals: cumulative weights; ranges: first rank, number, the excluded ones'
    first rank and number."""
    count = 0
    total = 0.0
    s = np.int64(a)
    child = np.int64(-1)
    while s >= 0:
        common = depth[s]
        for level in range(offsets[s + 1] - offsets[s]):
            first = np.int64(low[offsets[s] + level])
            size = np.int64(high[offsets[s] + level]) - first
            inner = first
            without = np.int64(0)
            if child >= 0 and level > 0 and level - 1 < offsets[child + 1] - offsets[child]:
                inner = np.int64(low[offsets[child] + level - 1])
                without = np.int64(high[offsets[child] + level - 1]) - inner
            if size > without:
                total += weights[common, depth[a], common + level] * (size - without)
                totals[count] = total
                ranges[count, 0] = first
                ranges[count, 1] = size - without
                ranges[count, 2] = inner
                ranges[count, 3] = without
                count += 1
        child = s
        s = np.int64(parent[s])
    return count


@part
def region_above(totals, count, target):  # type: ignore[no-untyped-def]
    """The first region whose cumulative weight is greater; the last for none."""
    for i in range(count - 1):
        if totals[i] > target:
            return i
    return count - 1


@kernel
def draw_in_tree(  # type: ignore[no-untyped-def]
    codes, first, second, depth, parent, offsets, low, high, positions, weights, totals, ranges
):
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
