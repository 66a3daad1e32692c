"""PRAM, the post-randomisation method (2017: section 2; Kooiman, Willenborg and Gouweleeuw 1997)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.distance import DistanceChoice
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.mechanisms.base import MethodCard
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.serialization import (
    pack_array,
    pack_counts,
    read_model_field,
    unpack_array,
    unpack_counts,
)
from stream_masker.core.mechanisms.transition.transitions import RowTransition, ShareTransition, Transition
from stream_masker.core.mechanisms.transition.trie import Domain
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import number_between, require_type
from stream_masker.errors import ParameterError, StatisticsError

NamedMatrix: TypeAlias = Mapping[str, Mapping[str, float]]
"""The transition probabilities from each value to each value, by name; omitted ones are 0."""

MAX_MATRIX_VALUES = 2000
"""The largest number of values in a matrix."""
ROW_SUM_TOLERANCE = 1e-9
"""How far the sum of a row may differ from 1; rows are divided by their sum."""


@dataclass(frozen=True, slots=True, eq=False)
class MarkovMatrix:
    """A validated row-stochastic matrix. Immutable.

    * ``values``: (v,) int32 positions, ascending.
    * ``probabilities``: (v, v) float64, row i from value i.
    """

    values: Int32Array
    probabilities: Float64Array

    @classmethod
    def of(cls, attribute: str, named: NamedMatrix, taxonomy: Taxonomy) -> MarkovMatrix:
        """Raises ParameterError, which names attribute and value, unless the matrix is square and row-stochastic."""
        _check_shape(attribute, named)
        _check_concepts(attribute, named, taxonomy)
        values = np.sort(taxonomy.encode(list(named)))
        index_of = {concept: i for i, concept in enumerate(taxonomy.decode(values))}
        probabilities = np.zeros((values.size, values.size))
        for value, row in named.items():
            for target, probability in _checked_row(attribute, value, row, index_of).items():
                probabilities[index_of[value], index_of[target]] = probability
        return cls(values, _normalized(attribute, named, index_of, probabilities))


def _check_shape(attribute: str, named: object) -> None:
    if not isinstance(named, Mapping) or not 2 <= len(named) <= MAX_MATRIX_VALUES:
        raise ParameterError(
            f"the matrix of {attribute!r} is not allowed: "
            f"use a mapping of 2 to {MAX_MATRIX_VALUES} values, each to its row"
        )


def _check_concepts(attribute: str, named: NamedMatrix, taxonomy: Taxonomy) -> None:
    unknown = [value for value, position in zip(named, taxonomy.find(list(named)), strict=True) if position < 0]
    if unknown:
        raise ParameterError(f"the matrix of {attribute!r} has a row for {unknown[0]!r}, which is not in its taxonomy")


def _checked_row(attribute: str, value: str, row: object, index_of: Mapping[str, int]) -> Mapping[str, float]:
    where = f"the matrix of {attribute!r}, row {value!r}"
    if not isinstance(row, Mapping):
        raise ParameterError(f"{where} is a {type(row).__name__}: use a mapping of values to probabilities")
    for target, probability in row.items():
        if target not in index_of:
            raise ParameterError(f"{where} leads to {target!r}, which has no row: the matrix must be square")
        if isinstance(probability, bool) or not isinstance(probability, Real) or not 0 <= float(probability) <= 1:
            raise ParameterError(f"{where} gives {target!r} the probability {probability!r}: use a number from 0 to 1")
    return row


def _normalized(
    attribute: str, named: NamedMatrix, index_of: Mapping[str, int], probabilities: Float64Array
) -> Float64Array:
    for value in named:
        total = math.fsum(probabilities[index_of[value]])
        if abs(total - 1.0) > ROW_SUM_TOLERANCE:
            raise ParameterError(
                f"the matrix of {attribute!r} is not stochastic: row {value!r} sums to {total:.10g}, and must sum to 1"
            )
    if (probabilities.diagonal() >= 1.0).all():
        raise ParameterError(f"the matrix of {attribute!r} changes no value, so nothing would be masked")
    result: Float64Array = probabilities / probabilities.sum(axis=1, keepdims=True)
    return result


@kernel
def invariant(probabilities: Float64Matrix, shares: Float64Array) -> Float64Matrix:
    """Return R = P·Q, (v, v) float64, for which tR = t: P followed by its reversal, Qkl = plk·tl / Σj pjk·tj.

    * ``probabilities``: P, (v, v) float64.
    * ``shares``: t, (v,) float64.

    A value k that nothing in t becomes is reversed to values by t, which preserves tR = t. Sums have one fixed order,
    so the result is identical on every machine.
    """
    v = shares.size
    reached = np.zeros(v, np.float64)
    for j in range(v):
        for k in range(v):
            reached[k] += probabilities[j, k] * shares[j]
    result = np.zeros((v, v), np.float64)
    for i in range(v):
        for k in range(v):
            if probabilities[i, k] > 0.0:
                for j in range(v):
                    back = shares[j] if reached[k] == 0.0 else probabilities[j, k] * shares[j] / reached[k]
                    result[i, j] += probabilities[i, k] * back
    return result


MAX_RETENTION = 0.999


class Pram(MarkovMechanism):
    """Replaces each value according to a Markov matrix, given or estimated from the window.

    * Given (``matrices``): P over named values, row-stochastic. It is applied as it is or, with ``invariant``, as the
      two-stage matrix R = P·Q that preserves the window's frequencies t in expectation, tR = t (``matrix.invariant``).
    * Estimated, for attributes without a matrix: P = θ·I + (1 − θ)·1t with θ = ``retention``. A value stays with
      probability θ; otherwise it is drawn by frequency. This matrix is invariant: tP = t.

    A value without a row becomes a value that has one, with the window's frequencies. Such a value is not named in the
    given matrix, or, if the matrix is estimated, not contained in the window.
    """

    name: ClassVar[str] = "pram"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="replaces a value according to a Markov matrix, given or estimated from the window",
        use_when="analysts correct for known transition probabilities, or the marginals must be invariant",
        source="2017: section 2; Kooiman and others 1997",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("marginals (if invariant or estimated)", "what the matrix is designed to preserve"),
        guarantee="that of the matrix: each masked value's original has known probabilities",
        latency="none: each record is masked alone",
        cost="O(log v) for v values of the matrix",
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        matrices: Mapping[str, NamedMatrix] | None = None,
        invariant: bool = False,
        retention: float = 0.5,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``matrices``: by attribute, ``{value: {new value: probability}}``. Every value has a row that sums to 1, and
          leads to values with rows. Without a matrix, it is estimated.
        * ``invariant``: whether given matrices are made invariant.
        * ``retention``: θ of estimated matrices, from 0 to 0.999.
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        require_type("invariant", invariant, bool)
        self._invariant = invariant
        self._retention = number_between("retention", retention, 0.0, MAX_RETENTION)
        self._matrices = _checked_matrices(matrices or {}, self._taxonomies)

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        """Return values and their counts, and R if ``invariant``, so that all workers use it to the last bit."""
        return {
            name: self._attribute_model(name, column)
            for name, column in zip(self._attributes, counts.values, strict=True)
        }

    def _attribute_model(self, name: str, column: SparseCounts) -> dict[str, Any]:
        matrix = self._matrices.get(name)
        if matrix is None:
            return pack_counts(column)
        counts = _counts_of(matrix, column)
        if not counts.any():
            raise StatisticsError(f"the matrix of {name} names no value of the window")
        model = pack_counts(SparseCounts(matrix.values.astype(np.int64), counts))
        if self._invariant:
            model["matrix"] = pack_array(invariant(matrix.probabilities, counts / counts.sum()))
        return model

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> Transition:
        domain = unpack_counts(model, self._taxonomy_size(attribute))
        matrix = self._matrices.get(attribute)
        if matrix is None:
            return ShareTransition(domain, self._retention)
        if not np.array_equal(domain.values, matrix.values):
            raise StatisticsError(f"the model of {attribute} has other values than its matrix")
        probabilities = _read_matrix(model, domain) if self._invariant else matrix.probabilities
        _check_changes(attribute, domain, probabilities)
        return RowTransition.of(domain, probabilities)


def _checked_matrices(matrices: object, taxonomies: Mapping[str, Taxonomy]) -> dict[str, MarkovMatrix]:
    if not isinstance(matrices, Mapping) or not set(matrices) <= set(taxonomies):
        raise ParameterError(f"matrices are only allowed for the attributes {tuple(taxonomies)}")
    return {name: MarkovMatrix.of(name, named, taxonomies[name]) for name, named in matrices.items()}


def _counts_of(matrix: MarkovMatrix, column: SparseCounts) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return (v,) int64: the count of each value of the matrix."""
    places, counted = located(column.keys, matrix.values)
    return np.where(counted, column.counts[places], 0)


def _read_matrix(model: Mapping[str, Any], domain: Domain) -> Float64Array:
    v = domain.values.size
    matrix: Float64Array = unpack_array(read_model_field(model, "matrix"), np.float64, v * v).reshape(v, v)
    if not (matrix >= 0.0).all() or not (np.abs(matrix.sum(axis=1) - 1.0) <= ROW_SUM_TOLERANCE).all():
        raise StatisticsError("the model's matrix is not row-stochastic")
    return matrix


def _check_changes(attribute: str, domain: Domain, matrix: Float64Array) -> None:
    """Raise StatisticsError if a matrix keeps every value of the window, as R does if P determines the original."""
    if (matrix.diagonal()[domain.shares > 0.0] >= 1.0 - ROW_SUM_TOLERANCE).all():
        raise StatisticsError(f"the matrix of {attribute} changes no value of the window, so nothing would be masked")
