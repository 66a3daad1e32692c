"""Compiled distances, as indices into the levels of a distance (``core.distance``).

``scale`` gives the level of a pair of terms: the depth of the least common subsumer and the links of both concepts to
it, or the number of common ancestors and of those that only one concept has. ``offsets``, ``ancestors`` and ``paths``
are those of the taxonomy's closure.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int32Matrix, Int64Array
from stream_masker.core.kernels.jit import int64, kernel

LINK_BITS = 32
LINK_MASK = (1 << LINK_BITS) - 1


@kernel
def fill_pairs(
    levels: Int32Array,
    scale: Int32Matrix,
    by_counts: bool,
    a: Int32Array,
    b: Int32Array,
    depth: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> None:
    """Fill ``levels``, (n,), with those of n pairs of positions.

    The ancestors of both concepts are merged in descending order, so the deepest common ancestors come first.
    """
    for i in range(a.size):
        p, q = offsets[a[i]], offsets[b[i]]
        end_p, end_q = offsets[a[i] + 1], offsets[b[i] + 1]
        both = end_p - p + end_q - q
        common, deepest, links = 0, 0, 0
        while p < end_p and q < end_q:
            first, second = ancestors[p], ancestors[q]
            if first == second:
                if not by_counts and depth[first] < deepest:
                    break
                total = int64(paths[p]) + int64(paths[q])
                if depth[first] > deepest or (depth[first] == deepest and total < links):
                    deepest, links = int64(depth[first]), total
                common += 1
            p += first >= second
            q += second >= first
        levels[i] = scale[common, both - 2 * common] if by_counts else scale[deepest, links]


@kernel
def fill_by_subsumers(
    levels: Int32Matrix,
    scale: Int32Matrix,
    sources: Int32Array,
    targets: Int32Array,
    member: Int32Array,
    parent_offsets: Int64Array,
    parents: Int32Array,
    depth: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> None:
    """Fill ``levels``, (k, t), with those of k sources and t targets, from their least common subsumers.

    The members are the targets and their ancestors, parents first. The best subsumer that a member shares with a source
    is the member itself, if it subsumes the source, or that of one of its parents, one link farther. It is kept as
    ``depth · 2³² − links``, which prefers greater depth, then fewer links.

    sources: (k,) positions. targets: (t,) members. member: (m,) of each position, -1 for none. parent_offsets, parents:
    the parents of each member, as members. depth: of each position.
    """
    best = np.empty(parent_offsets.size - 1, np.int64)
    for i in range(sources.size):
        best[:] = 0
        for k in range(offsets[sources[i]], offsets[sources[i] + 1]):
            if member[ancestors[k]] >= 0:
                best[member[ancestors[k]]] = (int64(depth[ancestors[k]]) << LINK_BITS) - paths[k]
        for c in range(best.size):
            for k in range(parent_offsets[c], parent_offsets[c + 1]):
                best[c] = max(best[c], best[parents[k]] - 1)
        for t in range(targets.size):
            deepest = (best[targets[t]] + LINK_MASK) >> LINK_BITS
            levels[i, t] = scale[deepest, (deepest << LINK_BITS) - best[targets[t]]]
