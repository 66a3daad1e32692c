"""The values that masked values are taken from, and the nearest of them for every concept of the taxonomy.

Under each concept u of the taxonomy there is a value that is the fewest links below it. The distance of a concept c to
a value whose least common subsumer with c is u is at least that of the fewest links, so the least of these bounds over
the ancestors u of c is a bound for all values. If the value that has the bound is that far from c, it is the nearest
one: in a tree always, in a graph nearly always. Else all values are compared. A concept therefore costs O(ancestors),
not O(values), for any size of the taxonomy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.distance import Distance, WuPalmer
from stream_masker.core.dtypes import Float32Array, Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import int32, kernel
from stream_masker.core.mechanisms.transport.scaling.table import CountedPairs, Table
from stream_masker.core.ontology.graph import first_parents_of, preorder_of
from stream_masker.core.statistics.counts import SparseCounts

MAX_WRITTEN_VALUES = 2000
"""The greatest number of distinct masked values of an attribute: its most frequent ones in the window."""
COMPARED_AT_ONCE = 512
"""The number of concepts that are compared with all values at once."""
NOTHING_BELOW = np.iinfo(np.int32).max


def square_distances(distance: Distance, positions: Int32Array) -> Float64Matrix:
    """Return (k, k) float64: sd² of the values at k positions."""
    result: Float64Matrix = distance.matrix(positions)
    return np.square(result, out=result)


@dataclass(frozen=True, eq=False)
class Values:
    """The k values of one attribute that are written. Every other concept counts as the nearest of them.

    The nearest value is that of least distance, then of least position. So a value that the window lacks, or that is
    not among its most frequent ones, has the channel of a value that is written.

    * ``distance``: sd. ``positions``: (k,) int32, ascending. ``counts``: (k,) int64, the window's rows of each value,
      including those that count as it.
    * ``events``: (k,) int64, the number of events with each value; None if each event is a row.
    * ``units``: (k,) int64, the number of different noise keys of these rows, at least (``SparseCounts.units``).
    * ``index_of``: int32, for each position of the taxonomy the index of its value, −1 where it is not known yet.
    """

    distance: Distance
    positions: Int32Array
    counts: Int64Array
    units: Int64Array
    index_of: Int32Array
    events: Int64Array | None = None

    @classmethod
    def of(
        cls, distance: Distance, positions: Int32Array, counts: Int64Array, units: Int64Array | None = None
    ) -> Values:
        """Create the values with their counts; without ``units``, each row is a unit of its own."""
        index_of = np.full(len(distance.taxonomy), -1, np.int32)
        index_of[positions] = np.arange(positions.size, dtype=np.int32)
        return cls(distance, positions, counts, counts if units is None else units, index_of)

    @classmethod
    def most_frequent(cls, distance: Distance, column: SparseCounts, events: SparseCounts | None) -> Values:
        """Select the window's most frequent values, at most ``MAX_WRITTEN_VALUES``; ``events``: see ``Counts``."""
        frequent = np.sort(np.lexsort((column.keys, -column.counts))[:MAX_WRITTEN_VALUES])
        kept = cls.of(distance, column.keys[frequent].astype(np.int32), column.counts[frequent], column.units[frequent])

        def merged(counts: SparseCounts) -> SparseCounts:
            return counts.regroup(kept.indices(counts.keys.astype(np.int32)).astype(np.int64), frequent.size)

        if frequent.size < column.keys.size:
            whole = merged(column)
            kept = replace(kept, counts=whole.counts, units=whole.units)
        return kept if events is None or not events.rows else replace(kept, events=merged(events).counts)

    @property
    def laws(self) -> Float64Matrix:
        """(l, k) float64: P(x) in each law of an attacker: of rows, and of events if these differ."""
        laws = np.array([self.counts] if self.events is None else [self.counts, self.events], np.float64)
        return np.asarray(laws / laws.sum(axis=1, keepdims=True))

    @cached_property
    def places(self) -> Int32Array:
        """(k,) int32: the indices of the values in a preorder walk of the taxonomy, where near values are near."""
        tau = self.distance.taxonomy
        return preorder_of(first_parents_of(tau.parent_offsets, tau.parents))[self.positions]

    def __len__(self) -> int:
        return self.positions.size

    def indices(self, codes: Int32Array) -> Int32Array:
        """Return (n,) int32: the index of each code's value, −1 for absent ones. Remembers the nearest value of new
        codes."""
        found = np.where(codes < 0, -1, self.index_of[codes])
        new = np.unique(codes[(found < 0) & (codes >= 0)])
        if new.size:
            self.index_of[new] = nearest_values(self.distance, self.positions, self._below, new)
            found = np.where(codes < 0, -1, self.index_of[codes])
        return found.astype(np.int32, copy=False)

    def index(self, code: int) -> int:
        """Return the index of one code's value."""
        known: int = self.index_of.item(code)
        return known if known >= 0 else int(self.indices(np.array([code], np.int32))[0])

    def locate_all(self) -> None:
        """Find the value of every concept of a tree, so that no batch searches for those of new codes.

        In a directed acyclic graph, or with another distance than Wu–Palmer's, a search costs too much to do this.
        """
        if isinstance(self.distance, WuPalmer) and self.distance.taxonomy.is_tree:
            self.indices(np.arange(len(self.index_of), dtype=np.int32))

    @cached_property
    def _below(self) -> ValuesBelow:
        return values_below(self.distance, self.positions)


def events_of_pairs(pairs: CountedPairs, root: Values, counted: CountedPairs | None) -> Float32Array:
    """Return (m,) float32: how many events have each pair of a root (rows) and another attribute; empty if these are
    the rows.

    ``counted``: those of pairs of scalars. The events with a value of the root are shared among its
    elements if the other one is an array.
    """
    table, counts = pairs
    if root.events is None:
        return np.empty(0, np.float32)
    totals = np.bincount(table.rows, counts, len(root))
    events = root.events[table.rows] * counts / totals[table.rows]
    if counted is not None and counted.counts.size:
        events = np.zeros(counts.size)
        events[np.searchsorted(table.keys, counted.table.keys)] = counted.counts
    return np.asarray(events, np.float32)


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


class ValuesBelow(NamedTuple):
    """For each concept of the taxonomy, the value that is the fewest links below it.

    * ``links``: (m,) int32, ``NOTHING_BELOW`` if there is none. ``position``: (m,) int32, the least of equals.
    """

    links: Int32Array
    position: Int32Array


def nearest_values(distance: Distance, positions: Int32Array, below: ValuesBelow, codes: Int32Array) -> Int32Array:
    """Return (n,) int32: the index of the value nearest to each code; among equally near ones, that of least position.

    * ``positions``: (k,) int32, those of the values, ascending. ``below``: see ``values_below``.
    """
    if not isinstance(distance, WuPalmer):
        return _compared(distance, positions, codes)
    closure = distance.taxonomy.closure
    sizes = np.diff(closure.offsets)[codes]
    rows = ranges(closure.offsets[codes], sizes)
    offsets, ancestors, paths = offsets_from_lengths(sizes), closure.ancestors[rows], closure.paths[rows]
    nearest, bounds = least_bounds(offsets, ancestors, paths, distance.taxonomy.depth, below)
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
    """Return for each of n concepts the value of the least bound, and the bound; the first arrays are
    the concepts' ancestors, as compressed rows."""
    nearest = np.zeros(offsets.size - 1, np.int32)
    bounds = np.full(offsets.size - 1, np.inf)
    for i in range(nearest.size):
        for k in range(offsets[i], offsets[i + 1]):
            u = ancestors[k]
            if below.links[u] != NOTHING_BELOW:
                double = 2.0 * depth[u]
                bound = 1.0 - double / (double + paths[k] + below.links[u])
                if bound < bounds[i] or (bound == bounds[i] and below.position[u] < nearest[i]):
                    bounds[i] = bound
                    nearest[i] = below.position[u]
    return nearest, bounds
