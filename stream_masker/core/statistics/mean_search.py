"""The concepts of least total distance to weighted values, among all of a taxonomy, without a total for each.

Of every concept c there is a bound from below on Σ w·sd(c, a), from a few *hubs*: the concepts with the most weight at
or below them. Hubs are closed upwards, so a value a that shares no *top* with c (an ancestor that is no hub, but whose
parents all are) has only hubs in common with c, and their distance follows from the paths of both to them. Concepts
below the same hubs form a group; the least path of any of them to each hub gives a total that none of them is below,
but for the values that share a top with it: at most their weight. Concepts are then tried, the least bound first, until
the bounds of all others are beyond the least total.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.distance import Distance
from stream_masker.core.distance.many import Sources
from stream_masker.core.dtypes import Float64Array, Int32Array, Int32Matrix, Int64Array, UInt64Matrix
from stream_masker.core.kernels.jit import int32, kernel

SEARCH_HUBS = (16, 64, 256)
"""How many hubs the bounds come from: few for all concepts, more for those that remain."""

SEARCH_BATCH = 32
"""Concepts that are tried at a time."""

SAFETY = 1e-9
"""Totals and bounds may be off by this much of all the weight, for rounding."""

FAR = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Some concepts (k,) int32 and their total distances (k,); those of all other concepts are at least ``floor``."""

    concepts: Int32Array
    totals: Float64Array
    floor: float


class MeanSearch:
    """Looks for the concepts of least total distance to values (v,), distinct, with positive weights (v,)."""

    def __init__(self, d: Distance, positions: Int32Array, weights: Float64Array) -> None:
        """``positions`` of the values in the distance's taxonomy."""
        self._d = d
        self._tau = d.taxonomy
        self._targets = d.targets(positions)
        self._weights = weights
        self._slip = SAFETY * float(weights.sum())
        self._below = dag_weights_below(d.sources(positions), weights, len(d.taxonomy))

    def least(self, *, near: int = 0) -> Found:
        """Among others all concepts of the least total. ``near``: one to try first: the nearer, the shorter."""
        found = self._search(self._undominated(), near, self._slip)
        return replace(found, floor=float(found.totals.min()))

    def nearly_least(self, reserve: float, *, near: int = 0) -> Found:
        """Among others all concepts whose totals are beyond the least by no more than ``reserve``."""
        return self._search(np.arange(len(self._tau), dtype=np.int32), near, self._slip + reserve)

    def totals(self, concepts: Int32Array) -> Float64Array:
        """(k,): the total distances of k concepts."""
        return self._targets.sums(self._d.sources(concepts), self._weights)[0]

    def _undominated(self) -> Int32Array:
        """Concepts that are not farther from every value than their only parent: with weight below, or more parents."""
        parents = np.diff(self._tau.parent_offsets)
        return np.flatnonzero((self._below > 0.0) | (parents > 1)).astype(np.int32)

    def _search(self, concepts: Int32Array, near: int, beyond: float) -> Found:
        tried = _Tried(self)
        tried.add(np.array([near], np.int32))
        floor = np.inf
        bounds = np.zeros(concepts.size)
        for hubs in SEARCH_HUBS:
            bounds = self._bounds(concepts, hubs)
            tried.add(concepts[np.argsort(bounds, kind="stable")[:SEARCH_BATCH]])
            left = tried.others(concepts)
            open_ = left & (bounds <= tried.least + beyond)
            floor = min(floor, float(bounds[left & ~open_].min(initial=np.inf)))
            concepts, bounds = concepts[open_], bounds[open_]
        order = np.argsort(bounds, kind="stable")
        for start in range(0, order.size, SEARCH_BATCH):
            bound = float(bounds[order[start]])
            if bound > tried.least + beyond:
                return tried.found(min(floor, bound) - self._slip)
            tried.add(concepts[order[start : start + SEARCH_BATCH]])
        return tried.found(floor - self._slip)

    def _bounds(self, concepts: Int32Array, hubs: int) -> Float64Array:
        """(k,): what the totals of k concepts are not below."""
        up = self._tau.closure
        bit, chosen = self._hub_bits(hubs)
        signatures = np.zeros((concepts.size, -(-hubs // 64)), np.uint64)
        slack = look_up(concepts, bit, self._top_weights(bit), up.offsets, up.ancestors, signatures)
        group = equal_rows(signatures)
        paths, sizes = least_paths(concepts, group, chosen.size, bit, up.offsets, up.ancestors, up.paths)
        above = paths < FAR
        rows = Sources(offsets_from_lengths(above.sum(axis=1)), chosen[np.nonzero(above)[1]], paths[above], sizes)
        return np.asarray(self._targets.sums(rows, self._weights)[0][group] - slack)

    @cached_property
    def _heaviest(self) -> Int32Array:
        """Concepts with weight at or below them, most first, ancestors before others: the first are closed upwards."""
        there = np.flatnonzero(self._below)
        return there[np.argsort(-self._below[there], kind="stable")].astype(np.int32)

    def _hub_bits(self, hubs: int) -> tuple[Int32Array, Int32Array]:
        """(m,): each hub's bit, -1 for others; and the hubs' positions, by bit."""
        chosen = np.sort(self._heaviest[:hubs])
        bit = np.full(len(self._tau), -1, np.int32)
        bit[chosen] = np.arange(chosen.size)
        return bit, chosen

    def _top_weights(self, bit: Int32Array) -> Float64Array:
        """(m,): the weight at and below each top, 0 for others."""
        tau = self._tau
        children = np.repeat(np.arange(len(tau)), np.diff(tau.parent_offsets))
        outside = np.bincount(children, bit[tau.parents] < 0, minlength=len(tau))
        return np.where((bit < 0) & (outside == 0), self._below, 0.0)


class _Tried:
    """Concepts with their totals; each is tried once."""

    def __init__(self, search: MeanSearch) -> None:
        self._search = search
        self._done = np.zeros(len(search._tau), np.bool_)
        self._concepts: list[Int32Array] = []
        self._totals: list[Float64Array] = []
        self.least = np.inf

    def add(self, concepts: Int32Array) -> None:
        new = concepts[self.others(concepts)]
        self._done[new] = True
        self._concepts.append(new)
        self._totals.append(self._search.totals(new))
        self.least = min(self.least, float(self._totals[-1].min(initial=np.inf)))

    def others(self, concepts: Int32Array) -> NDArray[np.bool_]:
        """(k,) bool: which of k concepts have not been tried."""
        return ~self._done[concepts]

    def found(self, floor: float) -> Found:
        return Found(np.concatenate(self._concepts), np.concatenate(self._totals), floor)


def dag_weights_below(values: Sources, weights: Float64Array, concepts: int) -> Float64Array:
    """(m,): the weight of the values at or below each concept."""
    return np.asarray(np.bincount(values.ancestors, np.repeat(weights, values.sizes), concepts), np.float64)


def equal_rows(words: NDArray[np.uint64]) -> Int64Array:
    """(k,): the number, from 0 on, of the rows of (k, l) that each row is equal to."""
    rows = words.view([("", np.uint64)] * words.shape[1])[:, 0] if words.shape[1] > 1 else words[:, 0]
    return np.unique(rows, return_inverse=True)[1].astype(np.int64)


@kernel
def look_up(
    concepts: Int32Array,
    bit: Int32Array,
    top_weights: Float64Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    signatures: UInt64Matrix,
) -> Float64Array:
    """(k,) float64: the weight of the tops that subsume each concept; sets the bits of the hubs that do."""
    slack = np.zeros(concepts.size, np.float64)
    for i in range(concepts.size):
        for k in range(offsets[concepts[i]], offsets[concepts[i] + 1]):
            s = ancestors[k]
            slack[i] += top_weights[s]
            if bit[s] >= 0:
                signatures[i, bit[s] >> 6] |= np.uint64(1) << np.uint64(bit[s] & 63)
    return slack


@kernel
def least_paths(
    concepts: Int32Array,
    group: Int64Array,
    hubs: int,
    bit: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> tuple[Int32Matrix, Int64Array]:
    """(groups, hubs): the least path from a concept of a group to each hub, FAR for none; (groups,) least ancestors."""
    groups = group.max() + 1 if group.size else 0
    least = np.full((groups, hubs), FAR, np.int32)
    sizes = np.full(groups, FAR, np.int64)
    for i in range(concepts.size):
        g = group[i]
        start = offsets[concepts[i]]
        end = offsets[concepts[i] + 1]
        sizes[g] = min(sizes[g], end - start)
        for k in range(start, end):
            hub = bit[ancestors[k]]
            if hub >= 0:
                least[g, hub] = min(least[g, hub], int32(paths[k]))
    return least, sizes
