"""What an intruder remains unsure of: the entropy of a record and of its confidential value (2012: section 3.2).

The intruder knows how values are masked (the transition probabilities), sees the masked file alone, and knows the
original values of some attributes of one record, of which the confidential value is sought.

* Record: each masked record x is the one sought with a probability px that is proportional to Πk P(known k was the
  original of x's masked k). The record entropy is Σ px·log2(1 / px), in bits.
* Confidential value: Di = Σx P(ci was the original of x's masked value)·px (algorithm 2); its entropy is
  Σ Di·log2(1 / Di).
* The probability of an original is Bayes' of the transition probabilities and a prior of the values. The paper tells
  none, and an intruder without the original file has none, so that all are equally probable unless priors are given.

Records alike in what counts are one term, with their number: the algorithm's sums, without its loop over records.
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
"""Of known combinations by masked ones that are held at a time."""


@dataclass(frozen=True, slots=True)
class Security:
    """Average entropies over all records, in bits. record: 0 … log2(records); confidential: 0 … log2(values)."""

    record: float
    confidential: float


def entropy(probabilities: Float64Array) -> Float64Array:
    """Σ p·log2(1 / p) along the last axis, in bits; p = 0 adds nothing."""
    logs = np.log2(probabilities, where=probabilities > 0.0, out=np.zeros_like(probabilities))
    return np.asarray(-(probabilities * logs).sum(axis=-1))


def posterior(matrix: Float64Array, prior: Float64Array | None = None) -> Float64Array:
    """(v, v): the probability that value i was the original of masked value j, in row i; columns sum to 1.

    matrix: row-stochastic transition probabilities; prior: (v,) of the original values, None for equal ones. A masked
    value that nothing becomes has the prior.
    """
    before = np.full(len(matrix), 1.0 / len(matrix)) if prior is None else prior / prior.sum()
    joint = before[:, None] * matrix
    total = joint.sum(axis=0)
    result: Float64Array = np.where(total > 0.0, joint / np.where(total > 0.0, total, 1.0), before[:, None])
    return result


def security(
    original: Int64Array,
    masked: Int64Array,
    matrices: Sequence[Float64Array],
    *,
    known: Sequence[int],
    confidential: int,
    priors: Sequence[Float64Array] | None = None,
) -> Security:
    """The average entropies over all records, each in its turn the one sought.

    original, masked: (n, p) int64, each attribute's values as indices into its matrix; matrices: (v, v) each,
    row-stochastic; known: attributes whose original values the intruder knows; confidential: the attribute sought;
    priors: of each attribute's original values, None for equal ones. Raises ParameterError for none known, or the
    confidential one among them.
    """
    if not known or confidential in known:
        raise ParameterError(f"known={list(known)!r} is not allowed: use attributes other than the one sought")
    targets, weights = np.unique(original[:, list(known)], axis=0, return_counts=True)
    seen, counts = np.unique(masked[:, [*known, confidential]], axis=0, return_counts=True)
    origins = [
        posterior(matrices[k], None if priors is None else priors[k])[:, seen[:, place]]
        for place, k in enumerate([*known, confidential])
    ]
    records, values = np.empty(len(targets)), np.empty(len(targets))
    for block in _blocks(len(targets), len(seen)):
        likely = _likelihood(targets[block], origins[:-1])
        each = likely / (likely @ counts)[:, None]
        logs = np.log2(each, where=each > 0.0, out=np.zeros_like(each))
        records[block] = -(each * logs) @ counts
        values[block] = entropy((each * counts) @ origins[-1].T)
    return Security(float(records @ weights / len(original)), float(values @ weights / len(original)))


def _blocks(targets: int, seen: int) -> Iterator[slice]:
    step = max(1, CELLS // max(seen, 1))
    return (slice(start, start + step) for start in range(0, targets, step))


def _likelihood(targets: Int64Array, origins: Sequence[Float64Array]) -> Float64Array:
    """(targets, seen): Πk P(target k was the original of seen k)."""
    result = origins[0][targets[:, 0]]
    for k in range(1, len(origins)):
        result *= origins[k][targets[:, k]]
    return result


def average_security(
    mechanism: MarkovMechanism, original: Batch, masked: MaskedBatch, *, confidential: str, known: int = 1
) -> Security:
    """The average over all records, and over intruders who know so many attributes' original values each.

    ``known`` = 1 is what 2012's Table 3 prints: each attribute but the ``confidential`` one is the known one in turn.
    For more, it is each run of attributes in their order, the first following the last. Attributes of one value tell
    nothing, and are left out. Raises ParameterError for arrays, and for values that are absent or not in the window.
    """
    matrices = [mechanism.transition_matrix(name)[1] for name in mechanism.attributes]
    before = value_indices(mechanism, original.columns)
    after = value_indices(mechanism, masked.columns)
    sought = mechanism.attributes.index(confidential)
    others = [j for j, matrix in enumerate(matrices) if j != sought and len(matrix) > 1]
    found = [security(before, after, matrices, known=chosen, confidential=sought) for chosen in _choices(others, known)]
    return Security(float(np.mean([s.record for s in found])), float(np.mean([s.confidential for s in found])))


def _choices(others: Sequence[int], known: int) -> list[list[int]]:
    """Runs of so many attributes, from each of them on and around: each attribute is known equally often."""
    if not 1 <= known <= len(others):
        raise ParameterError(f"known={known} is not allowed: use 1 to {len(others)} attributes")
    starts = range(len(others)) if known < len(others) else range(1)
    return [[others[(start + k) % len(others)] for k in range(known)] for start in starts]


def value_indices(mechanism: MarkovMechanism, columns: Sequence[Column]) -> Int64Array:
    """(n, p) int64: scalar columns' values as indices into their transition matrices.

    Raises ParameterError for arrays, and for values that are absent or not in the window.
    """
    if any(column.is_array for column in columns):
        raise ParameterError("entropies are those of scalar attributes, not of arrays")
    indices = [_indices(mechanism, j, column) for j, column in enumerate(columns)]
    if any((column < 0).any() for column in indices):
        raise ParameterError("entropies are those of values that are all there, and in the window")
    return np.stack(indices, axis=1)


def _indices(mechanism: MarkovMechanism, j: int, column: Column) -> Int64Array:
    tau = mechanism.distances[j].taxonomy
    values = tau.encode(mechanism.transition_matrix(mechanism.attributes[j])[0])
    index = np.full(len(tau) + 1, -1, np.int64)
    index[values] = np.arange(len(values))
    return index[column.codes]
