"""What the masks of the root and of a child tell, from the exact channel P(a, b)·M(a* | a)·M(b* | b, a, a*).

Given A*, the mask B* is independent of A: its law is P(b* | a*), whatever a is. So B* tells nothing about A that A*
does not tell, but A* and B* together tell more about B than B* alone.

A large window has many pairs (a, a*), most of which hardly ever occur. The least probable ones of each a* can be left
out; what they would contribute counts as guessed right, so the figures are then upper bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix
from stream_masker.core.mechanisms.transport.limits import Caps
from stream_masker.core.mechanisms.transport.scaling.products import transposed
from stream_masker.core.mechanisms.transport.star.couplings import Conditional
from stream_masker.core.mechanisms.transport.star.edges import Edge
from stream_masker.core.mechanisms.transport.star.kernels import (
    EdgeSums,
    Pairs,
    Scratch,
    greatest_ratio,
    sum_edge,
)
from stream_masker.core.risk.kinds import NO_KINDS, Kinds
from stream_masker.core.risk.meaning import MeaningRisk
from stream_masker.core.risk.sampling import RecordRisk

LEFT_OUT = 2e-3
"""The share of each a* whose least probable pairs (a, a*) are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class EdgeFigures:
    """The chances of the best guesses, given the masks of the root A and its child B, of rows that have both.

    * ``root``: V(A | A*, B*). ``child``: V(B | A*, B*). ``both``: V(A, B | A*, B*). Upper bounds, which exceed the
      true values of the first two by at most ``left_out``.
    * ``certainty``: the greatest posterior of a value of B. ``excess``: by how much one exceeds its limit at most.
    * ``unchanged``: a bound of the probability that both values stay.
    * ``joint``: (k_B, k_B) float64 P(b, b*). ``fails``: (k_A,) the values a* whose limits cannot be met.
    * ``law``: (m,) P(a*, b*). ``kinds``: (m, g) bounds of the greatest posterior of a kind of B, for each guess.
    """

    root: float
    child: float
    both: float
    certainty: float
    excess: float
    unchanged: float
    left_out: float
    joint: Float64Matrix
    fails: BoolArray
    law: Float64Array
    kinds: Float64Matrix

    def meaning(self, kinds: Kinds) -> MeaningRisk:
        """Return what both masks tell of the kinds of the child's values, as upper bounds."""
        return MeaningRisk.of_shares(kinds, self.joint.sum(axis=1), self.law, self.kinds.T, self.left_out)

    def of_record(self, *, root_first: bool) -> RecordRisk:
        """Return the figures as those of records of both attributes, in their order."""
        of_attributes = (self.root, self.child) if root_first else (self.child, self.root)
        return RecordRisk(self.both, of_attributes, self.unchanged, self.left_out)


def figures_of(
    edge: Edge,
    squares: Float64Matrix,
    law: Float64Matrix,
    limits: Caps,
    left_out: float = LEFT_OUT,
    kinds: Kinds = NO_KINDS,
) -> EdgeFigures:
    """Return the figures of an edge.

    * ``squares``: (k_B, k_B) sd² of B. ``law``: (k_A, k_A) P(a, a*) of the root. ``limits``, ``kinds``: of B.
    """
    return limited(edge, squares, law, limits, left_out, solve=False, kinds=kinds)[1]


def limited(
    edge: Edge,
    squares: Float64Matrix,
    law: Float64Matrix,
    limits: Caps,
    left_out: float = LEFT_OUT,
    *,
    solve: bool = True,
    kinds: Kinds = NO_KINDS,
) -> tuple[Edge, EdgeFigures]:
    """Return an edge whose masks are drawn again where they exceed the limits, if ``solve``, and its figures.

    For the other arguments see ``figures_of``. ``EdgeFigures.fails`` tells where that does not suffice.
    """
    laws, given = edge.laws(squares), rows_with_both(edge, law)
    pairs = most_probable(np.where(edge.partnered, given, 0.0), np.diff(laws.offsets) > 0, left_out)
    redraws = edge.redraws.astype(np.float64)
    told = np.zeros((laws.target.size, len(kinds.sets)))
    law_sums, greatest, both, stays = np.zeros((4, laws.target.size))
    sums = EdgeSums(law_sums, greatest, both, np.full(laws.target.size, -np.inf), stays, told)
    joint, fails = np.zeros(laws.kernel.shape), np.zeros(len(law), np.bool_)
    sum_edge(laws, pairs, limits, solve, redraws, _scratch(laws), sums, joint, fails, kinds.table)
    missing = max(0.0, 1.0 - float(joint.sum()))
    seen = sums.law > 0.0
    figures = EdgeFigures(
        float(given.max(axis=0, initial=0.0).sum()) + max(0.0, 1.0 - float(given.sum())),
        min(float(sums.greatest.sum()) + missing, 1.0),
        min(float(sums.both.sum()) + missing, 1.0),
        float((sums.greatest[seen] / sums.law[seen] + pairs.missing[edge.masks.table.rows[seen]]).max(initial=0.0)),
        float(sums.excess.max(initial=-np.inf)),
        float(sums.stays.sum()),
        missing,
        joint / max(float(joint.sum()), 1e-300),
        fails,
        law_sums,
        np.minimum(told + np.where(seen, pairs.missing[edge.masks.table.rows], 0.0)[:, None], 1.0),
    )
    changed = max(0.0, 1.0 - float(np.trace(figures.joint)) - figures.left_out)
    return replace(edge, redraws=redraws.astype(np.float32), changed=changed), figures


def rows_with_both(edge: Edge, joint: Float64Matrix) -> Float64Matrix:
    """Return (k_A, k_A) float64: P(a, a*) of the rows that have both attributes; ``joint``: that of all rows."""
    prior = joint.sum(axis=1)
    shares = np.bincount(edge.pairs.table.rows, edge.pairs.counts, minlength=len(prior)) / edge.pairs.counts.sum()
    return np.asarray(joint * np.where(prior > 0.0, shares / np.where(prior > 0.0, prior, 1.0), 0.0)[:, None])


def conditional_epsilon(edge: Edge, squares: Float64Matrix) -> float:
    """Return the greatest ln M(b* | b, a, a*) − ln M(b* | b′, a′, a*) of an edge, over all a* and window pairs.

    What is drawn again only mixes these laws, which makes ratios smaller.
    """
    laws = edge.laws(squares)
    return float(greatest_ratio(laws, np.flatnonzero(edge.partnered).astype(np.int32), _scratch(laws)))


def _scratch(laws: Conditional) -> Scratch:
    sources, targets = int(np.diff(laws.offsets).max()), int(np.diff(laws.mask_offsets).max())
    cells, most = sources * targets, max(sources, targets)
    return Scratch(np.empty(cells), np.empty(cells), np.empty((2, most)), np.empty((3, most)))


def most_probable(law: Float64Matrix, has_partners: BoolArray, left_out: float) -> Pairs:
    """Select the most probable pairs (a, a*) of each a*, until at most a share ``left_out`` of it is missing.

    ``law``: (k, k) P(a, a*). ``has_partners``: (k,) whether a value has any partner.
    """
    by_mask = transposed(np.ascontiguousarray(law))
    by_mask[:, ~has_partners] = 0.0
    totals = by_mask.sum(axis=1)
    ranks = np.argsort(by_mask, axis=1)
    below = np.cumsum(np.take_along_axis(by_mask, ranks, axis=1), axis=1)
    least = below > left_out * totals[:, None]
    kept = np.zeros(by_mask.shape, np.bool_)
    np.put_along_axis(kept, ranks, least, axis=1)
    kept &= by_mask > 0.0
    weights = np.where(kept, by_mask, 0.0)
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=1))])
    missing: Float64Array = 1.0 - weights.sum(axis=1) / np.where(totals > 0.0, totals, 1.0)
    return Pairs(starts, np.nonzero(kept)[1].astype(np.int32), weights[kept], np.where(totals > 0.0, missing, 0.0))
