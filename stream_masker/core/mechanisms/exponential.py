"""The exponential mechanism over semantic distance (McSherry and Talwar 2007; related work in 2016 and 2017)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar, Literal

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.markov import DrawingMechanism
from stream_masker.core.mechanisms.noise.law import mask_classes
from stream_masker.core.mechanisms.options import MethodCard, Parameters, parameter, per_attribute
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import uniforms
from stream_masker.core.replacement import Candidates
from stream_masker.core.risk.channel import Channel
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.table import DistanceTable

WEIGHT_CACHE_BYTES = 256 << 20
"""The memory for cached cumulative weights."""

CANDIDATE_BLOCK = 64
"""The number of candidates in a block."""

DRAW_ROWS = 4096
"""The number of values drawn at a time. It bounds the memory for the distances to the candidates of their blocks."""


@dataclass(frozen=True, kw_only=True)
class ExponentialParameters(Parameters):
    """The exponential mechanism: replaces a value by a concept, with a probability that decreases with distance."""

    epsilon: float | Mapping[str, float] = parameter(
        1.0, "The privacy budget of each value, for all attributes or for each; in [0.000001, 1000].", ge=1e-6, le=1000
    )
    candidates: Literal["all", "leaves"] = parameter(
        "all",
        "The allowed replacements: every concept of the taxonomy, also groups of codes such as chapters (`all`), or "
        "`leaves` only.",
    )


class Exponential(DrawingMechanism["ExponentialDrawer"]):
    """Replaces each value a by a concept c with a probability proportional to exp(−ε·sd(a, c) / 2).

    The utility −sd(a, c) lies in [−1, 0], so replacing a by another value changes it by at most Δ = 1 for every c.
    Hence, for any values a, a' of the taxonomy and any c, P(c | a) ≤ exp(ε)·P(c | a'): each value has ε-local
    differential privacy. The ε of a record is the sum of those of its values. The mechanism does not hide whether a
    value is absent, how many elements an array has, or that records have equal keys.

    The probabilities depend only on the taxonomy, never on the window; the statistics serve drift and utility. Draws
    are exact up to the rounding of float64 and of 53-bit random numbers. A value's first draw takes one pass over its
    taxonomy; the result is cached for thousands of values (``ExponentialDrawer``).

    Most concepts of a large taxonomy are far from any value, so a small ε gives masked values that are nearly uniform
    over it. Among m concepts, those near a value only dominate the others from about ε = 2·ln(m).
    """

    name: ClassVar[str] = "exponential"
    method_card: ClassVar[MethodCard] = MethodCard(
        source="2017: section 2; McSherry and Talwar 2007",
        attributes="any number of nominal ones",
        taxonomies="any",
        preserves=("meaning (for large ε)",),
        guarantee="ε-local differential privacy of each value",
        latency="none: each record is masked alone",
        cost="some dozens of distances, and a pass over the taxonomy for each new value",
    )

    parameters_type = ExponentialParameters
    parameters: ExponentialParameters

    def __init__(self, taxonomies: Mapping[str, Taxonomy], **options: Any) -> None:
        """Create a mechanism without statistics; ``options``: see ``Mechanism``."""
        super().__init__(taxonomies, **options)
        self._epsilons = tuple(per_attribute("epsilon", self.parameters.epsilon, self._attributes).values())
        self._candidates = [Candidates.of(tau, self.parameters.candidates) for tau in self._taxonomies.values()]
        self._drawers = tuple(
            ExponentialDrawer(d, some, epsilon)
            for d, some, epsilon in zip(self._distances, self._candidates, self._epsilons, strict=True)
        )

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        table = DistanceTable.build(self._distances[j], values)
        some, classes = mask_classes(table, self._candidates[j], values)
        distances = table.levels[table.rows[np.ix_(table.index_of(values), some)]]
        rows = np.exp(-0.5 * self._epsilons[j] * distances) * classes.totals
        return Channel(values, rows / rows.sum(axis=1, keepdims=True), classes)

    def _prepare(self, statistics: Statistics) -> tuple[ExponentialDrawer, ...]:
        return self._drawers


class ExponentialDrawer:
    """Draws a block of candidates, then a candidate in it.

    The cumulative weights of all blocks for one value take one pass over the taxonomy. They are few enough to be cached
    for thousands of values. A draw is then a binary search among them, plus the distances to the candidates of one
    block.
    """

    def __init__(self, distance: Distance, candidates: Candidates, epsilon: float) -> None:
        """``epsilon``: ε of one value."""
        self._distance = distance
        self._positions = np.flatnonzero(candidates.weights).astype(np.int32)
        self._firsts = np.arange(0, self._positions.size, CANDIDATE_BLOCK)
        self._epsilon = epsilon
        self._most = max(1, WEIGHT_CACHE_BYTES // (8 * self._firsts.size))
        self._cache: OrderedDict[int, Float64Array] = OrderedDict()
        self._lock = Lock()

    def draw(self, codes: Int32Array, words: UInt64Array) -> Int32Array:
        """Draw the new positions of k values: (k,) int32. Absent values stay absent. ``words``: (k, 2) random words."""
        drawn = codes.copy()
        order = np.argsort(codes, kind="stable")
        present = order[np.searchsorted(codes[order], 0) :]
        for start in range(0, present.size, DRAW_ROWS):
            rows = present[start : start + DRAW_ROWS]
            drawn[rows] = self._draw(codes[rows], uniforms(words[rows, 0]))
        return drawn

    def _draw(self, codes: Int32Array, shares: Float64Array) -> Int32Array:
        """Draw new positions for k ascending values, by shares in [0, 1) of the total weight: (k,) int32."""
        blocks, remainders = np.empty(codes.size, np.int64), np.empty(codes.size)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], codes.size], strict=True):
            totals = self._block_totals(int(codes[start]))
            targets = shares[start:stop] * totals[-1]
            block = np.minimum(np.searchsorted(totals, targets, side="right"), totals.size - 1)
            blocks[start:stop] = block
            remainders[start:stop] = targets - np.where(block > 0, totals[block - 1], 0.0)
        return self._positions[self._choose_in_block(codes, blocks, remainders)]

    def _choose_in_block(self, codes: Int32Array, blocks: Int64Array, remainders: Float64Array) -> Int64Array:
        """Return (k,) int64: the first candidate in each block whose cumulative weight exceeds the remainder.

        If rounding leaves none, it is the last candidate of the block.
        """
        keys, which = np.unique(codes.astype(np.int64) * self._firsts.size + blocks, return_inverse=True)
        values, block = np.divmod(keys, self._firsts.size)
        cumulative = self._block_weights(values.astype(np.int32), block)
        skipped = (cumulative[which] <= remainders[:, None]).sum(axis=1)
        last = np.minimum(self._firsts[blocks] + CANDIDATE_BLOCK, self._positions.size) - 1
        positions: Int64Array = np.minimum(self._firsts[blocks] + skipped, last)
        return positions

    def _block_weights(self, codes: Int32Array, blocks: Int64Array) -> Float64Array:
        """Return (k, CANDIDATE_BLOCK) float64: the cumulative weights of the candidates in one block for each value.

        Ranks beyond the last candidate add nothing.
        """
        candidate_ranks = self._firsts[blocks][:, None] + np.arange(CANDIDATE_BLOCK)
        missing = candidate_ranks >= self._positions.size
        candidate_ranks[missing] = 0
        distances = self._distance.pairs(np.repeat(codes, CANDIDATE_BLOCK), self._positions[candidate_ranks.ravel()])
        weights = np.where(missing, 0.0, self._weights(distances).reshape(candidate_ranks.shape))
        return np.cumsum(weights, axis=1)

    def _block_totals(self, a: int) -> Float64Array:
        """Return the cumulative weights of all blocks for value a, from the cache if possible."""
        with self._lock:
            cached = self._cache.pop(a, None)
            totals = self._compute_block_totals(a) if cached is None else cached
            self._cache[a] = totals
            if len(self._cache) > self._most:
                self._cache.popitem(last=False)
            return totals

    def _compute_block_totals(self, a: int) -> Float64Array:
        weights = self._weights(self._distance.to_all(a)[self._positions])
        return np.cumsum(np.add.reduceat(weights, self._firsts))

    def _weights(self, distances: Float64Array) -> Float64Array:
        weights: Float64Array = np.exp(-0.5 * self._epsilon * distances)
        return weights
