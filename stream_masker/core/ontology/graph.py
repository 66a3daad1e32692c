"""Compiled graph algorithms over rooted DAGs of is-a links, given as compressed rows (offsets and indices).

m is the number of concepts. ``longest_depths`` and ``breadth_first`` accept concepts in any order; the others require
that the position of every parent is less than those of its children, as in a ``Taxonomy``.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import BoolArray, Int32Array, Int64Array
from stream_masker.core.kernels.jit import kernel


@kernel
def longest_depths(parent_counts: Int64Array, child_offsets: Int64Array, children: Int32Array) -> Int32Array:
    """Return (m,) int32: the number of nodes on the longest path from a root to each concept.

    It is 1 for roots, and 0 for concepts in or below a cycle. Every concept enters the queue after its last parent
    (Kahn's algorithm).
    """
    m = parent_counts.size
    depth = np.zeros(m, np.int32)
    reached = np.zeros(m, np.int32)
    waiting = parent_counts.copy()
    queue = np.empty(m, np.int64)
    tail = 0
    for c in range(m):
        if waiting[c] == 0:
            reached[c] = 1
            queue[tail] = c
            tail += 1
    head = 0
    while head < tail:
        c = queue[head]
        head += 1
        depth[c] = reached[c]
        for k in range(child_offsets[c], child_offsets[c + 1]):
            child = children[k]
            reached[child] = max(reached[child], depth[c] + 1)
            waiting[child] -= 1
            if waiting[child] == 0:
                queue[tail] = child
                tail += 1
    return depth


@kernel
def breadth_first(depth: Int32Array, child_offsets: Int64Array, children: Int32Array) -> Int64Array:
    """Return (m,) int64: the concepts ordered by depth, then by the rank of their first parent in this order, then by
    index.

    ``depth``: the result of ``longest_depths``, for one root. All parents of a concept have smaller depths, so they are
    visited before it, in the resulting order: the first visit of a concept comes from its first parent.
    """
    m = depth.size
    next_rank = np.zeros(depth.max() + 2, np.int64)
    for c in range(m):
        next_rank[depth[c] + 1] += 1
    next_rank = np.cumsum(next_rank)
    order = np.empty(m, np.int64)
    visited = np.zeros(m, np.bool_)
    order[0] = np.argmin(depth)
    for k in range(m):
        c = order[k]
        for j in range(child_offsets[c], child_offsets[c + 1]):
            child = children[j]
            if not visited[child]:
                visited[child] = True
                order[next_rank[depth[child]]] = child
                next_rank[depth[child]] += 1
    return order


@kernel
def descendants_of(start: int, child_offsets: Int64Array, children: Int32Array) -> BoolArray:
    """Return (m,) bool: whether each concept is ``start`` or one of its descendants."""
    m = child_offsets.size - 1
    below = np.zeros(m, np.bool_)
    stack = np.empty(m, np.int64)
    stack[0] = start
    below[start] = True
    top = 1
    while top > 0:
        top -= 1
        c = stack[top]
        for k in range(child_offsets[c], child_offsets[c + 1]):
            child = children[k]
            if not below[child]:
                below[child] = True
                stack[top] = child
                top += 1
    return below


@kernel
def closure(parent_offsets: Int64Array, parents: Int32Array) -> tuple[Int64Array, Int32Array, Int32Array]:
    """Return the ancestors of every concept, including itself: offsets (m + 1,), positions (descending), shortest
    paths.

    The ancestors of a concept are itself, at 0 links, and the ancestors of its parents, one link farther. Parents come
    first, so their rows are complete.
    """
    m = parent_offsets.size - 1
    offsets = np.zeros(m + 1, np.int64)
    positions = np.empty(max(16, 8 * m), np.int32)
    paths = np.empty(max(16, 8 * m), np.int32)
    stamp = np.full(m, -1, np.int32)
    nearest = np.zeros(m, np.int32)
    ancestors = np.empty(m, np.int32)
    for c in range(m):
        ancestors[0] = c
        nearest[c] = 0
        size = 1
        for k in range(parent_offsets[c], parent_offsets[c + 1]):
            p = parents[k]
            for j in range(offsets[p], offsets[p + 1]):
                s = positions[j]
                if stamp[s] != c:
                    stamp[s] = c
                    nearest[s] = paths[j] + 1
                    ancestors[size] = s
                    size += 1
                elif paths[j] + 1 < nearest[s]:
                    nearest[s] = paths[j] + 1
        start = offsets[c]
        while start + size > positions.size:
            positions = np.concatenate((positions, np.empty(positions.size, np.int32)))
            paths = np.concatenate((paths, np.empty(paths.size, np.int32)))
        if parent_offsets[c + 1] - parent_offsets[c] > 1:
            ancestors[:size].sort()
            for j in range(size):
                positions[start + j] = ancestors[size - 1 - j]
        else:
            positions[start : start + size] = ancestors[:size]
        for j in range(start, start + size):
            paths[j] = nearest[positions[j]]
        offsets[c + 1] = start + size
    return offsets, positions[: offsets[m]].copy(), paths[: offsets[m]].copy()


@kernel
def level_ranges(parent: Int32Array) -> tuple[Int64Array, Int32Array, Int32Array]:
    """Return the ranges of positions of the descendants k levels below s, for every concept s of a tree, k = 0 … height
    of s.

    Concepts are ordered by depth, then by the position of their parent, so these descendants are contiguous.
    ``parent``: (m,) int32, -1 for the root. Return compressed rows: offsets (m + 1,), first positions, and ends (half
    open).
    """
    m = parent.size
    height = np.zeros(m, np.int64)
    for c in range(m - 1, 0, -1):
        height[parent[c]] = max(height[parent[c]], height[c] + 1)
    offsets = np.zeros(m + 1, np.int64)
    for c in range(m):
        offsets[c + 1] = offsets[c] + height[c] + 1
    lo = np.full(offsets[m], m, np.int32)
    hi = np.zeros(offsets[m], np.int32)
    for c in range(m - 1, -1, -1):
        start = offsets[c]
        lo[start] = c
        hi[start] = c + 1
        if c > 0:
            above = offsets[parent[c]] + 1
            for k in range(height[c] + 1):
                lo[above + k] = min(lo[above + k], lo[start + k])
                hi[above + k] = max(hi[above + k], hi[start + k])
    return offsets, lo, hi


def compress(rows: Int64Array, columns: Int64Array, size: int) -> tuple[Int64Array, Int32Array]:
    """Compressed rows of the links (rows[k], columns[k]): offsets (size + 1,), and columns, ascending in each row."""
    links = np.sort(rows * size + columns)
    return offsets_from_lengths(np.bincount(rows, minlength=size)), (links % size).astype(np.int32)


def first_parents_of(parent_offsets: Int64Array, parents: Int32Array) -> Int32Array:
    """Return (m,) int32: the first parent of each concept, 0 for the root.

    The parents of concept c are ``parents[parent_offsets[c]:parent_offsets[c + 1]]``.
    """
    return np.concatenate((np.zeros(1, np.int32), parents[parent_offsets[1:-1]]))


@kernel
def preorder_of(parents: Int32Array) -> Int32Array:
    """Return (m,) the index of each concept in a preorder walk of the tree with these parents. ``parents[0]`` is not
    used."""
    m = parents.size
    size = np.ones(m, np.int32)
    for c in range(m - 1, 0, -1):
        size[parents[c]] += size[c]
    index = np.zeros(m, np.int32)
    free = np.ones(m, np.int32)
    for c in range(1, m):
        index[c] = free[parents[c]]
        free[parents[c]] += size[c]
        free[c] = index[c] + 1
    return index
