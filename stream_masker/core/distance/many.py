"""Distances of many concepts (sources) to many (targets), 32 sources side by side.

What a concept c has in common with a source a follows from its parents: if c subsumes a it is their least common
subsumer itself; if not, that of c and a is the best one of c's parents and a, one link farther. So one pass over the
targets and what lies above them, parents first, carries a number for every source,

    key = depth(LCS) · W - (path(a, LCS) + path(c, LCS)),    W beyond any sum of paths,

whose maximum over the parents, less one, is the child's: greater depth first, then shorter paths. The logarithmic
distance in a DAG needs the number of common ancestors instead, a sum over each target's ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance.kernels import WU_PALMER, log_taxonomic, wu_palmer
from stream_masker.core.dtypes import (
    BoolArray,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
)
from stream_masker.core.kernels.jit import int64, kernel
from stream_masker.core.kernels.simd import VECTOR_LANES, add_lanes, raise_lanes
from stream_masker.core.ontology.taxonomy import Taxonomy

FlatSortKeys: TypeAlias = NDArray[np.int16 | np.int64]
SortKeys: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int16 | np.int64]]

BY_COUNTS = 2
"""How distances are told where it is not by keys: LogTaxonomic in a DAG, by numbers of common ancestors."""

TILE = 256
"""Targets whose distances are held at a time, in the processor's cache, where only their sums are wanted."""


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """k concepts by their ancestors: compressed rows of positions and shortest paths.

    sizes: (k,) how many ancestors each has. The rows may hold fewer: then they stand for a concept by what subsumes it
    among some concepts only.
    """

    offsets: Int64Array
    ancestors: Int32Array
    paths: Int32Array
    sizes: Int64Array

    @classmethod
    def of(cls, tau: Taxonomy, positions: Int32Array) -> Sources:
        """The sources of so many positions."""
        if tau.is_tree:
            sizes = tau.depth[positions].astype(np.int64)
            offsets = tile_offsets(sizes)
            ancestors, paths = walk_up(positions, offsets, tau.tree.parent)
            return cls(offsets, ancestors, paths, sizes)
        up = tau.closure
        starts = up.offsets[positions]
        sizes = up.offsets[positions + 1] - starts
        entries = ranges(starts, sizes)
        return cls(tile_offsets(sizes), up.ancestors[entries], up.paths[entries].astype(np.int32), sizes)

    def __len__(self) -> int:
        return self.sizes.size


class Targets:
    """l concepts of a taxonomy, to which distances of one kind are computed. Frozen; what is derived is kept."""

    def __init__(self, tau: Taxonomy, kind: int, positions: Int32Array) -> None:
        """``positions``: (l,) int32."""
        self._tau = tau
        self._positions = positions
        self._how = BY_COUNTS if kind != WU_PALMER and not tau.is_tree else kind

    def blocks(self, sources: Sources) -> Iterator[tuple[int, int, Float64Array]]:
        """First source, end, and (l, 32) float64: the distances of those sources to all targets, one in a column.

        Columns beyond the last source repeat it. The next block overwrites this one.
        """
        block = np.empty((self._positions.size, VECTOR_LANES))
        for start, stop, keys in self._keys(sources):
            fill_block(self._how, keys, self._rows, self._bits, self._sizes, _lane_sizes(sources, start, stop), block)
            yield start, stop, block

    def sums(self, sources: Sources, weights: Float64Array, shift: float = 0.0) -> tuple[Float64Array, Float64Array]:
        """(k,) each: Σ w·x and Σ w·x² over the weighted targets, x = sd(source, target) - shift."""
        result = np.zeros((2, len(sources)))
        for start, stop, keys in self._keys(sources):
            lanes = _lane_sizes(sources, start, stop)
            sums = lane_sums(self._how, keys, self._rows, self._bits, self._sizes, lanes, weights, shift)
            result[:, start:stop] = sums[:, : stop - start]
        return result[0], result[1]

    def weighted(self, sources: Sources, weights: Float64Array, shift: float = 0.0) -> Float64Array:
        """(l,): of each target Σ w·x over the weighted sources, x = sd(source, target) - shift."""
        result = np.full(self._positions.size, -shift * float(weights.sum()))
        for start, stop, block in self.blocks(sources):
            result += block[:, : stop - start] @ weights[start:stop]
        return result

    def _keys(self, sources: Sources) -> Iterator[tuple[int, int, SortKeys]]:
        """Source by source, up to 32 at a time: what tells their distances, in the rows ``_rows``."""
        keys = np.empty((self._members.size + self._counted, VECTOR_LANES), self._dtype)
        for start in range(0, len(sources), VECTOR_LANES):
            stop = min(start + VECTOR_LANES, len(sources))
            place_source(
                self._how, keys, self._local, self._tau.depth, self._bits, start, stop, *self._entries(sources)
            )
            spread(self._how, keys.reshape(-1), *self._above)
            yield start, stop, keys

    def _entries(self, sources: Sources) -> tuple[Int64Array, Int32Array, Int32Array]:
        return sources.offsets, sources.ancestors, sources.paths

    @cached_property
    def _members(self) -> Int64Array:
        """The targets and all that subsumes them, ascending."""
        marked = np.zeros(len(self._tau), np.bool_)
        marked[self._positions] = True
        mark_above(marked, self._tau.parent_offsets, self._tau.parents)
        return np.flatnonzero(marked)

    @cached_property
    def _local(self) -> Int32Array:
        """(m,): the index of each member, -1 for others."""
        local = np.full(len(self._tau), -1, np.int32)
        local[self._members] = np.arange(self._members.size, dtype=np.int32)
        return local

    @property
    def _counted(self) -> int:
        """Rows behind those of the members, for numbers of common ancestors: one for each target."""
        return self._positions.size if self._how == BY_COUNTS else 0

    @cached_property
    def _rows(self) -> Int64Array:
        """(l,): where a target's distances are told."""
        if self._how == BY_COUNTS:
            return self._members.size + np.arange(self._positions.size)
        return self._local[self._positions].astype(np.int64)

    @cached_property
    def _above(self) -> tuple[int, Int64Array, Int32Array]:
        """The first row that others are taken into, and of each row from there on which: parents, or all ancestors."""
        tau = self._tau
        if self._how == BY_COUNTS:
            targets = Sources.of(tau, self._positions)
            return self._members.size, targets.offsets, self._local[targets.ancestors]
        sizes = np.diff(tau.parent_offsets)[self._members]
        links = ranges(tau.parent_offsets[self._members], sizes)
        return 0, tile_offsets(sizes), self._local[tau.parents[links]]

    @cached_property
    def _sizes(self) -> Int64Array:
        """(l,): how many ancestors each target has; of use in a DAG only."""
        if self._how == BY_COUNTS:
            return np.diff(self._tau.closure.offsets)[self._positions]
        return np.zeros(self._positions.size, np.int64)

    @property
    def _height(self) -> int:
        return int(self._tau.depth[-1])

    @property
    def _bits(self) -> int:
        """W = 2 ** bits is more than any sum of two paths."""
        return (2 * self._height).bit_length()

    @property
    def _dtype(self) -> type[np.int16 | np.int64]:
        most = len(self._tau) if self._how == BY_COUNTS else self._height << self._bits
        return np.int16 if most <= np.iinfo(np.int16).max else np.int64


def tile_offsets(sizes: Int64Array) -> Int64Array:
    """(k + 1,): where each of k consecutive rows of such sizes begins."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def ranges(starts: Int64Array, sizes: Int64Array) -> Int64Array:
    """The indices of k ranges, one after the other."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _lane_sizes(sources: Sources, start: int, stop: int) -> Int64Array:
    """(32,): the sizes of the sources in the lanes."""
    return sources.sizes[np.minimum(np.arange(start, start + VECTOR_LANES), stop - 1)]


@kernel
def walk_up(positions: Int32Array, offsets: Int64Array, parent: Int32Array) -> tuple[Int32Array, Int32Array]:
    """In a tree: the ancestors of each position, itself first, and the links up to each of them."""
    ancestors = np.empty(offsets[-1], np.int32)
    paths = np.empty(offsets[-1], np.int32)
    for i in range(positions.size):
        s = positions[i]
        for k in range(offsets[i], offsets[i + 1]):
            ancestors[k] = s
            paths[k] = k - offsets[i]
            s = parent[s]
    return ancestors, paths


@kernel
def mark_above(marked: BoolArray, parent_offsets: Int64Array, parents: Int32Array) -> None:
    """Marks all ancestors of what is marked."""
    for c in range(marked.size - 1, 0, -1):
        if marked[c]:
            for k in range(parent_offsets[c], parent_offsets[c + 1]):
                marked[parents[k]] = True


@kernel
def place_source(
    how: int,
    keys: SortKeys,
    local: Int32Array,
    depth: Int32Array,
    bits: int,
    start: int,
    stop: int,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> None:
    """Puts the sources from ``start`` to ``stop`` into the lanes: what subsumes one has a key in its row, or a one.

    Lanes beyond the last source repeat it.
    """
    keys[:] = 0
    for lane in range(VECTOR_LANES):
        source = min(start + lane, stop - 1)
        for k in range(offsets[source], offsets[source + 1]):
            row = local[ancestors[k]]
            if row >= 0:
                key = (int64(depth[ancestors[k]]) << bits) - paths[k]
                keys[row, lane] = 1 if how == BY_COUNTS else key


@kernel
def spread(how: int, keys: FlatSortKeys, first: int, offsets: Int64Array, above: Int32Array) -> None:
    """Fills the rows from ``first`` on by what is above them; ``keys``: rows of lanes one after the other."""
    for c in range(offsets.size - 1):
        for k in range(offsets[c], offsets[c + 1]):
            if how == BY_COUNTS:
                add_lanes(keys, (first + c) * VECTOR_LANES, int64(above[k]) * VECTOR_LANES)
            else:
                raise_lanes(keys, (first + c) * VECTOR_LANES, int64(above[k]) * VECTOR_LANES)


@kernel
def fill_block(
    how: int,
    keys: SortKeys,
    rows: Int64Array,
    bits: int,
    target_sizes: Int64Array,
    source_sizes: Int64Array,
    block: Float64Matrix,
) -> None:
    """``block``: (targets, 32), the distances that the keys tell."""
    beyond = (1 << bits) - 1
    for t in range(rows.size):
        row = rows[t]
        size = target_sizes[t]
        if how == WU_PALMER:
            for lane in range(VECTOR_LANES):
                key = int64(keys[row, lane])
                depth = (key + beyond) >> bits
                block[t, lane] = wu_palmer(depth, (depth << bits) - key)
        elif how == BY_COUNTS:
            for lane in range(VECTOR_LANES):
                key = int64(keys[row, lane])
                block[t, lane] = log_taxonomic(size + source_sizes[lane] - key, key)
        else:
            for lane in range(VECTOR_LANES):
                key = int64(keys[row, lane])
                depth = (key + beyond) >> bits
                block[t, lane] = log_taxonomic(depth + (depth << bits) - key, depth)


@kernel
def lane_sums(
    how: int,
    keys: SortKeys,
    rows: Int64Array,
    bits: int,
    target_sizes: Int64Array,
    source_sizes: Int64Array,
    weights: Float64Array,
    shift: float,
) -> Float64Matrix:
    """(2, 32): Σ w·x and Σ w·x² over the targets, x = distance - shift; by tiles, so that rounding stays small."""
    result = np.zeros((2, VECTOR_LANES), np.float64)
    part = np.empty((2, VECTOR_LANES), np.float64)
    block = np.empty((TILE, VECTOR_LANES), np.float64)
    for start in range(0, rows.size, TILE):
        stop = min(start + TILE, rows.size)
        fill_block(how, keys, rows[start:stop], bits, target_sizes[start:stop], source_sizes, block)
        part[:] = 0.0
        for t in range(start, stop):
            for lane in range(VECTOR_LANES):
                x = block[t - start, lane] - shift
                part[0, lane] += weights[t] * x
                part[1, lane] += weights[t] * x * x
        result += part
    return result
