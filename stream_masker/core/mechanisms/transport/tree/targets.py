"""Trees of attributes that meet a vulnerability or an ε.

λ of all attributes have one common factor and the ratios of 1 / sdVar. The factor is the greatest one, within the
tolerance, whose measure does not exceed the target.

*Vulnerability*: the greatest over the edges (A, B) of V(A | A*, B*) and V(B | A*, B*) (``transport.tree.edge_risk``),
and of V(A | A*) of the root. Then λ of each leaf is raised as far as its own chance stays below the target.

*ε*: the sum over all attributes of the greatest ln ratio of their channel: M(a* | a) of an attribute that is masked
alone, and M(b* | b, a, a*) of a child, over all pairs (a, b) of the window with the same a*. A child counts with the
greater one of both, because it is masked alone if its parent is absent. The ratio of the whole record's channel is a
product of these, so the sum bounds the ε of any record that has at most one value of each attribute, and whose pairs
along the tree are pairs of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int64Array
from stream_masker.core.mechanisms.transport import disclosure
from stream_masker.core.mechanisms.transport.couplings import Conditional
from stream_masker.core.mechanisms.transport.fit import Fit
from stream_masker.core.mechanisms.transport.search import MAX_SHARPNESS, MIN_SHARPNESS, meet_from_below
from stream_masker.core.mechanisms.transport.solver import MARGINAL_ERROR, Problem, Scaling, balance
from stream_masker.core.mechanisms.transport.target import Target
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
LEAF_RISE = 10.0
"""The greatest factor by which λ of a leaf is raised."""
LEAF_SHORTFALL = 0.01
"""How far the chance of a leaf may stay below the target for its λ not to be raised."""
LEAF_SLOPE = 0.3
"""The slope of the log odds of a leaf in ln λ from which its first λ is guessed."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeProblem:
    """Attributes with a common factor of λ. Keys are attributes.

    * ``alone``: the problem and the counts of each attribute that is masked alone. ``squares``: (k, k) sd².
    * ``ratios``: those of λ. ``edges``: parents first. ``power``, ``least``: see ``Problem`` and ``Conditional``.
    """

    alone: Mapping[int, tuple[Problem, Int64Array]]
    squares: Sequence[Float64Matrix]
    ratios: Float64Array
    edges: tuple[Edge, ...]
    power: float
    least: int

    def scalings(self, factor: float) -> dict[int, Scaling]:
        """Return the transport of each attribute that is masked alone."""
        return {
            j: balance(problem, np.array([factor * self.ratios[j], 0.0]), None, MARGINAL_ERROR)
            for j, (problem, _) in self.alone.items()
        }

    def edges_at(self, factor: float) -> tuple[Edge, ...]:
        """Return the edges with their λ."""
        return tuple(replace(edge, sharpness=factor * float(self.ratios[edge.child])) for edge in self.edges)

    def laws(self, edge: Edge) -> Conditional:
        """Return the laws of an edge."""
        return edge.laws(self.squares[edge.child], self.power, self.least)

    def fits(self, factor: float) -> dict[int, Fit]:
        """Return the fits of the attributes that are masked alone."""
        scalings = self.scalings(factor)
        return {j: Fit.of(problem, counts, scalings[j]) for j, (problem, counts) in self.alone.items()}


def meet_epsilon(problem: TreeProblem, target: Target, start: float) -> float:
    """Find the factor of λ with a given ε; ``start``: the first one. Raises StatisticsError."""

    def measure(factor: float) -> float:
        alone = {j: disclosure.epsilon_of_record(problem.alone[j][0], s) for j, s in problem.scalings(factor).items()}
        given = {edge.child: conditional_epsilon(problem.laws(edge)) for edge in problem.edges_at(factor)}
        return sum(max(alone[j], given.get(j, 0.0)) for j in alone)

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
    """The search for λ of one tree with a given vulnerability."""

    def __init__(
        self,
        problem: TreeProblem,
        target: Target,
        alone: Callable[[int], Float64Matrix],
        previous: Mapping[int, float],
    ) -> None:
        """Prepare a search.

        * ``problem``: with one attribute masked alone, the root. ``alone``: returns M(b* | b) of other attributes
          without context. ``previous``: λ of children in the model in force.
        """
        self._problem = problem
        self._target = target
        self._alone = alone
        self._previous = previous
        self._last: tuple[float, float, tuple[EdgeRisk, ...]] | None = None
        self._last_joint: tuple[float, Float64Matrix] | None = None
        (self._root,) = problem.alone

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
        laws = [self._problem.alone[self._root][0].law]
        laws += [
            np.bincount(places, edge.counts) / edge.counts.sum()
            for edge in self._problem.edges
            for places in (edge.table.rows, edge.table.columns)
        ]
        prior = max(float(law.max()) for law in laws)
        if self._target.level < prior:
            raise self._target.out_of_range(prior, self._greatest(MAX_SHARPNESS))

    def raised(self, factor: float) -> tuple[Edge, ...]:
        """Return the edges, with λ of each leaf raised as far as the chance of its best guess allows."""
        edges = list(self._problem.edges_at(factor))
        risks = self._risks(factor, LEFT_OUT)
        joints = {self._root: self._root_joint(factor)}
        priors = {self._root: joints[self._root].sum(axis=1)}
        for k, (edge, risk) in enumerate(zip(edges, risks, strict=True)):
            joints[edge.child], priors[edge.child] = risk.joint, risk.prior
            if any(other.parent == edge.child for other in edges):
                continue
            law = rows_with_both(edge, joints[edge.parent], priors[edge.parent])
            edges[k] = self._raised_leaf(edge, law, risk)
        return tuple(edges)

    def _raised_leaf(self, edge: Edge, law: Float64Matrix, risk: EdgeRisk) -> Edge:
        def measure(rise: float) -> float:
            sharper = replace(edge, sharpness=edge.sharpness * rise)
            laws = self._problem.laws(sharper)
            return EdgeRisk.of(sharper, laws, law, lambda: self._alone(edge.child), LEFT_OUT).child

        wanted = self._target.level
        if risk.child >= wanted - LEAF_SHORTFALL:
            return edge
        rise = float(np.exp((_log_odds(wanted) - _log_odds(risk.child)) / LEAF_SLOPE))
        if edge.child in self._previous:
            rise = self._previous[edge.child] / edge.sharpness
        found = meet_from_below(measure, _log_odds, wanted, LEAF_SHORTFALL, rise, (1.0, LEAF_RISE))
        return edge if found is None else replace(edge, sharpness=edge.sharpness * found[0])

    def _root_joint(self, factor: float) -> Float64Matrix:
        if self._last_joint is None or self._last_joint[0] != factor:
            problem, _ = self._problem.alone[self._root]
            self._last_joint = factor, disclosure.joint_of_first(problem, self._problem.scalings(factor)[self._root])
        return self._last_joint[1]

    def _risks(self, factor: float, left_out: float) -> tuple[EdgeRisk, ...]:
        if self._last is None or self._last[:2] != (factor, left_out):
            self._last = (factor, left_out, self._computed_risks(factor, left_out))
        return self._last[2]

    def _computed_risks(self, factor: float, left_out: float) -> tuple[EdgeRisk, ...]:
        edges = self._problem.edges_at(factor)
        laws = [self._problem.laws(edge) for edge in edges]
        return edge_risks(edges, laws, {self._root: self._root_joint(factor)}, self._alone, left_out)

    def _greatest(self, factor: float, left_out: float = LEFT_OUT) -> float:
        """Return the greatest chance; an estimate if much is left out."""
        own = float(self._root_joint(factor).max(axis=0).sum())
        risks = self._risks(factor, left_out)
        of_children = [risk.child if left_out <= LEFT_OUT else risk.estimate for risk in risks]
        return max([own, *of_children, *(risk.parent for risk in risks if left_out <= LEFT_OUT)])


def _log_odds(chance: float) -> float:
    share = float(np.clip(chance, 1e-9, 1.0 - 1e-9))
    return float(np.log(share / (1.0 - share)))
