"""Scalars that are masked together, with the arrays that are masked given one of them, fitted to a distance.

A scalar that moves too freely forces its arrays to move too far; one that moves too little does not reach its own
target. So the factor of the scalars' additional exponents (``tree.structure``) is found by bisection. Between these
ends, it is that for which scalars and arrays are guessed equally often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.mechanisms.transport.field.links import Field, Links
from stream_masker.core.mechanisms.transport.fit import Fit
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.core.mechanisms.transport.tree.edge_risk import edge_risks
from stream_masker.core.mechanisms.transport.tree.structure import Edge, energy, fit_child, sample_joint
from stream_masker.errors import StatisticsError

FIRST_FACTOR = 0.5
"""The factor of the additional exponents that is tried first."""
FACTOR_STEP = 4.0
"""The ratio of the factors that are tried until one is too great."""
NEXT_FACTOR_STEP = 1.2
"""The ratio of the factors that are tried if the model in force has a factor."""
FACTOR_PRECISION = 1.05
"""The search ends when the ratio of a factor that is too great to one that is too small is below this number."""
MAX_FACTORS = 12
GAP_LEFT_OUT = 0.02
"""The probability of the pairs that the chances of arrays leave out (``edge_risk``)."""
BALANCE = 0.02
"""The greatest difference between the chances of scalars and of arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Attributes whose masks depend on each other.

    * ``core``: the scalars; ``links``: their tree, None for a single scalar. ``arrays``: pairs (scalar, array).
    """

    core: tuple[int, ...]
    links: Links | None
    arrays: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class CoreFit:
    """The fitted scalars of a group.

    * ``single``: the fit of a single scalar, or ``field`` that of several.
    * ``joints``: by attribute, (k, k) the law of values and masks. ``start``: the start for other additional exponents.
    """

    single: Fit | None
    field: Field | None
    joints: Mapping[int, Float64Matrix]
    start: Any


@dataclass(frozen=True, slots=True, eq=False)
class GroupFit:
    """A fitted group: its scalars, its edges to arrays, and the factor of its additional exponents."""

    core: CoreFit
    edges: tuple[Edge, ...]
    factor: float


FitCore = Callable[[Mapping[int, Float64Matrix], Any], CoreFit]
"""Fits the scalars with additional exponents, by attribute, from a start or None. Raises StatisticsError."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupProblem:
    """A group with mean squared distances to meet.

    * ``names``: of all attributes. ``squares``, ``wanted``: by attribute, (k, k) sd² and the mean to meet.
    * ``edges``: those to arrays, with λ of each array alone.
    * ``first``: the first factor, and the ratio of the next ones.
    * ``alone``: returns (k, k) M(b* | b) of an array that is masked alone.
    """

    names: Sequence[str]
    squares: Sequence[Float64Matrix]
    wanted: Float64Array
    target: Target
    least: int
    edges: tuple[Edge, ...]
    first: tuple[float, float]
    alone: Callable[[int], Float64Matrix]

    def fit(self, fit_core: FitCore) -> GroupFit:
        """Fit the group, with a factor for which scalars and arrays are guessed equally often.

        A scalar is guessed more often for a greater factor, because it moves less to values with other partners. An
        array is guessed less often, because less of its distance is needed to follow. If no factor meets all distances
        of an α, arrays move farther than that. Raises StatisticsError for other targets.
        """
        if not self.edges:
            return GroupFit(fit_core({}, None), (), 0.0)
        unit = extra_exponents(self.edges, self.squares, self.target.power)
        low, high, (factor, step) = 0.0, math.inf, self.first
        failures: dict[str, StatisticsError] = {}
        held: CoreFit | None = None
        best: tuple[float, GroupFit] | None = None
        start: Any = None
        for _ in range(MAX_FACTORS):
            try:
                core = fit_core({j: factor * exponents for j, exponents in unit.items()}, start)
            except StatisticsError as failure:
                failures["scalar"], high = failure, factor
            else:
                start = core.start
                try:
                    found = GroupFit(core, self._fitted_edges(core, raised=False), factor)
                except StatisticsError as failure:
                    failures["array"], low, held = failure, factor, core
                else:
                    gap = self._gap(found)
                    best = min(best or (np.inf, found), (abs(gap), found), key=lambda each: each[0])
                    if abs(gap) <= BALANCE:
                        break
                    low, high = (low, factor) if gap > 0.0 else (factor, high)
            if high <= FACTOR_PRECISION * low:
                break
            factor = low * step if high == math.inf else math.sqrt(max(low, high / step**2) * high)
        if best is not None:
            return best[1]
        if self.target.kind != "alpha" or held is None:
            raise failures.get("array") or failures["scalar"]
        return GroupFit(held, self._fitted_edges(held, raised=True), low)

    def _gap(self, found: GroupFit) -> float:
        """Return by how much the scalars with arrays are guessed more often than the arrays: the greatest V(A | A*)
        minus the greatest V(B | A*, B*)."""
        joints = found.core.joints
        laws = [edge.laws(self.squares[edge.child], self.least) for edge in found.edges]
        risks = edge_risks(found.edges, laws, joints, self.alone, GAP_LEFT_OUT)
        of_scalars = max(float(joints[edge.parent].max(axis=0).sum()) for edge in found.edges)
        return of_scalars - max(risk.estimate for risk in risks)

    def _fitted_edges(self, core: CoreFit, *, raised: bool) -> tuple[Edge, ...]:
        samples = {j: sample_joint(core.joints[j]) for j in {edge.parent for edge in self.edges}}
        return tuple(self._fitted_edge(edge, *samples[edge.parent], raised=raised) for edge in self.edges)

    def _fitted_edge(self, edge: Edge, a: np.ndarray, new_a: np.ndarray, *, raised: bool) -> Edge:
        wanted = float(self.wanted[edge.child])
        found = fit_child(
            edge,
            self.squares[edge.child],
            self.least,
            a,
            new_a,
            wanted,
            truncated=self.target.kind == "alpha",
            raised=raised,
        )
        if isinstance(found, str):
            parent, child = self.names[edge.parent], self.names[edge.child]
            raise StatisticsError(
                f"target {self.target.kind} cannot be met: given {parent}, this window allows an RMSE of {child} "
                f"{found} (wanted: {np.sqrt(wanted):.3f})"
            )
        return replace(edge, sharpness=found)


def extra_exponents(edges: Sequence[Edge], squares: Sequence[Float64Matrix], power: float) -> dict[int, Float64Matrix]:
    """Return by scalar the (k, k) float64 additional exponents of its kernel, for a factor of 1.

    λ of each edge is that of its array alone.
    """
    found: dict[int, Float64Matrix] = {}
    for edge in edges:
        exponents = edge.sharpness * energy(edge.table, edge.counts, squares[edge.child] ** (power / 2.0))
        found[edge.parent] = found[edge.parent] + exponents if edge.parent in found else exponents
    return found
