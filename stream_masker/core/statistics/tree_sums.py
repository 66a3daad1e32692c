"""Compiled sums over trees for sMean and sdCov, without a distance matrix.

In a tree sd(a, c) = f(depth of LCS, depth(a), depth(c)). The sum of a concept's distances to a window therefore needs,
for each of its ancestors s, only the weight of the values at each depth below s. A sum over pairs of rows telescopes
over the common ancestors of their values.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance.kernels import tree_distance
from stream_masker.core.dtypes import Float64Array, Float64Cube, Float64Matrix, Int32Array, Int32Matrix, Int64Array
from stream_masker.core.kernels.jit import kernel


@kernel
def tree_weights_below(weights: Float64Array, parent: Int32Array, level_offsets: Int64Array) -> Float64Array:
    """Return (l,) float64: entry ``level_offsets[s] + k`` is the weight of the values k levels below s.

    ``weights``: (m,) float64, the weight of each position.
    """
    below = np.zeros(level_offsets[-1], np.float64)
    for s in range(parent.size - 1, -1, -1):
        start = level_offsets[s]
        below[start] += weights[s]
        if s > 0:
            above = level_offsets[parent[s]] + 1
            for k in range(level_offsets[s + 1] - start):
                below[above + k] += below[start + k]
    return below


@kernel
def distance_sums(
    kind: int,
    targets: Int32Array,
    below: Float64Array,
    parent: Int32Array,
    depth: Int32Array,
    level_offsets: Int64Array,
    shift: float,
) -> tuple[Float64Array, Float64Array]:
    """Return Σ w·x and Σ w·x² for each target c, (k,) float64 each, with x = sd(c, value) − shift; O(H²) per target.

    The path from c is followed upwards. The values that leave it at ancestor s are those below s that are not below the
    child of s on the path; their distances to c depend on their depth alone. ``below``: see ``tree_weights_below``.
    """
    sums = np.zeros(targets.size, np.float64)
    squares = np.zeros(targets.size, np.float64)
    for i in range(targets.size):
        c = targets[i]
        child = -1
        s = c
        while s >= 0:
            start = level_offsets[s]
            for k in range(level_offsets[s + 1] - start):
                weight = below[start + k]
                if child >= 0 and 1 <= k <= level_offsets[child + 1] - level_offsets[child]:
                    weight -= below[level_offsets[child] + k - 1]
                if weight != 0.0:
                    x = tree_distance(kind, depth[s], depth[c], depth[s] + k) - shift
                    sums[i] += weight * x
                    squares[i] += weight * x * x
            child = s
            s = parent[s]
    return sums, squares


@kernel
def paths_from_root(positions: Int32Array, parent: Int32Array, depth: Int32Array, height: int) -> Int32Matrix:
    """Return (k, height) int32: the ancestors of each position at depth 1, 2, … and the position itself; −1 beyond."""
    paths = np.full((positions.size, height), -1, np.int32)
    for i in range(positions.size):
        s = positions[i]
        while s >= 0:
            paths[i, depth[s] - 1] = s
            s = parent[s]
    return paths


@kernel
def level_terms(kind: int, height: int, shift: float) -> Float64Cube:
    """Return (height, height, height) float64: the contribution of a common ancestor to the distance of two values.

    ``terms[t, i, j]`` is that of an ancestor at depth t + 1 for values at depths i + 1 and j + 1: f(t + 1, ·) − f(t,
    ·), and f(1, ·) − shift for the root. Summed over the common ancestors of two values, the terms give sd − shift.
    """
    terms = np.zeros((height, height, height), np.float64)
    for t in range(height):
        for i in range(t, height):
            for j in range(t, height):
                before = shift if t == 0 else tree_distance(kind, t, i + 1, j + 1)
                terms[t, i, j] = tree_distance(kind, t + 1, i + 1, j + 1) - before
    return terms


@kernel
def tree_product_sum(
    groups: Int64Array,
    a_depth: Int32Array,
    b_depth: Int32Array,
    b_paths: Int32Matrix,
    counts: Float64Array,
    a_terms: Float64Matrix,
    b_terms: Float64Cube,
) -> float:
    """Return one depth's contribution to Σ N ∘ (X_A N X_B): that of pairs of rows below the same ancestor of A.

    For each such pair, the terms of its common ancestors of B are multiplied by the term of the ancestor of A. Rows are
    sorted by ``groups`` (the ancestor of A at that depth), then by B's path, so that the rows below one ancestor of B
    are a run. A run contributes through its counts by both depths. ``a_terms``: (H_A, H_A) for that depth of A;
    ``b_terms``: (H_B, H_B, H_B).
    """
    total = 0.0
    cells = np.zeros((a_terms.shape[0], b_terms.shape[0]), np.float64)
    used_a = np.empty(cells.size, np.int64)
    used_b = np.empty(cells.size, np.int64)
    for u in range(b_terms.shape[0]):
        start = 0
        while start < groups.size:
            used = 0
            end = start
            ancestor = b_paths[start, u]
            while end < groups.size and groups[end] == groups[start] and b_paths[end, u] == ancestor:
                i = a_depth[end] - 1
                j = b_depth[end] - 1
                if cells[i, j] == 0.0:
                    used_a[used] = i
                    used_b[used] = j
                    used += 1
                cells[i, j] += counts[end]
                end += 1
            for x in range(used):
                for y in range(used):
                    if ancestor >= 0:
                        both = cells[used_a[x], used_b[x]] * cells[used_a[y], used_b[y]]
                        total += both * a_terms[used_a[x], used_a[y]] * b_terms[u, used_b[x], used_b[y]]
            for x in range(used):
                cells[used_a[x], used_b[x]] = 0.0
            start = end
    return total
