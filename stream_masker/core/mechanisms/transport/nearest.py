"""The search for the nearest of some values, for concepts that are none of them.

Under each concept u of the taxonomy there is a value that is the fewest links below it. The distance of a concept c to
a value whose least common subsumer with c is u is at least that of the fewest links, so the least of these bounds over
the ancestors u of c is a bound for all values. If the value that has the bound is that far from c, it is the nearest
one: in a tree always, in a graph nearly always. Else all values are compared.

A concept therefore costs O(ancestors), not O(values), for any size of the taxonomy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.distance.kernels import WU_PALMER, wu_palmer
from stream_masker.core.distance.many import Sources
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.core.kernels.jit import int32, int64, kernel

COMPARED_AT_ONCE = 512
"""The number of concepts that are compared with all values at once."""


class ValuesBelow(NamedTuple):
    """For each concept of the taxonomy, the value that is the fewest links below it.

    * ``links``: (m,) int32, ``NOTHING_BELOW`` if there is none. ``position``: (m,) int32, the least of equals.
    """

    links: Int32Array
    position: Int32Array


NOTHING_BELOW = np.iinfo(np.int32).max


def nearest_values(distance: Distance, positions: Int32Array, below: ValuesBelow, codes: Int32Array) -> Int32Array:
    """Return (n,) int32: the index of the value nearest to each code; among equally near ones, that of least position.

    * ``positions``: (k,) int32, those of the values, ascending. ``below``: see ``values_below``.
    """
    if distance.kind != WU_PALMER:
        return _compared(distance, positions, codes)
    sources = Sources.of(distance.taxonomy, codes)
    nearest, bounds = least_bounds(sources.offsets, sources.ancestors, sources.paths, distance.taxonomy.depth, below)
    found = np.searchsorted(positions, nearest).astype(np.int32)
    unsure = np.flatnonzero(distance.pairs(codes, nearest) > bounds)
    if unsure.size:
        found[unsure] = _compared(distance, positions, codes[unsure])
    return found


def _compared(distance: Distance, positions: Int32Array, codes: Int32Array) -> Int32Array:
    parts = [codes[start : start + COMPARED_AT_ONCE] for start in range(0, codes.size, COMPARED_AT_ONCE)]
    return np.concatenate([np.argmin(distance.between(part, positions), axis=1) for part in parts]).astype(np.int32)


def values_below(distance: Distance, positions: Int32Array) -> ValuesBelow:
    """Find the value below each concept; ``positions``: (k,) int32, those of the values."""
    tau = distance.taxonomy
    below = ValuesBelow(np.full(len(tau), NOTHING_BELOW, np.int32), np.zeros(len(tau), np.int32))
    below.links[positions] = 0
    below.position[positions] = positions
    raise_values(below, tau.parent_offsets, tau.parents)
    return below


@kernel
def raise_values(below: ValuesBelow, parent_offsets: Int64Array, parents: Int32Array) -> None:
    """Raise the value of each concept to its parents, children first."""
    for c in range(below.links.size - 1, 0, -1):
        if below.links[c] != NOTHING_BELOW:
            links = int32(below.links[c] + 1)
            for k in range(parent_offsets[c], parent_offsets[c + 1]):
                p = parents[k]
                nearer = links < below.links[p]
                if nearer or (links == below.links[p] and below.position[c] < below.position[p]):
                    below.links[p] = links
                    below.position[p] = below.position[c]


@kernel
def least_bounds(
    offsets: Int64Array, ancestors: Int32Array, paths: Int32Array, depth: Int32Array, below: ValuesBelow
) -> tuple[Int32Array, Float64Array]:
    """Return for each of n concepts the value of the least bound, and the bound; for the first arrays see
    ``Sources``."""
    nearest = np.zeros(offsets.size - 1, np.int32)
    bounds = np.full(offsets.size - 1, np.inf)
    for i in range(nearest.size):
        for k in range(offsets[i], offsets[i + 1]):
            u = ancestors[k]
            if below.links[u] != NOTHING_BELOW:
                bound = wu_palmer(depth[u], paths[k] + below.links[u])
                if bound < bounds[i] or (bound == bounds[i] and below.position[u] < nearest[i]):
                    bounds[i] = bound
                    nearest[i] = below.position[u]
    return nearest, bounds


@kernel
def locate_in_tree(parent: Int32Array, depth: Int32Array, below: ValuesBelow, index_of: Int32Array) -> None:
    """Set ``index_of`` of each concept of a tree that is no value, −1 so far, to that of its nearest value (Wu–Palmer).

    In a tree the least bound is the distance of its value. A concept's search ends at the ancestor above which even a
    value without links below it would be farther.
    """
    for c in range(parent.size):
        if index_of[c] < 0:
            nearest = int32(0)
            least = np.inf
            links = int64(0)
            u = int64(c)
            while u >= 0 and wu_palmer(depth[u], links) <= least:
                if below.links[u] != NOTHING_BELOW:
                    bound = wu_palmer(depth[u], links + below.links[u])
                    if bound < least or (bound == least and below.position[u] < nearest):
                        least = bound
                        nearest = below.position[u]
                u = int64(parent[u])
                links += 1
            index_of[c] = index_of[nearest]
