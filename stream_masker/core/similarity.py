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
from itertools import combinations

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import BoolArray, Float64Matrix, Int64Array
from stream_masker.core.statistics.counts import Counts


@dataclass(frozen=True, slots=True, eq=False)
class ValueGraph:
    """The graph of the n values in a window. Immutable. Memory and time grow with n², so it is for few values.

    * ``values``: for each attribute j, (v,) int64 positions of its values, ascending; they are the vertices
      ``firsts[j]`` … ``firsts[j + 1] - 1``.
    * ``edges``: (n, n) float64, a: the number of edges between two vertices.
    """

    values: tuple[Int64Array, ...]
    firsts: Int64Array
    edges: Float64Matrix

    @classmethod
    def of(cls, counts: Counts, sizes: tuple[int, ...], *, multigraph: bool) -> ValueGraph:
        """Build the graph from the counts of a window; ``sizes``: the number of concepts of each taxonomy."""
        values = tuple(column.keys for column in counts.values)
        firsts = offsets_from_lengths(np.array([len(found) for found in values]))
        edges = np.zeros((firsts[-1], firsts[-1]))
        for (i, j), pair in counts.pairs.items():
            a, b = np.divmod(pair.keys, sizes[j])
            u, w = firsts[i] + np.searchsorted(values[i], a), firsts[j] + np.searchsorted(values[j], b)
            edges[u, w] = edges[w, u] = pair.counts if multigraph else 1.0
        return cls(values, firsts, edges)

    def similarities(self, *, threshold: float, c1: float, c2: float) -> list[Float64Matrix]:
        """S: for each attribute (v, v) float64, in the order of ``values``."""
        first = self.direct()
        second = self.transitive(first, threshold)
        return [c1 * direct + c2 * transitive for direct, transitive in zip(first, second, strict=True)]

    def direct(self) -> list[Float64Matrix]:
        """S': for each attribute (v, v) float64."""
        roots = np.sqrt(self.edges)
        return [self._scaled(x, roots[block] @ roots[block].T) for x, block in enumerate(self._blocks)]

    def transitive(self, direct: list[Float64Matrix], threshold: float) -> list[Float64Matrix]:
        """S'': for each attribute (v, v) float64. ``direct``: S'; ``threshold``: T."""
        similar = [matrix > threshold for matrix in direct]
        return [self._scaled(x, self._shared(x, similar)) for x in range(len(self.values))]

    def _shared(self, x: int, similar: list[BoolArray]) -> Float64Matrix:
        """Return Σ √(edges to i · edges to j) over the merged vertices, for each two values of attribute x."""
        shared, edges = np.zeros((len(self.values[x]),) * 2), self.edges[self._blocks[x]]
        for y, block in enumerate(self._blocks):
            for i, j in combinations(range(len(shared)), 2) if y != x else ():
                to_i, to_j = edges[i, block], edges[j, block]
                group = merged((to_i > 0)[:, None] & (to_j > 0)[None, :] & similar[y])
                masses = np.bincount(group, to_i), np.bincount(group, to_j)
                shared[i, j] += np.sqrt(masses[0] * masses[1]).sum()
        return shared + shared.T

    def _scaled(self, x: int, shared: Float64Matrix) -> Float64Matrix:
        """Return the shared edges of values of attribute x over √(d(i)·d(j)), at most 1, and 1 on the diagonal."""
        degrees = np.sqrt(self.edges[self._blocks[x]].sum(axis=1))
        scale = np.outer(degrees, degrees)
        scaled = np.minimum(shared / np.where(scale > 0.0, scale, 1.0), 1.0)
        np.fill_diagonal(scaled, 1.0)
        return scaled

    @property
    def _blocks(self) -> list[slice]:
        """The vertices of each attribute."""
        return [slice(a, b) for a, b in zip(self.firsts[:-1].tolist(), self.firsts[1:].tolist(), strict=True)]


def merged(linked: BoolArray) -> Int64Array:
    """Return (v,) int64: the least vertex that each vertex is connected with. ``linked``: (v, v), in either order."""
    either, group = linked | linked.T, np.arange(len(linked))
    while True:
        least = np.minimum(group, np.where(either, group[None, :], len(group)).min(axis=1, initial=len(group)))
        if np.array_equal(least, group):
            return group
        group = least
