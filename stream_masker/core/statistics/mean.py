"""The semantic mean and variance of nominal values (2017: equations 13 and 14).

sMean is searched. Every concept c has a lower bound on its total Σ w·sd(c, a), derived from a few *hubs*: the
concepts with the most weight at or below them. Hubs are closed upwards: each ancestor of a hub is a hub. A *frontier*
concept is not a hub, but all its parents are. If a value a and c share no frontier ancestor, all their common ancestors
are hubs, and their distance follows from the paths of both to the hubs.

Concepts below the same hubs form a group. The shortest path from any of them to each hub gives a total that bounds the
totals of the whole group from below, except for the values that share a frontier ancestor with the concept; these
contribute at most their weight. Concepts are then evaluated in the order of their bounds, until the bounds of all
others exceed the smallest total.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.distance import ConceptsLike, Distance, require_distance
from stream_masker.core.distance.many import Sources
from stream_masker.core.dtypes import Float64Array, Int32Array, Int32Matrix, Int64Array, UInt64Matrix
from stream_masker.core.kernels.jit import int32, kernel
from stream_masker.core.statistics.counts import SparseCounts, count_keys
from stream_masker.core.statistics.marginal import Marginal

SEARCH_HUBS = (16, 64, 256)
"""The number of hubs in each round: few for all concepts, more for those that remain."""

EVALUATION_BATCH = 32
"""The number of concepts whose totals are computed at a time."""

ROUNDING_SHARE = 1e-9
"""The rounding error allowed in totals and bounds, as a share of the total weight."""

FAR = np.iinfo(np.int32).max
"""The path to a hub that is not an ancestor."""


class MeanSearch:
    """A search for the concepts of smallest total distance to v distinct values with positive weights, (v,) each."""

    def __init__(self, d: Distance, positions: Int32Array, weights: Float64Array) -> None:
        """Take the ``positions`` of the values in the distance's taxonomy, and their weights."""
        self._d = d
        self._tau = d.taxonomy
        self._targets = d.targets(positions)
        self._weights = weights
        self._tolerance = ROUNDING_SHARE * float(weights.sum())
        self._below = dag_weights_below(d.sources(positions), weights, len(d.taxonomy))

    def minimal(self, *, hint: int = 0) -> tuple[Int32Array, Float64Array]:
        """Return concepts, (k,), that contain all those of the smallest total, and their total distances.

        ``hint``: a concept to evaluate first. The nearer it is to the mean, the shorter the search.
        """
        concepts = self._undominated()
        evaluated = _Evaluated(self)
        evaluated.add(np.array([hint], np.int32))
        bounds = np.zeros(concepts.size)
        for hubs in SEARCH_HUBS:
            bounds = self._bounds(concepts, hubs)
            evaluated.add(concepts[np.argsort(bounds, kind="stable")[:EVALUATION_BATCH]])
            candidates = evaluated.unevaluated(concepts) & (bounds <= evaluated.smallest_total + self._tolerance)
            concepts, bounds = concepts[candidates], bounds[candidates]
        order = np.argsort(bounds, kind="stable")
        for start in range(0, order.size, EVALUATION_BATCH):
            if bounds[order[start]] > evaluated.smallest_total + self._tolerance:
                break
            evaluated.add(concepts[order[start : start + EVALUATION_BATCH]])
        return evaluated.result()

    def totals(self, concepts: Int32Array) -> Float64Array:
        """Return (k,) float64: the total distances of k concepts."""
        return self._targets.sums(self._d.sources(concepts), self._weights)[0]

    def _undominated(self) -> Int32Array:
        """Return the concepts that are not farther from every value than their only parent.

        These have weight at or below them, or several parents.
        """
        parents = np.diff(self._tau.parent_offsets)
        return np.flatnonzero((self._below > 0.0) | (parents > 1)).astype(np.int32)

    def _bounds(self, concepts: Int32Array, hubs: int) -> Float64Array:
        """Return (k,) float64: lower bounds on the totals of k concepts."""
        up = self._tau.closure
        bit, positions = self._hub_bits(hubs)
        signatures = np.zeros((concepts.size, -(-hubs // 64)), np.uint64)
        slack = hub_signatures(concepts, bit, self._frontier_weights(bit), up.offsets, up.ancestors, signatures)
        group = equal_rows(signatures)
        paths, sizes = shortest_paths(concepts, group, positions.size, bit, up.offsets, up.ancestors, up.paths)
        above = paths < FAR
        rows = Sources(offsets_from_lengths(above.sum(axis=1)), positions[np.nonzero(above)[1]], paths[above], sizes)
        return np.asarray(self._targets.sums(rows, self._weights)[0][group] - slack)

    @cached_property
    def _heaviest(self) -> Int32Array:
        """The concepts with weight at or below them, in descending order of weight.

        Ancestors come first, so that every prefix is closed upwards.
        """
        there = np.flatnonzero(self._below)
        return there[np.argsort(-self._below[there], kind="stable")].astype(np.int32)

    def _hub_bits(self, hubs: int) -> tuple[Int32Array, Int32Array]:
        """Return (m,) int32, each hub's bit (−1 for other concepts), and the hubs' positions by bit."""
        positions = np.sort(self._heaviest[:hubs])
        bit = np.full(len(self._tau), -1, np.int32)
        bit[positions] = np.arange(positions.size)
        return bit, positions

    def _frontier_weights(self, bit: Int32Array) -> Float64Array:
        """Return (m,) float64: the weight at and below each frontier concept; 0 for other concepts."""
        tau, there = self._tau, self._heaviest
        sizes = tau.parent_offsets[there + 1] - tau.parent_offsets[there]
        parents = tau.parents[ranges(tau.parent_offsets[there], sizes)]
        outside = np.bincount(np.repeat(np.arange(there.size), sizes), bit[parents] < 0, minlength=there.size)
        frontier = there[(bit[there] < 0) & (outside == 0)]
        weights = np.zeros(len(tau))
        weights[frontier] = self._below[frontier]
        return weights


class _Evaluated:
    """Concepts with their totals; each concept is evaluated once."""

    def __init__(self, search: MeanSearch) -> None:
        self._search = search
        self._done = np.zeros(len(search._tau), np.bool_)
        self._concepts: list[Int32Array] = []
        self._totals: list[Float64Array] = []
        self.smallest_total = np.inf

    def add(self, concepts: Int32Array) -> None:
        new = concepts[self.unevaluated(concepts)]
        self._done[new] = True
        self._concepts.append(new)
        self._totals.append(self._search.totals(new))
        self.smallest_total = min(self.smallest_total, float(self._totals[-1].min(initial=np.inf)))

    def unevaluated(self, concepts: Int32Array) -> NDArray[np.bool_]:
        """Return (k,) bool: which of k concepts have no total yet."""
        return ~self._done[concepts]

    def result(self) -> tuple[Int32Array, Float64Array]:
        return np.concatenate(self._concepts), np.concatenate(self._totals)


def dag_weights_below(values: Sources, weights: Float64Array, concepts: int) -> Float64Array:
    """Return (m,) float64: the weight of the values at or below each concept."""
    return np.asarray(np.bincount(values.ancestors, np.repeat(weights, values.sizes), concepts), np.float64)


def equal_rows(words: NDArray[np.uint64]) -> Int64Array:
    """Return (k,) int64: the number, from 0, of the distinct row that each row of (k, l) equals."""
    rows = words.view([("", np.uint64)] * words.shape[1])[:, 0] if words.shape[1] > 1 else words[:, 0]
    return np.unique(rows, return_inverse=True)[1].astype(np.int64)


@kernel
def hub_signatures(
    concepts: Int32Array,
    bit: Int32Array,
    top_weights: Float64Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    signatures: UInt64Matrix,
) -> Float64Array:
    """Return (k,) float64: the weight of the frontier concepts that subsume each concept.

    ``signatures``: (k, words) uint64 zeros; the bits of the hubs that subsume each concept are set.
    """
    slack = np.zeros(concepts.size, np.float64)
    for i in range(concepts.size):
        for k in range(offsets[concepts[i]], offsets[concepts[i] + 1]):
            s = ancestors[k]
            slack[i] += top_weights[s]
            if bit[s] >= 0:
                signatures[i, bit[s] >> 6] |= np.uint64(1) << np.uint64(bit[s] & 63)
    return slack


@kernel
def shortest_paths(
    concepts: Int32Array,
    group: Int64Array,
    hubs: int,
    bit: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> tuple[Int32Matrix, Int64Array]:
    """Return the shortest path from any concept of each group to each hub, and the smallest number of ancestors.

    The paths are (groups, hubs) int32, ``FAR`` for none; the numbers of ancestors are (groups,) int64.
    """
    groups = group.max() + 1 if group.size else 0
    shortest = np.full((groups, hubs), FAR, np.int32)
    sizes = np.full(groups, FAR, np.int64)
    for i in range(concepts.size):
        g = group[i]
        start = offsets[concepts[i]]
        end = offsets[concepts[i] + 1]
        sizes[g] = min(sizes[g], end - start)
        for k in range(start, end):
            hub = bit[ancestors[k]]
            if hub >= 0:
                shortest[g, hub] = min(shortest[g, hub], int32(paths[k]))
    return shortest, sizes


MEAN_TIE = 1e-12
"""Totals are tied if they differ by no more than this, relative to the smallest one."""


def semantic_mean(values: ConceptsLike, d: Distance) -> str:
    """sMean(A) = argmin over every c in τ of Σ sd(c, a_i) (2017: equation 13), a concept id.

    ``values`` are n concept ids or positions. The paper takes any concept of a tie; here it is the one of smallest
    depth, then of smallest id. Raises StatisticsError if there are no values, and UnknownConceptError for a value
    outside the taxonomy.
    """
    mean = mean_from_counts(value_counts(values, d), d)
    return d.taxonomy.ids[mean]


def semantic_variance(values: ConceptsLike, d: Distance) -> float:
    """sVar(A) = (1/n) Σ sd(a_i, sMean(A))², in [0, 1] (2017: equation 14). Raises as ``semantic_mean``."""
    return variance_from_counts(value_counts(values, d), d)


def value_counts(values: ConceptsLike, d: Distance) -> SparseCounts:
    """Count how often each concept occurs among n ids or positions. Raises UnknownConceptError."""
    require_distance("the distance", d)
    return count_keys(d.encode(values).astype(np.int64))


def mean_from_counts(counts: SparseCounts, d: Distance, *, hint: int = 0) -> int:
    """Return the position of sMean, from the counts of an attribute's values.

    A search evaluates few concepts; ``hint`` is a position that may be near the mean, such as the previous window's
    mean, and shortens it.
    """
    values = Marginal(counts, d)
    return choose_mean(*MeanSearch(d, values.positions, values.weights).minimal(hint=hint), d)


def choose_mean(concepts: Int32Array, totals: NDArray[np.float64], d: Distance) -> int:
    """Return the concept of smallest total distance; ties as in ``semantic_mean``. ``concepts``, ``totals``: (k,)."""
    least = concepts[totals <= totals.min() * (1.0 + MEAN_TIE)]
    depth = d.taxonomy.depth[least]
    return int(min(least[depth == depth.min()], key=lambda c: d.taxonomy.ids[c]))


def variance_from_counts(counts: SparseCounts, d: Distance, *, mean: int | None = None) -> float:
    """sVar from the counts of an attribute's values; ``mean``: the position of sMean, if it is already known."""
    values = Marginal(counts, d)
    centre = mean_from_counts(counts, d) if mean is None else mean
    distances = d.between(np.array([centre], dtype=np.int32), values.positions)[0]
    return float(values.weights @ distances**2) / values.rows
