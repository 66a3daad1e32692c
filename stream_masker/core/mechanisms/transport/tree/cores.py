"""The scalars of a tree, with one common factor of λ: what their masks tell, without their arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.mechanisms.transport import disclosure
from stream_masker.core.mechanisms.transport.field.channel import FieldChannel
from stream_masker.core.mechanisms.transport.field.disclosure import DRAWS, ROUGH_DRAWS, FieldRisk
from stream_masker.core.mechanisms.transport.field.links import Field, Start
from stream_masker.core.mechanisms.transport.field.solver import FieldProblem, Solution, field_of, joints_of, solve
from stream_masker.core.mechanisms.transport.fit import Fit
from stream_masker.core.mechanisms.transport.solver import (
    MARGINAL_ERROR,
    MAX_EXPONENT,
    Problem,
    Scaling,
    balance,
)


class Core(Protocol):
    """Scalars that are masked together, for any common factor of λ."""

    @property
    def laws(self) -> Mapping[int, Float64Array]:
        """The law of each attribute."""

    def joints(self, factor: float) -> Mapping[int, Float64Matrix]:
        """Return (k, k) float64: the law of the value and the mask of each attribute."""

    def chance(self, factor: float, *, rough: bool) -> float:
        """Return an upper bound of the greatest chance of a best guess of a value, or an estimate of it."""

    def epsilons(self, factor: float) -> Mapping[int, float]:
        """Return what each attribute adds at most to the ε of a record."""


@dataclass(eq=False)
class SingleCore:
    """One attribute; ``ratio``: λ for a factor of 1."""

    attribute: int
    problem: Problem
    counts: Int64Array
    ratio: float

    def __post_init__(self) -> None:
        self._last: tuple[float, Scaling] | None = None
        self._last_joint: tuple[float, Float64Matrix] | None = None

    @property
    def laws(self) -> Mapping[int, Float64Array]:
        return {self.attribute: self.problem.law}

    def scaling(self, factor: float) -> Scaling:
        """Return the transport."""
        if self._last is None or self._last[0] != factor:
            self._last = factor, balance(self.problem, np.array([factor * self.ratio, 0.0]), None, MARGINAL_ERROR)
        return self._last[1]

    def fit(self, factor: float) -> Fit:
        """Return the transport with the numbers that its model holds."""
        return Fit.of(self.problem, self.counts, self.scaling(factor))

    def joints(self, factor: float) -> Mapping[int, Float64Matrix]:
        if self._last_joint is None or self._last_joint[0] != factor:
            self._last_joint = factor, disclosure.joint_of_first(self.problem, self.scaling(factor))
        return {self.attribute: self._last_joint[1]}

    def chance(self, factor: float, *, rough: bool) -> float:
        return float(self.joints(factor)[self.attribute].max(axis=0).sum())

    def epsilons(self, factor: float) -> Mapping[int, float]:
        return {self.attribute: disclosure.epsilon_of_record(self.problem, self.scaling(factor))}


@dataclass(eq=False)
class FieldCore:
    """The attributes of a field.

    By node: ``positions``, (k,) of the values; ``preorders``, the place of each concept of the taxonomy; ``ratios``, λ
    for a factor of 1.
    """

    problem: FieldProblem
    positions: list[Int32Array]
    preorders: list[Int32Array]
    ratios: Float64Array
    start: Start | Solution | None

    def __post_init__(self) -> None:
        self._last: tuple[float, Solution] | None = None

    @property
    def laws(self) -> Mapping[int, Float64Array]:
        links = self.problem.links
        found = [links.value_sums(node, links.law(max(node, 1))) for node in range(len(links.attributes))]
        return {j: law / law.sum() for j, law in zip(links.attributes, found, strict=True)}

    def solution(self, factor: float) -> Solution:
        """Return the field's solution."""
        if self._last is None or self._last[0] != factor:
            self._last = factor, solve(self.problem, self.start, factor * self.ratios)
            self.start = self._last[1]
        return self._last[1]

    def field(self, factor: float) -> Field:
        """Return the field with the numbers that its model holds."""
        return field_of(self.problem, self.solution(factor))

    def joints(self, factor: float) -> Mapping[int, Float64Matrix]:
        return joints_of(self.problem, self.solution(factor))

    def chance(self, factor: float, *, rough: bool) -> float:
        """The upper end of the confidence interval of ``FieldRisk``; the estimate itself for few draws."""
        solution, problem = self.solution(factor), self.problem
        channel = FieldChannel.of(
            field_of(problem, solution),
            list(problem.squares),
            self.positions,
            self.preorders,
            list(problem.extra),
            problem.power,
            problem.least,
        )
        draws = ROUGH_DRAWS if rough else DRAWS
        risk = FieldRisk.of(channel, problem.links, problem.records, solution.totals, draws)
        return float(risk.of_nodes.max()) + (0.0 if rough else risk.bound)

    def epsilons(self, factor: float) -> Mapping[int, float]:
        return epsilons_of(self.problem, factor * self.ratios)


def epsilons_of(problem: FieldProblem, sharpness: Float64Array) -> dict[int, float]:
    """Return what each attribute of a field adds at most to the ε of a record; ``sharpness``: (q,) λ.

    ln M(t | s) − ln M(t | s′) is Σ_j ln K_j(s_j, t_j) − ln K_j(s′_j, t_j) plus ln Z(s′) − ln Z(s), and Z has the same
    bound. It holds for any two records with values of the same attributes, in the window or not.
    """
    found = {}
    for attribute, squares, value, extra in zip(
        problem.links.attributes, problem.squares, sharpness, problem.extra, strict=True
    ):
        exponents = float(value) * squares.astype(np.float64) ** (problem.power / 2.0)
        exponents = exponents if extra is None else exponents + extra
        found[attribute] = 2.0 * min(MAX_EXPONENT, float(exponents.max()))
    return found
