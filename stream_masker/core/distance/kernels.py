"""Compiled semantic distances of pairs.

Each measure has one formula in one place, so that equal distances are equal floats in every implementation.
"""

from __future__ import annotations

import math

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.core.kernels.jit import borrowing, inlined, int64, kernel

WU_PALMER = 0
LOG_TAXONOMIC = 1


@inlined
def wu_palmer(depth: int, links: int) -> float:
    """Return the Wu–Palmer distance (2017: equations 11 and 12), from the depth of the subsumer and the links up to
    it."""
    return 1.0 - (2.0 * depth) / (2.0 * depth + links)


@inlined
def log_taxonomic(union: int, common: int) -> float:
    """Return the logarithmic distance (2013: equation 1), from the numbers of all ancestors and of common ancestors."""
    return math.log2(1.0 + (union - common) / union)


@kernel
def tree_distance(kind: int, lcs_depth: int, depth_a: int, depth_c: int) -> float:
    """Return the distance of two concepts of a tree, from their depths and that of their least common subsumer."""
    if kind == WU_PALMER:
        return wu_palmer(lcs_depth, depth_a + depth_c - 2 * lcs_depth)
    return log_taxonomic(depth_a + depth_c - lcs_depth, lcs_depth)


@borrowing
def tree_pair(kind: int, a: int, b: int, parent: Int32Array, depth: Int32Array) -> float:
    """Return the distance of the positions ``a`` and ``b`` in a tree.

    Which of two positions is the greater one is not a branch: it would be mispredicted at every other step.
    """
    lcs, other = a, b
    while lcs != other:
        greater = max(lcs, other)
        other = min(lcs, other)
        lcs = parent[greater]
    return tree_distance(kind, depth[lcs], depth[a], depth[b])


@kernel
def tree_pairs(kind: int, a: Int32Array, b: Int32Array, parent: Int32Array, depth: Int32Array) -> Float64Array:
    """Return (n,) float64: the distances of the positions ``a[i]`` and ``b[i]`` in a tree."""
    result = np.empty(a.size, np.float64)
    for i in range(a.size):
        result[i] = tree_pair(kind, a[i], b[i], parent, depth)
    return result


@borrowing
def dag_pair(
    kind: int,
    a: int,
    b: int,
    depth: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> float:
    """Return the distance of the positions ``a`` and ``b`` in a DAG.

    The ancestors of both concepts are merged in descending order, so the deepest common ancestors come first.
    """
    p = offsets[a]
    q = offsets[b]
    end_p = offsets[a + 1]
    end_q = offsets[b + 1]
    both = end_p - p + end_q - q
    common = 0
    deepest = 0
    links = int64(0)
    while p < end_p and q < end_q:
        first = ancestors[p]
        second = ancestors[q]
        if first == second:
            level = depth[first]
            if kind == WU_PALMER and level < deepest:
                break
            total = int64(paths[p]) + int64(paths[q])
            if common == 0 or (level == deepest and total < links):
                deepest = level
                links = total
            common += 1
        p += first >= second
        q += second >= first
    if kind == WU_PALMER:
        return wu_palmer(deepest, links)
    return log_taxonomic(both - common, common)


@kernel
def dag_pairs(
    kind: int,
    a: Int32Array,
    b: Int32Array,
    depth: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> Float64Array:
    """Return (n,) float64: the distances of the positions ``a[i]`` and ``b[i]`` in a DAG."""
    result = np.empty(a.size, np.float64)
    for i in range(a.size):
        result[i] = dag_pair(kind, a[i], b[i], depth, offsets, ancestors, paths)
    return result
