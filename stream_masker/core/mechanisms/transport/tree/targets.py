"""Attributes that meet a vulnerability or an ε together: arrays, and more than two attributes.

λ of all attributes have one common factor and the ratios of 1 / sdVar. The factor is the greatest one, within the
tolerance, whose measure does not exceed the target.

*Vulnerability*: the greatest chance of a best guess: of a scalar of a field given all masks of the field
(``transport.field.disclosure``; the upper end of a confidence interval), of other scalars given their own mask, and of
an element of an array B given its own mask and that of its scalar A, V(B | A*, B*) (``transport.tree.edge_risk``). Then
λ of each array is raised as far as its own chance stays below the target.

*ε*: the sum of what each attribute adds at most. That is 2·max λ·sd^γ for an attribute of a field; the greatest
ln M(a* | a) − ln M(a* | a′) of other scalars; and that of M(b* | b, a, a*) for an element of an array, over all pairs
(a, b) of the window with the same a*, or without its scalar, if that is greater. The channel of a record is the product
of these, so the sum bounds its ε, for records with at most one element of each array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.mechanisms.transport.couplings import Conditional
from stream_masker.core.mechanisms.transport.search import MAX_SHARPNESS, MIN_SHARPNESS, meet_from_below
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.core.mechanisms.transport.tree.cores import Core
from stream_masker.core.mechanisms.transport.tree.edge_risk import (
    LEFT_OUT,
    EdgeRisk,
    conditional_epsilon,
    edge_risks,
    rows_with_both,
)
from stream_masker.core.mechanisms.transport.tree.structure import Edge

VULNERABILITY_SHORTFALL = 2e-3
"""How far the vulnerability may stay below its target."""
EPSILON_SHORTFALL = 0.015
"""How far ε may stay below its target, as a share of it."""
ROUNDING = 1e-4
"""What the rounding of a model may change of an ε, as a share of it."""
ROUGH_LEFT_OUT = 0.02
"""The probability of the pairs that the first search leaves out (``edge_risk``)."""
ROUGH_SHORTFALL = 0.01
ARRAY_RISE = 10.0
"""The greatest factor by which λ of an array is raised."""
ARRAY_SHORTFALL = 0.01
"""How far the chance of an array may stay below the target for its λ not to be raised."""
ARRAY_SLOPE = 0.3
"""The slope of the log odds of an array in ln λ from which its first λ is guessed."""


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """Scalars that are masked together, with their arrays, for a common factor of λ.

    * ``core``: the scalars. ``edges``: those to arrays. ``squares``: by attribute, (k, k) sd².
    * ``ratios``: by attribute, λ for a factor of 1. ``power``, ``least``: see ``Problem`` and ``Conditional``.
    """

    core: Core
    edges: tuple[Edge, ...]
    squares: Sequence[Float64Matrix]
    ratios: Float64Array
    power: float
    least: int

    def edges_at(self, factor: float) -> tuple[Edge, ...]:
        """Return the edges with their λ."""
        return tuple(replace(edge, sharpness=factor * float(self.ratios[edge.child])) for edge in self.edges)

    def laws(self, edge: Edge) -> Conditional:
        """Return the laws of an edge."""
        return edge.laws(self.squares[edge.child], self.least)


def meet_epsilon(components: Sequence[Component], alone: Mapping[int, Core], target: Target, start: float) -> float:
    """Find the factor of λ with a given ε. Raises StatisticsError.

    * ``alone``: the arrays as attributes that are masked alone. ``start``: the first factor.
    """

    def measure(factor: float) -> float:
        total = 0.0
        for component in components:
            total += sum(component.core.epsilons(factor).values())
            for edge in component.edges_at(factor):
                own = alone[edge.child].epsilons(factor)[edge.child]
                total += max(own, conditional_epsilon(component.laws(edge)))
        return total

    wanted = (1.0 - ROUNDING) * target.level
    found = meet_from_below(measure, lambda epsilon: float(np.log(epsilon)), wanted, EPSILON_SHORTFALL * wanted, start)
    return _checked(found, target, 2.0 * EPSILON_SHORTFALL * wanted, measure)


def _checked(
    found: tuple[float, float] | None, target: Target, shortfall: float, measure: Callable[[float], float]
) -> float:
    """Return the factor. Raises StatisticsError if there is none, or if even the greatest one is too small."""
    if found is not None and (found[1] >= target.level - shortfall or found[0] < 0.99 * MAX_SHARPNESS):
        return found[0]
    raise target.out_of_range(measure(MIN_SHARPNESS), measure(MAX_SHARPNESS))


class VulnerabilitySearch:
    """The search for λ of one component with a given vulnerability."""

    def __init__(
        self,
        component: Component,
        target: Target,
        alone: Callable[[int], Float64Matrix],
        previous: Mapping[int, float],
    ) -> None:
        """Prepare a search.

        ``alone``: returns M(b* | b) of an array that is masked alone. ``previous``: λ of arrays in the model in force.
        """
        self._component = component
        self._target = target
        self._alone = alone
        self._previous = previous
        self._last: tuple[float, float, tuple[EdgeRisk, ...]] | None = None

    def factor(self, start: float) -> float:
        """Find the factor of λ; ``start``: the first one. Raises StatisticsError."""
        wanted = self._target.level
        self._check_prior()
        rough = meet_from_below(
            lambda factor: self._greatest(factor, ROUGH_LEFT_OUT), _log_odds, wanted, ROUGH_SHORTFALL, start
        )
        found = meet_from_below(
            self._greatest, _log_odds, wanted, VULNERABILITY_SHORTFALL, start if rough is None else rough[0]
        )
        return _checked(found, self._target, VULNERABILITY_SHORTFALL, self._greatest)

    def _check_prior(self) -> None:
        """Raise StatisticsError if the target is below what can be guessed without masks."""
        laws = [*self._component.core.laws.values()]
        laws += [
            np.bincount(places, edge.counts) / edge.counts.sum()
            for edge in self._component.edges
            for places in (edge.table.rows, edge.table.columns)
        ]
        prior = max(float(law.max()) for law in laws)
        if self._target.level < prior:
            raise self._target.out_of_range(prior, self._greatest(MAX_SHARPNESS))

    def raised(self, factor: float) -> tuple[Edge, ...]:
        """Return the edges, with λ of each array raised as far as the chance of its best guess allows."""
        joints = self._component.core.joints(factor)
        found = []
        for edge, risk in zip(self._component.edges_at(factor), self._risks(factor, LEFT_OUT), strict=True):
            joint = joints[edge.parent]
            found.append(self._raised(edge, rows_with_both(edge, joint, joint.sum(axis=1)), risk))
        return tuple(found)

    def _raised(self, edge: Edge, law: Float64Matrix, risk: EdgeRisk) -> Edge:
        def measure(rise: float) -> float:
            sharper = replace(edge, sharpness=edge.sharpness * rise)
            laws = self._component.laws(sharper)
            return EdgeRisk.of(sharper, laws, law, lambda: self._alone(edge.child), LEFT_OUT).child

        wanted = self._target.level
        if risk.child >= wanted - ARRAY_SHORTFALL:
            return edge
        rise = float(np.exp((_log_odds(wanted) - _log_odds(risk.child)) / ARRAY_SLOPE))
        if edge.child in self._previous:
            rise = self._previous[edge.child] / edge.sharpness
        found = meet_from_below(measure, _log_odds, wanted, ARRAY_SHORTFALL, rise, (1.0, ARRAY_RISE))
        return edge if found is None else replace(edge, sharpness=edge.sharpness * found[0])

    def _risks(self, factor: float, left_out: float) -> tuple[EdgeRisk, ...]:
        if not self._component.edges:
            return ()
        if self._last is None or self._last[:2] != (factor, left_out):
            edges = self._component.edges_at(factor)
            laws = [self._component.laws(edge) for edge in edges]
            found = edge_risks(edges, laws, self._component.core.joints(factor), self._alone, left_out)
            self._last = (factor, left_out, found)
        return self._last[2]

    def _greatest(self, factor: float, left_out: float = LEFT_OUT) -> float:
        """Return the greatest chance; an estimate if much is left out."""
        rough = left_out > LEFT_OUT
        risks = self._risks(factor, left_out)
        of_arrays = [risk.estimate if rough else max(risk.parent, risk.child) for risk in risks]
        return max([self._component.core.chance(factor, rough=rough), *of_arrays])


def _log_odds(chance: float) -> float:
    share = float(np.clip(chance, 1e-9, 1.0 - 1e-9))
    return float(np.log(share / (1.0 - share)))
