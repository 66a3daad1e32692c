"""The uncertainty of an intruder: the entropy of a record and of its confidential value (2012: section 3.2).

The intruder knows the transition probabilities of the mechanism and the masked file. The intruder also knows the
original values of some attributes of one record, and wants its confidential value.

* Record: the probability px that masked record x belongs to that record is proportional to Πk P(the known value of
  attribute k is the original of x's masked value). The record entropy is Σ px·log2(1 / px), in bits.
* Confidential value: Di = Σx P(ci is the original of x's masked value)·px (algorithm 2). Its entropy is
  Σ Di·log2(1 / Di), in bits.
* The probability of an original value follows by Bayes' theorem from the transition probabilities and a prior. The
  paper states no prior, and an intruder without the original file has none: all values are equally likely.

Equal records are one term, weighted by their number. This gives the sums of the algorithm without a loop over records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.errors import ParameterError

CELLS = 1 << 22
"""The most pairs of a known and a masked combination of values that are processed at once."""


@dataclass(frozen=True, slots=True)
class Security:
    """Average entropies over all records, in bits.

    record: in [0, log2(records)]. confidential: in [0, log2(values)].
    """

    record: float
    confidential: float


def entropy(probabilities: Float64Array) -> Float64Array:
    """Return Σ p·log2(1 / p) along the last axis, in bits; terms with p = 0 are 0."""
    logs = np.log2(probabilities, where=probabilities > 0.0, out=np.zeros_like(probabilities))
    return np.asarray(-(probabilities * logs).sum(axis=-1))


def posterior(matrix: Float64Array) -> Float64Array:
    """Return (v, v): in row i and column j, the probability that i is the original of masked value j. Columns sum to 1.

    matrix: (v, v), row-stochastic transition probabilities. All originals are equally likely, also those of a value
    that never results from masking.
    """
    total = matrix.sum(axis=0)
    result: Float64Array = np.where(total > 0.0, matrix / np.where(total > 0.0, total, 1.0), 1.0 / len(matrix))
    return result


def security(
    original: Int64Array,
    masked: Int64Array,
    matrices: Sequence[Float64Array],
    *,
    known: Sequence[int],
    confidential: int,
) -> Security:
    """Return the average entropies over all records as targets of the intruder.

    original, masked: (n, p) int64, the values of each attribute as indices into its matrix. matrices: (v, v) for each
    attribute, row-stochastic. known: the attributes whose original values the intruder knows. confidential: the
    attribute that the intruder wants.

    Raises ParameterError if no attribute is known, or if the confidential one is.
    """
    if not known or confidential in known:
        raise ParameterError(f"known={list(known)!r} is not allowed: use attributes other than the confidential one")
    targets, weights = np.unique(original[:, list(known)], axis=0, return_counts=True)
    observed, counts = np.unique(masked[:, [*known, confidential]], axis=0, return_counts=True)
    origins = [posterior(matrices[k])[:, observed[:, column]] for column, k in enumerate([*known, confidential])]
    record, confidential_value = np.empty(len(targets)), np.empty(len(targets))
    for block in _blocks(len(targets), len(observed)):
        likely = _likelihood(targets[block], origins[:-1])
        each = likely / (likely @ counts)[:, None]
        logs = np.log2(each, where=each > 0.0, out=np.zeros_like(each))
        record[block] = -(each * logs) @ counts
        confidential_value[block] = entropy((each * counts) @ origins[-1].T)
    return Security(float(record @ weights / len(original)), float(confidential_value @ weights / len(original)))


def _blocks(targets: int, observed: int) -> Iterator[slice]:
    step = max(1, CELLS // max(observed, 1))
    return (slice(start, start + step) for start in range(0, targets, step))


def _likelihood(targets: Int64Array, origins: Sequence[Float64Array]) -> Float64Array:
    """Return (targets, observed): Πk P(value k of the target is the original of observed value k)."""
    result = origins[0][targets[:, 0]]
    for k in range(1, len(origins)):
        result *= origins[k][targets[:, k]]
    return result


def average_security(
    mechanism: MarkovMechanism, original: Batch, masked: MaskedBatch, *, confidential: str, known: int = 1
) -> Security:
    """Return the average over all records, and over intruders who each know the original values of ``known``
    attributes.

    Table 3 of 2012 has ``known`` = 1: each attribute except the ``confidential`` one is known in turn. For more, each
    run of attributes in their order is known in turn, where the first attribute follows the last. Attributes with a
    single value carry no information and are left out.

    Raises ParameterError for array attributes, and for values that are absent or not in the window.
    """
    matrices = [mechanism.transition_matrix(name)[1] for name in mechanism.attributes]
    before = value_indices(mechanism, original.columns)
    after = value_indices(mechanism, masked.columns)
    target = mechanism.attributes.index(confidential)
    others = [j for j, matrix in enumerate(matrices) if j != target and len(matrix) > 1]
    of_choices = [
        security(before, after, matrices, known=others_known, confidential=target)
        for others_known in _choices(others, known)
    ]
    return Security(
        float(np.mean([s.record for s in of_choices])), float(np.mean([s.confidential for s in of_choices]))
    )


def _choices(others: Sequence[int], known: int) -> list[list[int]]:
    """Return all cyclic runs of ``known`` attributes, so that each attribute is known equally often."""
    if not 1 <= known <= len(others):
        raise ParameterError(f"known={known} is not allowed: use 1 to {len(others)} attributes")
    starts = range(len(others)) if known < len(others) else range(1)
    return [[others[(start + k) % len(others)] for k in range(known)] for start in starts]


def value_indices(mechanism: MarkovMechanism, columns: Sequence[Column]) -> Int64Array:
    """Return (n, p) int64: the values of scalar columns as indices into the transition matrices of their attributes.

    Raises ParameterError for arrays, and for values that are absent or not in the window.
    """
    if any(column.is_array for column in columns):
        raise ParameterError("entropies are defined for scalar attributes only, not for arrays")
    indices = [_indices(mechanism, j, column) for j, column in enumerate(columns)]
    if any((column < 0).any() for column in indices):
        raise ParameterError("entropies need every value to be present and in the window")
    return np.stack(indices, axis=1)


def _indices(mechanism: MarkovMechanism, j: int, column: Column) -> Int64Array:
    tau = mechanism.distances[j].taxonomy
    values = tau.encode(mechanism.transition_matrix(mechanism.attributes[j])[0])
    index = np.full(len(tau) + 1, -1, np.int64)
    index[values] = np.arange(len(values))
    return index[column.codes]
