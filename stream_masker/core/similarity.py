"""Similarity of nominal values by the values that they occur with, without a taxonomy (2012: section 2).

The vertices of a graph are the values of all attributes. Values that occur in the same record are adjacent: in the
simple graph G by one edge, in the multigraph H by one edge for each such record. Values of the same attribute are
never adjacent, and similarity is defined between values of the same attribute only.

* S'ij = Σk √(aik·akj) / √(d(i)·d(j)) (equation 2), in [0, 1], and 1 on the diagonal. aik is the number of edges between
  i and k, and d(i) the number of edges at i. A value without edges is similar only to itself.
* S''ij is S'ij of the graph after merging for i and j: values c and d of another attribute are merged if c is adjacent
  to i, d is adjacent to j, and S'cd > T; chains of such pairs become one vertex (algorithm 1). Merging keeps parallel
  edges and therefore the degrees. The paper does not say so, but its Table 2 requires it.
* Sij = c1·S'ij + c2·S''ij (equation 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int32Array, Int64Array, Int64Matrix
from stream_masker.core.kernels.jit import kernel, part
from stream_masker.core.statistics.counts import Counts, SparseCounts


@dataclass(frozen=True, slots=True, eq=False)
class ValueGraph:
    """The graph of the values in a window.

    values: for each attribute j, (v,) int64 positions of its values, ascending; they are the vertices ``firsts[j]`` …
    ``firsts[j + 1] - 1``.
    neighbours: int32, the neighbours of all vertices; those of vertex u that are values of attribute y are
    ``neighbours[starts[u, y]:starts[u, y + 1]]``, ascending.
    edges: float64, the number of edges to each neighbour.
    """

    values: tuple[Int64Array, ...]
    firsts: Int64Array
    starts: Int64Array
    neighbours: Int32Array
    edges: Float64Array

    @classmethod
    def of(cls, counts: Counts, sizes: tuple[int, ...], *, multigraph: bool, most_values: int) -> ValueGraph:
        """Build the graph from the counts of a window.

        ``sizes``: the number of concepts in the taxonomy of each attribute. ``most_values``: the
        maximum number of values of each attribute: the most frequent, then those with the least positions.
        """
        values = tuple(most_frequent(column, most_values) for column in counts.values)
        firsts = np.cumsum([0, *map(len, values)])
        links = [_links(counts, i, j, values, firsts, sizes[j]) for i, j in sorted(counts.pairs)]
        ends = np.concatenate([np.empty((0, 3), np.int64), *links])
        both = np.concatenate((ends, ends[:, [1, 0, 2]]))
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        starts = np.searchsorted(both[:, 0] * (firsts[-1] + 1) + both[:, 1], _bounds(firsts))
        edges = both[:, 2].astype(np.float64) if multigraph else np.ones(len(both))
        return cls(values, firsts, starts, both[:, 1].astype(np.int32), edges)

    def similarities(self, *, threshold: float, c1: float, c2: float) -> list[Float64Array]:
        """S: for each attribute (v, v) float64, in the order of ``values``."""
        first = self.direct()
        second = self.transitive(first, threshold)
        return [c1 * direct + c2 * transitive for direct, transitive in zip(first, second, strict=True)]

    def direct(self) -> list[Float64Array]:
        """S': for each attribute (v, v) float64."""
        roots, degrees = np.sqrt(self.edges), self._degrees()
        return [
            np.asarray(direct_similarity(x, self.firsts, self.starts, self.neighbours, roots, degrees))
            for x in range(len(self.values))
        ]

    def transitive(self, direct: list[Float64Array], threshold: float) -> list[Float64Array]:
        """S'': for each attribute (v, v) float64. ``direct``: S'; ``threshold``: T."""
        similar = np.concatenate([(matrix > threshold).ravel() for matrix in direct])
        corners = np.cumsum([0, *(matrix.size for matrix in direct)])
        degrees = self._degrees()
        graph = (self.firsts, self.starts, self.neighbours, self.edges)
        return [
            np.asarray(transitive_similarity(x, *graph, similar, corners, degrees)) for x in range(len(self.values))
        ]

    def _degrees(self) -> Float64Array:
        before = np.concatenate(([0.0], np.cumsum(self.edges)))
        return before[self.starts[:, -1]] - before[self.starts[:, 0]]


def most_frequent(column: SparseCounts, most: int) -> Int64Array:
    """Return the positions, ascending, of the ``most`` most frequent values; ties: the least positions."""
    rows = np.lexsort((column.keys, -column.counts))[:most]
    return np.sort(column.keys[rows])


def _links(counts: Counts, i: int, j: int, values: tuple[Int64Array, ...], firsts: Int64Array, size: int) -> Int64Array:
    """Return (links, 3) int64: vertex of attribute i, vertex of attribute j, and number of edges; for included
    values."""
    pair = counts.pairs[i, j]
    a, b = np.divmod(pair.keys, size)
    kept = np.isin(a, values[i]) & np.isin(b, values[j])
    u = firsts[i] + np.searchsorted(values[i], a[kept])
    w = firsts[j] + np.searchsorted(values[j], b[kept])
    return np.stack((u, w, pair.counts[kept]), axis=1)


def _bounds(firsts: Int64Array) -> Int64Array:
    """Return (vertices, attributes + 1) int64: vertex·(n + 1) + the first vertex of each attribute, n after the last
    one."""
    n = firsts[-1]
    keys: Int64Array = np.arange(n, dtype=np.int64)[:, None] * (n + 1) + firsts[None, :]
    return keys


@kernel
def direct_similarity(
    x: int, firsts: Int64Array, starts: Int64Matrix, neighbours: Int32Array, roots: Float64Array, degrees: Float64Array
) -> Float64Matrix:
    """S' of the values of attribute x. ``roots``: the square roots of ``edges``."""
    first = firsts[x]
    size = firsts[x + 1] - first
    result = np.zeros((size, size), np.float64)
    for i in range(size):
        u = first + i
        for p in range(starts[u, 0], starts[u, -1]):
            k = neighbours[p]
            for q in range(starts[k, x], starts[k, x + 1]):
                result[i, neighbours[q] - first] += roots[p] * roots[q]
        for j in range(size):
            if result[i, j] > 0.0:
                result[i, j] = min(1.0, result[i, j] / np.sqrt(degrees[u] * degrees[first + j]))
        result[i, i] = 1.0
    return result


@part
def find_root(parent: Int64Array, c: int) -> int:
    """Return the representative of the merged vertex that contains c (union-find with path halving)."""
    while parent[c] != c:
        parent[c] = parent[parent[c]]
        c = parent[c]
    return c


@part
def shared_neighbours(
    u: int,
    w: int,
    y: int,
    firsts: Int64Array,
    starts: Int64Matrix,
    neighbours: Int32Array,
    edges: Float64Array,
    similar: BoolArray,
    corner: int,
    parent: Int64Array,
    mass: Float64Matrix,
) -> float:
    """Return Σ √(edges to u · edges to w) over the merged vertices of attribute y.

    ``parent``, ``mass``: scratch arrays.
    """
    first = firsts[y]
    size = firsts[y + 1] - first
    for v in (u, w):
        for p in range(starts[v, y], starts[v, y + 1]):
            parent[neighbours[p]] = neighbours[p]
            mass[neighbours[p], 0] = 0.0
            mass[neighbours[p], 1] = 0.0
    for p in range(starts[u, y], starts[u, y + 1]):
        row = corner + (neighbours[p] - first) * size - first
        for q in range(starts[w, y], starts[w, y + 1]):
            if similar[row + neighbours[q]]:
                parent[find_root(parent, neighbours[q])] = find_root(parent, neighbours[p])
    for p in range(starts[u, y], starts[u, y + 1]):
        mass[find_root(parent, neighbours[p]), 0] += edges[p]
    total = 0.0
    for q in range(starts[w, y], starts[w, y + 1]):
        mass[find_root(parent, neighbours[q]), 1] += edges[q]
    for q in range(starts[w, y], starts[w, y + 1]):
        c = find_root(parent, neighbours[q])
        total += np.sqrt(mass[c, 0] * mass[c, 1])
        mass[c, 1] = 0.0
    return total


@kernel
def transitive_similarity(
    x: int,
    firsts: Int64Array,
    starts: Int64Matrix,
    neighbours: Int32Array,
    edges: Float64Array,
    similar: BoolArray,
    corners: Int64Array,
    degrees: Float64Array,
) -> Float64Matrix:
    """S'' of the values of attribute x.

    ``similar``: whether S' > T, row by row; the matrix of attribute y starts at ``corners[y]``.
    """
    first = firsts[x]
    size = firsts[x + 1] - first
    parent = np.zeros(firsts[-1], np.int64)
    mass = np.zeros((firsts[-1], 2), np.float64)
    result = np.eye(size)
    for i in range(size):
        for j in range(i + 1, size):
            u = first + i
            w = first + j
            total = 0.0
            for y in range(firsts.size - 1):
                if y != x:
                    total += shared_neighbours(
                        u, w, y, firsts, starts, neighbours, edges, similar, corners[y], parent, mass
                    )
            if total > 0.0:
                result[i, j] = min(1.0, total / np.sqrt(degrees[u] * degrees[w]))
                result[j, i] = result[i, j]
    return result
