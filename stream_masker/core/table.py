"""One table of distances: anchors × classes of interchangeable concepts.

Everything that a window's statistics and masks need from a concept are its distances to the *anchors*: the values that
occur, the references and the root. The common subsumers of a concept and an anchor are ancestors of anchors. So two
concepts whose shortest paths to all ancestors of anchors agree have the same distance to every anchor. They form a
*class*. An ancestor of an anchor is a class of its own. A table with one column a class is therefore exact over the
whole taxonomy, and far smaller than one with a column a concept.

The logarithmic distance depends on ancestors instead of paths: there, the concepts of a class have the same ancestors
among those of the anchors, and as many others. In a tree, both rules give the same classes.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array, offsets_from_lengths, ranges
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array, Int32Array, Int64Array, Levels
from stream_masker.core.ontology import Taxonomy

ROW_CACHE_BYTES = 1 << 24
"""The memory for rows of concepts that are no anchors."""

CELLS_AT_ONCE = 1 << 18
"""The number of cells that are read as floats at once (2 MB, which a processor's cache holds)."""

TIE = 1e-12
"""Totals are tied if they differ by no more than this, relative to the smallest one."""


class DistanceTable:
    """The distances of k anchors to the m concepts of a taxonomy, which form c classes. Immutable, but for a cache.

    * ``distance``: the distance, with its taxonomy.
    * ``anchors``: (k,) int32, ascending positions; the root is always one of them.
    * ``levels``: (L,) float64, the distinct distances of the taxonomy, ascending; the first is 0. All tables of one
      distance have the same.
    * ``rows``: (k, c) uint8 or uint16, the level of the distance between an anchor and every concept of a class.
    * ``class_of``: (m,) int32, the class of each concept. Classes are numbered by their smallest members.
    * ``members``, ``starts``: (m,) int32 and (c + 1,) int64; the concepts of class j, ascending, are
      ``members[starts[j]:starts[j + 1]]``.
    """

    def __init__(self, distance: Distance, anchors: Int32Array, class_of: Int32Array, rows: Levels) -> None:
        """Take what ``build`` computes."""
        self.distance = distance
        self.anchors = frozen_array(anchors)
        self.levels = distance.levels
        self.rows = frozen_array(rows)
        self.class_of = frozen_array(class_of)
        self.members: Int32Array = frozen_array(np.argsort(class_of, kind="stable").astype(np.int32))
        self.starts: Int64Array = frozen_array(offsets_from_lengths(np.bincount(class_of)))
        self._others: OrderedDict[int, Levels] = OrderedDict()

    @classmethod
    def build(
        cls, distance: Distance, anchors: NDArray[np.integer], previous: DistanceTable | None = None
    ) -> DistanceTable:
        """Build the table of some anchors, positions in any order, and the root.

        Rows of anchors that ``previous`` has too are taken from it. If it has the same anchors, it is returned.
        """
        wanted = np.union1d(np.zeros(1, np.int32), anchors).astype(np.int32)
        if previous is not None and previous.distance != distance:
            previous = None
        if previous is not None and np.array_equal(previous.anchors, wanted):
            return previous
        class_of = classes(distance, wanted)
        first = np.unique(class_of, return_index=True)[1].astype(np.int32)
        rows = np.empty((wanted.size, first.size), np.min_scalar_type(distance.levels.size - 1))
        kept = np.full(wanted.size, -1) if previous is None else previous.index_of(wanted)
        if previous is not None:
            columns = previous.class_of[first]
            for i in np.flatnonzero(kept >= 0):
                rows[i] = previous.rows[kept[i]][columns]
        new = np.flatnonzero(kept < 0)
        for start, block in distance.level_blocks(wanted[new], first):
            rows[new[start : start + len(block)]] = block
        return cls(distance, wanted, class_of, rows)

    def __repr__(self) -> str:
        k, c = self.rows.shape
        return f"DistanceTable({self.distance!r}, anchors={k}, classes={c}, levels={self.levels.size})"

    def index_of(self, positions: NDArray[np.integer]) -> Int32Array:
        """Return (n,) int32: the index of each of n positions among the anchors, -1 for those that are none."""
        index = np.minimum(np.searchsorted(self.anchors, positions), self.anchors.size - 1)
        return np.where(self.anchors[index] == positions, index, -1).astype(np.int32)

    def concept_row(self, position: int) -> Levels:
        """Return (m,): the level of the distance of the concept at a position to every concept; for any concept."""
        index = int(self.index_of(np.array([position]))[0])
        if index >= 0:
            return np.asarray(self.rows[index][self.class_of])
        return np.asarray(self.distance.level_matrix(np.array([position], np.int32))[0])

    def row(self, position: int) -> Levels:
        """Return (c,): the level of the distance of the concept at a position to each class.

        For an anchor, it is that of every member of the class. The members of a class may have different distances to
        another concept, if some of them lie below an ancestor of it that no anchor has: it is the least of them then. A
        class of one member, such as that of an anchor, has only one. Rows of other concepts are computed once, and kept
        up to ``ROW_CACHE_BYTES``.
        """
        index = int(self.index_of(np.array([position]))[0])
        if index >= 0:
            return np.asarray(self.rows[index])
        if position not in self._others:
            least = np.minimum.reduceat(self.concept_row(position)[self.members], self.starts[:-1])
            self._others[position] = frozen_array(least)
            if len(self._others) * least.nbytes > ROW_CACHE_BYTES and len(self._others) > 1:
                self._others.popitem(last=False)
        self._others.move_to_end(position)
        return self._others[position]

    def totals(self, counts: NDArray[np.number]) -> Float64Array:
        """Return (c,) float64: Σ counts · distance over the anchors for each class. ``counts``: (k,)."""
        totals = np.zeros(self.rows.shape[1])
        present = np.flatnonzero(counts)
        step = max(1, CELLS_AT_ONCE // self.rows.shape[1])
        for start in range(0, present.size, step):
            some = present[start : start + step]
            totals += counts[some].astype(np.float64) @ self.levels.take(self.rows[some], mode="clip")
        return totals

    def mean(self, counts: NDArray[np.number]) -> int:
        """Return sMean, the position of least Σ counts · distance over every concept (2017: equation 13).

        Of tied concepts, it is the one of least depth, then of smallest id. ``counts``: (k,), of each anchor's values.
        """
        totals, tau = self.totals(counts), self.distance.taxonomy
        return least_total(np.arange(len(tau), dtype=np.int32), totals[self.class_of], tau)


def least_total(concepts: Int32Array, totals: Float64Array, tau: Taxonomy) -> int:
    """Return the concept of least total, a position; of tied ones, that of least depth, then of smallest id.

    concepts, totals: (n,) positions, and of each the sum of its distances to values.
    """
    tied = concepts[totals <= totals.min() * (1.0 + TIE)]
    depth = tau.depth[tied]
    return int(min(tied[depth == depth.min()].tolist(), key=lambda c: tau.ids[c]))


def classes(distance: Distance, anchors: Int32Array) -> Int32Array:
    """Return (m,) int32: the class of each concept, numbered by its smallest member. ``anchors``: (k,) positions."""
    tau, closure = distance.taxonomy, distance.taxonomy.closure
    sizes = np.diff(closure.offsets)
    inside = np.zeros(len(tau), np.bool_)
    inside[closure.ancestors[ranges(closure.offsets[anchors], sizes[anchors])]] = True
    shared = inside[closure.ancestors]
    lengths = np.add.reduceat(shared, closure.offsets[:-1], dtype=np.int64)
    words = closure.ancestors[shared].astype(np.int64)
    if distance.by_counts:
        outside = _fold(words, offsets_from_lengths(lengths), ~inside, sizes)
    else:
        words = words * (int(closure.paths.max()) + 1) + closure.paths[shared]
        outside = _fold(words, offsets_from_lengths(lengths), ~inside, np.zeros_like(sizes))
    labels = np.empty(len(tau), np.int64)
    labels[inside] = np.arange(np.count_nonzero(inside))
    labels[~inside] = outside + len(tau)
    _, first, label = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int32)
    rank[np.argsort(first)] = np.arange(first.size, dtype=np.int32)
    return np.asarray(rank[label])


def _fold(words: Int64Array, offsets: Int64Array, some: BoolArray, keys: Int64Array) -> Int64Array:
    """Return (n,) int64 labels that are equal for those of some concepts with equal rows of words and equal keys.

    words, offsets: compressed rows of numbers, a row for each of m concepts. some: (m,) bool, of which n are set.
    keys: (m,).
    """
    starts, lengths = offsets[:-1][some], np.diff(offsets)[some]
    span = int(words.max(initial=0)) + 1
    labels, used = keys[some], int(keys.max(initial=0)) + 1
    for k in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > k)
        distinct, folded = np.unique(labels[longer] * span + words[starts[longer] + k], return_inverse=True)
        labels[longer] = folded + used
        used += distinct.size
    return labels
