"""A preorder walk of a taxonomy, in which concepts that are near each other have near indices."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.core.kernels.jit import kernel


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
