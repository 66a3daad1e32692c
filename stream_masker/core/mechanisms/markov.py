"""Mechanisms that replace each value by a draw from its row of a transition matrix, whatever else the record has.

The matrix of PRAM and of the papers' baselines is that of the window's values; a value that the window does not have
becomes one of these. The matrix of the exponential mechanism (McSherry and Talwar 2007; related work in 2016 and 2017)
is that of all concepts, of which rows are computed as they are needed. Arrays are masked element by element, and absent
values stay absent.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from stream_masker.core.arrays import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Matrix, ratio
from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.kernels import Products, draw_products
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.mechanisms.encoding import pack_counts, read_model_field, unpack_counts
from stream_masker.core.mechanisms.noise_law import mask_classes
from stream_masker.core.mechanisms.parameters import Parameters, parameter
from stream_masker.core.random import Keys, WordLayout, draw_words, salts_of, uniforms
from stream_masker.core.replacement import Candidates
from stream_masker.core.risk.law import Channel, class_of_each
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.core.table import table_of

CHOICE_WORDS = WordLayout(width=2, first=6)
"""Two random words of each value: whether it stays, and what it becomes."""

CACHE_BYTES = 256 << 20
"""The memory for the weights of the candidates around values."""


class DrawingMechanism(Mechanism):
    """A mechanism whose ``_prepare`` returns what draws the masks of each attribute, such as a transition matrix."""

    def _mask(self, batch: Batch, keys: Keys, prepared: Any) -> MaskedBatch:
        columns = zip(prepared, batch.columns, draw_words(keys, batch, CHOICE_WORDS), strict=True)
        return self._masked(batch, [drawer.draw(column.codes, words) for drawer, column, words in columns])


@dataclass(frozen=True, eq=False)
class TransitionMatrix:
    """The transition probabilities of v values of one attribute. Immutable.

    Value i stays with probability sᵢ = ``stay[i]``. Otherwise a value j is drawn in proportion to its weight Wᵢⱼ:
    Pᵢⱼ = sᵢ·[i = j] + (1 − sᵢ)·Wᵢⱼ / Σₖ Wᵢₖ. A value outside the matrix is replaced by the last row.

    * ``values``: (v,) int32 positions, ascending. ``stay``: (v,) float64.
    * ``weights``: (1, v) float64, the same for all values, or (v + 1, v).
    """

    values: Int32Array
    stay: Float64Array
    weights: Float64Matrix

    def draw(self, codes: Int32Array, words: UInt64Matrix) -> Int32Array:
        """Return (k,) int32: the new positions of k values; absent ones stay absent. ``words``: (k, 2) random ones."""
        drawn, present = codes.copy(), np.flatnonzero(codes >= 0)
        rows, stay = self._rows(codes[present])
        moves = uniforms(words[present, 0]) >= stay
        moved, rows = present[moves], rows[moves]
        given, sums = self._draws
        drawn[moved] = self.values[draw_products(given, np.zeros_like(rows), rows, sums[rows], words[moved, 1])]
        return drawn

    def rows_of(self, values: Int32Array) -> Float64Matrix:
        """Return (n, v) float64: the probabilities that each of n values, in the matrix or not, becomes each value."""
        rows, stay = self._rows(values)
        weights = self.weights[rows]
        moves = ratio(1.0 - stay, weights.sum(axis=1))
        return np.asarray(moves[:, None] * weights + stay[:, None] * (values[:, None] == self.values))

    def _rows(self, values: Int32Array) -> tuple[Int64Array, Float64Array]:
        """Return the row of weights of each of n values, and the probability that it stays."""
        index = np.minimum(np.searchsorted(self.values, values), self.values.size - 1)
        known = self.values[index] == values
        rows = np.minimum(np.where(known, index, self.values.size), len(self.weights) - 1)
        return rows, np.where(known, self.stay[index], 0.0)

    @cached_property
    def _draws(self) -> tuple[Products, Float64Array]:
        """The weights as compiled draws read them, and the sum of each row."""
        natural = np.arange(self.values.size)[None]
        given = Products(natural, np.ones(natural.shape), self.weights, salts_of(self.values))
        return given, self.weights.cumsum(axis=1)[:, -1].copy()


class MarkovMechanism(DrawingMechanism):
    """A mechanism that masks with one ``TransitionMatrix`` per attribute, derived from the counts of the window."""

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        matrix = self._prepared_statistics()[j]
        return Channel(values, matrix.rows_of(values), class_of_each(matrix.values, self._sizes[j]))

    def _model(self, counts: Counts, statistics: Statistics) -> dict[str, Any]:
        """Return the values and counts of each attribute."""
        columns = zip(self.attributes, counts.values, strict=True)
        return {name: pack_counts(column.keys, column.counts) for name, column in columns}

    def _prepare(self, statistics: Statistics) -> tuple[TransitionMatrix, ...]:
        models = [read_model_field(statistics.model, name) for name in self.attributes]
        return tuple(self._matrix(*unpack_counts(model), model) for model in models)

    @abstractmethod
    def _matrix(self, values: Int32Array, counts: Int64Array, model: object) -> TransitionMatrix:
        """Return the matrix of an attribute. Raises StatisticsError if its model is invalid.

        ``values``: (v,) ascending positions; ``counts``: (v,) of each; ``model``: the whole model.
        """


class NaiveDistortion(MarkovMechanism):
    """Replaces each value by one of the values of the window, all with equal probability.

    A baseline of 2017: "original values are randomly replaced by other values of the same dataset". It is read here as
    the distinct values of the dataset, not its records (``ProbabilisticDistortion`` uses records). A value can be drawn
    for itself: if there were only two values, each would otherwise always become the other.
    """

    name = "naive_distortion"
    preserves = ("the set of values",)

    def _matrix(self, values: Int32Array, counts: Int64Array, model: object) -> TransitionMatrix:
        return TransitionMatrix(values, np.zeros(values.size), np.ones((1, values.size)))


class ProbabilisticDistortion(MarkovMechanism):
    """Replaces each value by one drawn with the frequencies of the window, independent of the original.

    A baseline of 2017: "the probability of selecting a value as replacement corresponds to the occurrence frequency of
    that value in the input dataset". It is read here as covering all values, so that a value can be drawn for itself:
    the marginal distribution is preserved in expectation, and a masked value reveals nothing about the original.
    """

    name = "probabilistic_distortion"
    preserves = ("marginals", "mean", "dispersion")

    def _matrix(self, values: Int32Array, counts: Int64Array, model: object) -> TransitionMatrix:
        return TransitionMatrix(values, np.zeros(values.size), counts[None, :].astype(np.float64))


@dataclass(frozen=True, kw_only=True)
class PramParameters(Parameters):
    """The post-randomisation method (PRAM): keeps a value, or draws one by the frequencies of the window."""

    retention: float = parameter(0.5, "The share of values that stay; from 0 to 0.999.", ge=0, le=0.999)


class Pram(MarkovMechanism):
    """Replaces each value according to a Markov matrix estimated from the window (2017: section 2).

    P = θ·I + (1 − θ)·1t with θ = ``retention`` and t the window's frequencies: a value stays with probability θ, and is
    otherwise drawn by frequency. This matrix is invariant, tP = t, so marginals are preserved in expectation. A value
    that the window does not contain is drawn by frequency.
    """

    name = "pram"
    preserves = ("marginals",)
    parameters_type = PramParameters

    def _matrix(self, values: Int32Array, counts: Int64Array, model: object) -> TransitionMatrix:
        stay = np.full(values.size, self.parameters.retention)
        return TransitionMatrix(values, stay, counts[None, :].astype(np.float64))


@dataclass(frozen=True, kw_only=True)
class ExponentialParameters(Parameters):
    """The exponential mechanism: replaces a value by a concept, with a probability that decreases with distance."""

    epsilon: float = parameter(1.0, "The privacy budget of each value; in [0.000001, 1000].", ge=1e-6, le=1000)
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
    preserves = ("meaning (for large ε)",)
    parameters_type = ExponentialParameters
    masks_are_observed = False

    def _set_up(self) -> None:
        given = self.parameters
        self._drawers = tuple(
            ExponentialDrawer(d, Candidates.of(d.taxonomy, given.candidates), given.epsilon) for d in self.distances
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
        self._columns = distance.columns(self._positions)
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
        levels = self.distance.level_matrix(np.array([value], np.int32), self._columns)[0]
        return np.cumsum(np.exp(-0.5 * self.epsilon * self.distance.levels)[levels])
