"""The disclosure risk of a transport; that of one attribute or of a pair is exact.

Masked values are values of the window, so the joint law of originals and masks is a finite table: P(s, t) =
w(s)·K(s, t)·ψ(t) with w = P / Kψ. Sums and maxima over tuples s separate into one over b and one over a, so that each
takes O(tuples · values).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.mechanisms.transport import products
from stream_masker.core.mechanisms.transport.solver import Problem, Scaling, mean_squares
from stream_masker.core.risk.risk import CERTAIN
from stream_masker.core.risk.sampling import RecordRisk

LOG_FLOOR = 1e-300
"""Added to a number before its logarithm is taken."""


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What masked records tell an attacker who knows everything but the secret. Keys are attributes.

    The figures are exact for one attribute and for a pair. With arrays, or more than two attributes, they are those of
    a law that is Markov along the tree of attributes.

    * ``vulnerability``: Σ_a* max_a P(a, a*), the chance that the best guess of a value from its own mask is right.
    * ``given_record``: the same from all masks of the record; of scalars that are masked together an estimate
      (``transport.field.disclosure``), of an element of an array from its own mask and its scalar's.
      ``vulnerability_of_record``: of the whole record; in a tree the greatest over its linked pairs, of both values.
    * ``certain``: the share of records whose best guess from the value's own mask is right with probability above 0.9.
    * ``unchanged``: the share of values that stay. ``rmse``: √E[sd²].
    * ``epsilon``: max of ln P(a* | a) − ln P(a* | a′). ``epsilon_of_record``: the same for tuples of the window; in a
      tree the upper bound Σ ``epsilon_of_value``, for records with one value of each attribute.
    * ``epsilon_of_value``: what each value adds at most to the ε of a record, and each further element of an array
      (``transport.tree.targets``). Of a pair it is the ε of a value that is masked alone.
    """

    vulnerability: Mapping[str, float]
    given_record: Mapping[str, float]
    vulnerability_of_record: float
    certain: Mapping[str, float]
    unchanged: Mapping[str, float]
    rmse: Mapping[str, float]
    epsilon: Mapping[str, float]
    epsilon_of_record: float
    epsilon_of_value: Mapping[str, float]

    @classmethod
    def of(
        cls, names: tuple[str, ...], problem: Problem, scaling: Scaling, epsilon_of_values: Sequence[float]
    ) -> Disclosure:
        """Return the figures of one attribute or of a pair; ``epsilon_of_values``: of values that are masked alone."""
        joints = (joint_of_first(problem, scaling), joint_of_second(problem, scaling))
        given = vulnerabilities(problem, scaling)

        def each(figures: list[float]) -> dict[str, float]:
            return dict(zip(names, figures, strict=False))

        return cls(
            vulnerability=each([float(joint.max(axis=0).sum()) for joint in joints]),
            given_record=each(given.tolist()),
            vulnerability_of_record=vulnerability_of_record(problem, scaling),
            certain=each([_certain_share(joint) for joint in joints]),
            unchanged=each([float(np.trace(joint)) for joint in joints]),
            rmse=each(np.sqrt(mean_squares(problem, scaling)).tolist()),
            epsilon=each([_epsilon(joint) for joint in joints]),
            epsilon_of_record=epsilon_of_record(problem, scaling),
            epsilon_of_value=each(list(epsilon_of_values)),
        )

    @classmethod
    def of_tree(
        cls,
        names: tuple[str, ...],
        joints: Sequence[Float64Matrix],
        squares: Sequence[Float64Matrix],
        records: Mapping[tuple[int, int], RecordRisk],
        epsilon_of_values: Sequence[float],
    ) -> Disclosure:
        """Return the figures of attributes in a tree.

        * ``joints``: (k, k) P(a, a*) of each attribute. ``squares``: (k, k) sd² of each. ``records``: the risk of the
          records of each link and edge, by its attributes.
        """

        def each(figures: Iterable[float]) -> dict[str, float]:
            return dict(zip(names, figures, strict=True))

        own = [float(joint.max(axis=0).sum()) for joint in joints]
        given = list(own)
        for pair, risk in records.items():
            for j, chance in zip(pair, risk.of_attributes, strict=True):
                given[j] = max(given[j], chance)
        return cls(
            vulnerability=each(own),
            given_record=each(given),
            vulnerability_of_record=max((risk.vulnerability for risk in records.values()), default=max(own)),
            certain=each(_certain_share(joint) for joint in joints),
            unchanged=each(float(np.trace(joint)) for joint in joints),
            rmse=each(float((joint * s).sum() ** 0.5) for joint, s in zip(joints, squares, strict=True)),
            epsilon=each(_epsilon(joint) for joint in joints),
            epsilon_of_record=sum(epsilon_of_values),
            epsilon_of_value=each(epsilon_of_values),
        )


def _certain_share(joint: Float64Matrix) -> float:
    best, total = joint.max(axis=0), joint.sum(axis=0)
    return float(best[best > CERTAIN * total].sum())


def _epsilon(joint: Float64Matrix) -> float:
    prior, written = joint.sum(axis=1), joint.sum(axis=0) > 0.0
    logs = np.log((joint[prior > 0.0] / prior[prior > 0.0, None])[:, written])
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def joint_of_first(problem: Problem, scaling: Scaling) -> Float64Matrix:
    """Return (k_A, k_A) float64: P(a, a*), the joint law of A and its mask."""
    first, second = problem.kernels(scaling.sharpness)
    entries = problem.table.by_row
    half = products.row_products(entries.offsets, entries.columns, problem.law / scaling.totals, second)
    reached = products.row_products(entries.offsets, entries.columns, scaling.psi, products.transposed(half))
    result: Float64Matrix = first * reached.T
    return result


def joint_of_second(problem: Problem, scaling: Scaling) -> Float64Matrix:
    """Return (k_B, k_B) float64: P(b, b*), the joint law of B and its mask."""
    first, second = problem.kernels(scaling.sharpness)
    table, entries = problem.table, problem.table.by_column
    weights = (problem.law / scaling.totals)[table.order]
    half = products.row_products(entries.offsets, entries.columns, weights, first)
    psi = scaling.psi[table.order]
    reached = products.row_products(entries.offsets, entries.columns, psi, products.transposed(half))
    result: Float64Matrix = second * reached.T
    return result


def channel_rows(joint: Float64Matrix) -> Float64Matrix:
    """Return (k, k) float64: P(a* | a) from P(a, a*)."""
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def vulnerabilities(problem: Problem, scaling: Scaling) -> Float64Array:
    """Return (2,) float64: V(A | A*, B*) and V(B | A*, B*).

    The chance that the most probable original value, given the masked record, is the true one.
    """
    first, second = problem.kernels(scaling.sharpness)
    table = problem.table
    weights = problem.law / scaling.totals
    rows, columns = table.by_row, table.by_column
    of_a = products.row_products(rows.offsets, rows.columns, weights, second)
    best_a = products.entry_maxima(rows.offsets, rows.columns, np.log(first), _logs(products.transposed(of_a)))
    of_b = products.row_products(columns.offsets, columns.columns, weights[table.order], first)
    best_b = products.entry_maxima(columns.offsets, columns.columns, np.log(second), _logs(products.transposed(of_b)))
    return np.array([scaling.psi @ np.exp(best_a), scaling.psi[table.order] @ np.exp(best_b)])


def vulnerability_of_record(problem: Problem, scaling: Scaling) -> float:
    """V(A, B | A*, B*): the chance that the most probable original record, given the masked one, is the true one."""
    first, second = (np.log(kernel) for kernel in problem.kernels(scaling.sharpness))
    best = problem.table.by_row.maxima(np.log(problem.law / scaling.totals), first, second)
    return float(scaling.psi @ np.exp(best))


def epsilon_of_record(problem: Problem, scaling: Scaling) -> float:
    """max over t, s, s′ of ln M(t | s) − ln M(t | s′), over the window's tuples s, s′ and the written tuples t."""
    first, second = (np.log(kernel) for kernel in problem.kernels(scaling.sharpness))
    logs = np.log(scaling.totals)
    greatest = problem.table.by_row.maxima(-logs, first, second)
    least = -problem.table.by_row.maxima(logs, -first, -second)
    return float((greatest - least)[scaling.psi > 0.0].max())


def _logs(matrix: Float64Matrix) -> Float64Matrix:
    result: Float64Matrix = np.log(matrix + LOG_FLOOR)
    return result
