"""The disclosure risk of a transport.

Masked values are values of the window, so the joint law of originals and masks is a finite table: P(s, t) =
φ(s)·K(s, t)·r(s, t)·ψ(t). Sums and maxima over tuples s separate into one over b and one over a, so that each takes
O(tuples · values).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.kernels.elementary import exponentials, logarithms
from stream_masker.core.mechanisms.transport.scaling import products
from stream_masker.core.mechanisms.transport.scaling.columns import greatest_records, least_logs
from stream_masker.core.mechanisms.transport.scaling.solver import Problem, Scaling, own_sides, seen_from
from stream_masker.core.risk.measures import confident_share
from stream_masker.core.risk.risk import CERTAIN


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What masked records tell an attacker who knows everything but the secret. Keys are attributes.

    The figures are exact for one attribute and for a pair. In a star they are those of a law in which the others are
    independent given the root; those of children are upper bounds (``transport.star.figures``).

    * ``vulnerability``: Σ_a* max_a P(a, a*), the chance that the best guess of a value from its own mask is right.
    * ``given_record``: the same from all masks of the record. ``vulnerability_of_record``: of the whole record; in a
      star the greatest over the root and one child.
    * ``certainty``: the greatest posterior of a value given all masks, over all records that can be written.
    * ``certain``: the share of records whose best guess from the value's own mask is right with probability above 0.9.
    * ``unchanged``: the share of values that stay. ``rmse``: √E[sd²].
    * ``epsilon``: max of ln P(a* | a) − ln P(a* | a′). ``epsilon_of_record``: the same for tuples of the window; in a
      star the upper bound Σ ``epsilon_of_value``, for records with one value of each attribute.
    * ``epsilon_of_value``: what each value adds at most to the ε of a record, and each further element of an array.
    """

    vulnerability: Mapping[str, float]
    given_record: Mapping[str, float]
    vulnerability_of_record: float
    certainty: Mapping[str, float]
    certain: Mapping[str, float]
    unchanged: Mapping[str, float]
    rmse: Mapping[str, float]
    epsilon: Mapping[str, float]
    epsilon_of_record: float
    epsilon_of_value: Mapping[str, float]

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        joints: Sequence[Float64Matrix],
        squares: Sequence[Float64Matrix],
        given_record: Sequence[float],
        certainty: Sequence[float],
        vulnerability_of_record: float,
        epsilon_of_values: Sequence[float],
        epsilon_of_record: float,
    ) -> Disclosure:
        """Return the figures of attributes with the laws P(a, a*), ``joints``."""

        def each(figures: Sequence[float]) -> dict[str, float]:
            return dict(zip(names, figures, strict=True))

        own = [float(joint.max(axis=0).sum()) for joint in joints]
        return cls(
            each(own),
            each([max(pair) for pair in zip(own, given_record, strict=True)]),
            vulnerability_of_record,
            each(certainty),
            each([confident_share(joint, CERTAIN) for joint in joints]),
            each([float(np.trace(joint)) for joint in joints]),
            each([float((joint * s).sum() ** 0.5) for joint, s in zip(joints, squares, strict=True)]),
            each([_epsilon(joint) for joint in joints]),
            epsilon_of_record,
            each(epsilon_of_values),
        )

    @classmethod
    def averaged(cls, parts: Sequence[Disclosure], weights: Float64Array) -> Disclosure:
        """Return the figures of several laws: averages of chances and shares, the greatest certainty and ε.

        ``weights``: (l,) the share of records of each law. A law without records counts only for certainty and ε.
        """

        def mean(figures: Sequence[float]) -> float:
            return float(np.dot(weights, figures))

        def greatest(name: str) -> dict[str, float]:
            return {a: max(getattr(each, name)[a] for each in parts) for a in parts[0].vulnerability}

        def means(name: str, power: float = 1.0) -> dict[str, float]:
            figures = {a: [getattr(each, name)[a] ** power for each in parts] for a in parts[0].vulnerability}
            return {a: mean(each) ** (1.0 / power) for a, each in figures.items()}

        return cls(
            vulnerability=means("vulnerability"),
            given_record=means("given_record"),
            vulnerability_of_record=mean([each.vulnerability_of_record for each in parts]),
            certainty=greatest("certainty"),
            certain=means("certain"),
            unchanged=means("unchanged"),
            rmse=means("rmse", 2.0),
            epsilon=greatest("epsilon"),
            epsilon_of_record=max(each.epsilon_of_record for each in parts),
            epsilon_of_value=greatest("epsilon_of_value"),
        )


def _epsilon(joint: Float64Matrix) -> float:
    prior, written = joint.sum(axis=1), joint.sum(axis=0) > 0.0
    logs = logarithms((joint[prior > 0.0] / prior[prior > 0.0, None])[:, written])
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def channel_rows(joint: Float64Matrix) -> Float64Matrix:
    """Return (k, k) float64: P(a* | a) from P(a, a*)."""
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))


def vulnerability_of_record(problem: Problem, scaling: Scaling) -> float:
    """V(A, B | A*, B*): the chance that the most probable original record, given the masked one, is the true one."""
    kernels = scaling.kernels
    entries = problem.table.by_row
    logs, second = logarithms(scaling.phi), logarithms(kernels.second.astype(np.float64))
    maxima = exponentials(products.row_maxima(entries.offsets, entries.columns, logs, second))
    side = seen_from(problem, kernels, scaling.phi, first=True)
    return min(float(greatest_records(side, *scaling.binding, maxima, scaling.psi).sum()), 1.0)


def stays_of_record(problem: Problem, scaling: Scaling) -> float:
    """P(A = A*, B = B*): the share of records in which masking changes no value."""
    rows, columns = problem.table.rows, problem.table.columns
    stays = scaling.phi * scaling.psi * np.diag(scaling.kernels.first)[rows] * np.diag(scaling.kernels.second)[columns]
    for binding, own in zip(scaling.binding, (rows, columns), strict=True):
        tuples = np.repeat(np.arange(own.size), np.diff(binding.offsets))
        cut = np.flatnonzero(binding.values == own[tuples])
        stays[tuples[cut]] *= binding.factors[cut]
    return float(stays.sum())


def epsilon_of_record(problem: Problem, scaling: Scaling) -> float:
    """max over t, s, s′ of ln M(t | s) − ln M(t | s′), over the window's tuples s, s′ and the written tuples t.

    With limits it is an upper bound: the first term is that without factors.
    """
    kernels = scaling.kernels
    first, second = (logarithms(kernel.astype(np.float64)) for kernel in (kernels.first, kernels.second))
    logs = -logarithms(np.maximum(scaling.phi, np.finfo(np.float64).tiny)) + logarithms(problem.law)
    masks = products.transposed(np.ascontiguousarray(first))
    greatest = problem.table.by_row.maxima(-logs, masks, second)
    least = -problem.table.by_row.maxima(logs, -masks, -second)
    for side, mine, others in zip(
        own_sides(problem, kernels, scaling.phi), scaling.binding, scaling.binding[::-1], strict=True
    ):
        least_logs(side, mine, others, logs, least)
    return float((greatest - least)[scaling.psi > 0.0].max())
