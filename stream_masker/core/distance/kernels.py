"""Compiled semantic distances of pairs, and of one concept to all others.

Each measure has one formula in one place, so that equal distances are equal floats in every implementation.
"""

from __future__ import annotations

import math

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.core.kernels.intrinsics import prefetch
from stream_masker.core.kernels.jit import borrowing, inlined, int64, kernel

WU_PALMER = 0
LOG_TAXONOMIC = 1

PREFETCH_TARGETS = 8
"""The ancestors of a pair are prefetched this many pairs ahead of their use (in a tree the first links up to them), and
their offsets twice as many."""


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
def tree_pairs(
    kind: int,
    a: Int32Array,
    b: Int32Array,
    chosen: Int32Array,
    parent: Int32Array,
    depth: Int32Array,
    result: Float64Array,
) -> None:
    """Set ``result[i]`` to the distance of the positions ``a[i]`` and ``b[i]`` in a tree, for each i in ``chosen``."""
    for k in range(chosen.size):
        ahead = chosen[min(k + PREFETCH_TARGETS, chosen.size - 1)]
        for position in (a[ahead], b[ahead]):
            prefetch(parent, int64(position))
            prefetch(depth, int64(position))
        i = chosen[k]
        result[i] = tree_pair(kind, a[i], b[i], parent, depth)


@kernel
def tree_to_all(kind: int, a: int, parent: Int32Array, depth: Int32Array) -> Float64Array:
    """Return (m,) float64: the distance of position ``a`` to every concept of a tree, in one pass, parents first."""
    m = parent.size
    lcs_depth = np.zeros(m, np.int32)
    c = a
    while c >= 0:
        lcs_depth[c] = depth[c]
        c = parent[c]
    result = np.empty(m, np.float64)
    for c in range(m):
        if lcs_depth[c] == 0:
            lcs_depth[c] = lcs_depth[parent[c]]
        result[c] = tree_distance(kind, lcs_depth[c], depth[a], depth[c])
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
    chosen: Int32Array,
    depth: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
    result: Float64Array,
) -> None:
    """Set ``result[i]`` to the distance of the positions ``a[i]`` and ``b[i]`` in a DAG, for each i in ``chosen``.

    Rows of ancestors are prefetched.
    """
    for j in range(chosen.size):
        if j + 2 * PREFETCH_TARGETS < chosen.size:
            prefetch(offsets, int64(a[chosen[j + 2 * PREFETCH_TARGETS]]))
            prefetch(offsets, int64(b[chosen[j + 2 * PREFETCH_TARGETS]]))
            for c in (a[chosen[j + PREFETCH_TARGETS]], b[chosen[j + PREFETCH_TARGETS]]):
                prefetch(ancestors, int64(offsets[c]))
                prefetch(ancestors, int64(offsets[c + 1]) - 1)
                prefetch(paths, int64(offsets[c + 1]) - 1)
        i = chosen[j]
        result[i] = dag_pair(kind, a[i], b[i], depth, offsets, ancestors, paths)


@kernel
def dag_wu_palmer_to_all(
    a: int,
    depth: Int32Array,
    parent_offsets: Int64Array,
    parents: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> Float64Array:
    """Return (m,) float64: the Wu–Palmer distance of position ``a`` to every concept of a DAG, in one pass over its
    links.

    A concept that subsumes a is its own least common subsumer with a. The common ancestors of any other concept and a
    are those of its parents and a, one link farther. So the depth of the subsumer is the greatest over the parents, and
    the sum of paths is the least over the parents with that depth, plus one.
    """
    m = depth.size
    deepest = np.zeros(m, np.int32)
    links = np.zeros(m, np.int32)
    for k in range(offsets[a], offsets[a + 1]):
        deepest[ancestors[k]] = depth[ancestors[k]]
        links[ancestors[k]] = paths[k]
    result = np.empty(m, np.float64)
    for c in range(m):
        if deepest[c] == 0:
            for k in range(parent_offsets[c], parent_offsets[c + 1]):
                p = parents[k]
                if deepest[p] > deepest[c] or (deepest[p] == deepest[c] and links[p] + 1 < links[c]):
                    deepest[c] = deepest[p]
                    links[c] = links[p] + 1
        result[c] = wu_palmer(deepest[c], links[c])
    return result


@kernel
def dag_log_taxonomic_to_all(a: int, offsets: Int64Array, ancestors: Int32Array) -> Float64Array:
    """Return (m,) float64: the logarithmic taxonomic distance of position ``a`` to every concept of a DAG."""
    m = offsets.size - 1
    is_ancestor = np.zeros(m, np.bool_)
    for k in range(offsets[a], offsets[a + 1]):
        is_ancestor[ancestors[k]] = True
    own = offsets[a + 1] - offsets[a]
    result = np.empty(m, np.float64)
    for c in range(m):
        common = 0
        for k in range(offsets[c], offsets[c + 1]):
            common += is_ancestor[ancestors[k]]
        result[c] = log_taxonomic(own + offsets[c + 1] - offsets[c] - common, common)
    return result
