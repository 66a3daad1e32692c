"""One table of distances: anchors × classes of interchangeable concepts.

All that a window's statistics and masks need from a concept is its distances to the *anchors*: the values that occur,
the references and the root. The common subsumers of a concept and an anchor are ancestors of anchors. So two concepts
whose shortest paths to all ancestors of anchors agree have the same distance to every anchor. They form a *class*. An
ancestor of an anchor is a class of its own. A table with one column a class is therefore exact over the whole taxonomy,
and far smaller than one with a column a concept.

The logarithmic distance depends on ancestors instead of paths: there, the concepts of a class have the same ancestors
among those of the anchors, and as many others. In a tree, both rules give the same classes.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import (
    Float64Array,
    Int32Array,
    Int64Array,
    Levels,
    frozen_array,
    offsets_from_lengths,
    ranges,
)
from stream_masker.core.distance import Columns, Distance
from stream_masker.core.kernels import mixed_word
from stream_masker.core.ontology import Taxonomy

MOST_UNSEEN, UNSEEN_BYTES = 16_384, 128 << 20
"""The most concepts that are no anchors and whose rows a table keeps, and the memory of these rows."""

CELLS_AT_ONCE = 1 << 18
"""The number of cells that are read as floats at once (2 MB, which a processor's cache holds)."""

UNSEEN = -2
"""The slot of a concept without a row."""

TIE = 1e-12
"""Totals are tied if they differ by no more than this, relative to the smallest one."""


class DistanceTable:
    """The distances of k anchors to the m concepts of a taxonomy, which form c classes. Immutable, but for the rows of
    concepts that are no anchors, which are added as they are needed (``slots``).

    * ``distance``: the distance, with its taxonomy.
    * ``anchors``: (k,) int32, ascending positions; the root is always one of them.
    * ``levels``: (L,) float64, the distinct distances of the taxonomy, ascending; the first is 0. All tables of one
      distance have the same.
    * ``rows``: (k, c) uint8 or uint16, the level of the distance between an anchor and every concept of a class.
    * ``all_rows``: (k + room, c), the same rows, and below them ``room`` rows of other concepts at most. The members
      of a class may have different distances to such a concept, if some of them lie below an ancestor of it that no
      anchor has. The row has that of the first member, and 0 for the concept's own class. A class of one member, such
      as that of an anchor, has only one. The first classes are those of the anchors and their ancestors. Rows of other
      concepts may be filled for these alone, and are then shared by the members of a class (``slots``).
    * ``generation``: how often the rows of other concepts have been dropped, because there was no room.
    * ``class_of``: (m,) int32, the class of each concept (``classes``).
    * ``members``, ``starts``: (m,) int32 and (c + 1,) int64; the concepts of class j, ascending, are
      ``members[starts[j]:starts[j + 1]]``.
    """

    def __init__(
        self, distance: Distance, anchors: Int32Array, class_of: Int32Array, rows: Levels, ancestors: int
    ) -> None:
        """Take what ``build`` computes; ``rows``: (k + room, c), of which the first k are filled; ``ancestors``: the
        number of classes of anchors and their ancestors."""
        self.distance = distance
        self.anchors = frozen_array(anchors)
        self.levels = distance.levels
        self._space, self.all_rows, self.rows = rows, frozen_array(rows), frozen_array(rows[: anchors.size])
        self.room, self.generation = len(rows) - anchors.size, 0
        self.class_of = frozen_array(class_of)
        self.members: Int32Array = frozen_array(np.argsort(class_of, kind="stable").astype(np.int32))
        self.starts: Int64Array = frozen_array(offsets_from_lengths(np.bincount(class_of)))
        self._index = np.append(np.full(class_of.size, UNSEEN, np.int32), np.int32(-1))
        self._index[anchors] = np.arange(anchors.size)
        self._used, self._filled = anchors.size, ancestors

    def _drop_others(self) -> None:
        """Drop the rows of concepts that are no anchors."""
        self._index[self._index >= self.anchors.size] = UNSEEN
        self._used, self.generation = self.anchors.size, self.generation + 1

    @cached_property
    def _columns(self) -> Columns:
        """The first member of each class that the rows of other concepts are filled for."""
        return self.distance.columns(self.members[self.starts[: self._filled]])

    @classmethod
    def build(
        cls, distance: Distance, anchors: NDArray[np.integer], previous: DistanceTable | None = None
    ) -> DistanceTable:
        """Build the table of some anchors, positions in any order, and the root.

        Rows of anchors that ``previous``, of the same distance, has too are taken from it. If it has the same anchors,
        it is returned.
        """
        wanted = np.union1d(np.zeros(1, np.int32), anchors).astype(np.int32)
        if previous is not None and np.array_equal(previous.anchors, wanted):
            return previous
        class_of, ancestors = classes(distance, wanted)
        first = np.unique(class_of, return_index=True)[1].astype(np.int32)
        room = max(64, min(MOST_UNSEEN, UNSEEN_BYTES // first.size))
        rows = np.zeros((wanted.size + room, first.size), np.min_scalar_type(distance.levels.size - 1))
        kept = np.full(wanted.size, -1) if previous is None else previous.index_of(wanted)
        if previous is not None:
            columns = previous.class_of[first]
            for i in np.flatnonzero(kept >= 0):
                rows[i] = previous.rows[kept[i]][columns]
        new = np.flatnonzero(kept < 0)
        distance.fill_rows(rows, new, wanted[new], distance.columns(first))
        return cls(distance, wanted, class_of, rows, ancestors)

    def index_of(self, positions: NDArray[np.integer]) -> Int32Array:
        """Return (n,) int32: the index of each of n positions among the anchors, -1 for those that are none."""
        index = self._index[positions]
        return np.where(index < self.anchors.size, np.maximum(index, -1), np.int32(-1))

    def slots(self, positions: Int32Array, *, whole: bool = True) -> Int32Array:
        """Return (n,) int32: the index in ``all_rows`` of each concept; -1 for a negative position, which is none.

        Rows of concepts that are no anchors are computed, at most ``room`` of them in one call. If there is no room for
        those of a call beside earlier ones, the earlier ones are dropped.

        ``whole``: whether these rows are needed for all classes, or only for those of anchors and their ancestors,
        which takes less time: the members of a class are at the same distances from these, and have one row.
        """
        slots, classes = self._index[positions], self.rows.shape[1]
        if whole and self._filled < classes and ((slots >= self.anchors.size) | (slots == UNSEEN)).any():
            self._drop_others()
            self.__dict__.pop("_columns", None)
            self._filled = classes
            slots = self._index[positions]
        if slots.min(initial=0) > UNSEEN:
            return slots
        missing, are_shared = np.unique(positions[slots == UNSEEN]), self._filled < classes
        if are_shared:
            missing = np.unique(self.members[self.starts[self.class_of[missing]]])
        if self._used + missing.size > len(self.all_rows):
            self._drop_others()
            return self.slots(positions, whole=whole)
        added, own = np.arange(missing.size) + self._used, self.class_of[missing]
        self.distance.fill_rows(self._space, added, missing, self._columns)
        self._space[added, own] = 0
        self._used += missing.size
        if are_shared:
            sizes = self.starts[own + 1] - self.starts[own]
            missing, added = self.members[ranges(self.starts[own], sizes)], np.repeat(added, sizes)
        self._index[missing] = added
        return self._index[positions]

    def totals(self, counts: NDArray[np.number]) -> Float64Array:
        """Return (c,) float64: Σ counts · distance over the anchors for each class. ``counts``: (k,)."""
        totals = np.zeros(self.rows.shape[1])
        present = np.flatnonzero(counts)
        step = max(1, CELLS_AT_ONCE // self.rows.shape[1])
        for start in range(0, present.size, step):
            some = present[start : start + step]
            totals += counts[some].astype(np.float64) @ self.levels.take(self.rows[some], mode="clip")
        return totals


def table_of(distance: Distance, anchors: NDArray[np.integer]) -> DistanceTable:
    """Return the table of some anchors. The last table of each of some distances is kept, so that the next one takes
    the rows of common anchors from it, and equal anchors have one table."""
    table = _RECENT[distance] = DistanceTable.build(distance, anchors, _RECENT.pop(distance, None))
    if len(_RECENT) > MOST_RECENT:
        _RECENT.popitem(last=False)
    return table


MOST_RECENT = 4
_RECENT: OrderedDict[Distance, DistanceTable] = OrderedDict()


def least_total(concepts: Int32Array, totals: Float64Array, tau: Taxonomy) -> int:
    """Return the concept of least total, a position; of tied ones, that of least depth, then of smallest id.

    concepts, totals: (n,) positions, and of each the sum of its distances to values.
    """
    tied = concepts[totals <= totals.min() * (1.0 + TIE)]
    depth = tau.depth[tied]
    return int(min(tied[depth == depth.min()].tolist(), key=lambda c: tau.ids[c]))


def classes(distance: Distance, anchors: Int32Array) -> tuple[Int32Array, int]:
    """Return (m,) int32: the class of each concept, and the number of those of the anchors and their ancestors.

    ``anchors``: (k,) positions, with the root.

    Classes are numbered by their smallest members: first those of the anchors and their ancestors, then the others. A
    class is known by a sum of random words, one for each way to an ancestor of anchors: 64 bits, so that two of a
    million classes are equal by chance once in 10⁷ taxonomies.
    """
    tau, closure = distance.taxonomy, distance.taxonomy.closure
    inside = np.zeros(len(tau), np.bool_)
    inside[closure.above(anchors)[1]] = True
    ways = closure.ancestors.astype(np.uint64) << np.uint64(32)
    sums = np.zeros(len(tau), np.uint64)
    if distance.by_counts:
        sums = mixed_word(np.diff(closure.offsets).astype(np.uint64))
    else:
        ways += closure.paths.astype(np.uint64)
    shared = np.where(inside[closure.ancestors], mixed_word(ways), np.uint64(0))
    sums += np.add.reduceat(shared, closure.offsets[:-1])
    _, first, label = np.unique(sums, return_index=True, return_inverse=True)
    number = np.empty(first.size, np.int32)
    number[np.lexsort((first, ~inside[first]))] = np.arange(first.size)
    return number[label], int(np.count_nonzero(inside))
