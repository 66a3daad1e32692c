"""The values that masked values are taken from, and their place for every concept of the taxonomy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.distance import Distance
from stream_masker.core.distance.kernels import WU_PALMER
from stream_masker.core.dtypes import Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.intrinsics import prefetch
from stream_masker.core.kernels.jit import int64, kernel
from stream_masker.core.mechanisms.transport.nearest import ValuesBelow, locate_in_tree, nearest_values, values_below
from stream_masker.core.mechanisms.transport.scaling.table import Table
from stream_masker.core.ontology.preorder import first_parents_of, preorder_of
from stream_masker.core.statistics.counts import SparseCounts

MAX_WRITTEN_VALUES = 2000
"""The greatest number of distinct masked values of an attribute: its most frequent ones in the window."""
PREFETCHED_CODES = 16
"""The index of a code's value is prefetched this many codes ahead of its use."""


class SquareDistances:
    """sd² of the values of one attribute. The last matrix is kept, so that the next one costs only its new values."""

    def __init__(self, distance: Distance) -> None:
        self.distance = distance
        self._last: tuple[Int32Array, Float64Matrix] | None = None

    @cached_property
    def preorder(self) -> Int32Array:
        """(m,) int32: the index of each concept of the taxonomy in a preorder walk."""
        tau = self.distance.taxonomy
        return np.asarray(preorder_of(first_parents_of(tau.parent_offsets, tau.parents)))

    def of(self, positions: Int32Array) -> Float64Matrix:
        """Return (k, k) float64: sd² of the values at k positions, ascending."""
        last = self._last
        if last is None or not np.array_equal(last[0], positions):
            last = (positions, self._computed(positions, last))
            self._last = last
        return last[1]

    def _computed(self, positions: Int32Array, last: tuple[Int32Array, Float64Matrix] | None) -> Float64Matrix:
        if last is None:
            return self._squared(positions)
        old, kept = located(last[0], positions)
        new = np.flatnonzero(~kept)
        if 2 * new.size > positions.size:
            return self._squared(positions)
        result: Float64Matrix = np.empty((positions.size, positions.size))
        select(last[1], old, result)
        rows = self.distance.between(positions[new], positions) ** 2
        result[new] = rows
        result[:, new] = rows.T
        return result

    def _squared(self, positions: Int32Array) -> Float64Matrix:
        result: Float64Matrix = self.distance.matrix(positions)
        return np.square(result, out=result)


@kernel
def select(matrix: Float64Matrix, chosen: Int64Array, result: Float64Matrix) -> None:
    """Set ``result``, (k, k), to the chosen rows and columns of a matrix; ``chosen``: (k,)."""
    for i in range(chosen.size):
        row = matrix[chosen[i]]
        for j in range(chosen.size):
            result[i, j] = row[chosen[j]]


@dataclass(frozen=True, eq=False)
class Values:
    """The k values of one attribute that are written. Every other concept counts as the nearest of them.

    The nearest value is that of least distance, then of least position. So a value that the window lacks, or that is
    not among its most frequent ones, has the channel of a value that is written.

    * ``distance``: sd. ``positions``: (k,) int32, ascending. ``counts``: (k,) int64, the window's rows of each value,
      including those that count as it.
    * ``units``: (k,) int64, the number of different noise keys of these rows, at least (``SparseCounts.units``).
    * ``index_of``: int32, for each position of the taxonomy the index of its value, −1 where it is not known yet.
    """

    distance: Distance
    positions: Int32Array
    counts: Int64Array
    units: Int64Array
    index_of: Int32Array

    @classmethod
    def of(
        cls, distance: Distance, positions: Int32Array, counts: Int64Array, units: Int64Array | None = None
    ) -> Values:
        """Create the values with their counts; without ``units``, each row is a unit of its own."""
        index_of = np.full(len(distance.taxonomy), -1, np.int32)
        index_of[positions] = np.arange(positions.size, dtype=np.int32)
        return cls(distance, positions, counts, counts if units is None else units, index_of)

    @classmethod
    def most_frequent(cls, distance: Distance, column: SparseCounts) -> Values:
        """Select the window's most frequent values, at most ``MAX_WRITTEN_VALUES``."""
        frequent = np.sort(np.lexsort((column.keys, -column.counts))[:MAX_WRITTEN_VALUES])
        kept = cls.of(distance, column.keys[frequent].astype(np.int32), column.counts[frequent], column.units[frequent])
        if frequent.size == column.keys.size:
            return kept
        merged = column.regroup(kept.indices(column.keys.astype(np.int32)).astype(np.int64), frequent.size)
        return replace(kept, counts=merged.counts, units=merged.units)

    def __len__(self) -> int:
        return self.positions.size

    def indices(self, codes: Int32Array) -> Int32Array:
        """Return (n,) int32: the index of each code's value, −1 for absent ones. Remembers the nearest value of new
        codes."""
        found = np.empty(codes.size, np.int32)
        if look_up(self.index_of, codes, found):
            new = np.unique(codes[(found < 0) & (codes >= 0)])
            self.index_of[new] = nearest_values(self.distance, self.positions, self._below, new)
            look_up(self.index_of, codes, found)
        return found

    def index(self, code: int) -> int:
        """Return the index of one code's value."""
        known = int(self.index_of[code])
        return known if known >= 0 else int(self.indices(np.array([code], np.int32))[0])

    def locate_all(self) -> None:
        """Find the value of every concept of a tree, so that no batch searches for those of new codes.

        In a directed acyclic graph, or with another distance than Wu–Palmer's, a search costs too much to do this.
        """
        if self.distance.kind == WU_PALMER and self.distance.taxonomy.is_tree:
            tau = self.distance.taxonomy
            locate_in_tree(tau.tree.parent, tau.depth, self._below, self.index_of)

    @cached_property
    def _below(self) -> ValuesBelow:
        return values_below(self.distance, self.positions)


@kernel
def look_up(index_of: Int32Array, codes: Int32Array, found: Int32Array) -> int:
    """Set ``found``, (n,), to the index of each code's value, −1 for absent ones, and count the codes without one."""
    new = 0
    for i in range(codes.size):
        ahead = codes[min(i + PREFETCHED_CODES, codes.size - 1)]
        if ahead >= 0:
            prefetch(index_of, int64(ahead))
        found[i] = -1
        if codes[i] >= 0:
            found[i] = index_of[codes[i]]
            new += int64(found[i] < 0)
    return new


def pair_table(pair: SparseCounts, first: Values, second: Values) -> tuple[Table, Int64Array, Int64Array]:
    """Return the table of a pair's values, and the window's rows and units of each entry."""
    a, b = np.divmod(pair.keys, len(second.distance.taxonomy))
    rows, columns = first.indices(a.astype(np.int32)), second.indices(b.astype(np.int32))
    keys, which = np.unique(rows.astype(np.int64) * len(second) + columns, return_inverse=True)
    merged = pair.regroup(which, keys.size)
    return Table.of(*np.divmod(keys, len(second)), (len(first), len(second))), merged.counts, merged.units


def single_table(values: Values) -> Table:
    """Return the table of one attribute, with a second one of a single value."""
    return Table.of(np.arange(len(values)), np.zeros(len(values), np.int64), (len(values), 1))
