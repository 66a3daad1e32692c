"""Mechanisms that replace each value by a row of a Markov matrix: PRAM and the papers' baselines.

They do not look at other values of the record. Arrays are masked element by element, and absent values stay absent.
A value that the matrix does not contain is never emitted unchanged: it becomes one of the matrix' values.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array, UInt64Matrix
from stream_masker.core.kernels import draw_by_weights
from stream_masker.core.mechanisms.options import MethodCard, Parameters, parameter
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import Keys, WordLayout, draw_words, salts_of, uniforms
from stream_masker.core.risk.law import Channel, OutputClasses
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.packing import pack_counts, unpack_counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import number_between, require_mapping
from stream_masker.errors import ParameterError, StatisticsError

CHOICE_WORDS = WordLayout(width=2, first=6)
"""Two random words of each value: whether it stays, and what it becomes."""


AnyDrawer = TypeVar("AnyDrawer")
"""What draws the masks of an attribute, such as a ``MarkovMatrix``."""


class DrawingMechanism(WindowedMechanism[tuple[AnyDrawer, ...]], Generic[AnyDrawer]):
    """A mechanism whose ``_prepare`` returns what draws the masks of each attribute."""

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records; ``keys`` gives the random words of each record.

        There is no noise, so the distortions' ``squared_noise`` is 0. Raises StatisticsError before the first
        statistics, and ParameterError if the batch has other attributes, or another size than the keys.
        """
        drawers: tuple[Any, ...] = self._prepared_statistics()
        self._check(batch, keys)
        words = draw_words(keys, batch, CHOICE_WORDS)
        columns = zip(drawers, batch.columns, words, strict=True)
        after = [drawer.draw(column.codes, two) for drawer, column, two in columns]
        return self._masked(batch, after)


@dataclass(frozen=True, eq=False)
class MarkovMatrix:
    """The transition probabilities of v values of one attribute. Immutable; some figures are cached.

    Value i stays with probability sᵢ = ``stay[i]``. Otherwise a value j is drawn in proportion to its weight Wᵢⱼ:
    Pᵢⱼ = sᵢ·[i = j] + (1 − sᵢ)·Wᵢⱼ / Σₖ Wᵢₖ.

    * ``values``: (v,) int32 positions, ascending.
    * ``stay``: (v,) float64.
    * ``weights``: (1, v) float64, the same for all values, or (v, v).
    * ``outside``: (v,) float64, the weights with which a value outside the matrix becomes each value.
    * ``others``: whether a value that does not stay becomes another one: Wᵢᵢ counts as 0.
    """

    values: Int32Array
    stay: Float64Array
    weights: Float64Matrix
    outside: Float64Array
    others: bool = False

    @classmethod
    def of_rows(cls, values: Int32Array, matrix: Float64Matrix, outside: Float64Array) -> MarkovMatrix:
        """Return the matrix with these rows, (v, v), which sum to 1."""
        weights = matrix.copy()
        np.fill_diagonal(weights, 0.0)
        return cls(values, matrix.diagonal().copy(), weights, outside)

    def draw(self, codes: Int32Array, words: UInt64Matrix) -> Int32Array:
        """Return (k,) int32: the new positions of k values; absent ones stay absent. ``words``: (k, 2) random ones."""
        drawn, moved = codes.copy(), np.flatnonzero(codes >= 0)
        index, known = located(self.values, codes[moved])
        moves = ~known | (uniforms(words[moved, 0]) >= self.stay[index])
        moved, index, known = moved[moves], index[moves], known[moves]
        rows = np.where(known, index if len(self.weights) > 1 else 0, len(self.weights))
        own = np.where(known, index, -1) if self.others else np.full(index.size, -1)
        drawn[moved] = self.values[draw_by_weights(words[moved, 1], rows, own, *self._table)]
        return drawn

    @cached_property
    def _table(self) -> tuple[Float64Matrix, Float64Array, UInt64Array]:
        """The weights of each row and of values outside the matrix, their sums, and the salts of the values."""
        table = np.vstack((self.weights, self.outside))
        return table, table.cumsum(axis=1)[:, -1].copy(), salts_of(self.values)

    def matrix(self) -> Float64Matrix:
        """Return (v, v) float64: P, with the probabilities that value i becomes each value in row i."""
        weights = np.broadcast_to(self.weights, (self.values.size,) * 2).copy()
        if self.others:
            np.fill_diagonal(weights, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        weights *= (1.0 - self.stay)[:, None] / np.where(total > 0.0, total, 1.0)
        return weights + np.diag(self.stay)

    def rows_of(self, values: Int32Array) -> Float64Matrix:
        """Return (n, v) float64: the probabilities that each of n values, in the matrix or not, becomes each value."""
        index, known = located(self.values, values)
        return np.where(known[:, None], self.matrix()[index], self.outside / self.outside.sum())


class MarkovMechanism(DrawingMechanism[MarkovMatrix]):
    """A mechanism that masks with one ``MarkovMatrix`` per attribute, derived from the counts of the window."""

    def transition_matrix(self, attribute: str) -> tuple[list[str], Float64Matrix]:
        """Return the values of an attribute's matrix, v concept ids, and their (v, v) float64 probabilities.

        Raises StatisticsError before the first statistics, and ParameterError for an unknown attribute.
        """
        matrices = self._prepared_statistics()
        if attribute not in self._attributes:
            raise ParameterError(f"{attribute!r} is not an attribute: use one of {self._attributes}")
        matrix = matrices[self._attributes.index(attribute)]
        return self._taxonomies[attribute].decode(matrix.values), matrix.matrix()

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        matrix = self._prepared_statistics()[j]
        size = len(self._distances[j].taxonomy)
        return Channel(values, matrix.rows_of(values), OutputClasses.of_values(matrix.values, size))

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        """Return the values and counts of each attribute."""
        columns = [self._counted(*each) for each in zip(self._attributes, counts.values, strict=True)]
        return {a: pack_counts(c.keys, c.counts) for a, c in zip(self._attributes, columns, strict=True)}

    def _counted(self, attribute: str, column: SparseCounts) -> SparseCounts:
        """Return the values of the matrix and their counts: by default those of the window."""
        return column

    def _prepare(self, statistics: Statistics) -> tuple[MarkovMatrix, ...]:
        if set(statistics.model) != set(self._attributes):
            raise StatisticsError("the statistics have no model of these attributes")
        models = [(name, statistics.model[name], len(tau)) for name, tau in self._taxonomies.items()]
        return tuple(self._matrix(name, *unpack_counts(model, size), model) for name, model, size in models)

    @abstractmethod
    def _matrix(self, attribute: str, values: Int32Array, counts: Int64Array, model: object) -> MarkovMatrix:
        """Return the matrix of an attribute. Raises StatisticsError if its model is invalid.

        ``values``: (v,) ascending positions; ``counts``: (v,) of each; ``model``: the whole model.
        """


class NaiveDistortion(MarkovMechanism):
    """Replaces each value by one of the other values of the window, with equal probability.

    A baseline of 2017: "original values are randomly replaced by other values of the same dataset". It is read here as
    the distinct values of the dataset, not its records (``ProbabilisticDistortion`` uses records), and as values other
    than the original. A value that the window does not contain becomes any of its values.

    If there were only two values, each would always become the other, and every mask would determine its original. In
    that case each value stays with probability 1/2. A single value stays.
    """

    name: ClassVar[str] = "naive_distortion"
    method_card: ClassVar[MethodCard] = MethodCard(
        source="2017: section 5, as a baseline",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("the set of values",),
        guarantee="none in a strict sense: all other values are equally probable originals",
        latency="none: each record is masked alone",
        cost="O(v) for v values of the window",
    )

    def _matrix(self, attribute: str, values: Int32Array, counts: Int64Array, model: object) -> MarkovMatrix:
        equal = np.ones(values.size)
        return MarkovMatrix(values, np.zeros(values.size), equal[None, :], equal, others=values.size > 2)


class ProbabilisticDistortion(MarkovMechanism):
    """Replaces each value by one drawn with the frequencies of the window, independent of the original.

    A baseline of 2017: "the probability of selecting a value as replacement corresponds to the occurrence frequency of
    that value in the input dataset". It is read here as covering all values, so that a value can be drawn for itself:
    the marginal distribution is preserved in expectation, and a masked value reveals nothing about the original.
    """

    name: ClassVar[str] = "probabilistic_distortion"
    method_card: ClassVar[MethodCard] = MethodCard(
        source="2017: section 5, as a baseline",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("marginals", "mean", "dispersion"),
        guarantee="masked values are independent of the originals: they reveal only the window's frequencies",
        latency="none: each record is masked alone",
        cost="O(v) for v values of the window",
    )

    def _matrix(self, attribute: str, values: Int32Array, counts: Int64Array, model: object) -> MarkovMatrix:
        frequencies = counts.astype(np.float64)
        return MarkovMatrix(values, np.zeros(values.size), frequencies[None, :], frequencies)


NamedMatrix: TypeAlias = Mapping[str, Mapping[str, float]]
"""The transition probabilities from each value to each value, by name; omitted ones are 0."""

MAX_MATRIX_VALUES = 2000  # of a given matrix
ROW_SUM_TOLERANCE = 1e-9  # rows are divided by their sum


@dataclass(frozen=True, kw_only=True)
class PramParameters(Parameters):
    """The post-randomisation method (PRAM): replaces a value by a given or estimated Markov matrix."""

    matrices: Mapping[str, NamedMatrix] | None = parameter(
        None,
        "Markov matrices by attribute, in a configuration their JSON files. The matrix of an "
        "attribute without one is estimated.",
    )
    invariant: bool = parameter(False, "Whether given matrices are made invariant, so that marginals are preserved.")
    retention: float = parameter(
        0.5, "The share of values that an estimated matrix keeps; from 0 to 0.999.", ge=0, le=0.999
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.matrices is not None:
            require_mapping("matrices", self.matrices, "{'principal': {'A': {'A': 0.5, 'B': 0.5}, …}}")


class Pram(MarkovMechanism):
    """Replaces each value according to a Markov matrix, given or estimated from the window (2017: section 2).

    * Given (``matrices``): P over named values, row-stochastic. It is applied as it is or, with ``invariant``, as the
      two-stage matrix R = P·Q that preserves the window's frequencies t in expectation, tR = t: Q reverses P by Bayes'
      theorem, qₖₗ = pₗₖ·tₗ / Σⱼ pⱼₖ·tⱼ. A value k that nothing in t becomes is reversed to values by t.
    * Estimated, for attributes without a matrix: P = θ·I + (1 − θ)·1t with θ = ``retention``. A value stays with
      probability θ; otherwise it is drawn by frequency. This matrix is invariant: tP = t.

    A value without a row becomes a value that has one, with the window's frequencies. Such a value is not named in the
    given matrix, or, if the matrix is estimated, not contained in the window.
    """

    name: ClassVar[str] = "pram"
    method_card: ClassVar[MethodCard] = MethodCard(
        source="2017: section 2; Kooiman and others 1997",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("marginals (if invariant or estimated)", "what the matrix is designed to preserve"),
        guarantee="that of the matrix: each masked value's original has known probabilities",
        latency="none: each record is masked alone",
        cost="O(v) for v values of the matrix",
    )

    parameters_type = PramParameters
    parameters: PramParameters

    def __init__(self, taxonomies: Mapping[str, Taxonomy], **options: Any) -> None:
        """Create a mechanism without statistics; ``options``: see ``Mechanism``."""
        super().__init__(taxonomies, **options)
        given = self.parameters.matrices or {}
        if not set(given) <= set(taxonomies):
            raise ParameterError(f"matrices are only allowed for the attributes {self._attributes}")
        self._given = {name: checked_matrix(name, named, taxonomies[name]) for name, named in given.items()}

    def _counted(self, attribute: str, column: SparseCounts) -> SparseCounts:
        if attribute not in self._given:
            return column
        values, _ = self._given[attribute]
        places, counted = located(column.keys, values)
        counts = np.where(counted, column.counts[places], 0)
        if not counts.any():
            raise StatisticsError(f"the matrix of {attribute} names no value of the window")
        return SparseCounts(values.astype(np.int64), counts)

    def _matrix(self, attribute: str, values: Int32Array, counts: Int64Array, model: object) -> MarkovMatrix:
        frequencies = counts.astype(np.float64)
        if attribute not in self._given:
            stay = np.full(values.size, self.parameters.retention)
            return MarkovMatrix(values, stay, frequencies[None, :], frequencies)
        named, matrix = self._given[attribute]
        if not np.array_equal(values, named):
            raise StatisticsError(f"the model of {attribute} has other values than its matrix")
        if self.parameters.invariant:
            matrix = matrix @ reversal(matrix, frequencies / frequencies.sum())
        return MarkovMatrix.of_rows(values, matrix, frequencies)


def reversal(matrix: Float64Matrix, shares: Float64Array) -> Float64Matrix:
    """Return Q, (v, v) float64, with qₖₗ = pₗₖ·tₗ / Σⱼ pⱼₖ·tⱼ; the rows of values that nothing in t becomes are t.

    ``matrix``: P, (v, v). ``shares``: t, (v,), which sum to 1.
    """
    joint = (matrix * shares[:, None]).T
    reached = joint.sum(axis=1, keepdims=True)
    return np.where(reached > 0.0, joint / np.where(reached > 0.0, reached, 1.0), shares)


def checked_matrix(attribute: str, named: object, taxonomy: Taxonomy) -> tuple[Int32Array, Float64Matrix]:
    """Return the values of a given matrix, (v,) int32 ascending positions, and its probabilities, (v, v) float64.

    Raises ParameterError, which names attribute and value, unless the matrix is square and row-stochastic.
    """
    where = f"the matrix of {attribute!r}"
    if not isinstance(named, Mapping) or not 2 <= len(named) <= MAX_MATRIX_VALUES:
        raise ParameterError(
            f"{where} is not allowed: use a mapping of 2 to {MAX_MATRIX_VALUES} values, each to its row"
        )
    unknown = [value for value, position in zip(named, taxonomy.find(list(named)), strict=True) if position < 0]
    if unknown:
        raise ParameterError(f"{where} has a row for {unknown[0]!r}, which is not in its taxonomy")
    values = np.sort(taxonomy.encode(list(named)))
    index_of = {concept: i for i, concept in enumerate(taxonomy.decode(values))}
    rows = np.zeros((values.size, values.size))
    for value, row in named.items():
        if not isinstance(row, Mapping) or not row.keys() <= index_of.keys():
            raise ParameterError(
                f"{where}, row {value!r}: use a mapping of values that have a row, so that it is square"
            )
        for target, probability in row.items():
            name = f"{where}, row {value!r}: the probability of {target!r}"
            rows[index_of[value], index_of[target]] = number_between(name, probability, 0, 1)
        total = math.fsum(rows[index_of[value]])
        if abs(total - 1.0) > ROW_SUM_TOLERANCE:
            raise ParameterError(
                f"{where}, row {value!r} is not stochastic: it sums to {total:.10g}, and must sum to 1"
            )
    if (rows.diagonal() >= 1.0).all():
        raise ParameterError(f"{where} changes no value, so nothing would be masked")
    return values, rows / rows.sum(axis=1, keepdims=True)
