"""Distances of many concepts (sources) to many others (targets).

The least common subsumer (LCS) of a concept c and a source a follows from the parents of c. If c subsumes a, it is c.
Otherwise it is the best of the subsumers of c's parents and a, one link farther from c. So one pass over the targets
and their ancestors, parents first, computes a number for each:

    key = depth(LCS) · W - (path(a, LCS) + path(c, LCS)),    W = 2 ** ``LINK_BITS``, greater than any sum of paths.

The key of c is the maximum over its parents, less one: it prefers greater depth, then shorter paths. The logarithmic
distance in a DAG needs the number of common ancestors instead, which is a sum over the ancestors of each target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.distance.kernels import WU_PALMER, log_taxonomic, wu_palmer
from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.ontology.taxonomy import Taxonomy

BY_COUNTS = 2
"""The method for LogTaxonomic in a DAG: keys are numbers of common ancestors. Other methods are kinds of distances."""

LINK_BITS = 32
LINK_MASK = (1 << LINK_BITS) - 1

SOURCES_AT_ONCE = 32
"""The number of sources whose distances are computed at once."""

TILE = 256
"""The number of targets whose terms are added at once, which keeps rounding errors small."""


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


class TargetArrays(NamedTuple):
    """What ``fill_distances`` knows of l targets. A *member* is a target or an ancestor of one; keys belong to members.

    method: a kind of distance, or ``BY_COUNTS``. member: (m,) the index of each member, -1 for other concepts.
    depths: of the concepts. rows: (l,) the index of each target's key. sizes: (l,) the number of its ancestors.
    offsets, above: for each computed key the keys that it depends on: those of the parents of each member, or with
    ``BY_COUNTS`` those of all ancestors of each target.
    """

    method: int
    member: Int32Array
    depths: Int32Array
    rows: Int64Array
    sizes: Int64Array
    offsets: Int64Array
    above: Int32Array


class Targets:
    """l concepts of a taxonomy, to which distances of one kind are computed. Immutable."""

    def __init__(self, tau: Taxonomy, kind: int, positions: Int32Array) -> None:
        """``positions``: (l,) int32."""
        by_counts = kind != WU_PALMER and not tau.is_tree
        marked = np.zeros(len(tau), np.bool_)
        marked[positions] = True
        mark_ancestors(marked, tau.parent_offsets, tau.parents)
        members = np.flatnonzero(marked)
        index = np.full(len(tau), -1, np.int32)
        index[members] = np.arange(members.size, dtype=np.int32)
        if by_counts:
            sources = Sources.of(tau, positions)
            rows = members.size + np.arange(positions.size)
            self._arrays = TargetArrays(
                BY_COUNTS, index, tau.depth, rows, sources.sizes, sources.offsets, index[sources.ancestors]
            )
        else:
            sizes = np.diff(tau.parent_offsets)[members]
            above = index[tau.parents[ranges(tau.parent_offsets[members], sizes)]]
            rows = index[positions].astype(np.int64)
            self._arrays = TargetArrays(
                kind, index, tau.depth, rows, np.zeros(rows.size, np.int64), offsets_from_lengths(sizes), above
            )
        self._members = members.size

    def blocks(self, sources: Sources) -> Iterator[tuple[int, int, Float64Matrix]]:
        """Yield (start, stop, block): (stop - start, l) float64, the distances of these sources to all targets."""
        for start in range(0, len(sources), SOURCES_AT_ONCE):
            stop = min(start + SOURCES_AT_ONCE, len(sources))
            block = np.empty((stop - start, self._arrays.rows.size))
            fill_distances(
                self._arrays,
                self._members,
                start,
                sources.offsets,
                sources.ancestors,
                sources.paths,
                sources.sizes,
                block,
            )
            yield start, stop, block

    def sums(self, sources: Sources, weights: Float64Array, shift: float = 0.0) -> tuple[Float64Array, Float64Array]:
        """Return Σ w·x and Σ w·x² over the weighted targets for each of k sources; x = sd(source, target) - shift."""
        result = np.zeros((2, len(sources)))
        for start, stop, block in self.blocks(sources):
            result[:, start:stop] = weighted_sums(block, weights, shift)
        return result[0], result[1]


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
def fill_distances(
    targets: TargetArrays,
    members: int,
    start: int,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
    sizes: Int64Array,
    block: Float64Matrix,
) -> None:
    """Fill ``block``, (k, l), with the distances of the sources from ``start`` on to the targets.

    offsets, ancestors, paths, sizes: those of ``Sources``.
    """
    by_counts = targets.method == BY_COUNTS
    first = members if by_counts else int64(0)
    keys = np.empty(first + targets.offsets.size - 1, np.int64)
    for i in range(block.shape[0]):
        keys[:] = 0
        for k in range(offsets[start + i], offsets[start + i + 1]):
            member = targets.member[ancestors[k]]
            if member >= 0:
                depth = int64(targets.depths[ancestors[k]])
                keys[member] = 1 if by_counts else (depth << LINK_BITS) - paths[k]
        for c in range(targets.offsets.size - 1):
            key = keys[first + c]
            for k in range(targets.offsets[c], targets.offsets[c + 1]):
                above = keys[targets.above[k]]
                key = key + above if by_counts else max(key, above - 1)
            keys[first + c] = key
        for t in range(targets.rows.size):
            block[i, t] = key_distance(targets.method, keys[targets.rows[t]], targets.sizes[t] + sizes[start + i])


@inlined
def key_distance(method: int, key: int, ancestors: int) -> float:
    """Return the distance of a key. ``ancestors``: those of the source and of the target, in sum."""
    if method == BY_COUNTS:
        return log_taxonomic(ancestors - key, key)
    depth = (key + LINK_MASK) >> LINK_BITS
    links = (depth << LINK_BITS) - key
    return wu_palmer(depth, links) if method == WU_PALMER else log_taxonomic(depth + links, depth)


@kernel
def weighted_sums(block: Float64Matrix, weights: Float64Array, shift: float) -> Float64Matrix:
    """Return (2, k): for each row of ``block``, (k, l), Σ w·x and Σ w·x² with x = distance - shift; by tiles."""
    result = np.zeros((2, block.shape[0]), np.float64)
    for i in range(block.shape[0]):
        for start in range(0, weights.size, TILE):
            total, squares = 0.0, 0.0
            for t in range(start, min(start + TILE, weights.size)):
                x = block[i, t] - shift
                total += weights[t] * x
                squares += weights[t] * x * x
            result[0, i] += total
            result[1, i] += squares
    return result
