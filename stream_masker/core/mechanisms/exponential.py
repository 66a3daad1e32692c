"""The exponential mechanism over semantic distance (McSherry and Talwar 2007; related work in 2016 and 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from stream_masker.core.arrays import Float64Array, Int32Array, UInt64Matrix
from stream_masker.core.distance import Distance
from stream_masker.core.mechanisms.markov import DrawingMechanism
from stream_masker.core.mechanisms.noise.law import mask_classes
from stream_masker.core.mechanisms.parameters import Parameters, parameter, per_attribute
from stream_masker.core.random import uniforms
from stream_masker.core.replacement import Candidates
from stream_masker.core.risk.law import Channel
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.table import table_of

CACHE_BYTES = 256 << 20
"""The memory for the weights of the candidates around values."""


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


class Exponential(DrawingMechanism):
    """Replaces each value a by a concept c with a probability proportional to exp(−ε·sd(a, c) / 2).

    The utility −sd(a, c) lies in [−1, 0], so replacing a by another value changes it by at most Δ = 1 for every c.
    Hence, for any values a, a' of the taxonomy and any c, P(c | a) ≤ exp(ε)·P(c | a'): each value has ε-local
    differential privacy. The ε of a record is the sum of those of its values. The mechanism does not hide whether a
    value is absent, how many elements an array has, or that records have equal keys.

    The probabilities depend only on the taxonomy, never on the window; the statistics serve drift and utility. Draws
    are exact up to the rounding of float64 and of 53-bit random numbers.

    Most concepts of a large taxonomy are far from any value, so a small ε gives masked values that are nearly uniform
    over it. Among m concepts, those near a value only dominate the others from about ε = 2·ln(m).
    """

    name = "exponential"
    source = "2017: section 2; McSherry and Talwar 2007"
    preserves = ("meaning (for large ε)",)
    guarantee = "ε-local differential privacy of each value"
    parameters_type = ExponentialParameters
    masks_are_observed = False

    def _set_up(self) -> None:
        budgets = per_attribute("epsilon", self.parameters.epsilon, self.attributes).values()
        self._drawers = tuple(
            ExponentialDrawer(d, Candidates.of(d.taxonomy, self.parameters.candidates), epsilon)
            for d, epsilon in zip(self.distances, budgets, strict=True)
        )

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        table, drawer = table_of(self.distances[j], values), self._drawers[j]
        some, classes = mask_classes(table, drawer.candidates, values)
        distances = table.levels[table.rows[np.ix_(table.index_of(values), some)]]
        rows = np.exp(-0.5 * drawer.epsilon * distances) * drawer.candidates.by_class(table).weights[some]
        return Channel(values, rows / rows.sum(axis=1, keepdims=True), classes)

    def _prepare(self, statistics: Statistics) -> tuple[ExponentialDrawer, ...]:
        return self._drawers


class ExponentialDrawer:
    """Draws a candidate by its weight exp(−ε·sd / 2). The weights around some values are kept."""

    def __init__(self, distance: Distance, candidates: Candidates, epsilon: float) -> None:
        """``epsilon``: ε of one value."""
        self.distance, self.candidates, self.epsilon = distance, candidates, epsilon
        self._positions = np.flatnonzero(candidates.weights).astype(np.int32)
        self._sums = lru_cache(max(1, CACHE_BYTES // (8 * self._positions.size)))(self._cumulated)

    def draw(self, codes: Int32Array, words: UInt64Matrix) -> Int32Array:
        """Return (k,) int32: the new positions of k values; absent ones stay absent. ``words``: (k, …) random words."""
        drawn, shares = codes.copy(), uniforms(words[:, 0])
        for value in np.unique(codes[codes >= 0]).tolist():
            rows, sums = np.flatnonzero(codes == value), self._sums(value)
            place = np.searchsorted(sums, shares[rows] * sums[-1], side="right")
            drawn[rows] = self._positions[np.minimum(place, sums.size - 1)]
        return drawn

    def _cumulated(self, value: int) -> Float64Array:
        """Return the sums of the weights of all candidates up to each one."""
        levels = self.distance.level_matrix(np.array([value], np.int32), self._positions)[0]
        return np.cumsum(np.exp(-0.5 * self.epsilon * self.distance.levels)[levels])
