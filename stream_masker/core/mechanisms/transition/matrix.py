"""Markov matrices over named values: validation, and the invariant matrix that keeps given frequencies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ParameterError

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
