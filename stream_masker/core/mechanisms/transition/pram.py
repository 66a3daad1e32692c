"""PRAM, the post randomisation method (2017: section 2; Kooiman, Willenborg and Gouweleeuw 1997)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.matrix import TOLERANCE, MarkovMatrix, NamedMatrix, invariant
from stream_masker.core.mechanisms.transition.packing import (
    pack_array,
    pack_counts,
    read_model_field,
    unpack_array,
    unpack_counts,
)
from stream_masker.core.mechanisms.transition.transitions import Domain, RowTransition, ShareTransition, Transition
from stream_masker.core.mechanisms.windowed import DistanceChoice
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.validation import number_between, require_type
from stream_masker.errors import ParameterError, StatisticsError

LARGEST_RETENTION = 0.999


class Pram(MarkovMechanism):
    """Replaces each value by the probabilities of a Markov matrix between values, given or estimated.

    * Given (``matrices``): P over named values, row-stochastic; applied as it is, or, with ``invariant``, as the
      two-stage matrix R = P·Q that keeps the window's frequencies t in expectation: tR = t (``pram_matrix.invariant``).
    * Estimated from the window, for attributes without a matrix: P = θ·I + (1 − θ)·1t, with θ ``retention``: a value
      stays with probability θ, and is else drawn by frequency. This is invariant: tP = t.

    A value without a row of its own (one that the matrix does not name, or, where it is estimated, that the window does
    not hold) becomes one that has, with the window's frequencies of these.
    """

    name: ClassVar[str] = "pram"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2017: section 2; Kooiman and others 1997",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("marginals (where invariant or estimated)", "what the matrix is made to keep"),
        guarantee="what the matrix says: each masked value's original has known probabilities",
        latency="none: each record by itself",
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
        """Everything is checked here: ParameterError says what was given and what is allowed.

        taxonomies: τ by attribute, in the order of all columns. matrices: by attribute, ``{value: {value: probability
        of becoming it}}``; every value has a row that sums to 1, and leads to values with rows; None or absent: the
        matrix is estimated. invariant: whether given matrices are made invariant. retention: θ of estimated ones, from
        0 to 0.999. distance, window, window_age, rollup_depth: of the statistics. seed: the secret from which
        ``mask_one`` and ``mask_many`` derive random bits.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        require_type("invariant", invariant, bool)
        self._invariant = invariant
        self._retention = number_between("retention", retention, 0.0, LARGEST_RETENTION)
        self._matrices = _checked_matrices(matrices or {}, self._taxonomies)

    def _model(self, counts: Counts) -> Mapping[str, Any]:
        """Values and their counts; with ``invariant``, R too, so that all workers have it to the last bit."""
        return {
            name: self._model_of(name, column) for name, column in zip(self._attributes, counts.values, strict=True)
        }

    def _model_of(self, name: str, column: SparseCounts) -> dict[str, Any]:
        matrix = self._matrices.get(name)
        if matrix is None:
            return pack_counts(column)
        counts = _counts_of(matrix, column)
        if not counts.any():
            raise StatisticsError(f"no value of the window is named in the matrix of {name}")
        model = pack_counts(SparseCounts(matrix.values.astype(np.int64), counts))
        if self._invariant:
            model["matrix"] = pack_array(invariant(matrix.probabilities, counts / counts.sum()))
        return model

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> Transition:
        domain = unpack_counts(model, self._concepts(attribute))
        matrix = self._matrices.get(attribute)
        if matrix is None:
            return ShareTransition(domain, self._retention)
        if not np.array_equal(domain.values, matrix.values):
            raise StatisticsError(f"the model of {attribute} is of other values than its matrix")
        probabilities = _read_matrix(model, domain) if self._invariant else matrix.probabilities
        _check_changes(attribute, domain, probabilities)
        return RowTransition.of(domain, probabilities)


def _checked_matrices(matrices: object, taxonomies: Mapping[str, Taxonomy]) -> dict[str, MarkovMatrix]:
    if not isinstance(matrices, Mapping) or not set(matrices) <= set(taxonomies):
        raise ParameterError(f"matrices are not allowed for other attributes than {tuple(taxonomies)}")
    return {name: MarkovMatrix.of(name, named, taxonomies[name]) for name, named in matrices.items()}


def _counts_of(matrix: MarkovMatrix, column: SparseCounts) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(v,) int64: how often each value of the matrix occurs."""
    found = np.minimum(np.searchsorted(column.keys, matrix.values), len(column.keys) - 1)
    return np.where(column.keys[found] == matrix.values, column.counts[found], 0)


def _read_matrix(model: Mapping[str, Any], domain: Domain) -> Float64Array:
    v = domain.values.size
    matrix: Float64Array = unpack_array(read_model_field(model, "matrix"), np.float64, v * v).reshape(v, v)
    if not (matrix >= 0.0).all() or not (np.abs(matrix.sum(axis=1) - 1.0) <= TOLERANCE).all():
        raise StatisticsError("the model's matrix is not row-stochastic")
    return matrix


def _check_changes(attribute: str, domain: Domain, matrix: Float64Array) -> None:
    """Refuses a matrix that keeps every value of the window, as R does where P tells the original of what it gives."""
    if (matrix.diagonal()[domain.shares > 0.0] >= 1.0 - TOLERANCE).all():
        raise StatisticsError(f"the matrix of {attribute} changes no value of the window, so that nothing is masked")
