"""Distances of many concepts (sources) to many others (targets), 32 sources side by side in SIMD lanes.

The least common subsumer (LCS) of a concept c and a source a follows from the parents of c. If c subsumes a, it is c.
Otherwise it is the best of the subsumers of c's parents and a, one link farther from c. So one pass over the targets
and their ancestors, parents first, computes one number for each source:

    key = depth(LCS) · W - (path(a, LCS) + path(c, LCS)),    W = 2 ** bits, greater than any sum of paths.

The key of c is the maximum over its parents, less one: it prefers greater depth, then shorter paths. The logarithmic
distance in a DAG needs the number of common ancestors instead, which is a sum over the ancestors of each target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import offsets_from_lengths, ranges
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
"""The method for LogTaxonomic in a DAG: keys are numbers of common ancestors. Other methods are kinds of distances."""

TILE = 256
"""The number of targets whose distances are held at once to compute sums; they fit into the cache of the processor."""


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """k concepts, given by their ancestors: compressed rows of positions and shortest paths.

    sizes: (k,) the number of ancestors of each concept. The rows may omit ancestors; distances then use only those that
    they contain.
    """

    offsets: Int64Array
    ancestors: Int32Array
    paths: Int32Array
    sizes: Int64Array

    @classmethod
    def of(cls, tau: Taxonomy, positions: Int32Array) -> Sources:
        """Return the concepts at the given positions."""
        if tau.is_tree:
            sizes = tau.depth[positions].astype(np.int64)
            offsets = offsets_from_lengths(sizes)
            ancestors, paths = ancestor_rows(positions, offsets, tau.tree.parent)
            return cls(offsets, ancestors, paths, sizes)
        up = tau.closure
        starts = up.offsets[positions]
        sizes = up.offsets[positions + 1] - starts
        entries = ranges(starts, sizes)
        return cls(offsets_from_lengths(sizes), up.ancestors[entries], up.paths[entries].astype(np.int32), sizes)

    def __len__(self) -> int:
        return self.sizes.size


class Targets:
    """l concepts of a taxonomy, to which distances of one kind are computed. Immutable; properties are cached."""

    def __init__(self, tau: Taxonomy, kind: int, positions: Int32Array) -> None:
        """``positions``: (l,) int32."""
        self._tau = tau
        self._positions = positions
        self._method = BY_COUNTS if kind != WU_PALMER and not tau.is_tree else kind

    def blocks(self, sources: Sources) -> Iterator[tuple[int, int, Float64Array]]:
        """Yield (start, stop, block): the distances of the sources start … stop - 1 to all targets.

        block: (l, 32) float64, one column per source; columns beyond the last source repeat it. The next block
        overwrites this one.
        """
        block = np.empty((self._positions.size, VECTOR_LANES))
        for start, stop, keys in self._keys(sources):
            lanes = _lane_sizes(sources, start, stop)
            fill_block(self._method, keys, self._rows, self._bits, self._sizes, lanes, block)
            yield start, stop, block

    def sums(self, sources: Sources, weights: Float64Array, shift: float = 0.0) -> tuple[Float64Array, Float64Array]:
        """Return Σ w·x and Σ w·x² over the weighted targets for each of k sources; x = sd(source, target) - shift."""
        result = np.zeros((2, len(sources)))
        for start, stop, keys in self._keys(sources):
            lanes = _lane_sizes(sources, start, stop)
            sums = lane_sums(self._method, keys, self._rows, self._bits, self._sizes, lanes, weights, shift)
            result[:, start:stop] = sums[:, : stop - start]
        return result[0], result[1]

    def weighted(self, sources: Sources, weights: Float64Array, shift: float = 0.0) -> Float64Array:
        """Return (l,) float64: Σ w·x over the weighted sources for each target; x = sd(source, target) - shift."""
        result = np.full(self._positions.size, -shift * float(weights.sum()))
        for start, stop, block in self.blocks(sources):
            result += block[:, : stop - start] @ weights[start:stop]
        return result

    def _keys(self, sources: Sources) -> Iterator[tuple[int, int, SortKeys]]:
        """Yield (start, stop, keys) for up to 32 sources at a time; ``_rows`` are the rows of the targets."""
        keys = np.empty((self._members.size + self._count_rows, VECTOR_LANES), self._dtype)
        for start in range(0, len(sources), VECTOR_LANES):
            stop = min(start + VECTOR_LANES, len(sources))
            entries = (sources.offsets, sources.ancestors, sources.paths)
            place_sources(self._method, keys, self._member_index, self._tau.depth, self._bits, start, stop, *entries)
            propagate(self._method, keys.reshape(-1), *self._dependencies)
            yield start, stop, keys

    @cached_property
    def _members(self) -> Int64Array:
        """The positions of the targets and of all their ancestors, ascending."""
        marked = np.zeros(len(self._tau), np.bool_)
        marked[self._positions] = True
        mark_ancestors(marked, self._tau.parent_offsets, self._tau.parents)
        return np.flatnonzero(marked)

    @cached_property
    def _member_index(self) -> Int32Array:
        """(m,) int32: the index of each member, -1 for other concepts."""
        member_index = np.full(len(self._tau), -1, np.int32)
        member_index[self._members] = np.arange(self._members.size, dtype=np.int32)
        return member_index

    @property
    def _count_rows(self) -> int:
        """The number of rows after those of the members: one per target for its number of common ancestors, or none."""
        return self._positions.size if self._method == BY_COUNTS else 0

    @cached_property
    def _rows(self) -> Int64Array:
        """(l,) int64: the row of keys of each target."""
        if self._method == BY_COUNTS:
            return self._members.size + np.arange(self._positions.size)
        return self._member_index[self._positions].astype(np.int64)

    @cached_property
    def _dependencies(self) -> tuple[int, Int64Array, Int32Array]:
        """The first row to compute, and for each row from there on the rows that it depends on.

        These are the rows of the parents, or with ``BY_COUNTS`` of all ancestors, as compressed rows.
        """
        tau = self._tau
        if self._method == BY_COUNTS:
            targets = Sources.of(tau, self._positions)
            return self._members.size, targets.offsets, self._member_index[targets.ancestors]
        sizes = np.diff(tau.parent_offsets)[self._members]
        links = ranges(tau.parent_offsets[self._members], sizes)
        return 0, offsets_from_lengths(sizes), self._member_index[tau.parents[links]]

    @cached_property
    def _sizes(self) -> Int64Array:
        """(l,) int64: the number of ancestors of each target, or zeros if the method does not need it."""
        if self._method == BY_COUNTS:
            return np.diff(self._tau.closure.offsets)[self._positions]
        return np.zeros(self._positions.size, np.int64)

    @property
    def _height(self) -> int:
        return int(self._tau.depth[-1])

    @property
    def _bits(self) -> int:
        """The least number of bits such that W = 2 ** bits is greater than any sum of two paths."""
        return (2 * self._height).bit_length()

    @property
    def _dtype(self) -> type[np.int16 | np.int64]:
        most = len(self._tau) if self._method == BY_COUNTS else self._height << self._bits
        return np.int16 if most <= np.iinfo(np.int16).max else np.int64


def _lane_sizes(sources: Sources, start: int, stop: int) -> Int64Array:
    """Return (32,) int64: the numbers of ancestors of the sources in the lanes."""
    return sources.sizes[np.minimum(np.arange(start, start + VECTOR_LANES), stop - 1)]


@kernel
def ancestor_rows(positions: Int32Array, offsets: Int64Array, parent: Int32Array) -> tuple[Int32Array, Int32Array]:
    """Return the ancestors of each position in a tree, itself first, and the number of links up to each ancestor."""
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
def mark_ancestors(marked: BoolArray, parent_offsets: Int64Array, parents: Int32Array) -> None:
    """Mark all ancestors of marked concepts."""
    for c in range(marked.size - 1, 0, -1):
        if marked[c]:
            for k in range(parent_offsets[c], parent_offsets[c + 1]):
                marked[parents[k]] = True


@kernel
def place_sources(
    method: int,
    keys: SortKeys,
    member_index: Int32Array,
    depth: Int32Array,
    bits: int,
    start: int,
    stop: int,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> None:
    """Set the keys of the ancestors of the sources start … stop - 1, one source per lane, and all other keys to 0.

    With ``BY_COUNTS`` the keys are 1. Lanes beyond the last source repeat it.
    """
    keys[:] = 0
    for lane in range(VECTOR_LANES):
        source = min(start + lane, stop - 1)
        for k in range(offsets[source], offsets[source + 1]):
            row = member_index[ancestors[k]]
            if row >= 0:
                key = (int64(depth[ancestors[k]]) << bits) - paths[k]
                keys[row, lane] = 1 if method == BY_COUNTS else key


@kernel
def propagate(method: int, keys: FlatSortKeys, first: int, offsets: Int64Array, dependencies: Int32Array) -> None:
    """Compute the rows from ``first`` on from the rows that they depend on. ``keys``: (rows · 32,)."""
    for c in range(offsets.size - 1):
        for k in range(offsets[c], offsets[c + 1]):
            if method == BY_COUNTS:
                add_lanes(keys, (first + c) * VECTOR_LANES, int64(dependencies[k]) * VECTOR_LANES)
            else:
                raise_lanes(keys, (first + c) * VECTOR_LANES, int64(dependencies[k]) * VECTOR_LANES)


@kernel
def fill_block(
    method: int,
    keys: SortKeys,
    rows: Int64Array,
    bits: int,
    target_sizes: Int64Array,
    source_sizes: Int64Array,
    block: Float64Matrix,
) -> None:
    """Compute distances from keys. ``block``: (targets, 32)."""
    mask = (1 << bits) - 1
    for t in range(rows.size):
        row = rows[t]
        size = target_sizes[t]
        if method == WU_PALMER:
            for lane in range(VECTOR_LANES):
                key = int64(keys[row, lane])
                depth = (key + mask) >> bits
                block[t, lane] = wu_palmer(depth, (depth << bits) - key)
        elif method == BY_COUNTS:
            for lane in range(VECTOR_LANES):
                key = int64(keys[row, lane])
                block[t, lane] = log_taxonomic(size + source_sizes[lane] - key, key)
        else:
            for lane in range(VECTOR_LANES):
                key = int64(keys[row, lane])
                depth = (key + mask) >> bits
                block[t, lane] = log_taxonomic(depth + (depth << bits) - key, depth)


@kernel
def lane_sums(
    method: int,
    keys: SortKeys,
    rows: Int64Array,
    bits: int,
    target_sizes: Int64Array,
    source_sizes: Int64Array,
    weights: Float64Array,
    shift: float,
) -> Float64Matrix:
    """Return (2, 32): for each lane Σ w·x and Σ w·x² over the targets, where x = distance - shift.

    Summation is by tiles, which keeps rounding errors small.
    """
    result = np.zeros((2, VECTOR_LANES), np.float64)
    part = np.empty((2, VECTOR_LANES), np.float64)
    block = np.empty((TILE, VECTOR_LANES), np.float64)
    for start in range(0, rows.size, TILE):
        stop = min(start + TILE, rows.size)
        fill_block(method, keys, rows[start:stop], bits, target_sizes[start:stop], source_sizes, block)
        part[:] = 0.0
        for t in range(start, stop):
            for lane in range(VECTOR_LANES):
                x = block[t - start, lane] - shift
                part[0, lane] += weights[t] * x
                part[1, lane] += weights[t] * x * x
        result += part
    return result
