"""VICUS and Random (2012): transition probabilities by the similarity of values, that is, by what they occur with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.arrays import (
    BoolArray,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    offsets_from_lengths,
    pack_array,
    unpack_array,
)
from stream_masker.core.mechanisms.encoding import read_model_field
from stream_masker.core.mechanisms.markov import MarkovMechanism, TransitionMatrix
from stream_masker.core.mechanisms.parameters import Parameters, parameter
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.errors import ParameterError, StatisticsError

MAX_PARTITIONED_VALUES = 50
"""The greatest number of values of an attribute that is divided into parts."""

MIN_GAIN = 1e-9
"""The smallest gain for which parts are merged. Smaller gains can be rounding errors."""


@dataclass(frozen=True, kw_only=True)
class PartitionParameters(Parameters):
    """Similarity by co-occurrence and partitions of similar values: parameters that VICUS and Random share."""

    threshold: float = parameter(
        0.6, "T: the minimum similarity of values that are merged for S''; in [0, 1].", ge=0, le=1
    )
    c1: float = parameter(0.6, "The weight of S'; in [0, 1]. That of S'', c2, is 1 − c1.", ge=0, le=1)
    multigraph: bool = parameter(True, "Whether the number of co-occurrences counts, or only that values co-occur.")
    part_size: int = parameter(
        2, "The minimum number of values in a part; at least 1. An attribute with fewer has one part.", ge=1
    )
    k1: float = parameter(
        5.0,
        "The ratio of the probability of keeping a value to that of another value of its part; at least 1.",
        ge=1,
        le=1_000_000,
    )
    k2: float = parameter(
        20.0,
        "The ratio of the probability of another value of the same part to that of a value of another part; at least "
        "1.",
        ge=1,
        le=1_000_000,
    )


def stay_probability(k1: float, k2: float, part_size: Int64Array, others: Int64Array) -> Float64Array:
    """Return Ps = k1·k2 / (k1·k2 + k2·(|S| − 1) + |S'|) (2012: equation 9).

    ``part_size``: |S|; ``others``: |S'|.
    """
    return np.asarray(k1 * k2 / (k1 * k2 + k2 * (part_size - 1.0) + others))


class Vicus(MarkovMechanism):
    """Replaces each value by transition probabilities that favour its part of similar values.

    Similar values occur together with the same values of other attributes. Let S be the part of a value among the
    attribute's v values, and S' all other values. The value stays with probability Ps = k1·k2 / (k1·k2 + k2·(|S| − 1) +
    |S'|). It becomes each other value of S with psp = Ps / k1, and each value of S' with pdp = Ps / (k1·k2) (2012:
    equations 8 to 11). The similarity (``ValueGraph``) and the parts (``divided``) are computed from the window.

    Where the paper leaves a choice: the values of an attribute are those of the window; a value that the window does
    not contain becomes one of them by frequency. An attribute with a single value in the window is masked to it.
    Elements of an array occur together with the record's other attributes, not with each other.

    The more values an attribute has, the less often a value stays, because their number is weighed against k1·k2, and
    the less association is left: attributes of more than 50 values are refused. For up to twelve values the paper
    advises a product k1·k2 of 100 or more, with a low k1.
    """

    name = "vicus"
    preserves: ClassVar[tuple[str, ...]] = ("similarity by co-occurrence", "more association than Random")
    parameters_type = PartitionParameters

    def _set_up(self) -> None:
        if len(self.attributes) < 2:
            raise ParameterError(f"{self.name} needs at least two attributes, whose values occur together")

    def _model(self, counts: Counts, statistics: Statistics) -> dict[str, Any]:
        for name, column in zip(self.attributes, counts.values, strict=True):
            if column.keys.size > MAX_PARTITIONED_VALUES:
                raise StatisticsError(
                    f"{name} has {column.keys.size} values in the window, {self.name} is for at most "
                    f"{MAX_PARTITIONED_VALUES}: with more, hardly any association is left (of an sdCor of 0.26, 0.03 "
                    "at 700 values)"
                )
        given, models = self.parameters, super()._model(counts, statistics)
        graph = ValueGraph.of(counts, self._sizes, multigraph=given.multigraph)
        similarities = graph.similarities(threshold=given.threshold, c1=given.c1)
        for model, similarity in zip(models.values(), similarities, strict=True):
            model["parts"] = pack_array(divided(similarity, given.part_size).astype(np.int32))
        return models

    def _matrix(self, values: Int32Array, counts: Int64Array, model: object) -> TransitionMatrix:
        labels = unpack_array(read_model_field(model, "parts"), np.int32, values.size)
        sizes = np.bincount(labels)[labels]
        keep = stay_probability(self.parameters.k1, self.parameters.k2, sizes, values.size - sizes)
        weights = np.vstack((self._weights(keep, labels[:, None] == labels[None, :]), counts.astype(float)))
        weights[np.diag_indices(values.size)] = 0.0
        return TransitionMatrix(values, keep, weights)

    def _weights(self, keep: Float64Array, together: BoolArray) -> Float64Array:
        """Return (v, v): the weight with which each value becomes each other one.

        ``keep``: (v,) the probability that a value stays. ``together``: (v, v) whether two values are in one part.
        """
        k1, k2 = self.parameters.k1, self.parameters.k2
        return np.asarray(keep[:, None] / np.where(together, k1, k1 * k2))


class RandomTransitions(Vicus):
    """Keeps each value as often as VICUS, and otherwise replaces it by any other value with equal probability.

    This is the paper's Random method (2012: section 3.1.1, equation 12), to which VICUS is compared. It uses the parts
    only for the probability of staying.
    """

    name = "random"
    preserves = ("the set of values",)

    def _weights(self, keep: Float64Array, together: BoolArray) -> Float64Array:
        return np.ones(together.shape)


@dataclass(frozen=True, slots=True, eq=False)
class ValueGraph:
    """Similarity of the n values of a window by the values that they occur with (2012: section 2). Immutable.

    The vertices of a graph are the values of all attributes. Values that occur in the same record are adjacent: in the
    simple graph G by one edge, in the multigraph H by one edge for each such record. Values of the same attribute are
    never adjacent, and similarity is defined between values of the same attribute only.

    * S'ij = Σk √(aik·akj) / √(d(i)·d(j)) (equation 2), in [0, 1], and 1 on the diagonal. aik is the number of edges
      between i and k, and d(i) the number of edges at i. A value without edges is similar only to itself.
    * S''ij is S'ij of the graph after merging for i and j: values c and d of another attribute are merged if c is
      adjacent to i, d is adjacent to j, and S'cd > T; chains of such pairs become one vertex (algorithm 1). Merging
      keeps parallel edges and therefore the degrees. The paper does not say so, but its Table 2 requires it.
    * Sij = c1·S'ij + c2·S''ij (equation 1).

    * ``blocks``: the vertices of each attribute, in the order of the positions of its values.
    * ``edges``: (n, n) float64, a: the number of edges between two vertices.
    """

    blocks: tuple[slice, ...]
    edges: Float64Matrix

    @classmethod
    def of(cls, counts: Counts, sizes: Sequence[int], *, multigraph: bool) -> ValueGraph:
        """Build the graph from the counts of a window; ``sizes``: the number of concepts of each taxonomy."""
        values = [column.keys for column in counts.values]
        firsts = offsets_from_lengths(np.array([len(found) for found in values])).tolist()
        edges = np.zeros((firsts[-1], firsts[-1]))
        for (i, j), pair in counts.pairs.items():
            a, b = np.divmod(pair.keys, sizes[j])
            u, w = firsts[i] + np.searchsorted(values[i], a), firsts[j] + np.searchsorted(values[j], b)
            edges[u, w] = edges[w, u] = pair.counts if multigraph else 1.0
        return cls(tuple(map(slice, firsts[:-1], firsts[1:])), edges)

    def similarities(self, *, threshold: float, c1: float) -> list[Float64Matrix]:
        """S: for each attribute (v, v) float64, in the order of its positions. c2 is 1 − ``c1``."""
        first = self.direct()
        return [c1 * s1 + (1.0 - c1) * s2 for s1, s2 in zip(first, self.transitive(first, threshold), strict=True)]

    def direct(self) -> list[Float64Matrix]:
        """S': for each attribute (v, v) float64."""
        roots = np.sqrt(self.edges)
        return [self._scaled(block, roots[block] @ roots[block].T) for block in self.blocks]

    def transitive(self, direct: list[Float64Matrix], threshold: float) -> list[Float64Matrix]:
        """S'': for each attribute (v, v) float64. ``direct``: S'; ``threshold``: T."""
        similar = [matrix > threshold for matrix in direct]
        return [self._scaled(block, self._shared(block, similar)) for block in self.blocks]

    def _shared(self, own: slice, similar: list[BoolArray]) -> Float64Matrix:
        """Return Σ √(edges to i · edges to j) over the merged vertices, for each two values of an attribute."""
        edges = self.edges[own]
        shared = np.zeros((len(edges),) * 2)
        for block, close in zip(self.blocks, similar, strict=True):
            for i, j in combinations(range(len(edges)), 2) if block != own else ():
                to_i, to_j = edges[i, block], edges[j, block]
                group = merged((to_i > 0)[:, None] & (to_j > 0)[None, :] & close)
                shared[i, j] += np.sqrt(np.bincount(group, to_i) * np.bincount(group, to_j)).sum()
        return shared + shared.T

    def _scaled(self, own: slice, shared: Float64Matrix) -> Float64Matrix:
        """Return the shared edges of an attribute's values over √(d(i)·d(j)), at most 1, and 1 on the diagonal."""
        degrees = np.sqrt(self.edges[own].sum(axis=1))
        scale = np.outer(degrees, degrees)
        scaled = np.minimum(shared / np.where(scale > 0.0, scale, 1.0), 1.0)
        np.fill_diagonal(scaled, 1.0)
        return scaled


def merged(linked: BoolArray) -> Int64Array:
    """Return (v,) int64: the least vertex that each vertex is connected with. ``linked``: (v, v), in either order."""
    either, group = linked | linked.T, np.arange(len(linked))
    while True:
        least = np.minimum(group, np.where(either, group[None, :], len(group)).min(axis=1, initial=len(group)))
        if np.array_equal(least, group):
            return group
        group = least


def divided(similarity: Float64Matrix, part_size: int) -> Int64Array:
    """Return (v,) int64: the part of each value, numbered from 0 (2012: section 3.1, step 1).

    The paper minimises the cut, which would be minimal for a single part. So fitness is the sum of Sij − S̄ over the
    pairs within parts, with S̄ the mean of S over all pairs. The paper searches with a genetic algorithm. Here parts
    are merged, beginning with single values: the two of greatest mean similarity, first parts that are too small, until
    nothing gains.

    ``similarity``: S, (v, v) float64. ``part_size``: the smallest size of a part.
    """
    v = len(similarity)
    weights = similarity - (similarity.sum() - similarity.trace()) / max(1, v * (v - 1))
    labels = np.arange(v)
    while (count := int(labels.max()) + 1) > 1:
        members = labels[:, None] == np.arange(count)
        sizes = members.sum(axis=0)
        means = members.T @ weights @ members / np.outer(sizes, sizes)
        np.fill_diagonal(means, -np.inf)
        if sizes.min() < part_size:
            means[sizes >= part_size] = -np.inf
        elif means.max() <= MIN_GAIN:
            break
        one, other = np.unravel_index(means.argmax(), means.shape)
        labels = np.unique(np.where(labels == one, other, labels), return_inverse=True)[1]
    return labels
