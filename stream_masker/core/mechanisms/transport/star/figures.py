"""What the masks of the root and of a child tell, from the exact channel P(a, b)·M(a* | a)·M(b* | b, a, a*).

Given A*, the mask B* is independent of A: its law is P(b* | a*), whatever a is. So B* tells nothing about A that A*
does not tell, but A* and B* together tell more about B than B* alone.

A large window has many pairs (a, a*), most of which hardly ever occur. The least probable ones of each a* can be left
out; what they would contribute counts as guessed right, so the figures are then upper bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.limits import Caps, excess_of, inside_of
from stream_masker.core.mechanisms.transport.star.couplings import Conditional, coupling_rows
from stream_masker.core.mechanisms.transport.star.edges import Edge
from stream_masker.core.risk.kinds import NO_KINDS, Kinds, KindTable, greatest_kinds
from stream_masker.core.risk.meaning import MeaningRisk
from stream_masker.core.risk.sampling import RecordRisk

LEFT_OUT = 2e-3
"""The share of each a* whose least probable pairs (a, a*) are left out."""
FLOORS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""The least η of the masks of a*, where some exceed a limit: what is drawn again must be a mixture."""
REDRAW_ROUNDS = 20
REDRAW_MARGIN = 1.02
"""By which factor η exceeds what is needed in a round."""


class EdgeSums(NamedTuple):
    """What is known of each pair (a*, b*) of an edge, of which m may be written.

    * ``law``: (m,) P(a*, b*). ``greatest``: (m,) max_b P(b, a*, b*). ``both``: (m,) a bound of max P(a, b, a*, b*).
      ``excess``: (m,) by how much a posterior exceeds its limit at most.
    * ``stays``: (m,) P(a = a*, b = b*, a*, b*), before masks are drawn again. ``kinds``: (m, g) the greatest posterior
      of a kind of b, for each guess.
    """

    law: Float64Array
    greatest: Float64Array
    both: Float64Array
    excess: Float64Array
    stays: Float64Array
    kinds: Float64Matrix


@part
def needed_of(inside: float, redrawn: float, limit: float) -> float:
    """Return η with (1 − η)·inside + η·redrawn = limit, 0 if it is not exceeded, and 1 if there is none."""
    if inside <= limit:
        return 0.0
    return (inside - limit) / (inside - redrawn) if redrawn < limit else 1.0


@part
def needed_redraw(column: Float64Array, redrawn: Float64Array, limits: Caps, total: float, missing: float) -> float:
    """Return the least η at which no limit of a column is exceeded; ``redrawn``: (k,) the posterior of what is drawn
    again."""
    result = 0.0
    for x in range(column.size):
        if column[x] > (limits.values[x] - missing) * total:
            result = max(result, needed_of(column[x] / total, redrawn[x], limits.values[x] - missing))
    for group in range(limits.groups.size):
        inside, again = inside_of(column, limits, group), inside_of(redrawn, limits, group)
        result = max(result, needed_of(inside / total, again, limits.groups[group] - missing))
    return result


@part
def fill_redrawn(columns: Float64Matrix, weights: Float64Array, redraws: Float64Array, redrawn: Float64Array) -> float:
    """Set ``redrawn``, (k,), to the posterior of values whose masks are drawn again, and return how many these are."""
    redrawn[:] = 0.0
    total = 0.0
    for k in range(weights.size):
        total += redraws[k] * weights[k]
        if redraws[k] > 0.0:
            for x in range(redrawn.size):
                redrawn[x] += redraws[k] * columns[k, x]
    for x in range(redrawn.size):
        redrawn[x] /= max(total, 1e-300)
    return total


@part
def solve_redraws(
    columns: Float64Matrix,
    weights: Float64Array,
    limits: Caps,
    missing: float,
    redraws: Float64Array,
    redrawn: Float64Array,
) -> bool:
    """Set η of the masks of one a* such that no limit is exceeded; return whether that is possible.

    * ``columns``: (m, k) P(b, a*, b*). ``weights``: (m,) their sums. ``redraws``: (m,) η.
    * ``redrawn``: (k,), overwritten.
    """
    for floor in FLOORS:
        for k in range(weights.size):
            redraws[k] = floor if weights[k] > 0.0 else 0.0
        for _ in range(REDRAW_ROUNDS):
            if fill_redrawn(columns, weights, redraws, redrawn) == 0.0:
                redrawn[:] = 1.0
            elif needed_redraw(redrawn, redrawn, limits, 1.0, missing) > 0.0:
                break
            raised = False
            for k in range(weights.size):
                if weights[k] > 0.0:
                    needed = needed_redraw(columns[k], redrawn, limits, weights[k], missing)
                    if needed > redraws[k]:
                        redraws[k] = min(REDRAW_MARGIN * needed, 1.0)
                        raised = True
            if not raised:
                return True
            if floor == 0.0:
                break
    return False


@part
def apply_redraws(
    columns: Float64Matrix, weights: Float64Array, redraws: Float64Array, redrawn: Float64Array, both: Float64Array
) -> None:
    """Change P(b, a*, b*) of one a*, and the bounds ``both``, by what is drawn again.

    ``redrawn``: (k,), overwritten.
    """
    total = fill_redrawn(columns, weights, redraws, redrawn)
    if total == 0.0:
        return
    again = 0.0
    for k in range(weights.size):
        again += redraws[k] * both[k]
    for k in range(weights.size):
        back = redraws[k] * weights[k]
        both[k] = (1.0 - redraws[k]) * both[k] + back * again / total
        for x in range(redrawn.size):
            columns[k, x] = (1.0 - redraws[k]) * columns[k, x] + back * redrawn[x]


@kernel
def sum_edge(
    laws: Conditional,
    shares: Float64Matrix,
    missing: Float64Array,
    limits: Caps,
    solve: bool,
    redraws: Float64Array,
    sums: EdgeSums,
    joint: Float64Matrix,
    fails: BoolArray,
    kinds: KindTable,
) -> None:
    """Sum over the couplings of an edge: set ``sums``, add P(b, b*) to ``joint``, (k_B, k_B).

    * ``shares``, ``missing``: those of ``most_probable``.
    * ``redraws``: (m,) η, which is found if ``solve``; ``fails``: (k_A,) set where no η suffices.
    """
    size = joint.shape[0]
    redrawn = np.empty(size)
    for new in range(missing.size):
        first, last = laws.mask_offsets[new], laws.mask_offsets[new + 1]
        if shares[new].max() == 0.0 or first == last:
            continue
        columns = np.zeros((last - first, size))
        both, stays = sums.both[first:last], sums.stays[first:last]
        mass = 0.0
        for a in range(missing.size):
            share = shares[new, a]
            if share == 0.0:
                continue
            own = laws.offsets[a]
            rows = coupling_rows(laws, int64(a), int64(new))
            mass += share
            for j in range(rows.shape[0]):
                weight = share * laws.source[own + j]
                b = laws.partners[own + j]
                for k in range(last - first):
                    probability = weight * rows[j, k]
                    columns[k, b] += probability
                    both[k] = max(both[k], probability)
                    if a == new and laws.mask_partners[first + k] == b:
                        stays[k] = probability
        weights = mass * laws.target[first:last]
        if solve:
            fails[new] = not solve_redraws(columns, weights, limits, missing[new], redraws[first:last], redrawn)
        apply_redraws(columns, weights, redraws[first:last], redrawn, both)
        for k in range(last - first):
            if weights[k] > 0.0:
                sums.law[first + k] = weights[k]
                sums.greatest[first + k] = columns[k].max()
                sums.excess[first + k] = excess_of(columns[k], limits, weights[k]) / weights[k] + missing[new]
                greatest_kinds(columns[k], weights[k], kinds, sums.kinds[first + k])
                into = laws.mask_partners[first + k]
                for b in range(size):
                    joint[b, into] += columns[k, b]


@kernel
def conditional_epsilon(laws: Conditional) -> float:
    """Return the greatest ln M(b* | b, a, a*) − ln M(b* | b′, a′, a*) of an edge, over all a* and window pairs.

    What is drawn again only mixes these laws, which makes ratios smaller.
    """
    result = 0.0
    for new in range(laws.mask_offsets.size - 1):
        first = laws.mask_offsets[new]
        targets = laws.mask_offsets[new + 1] - first
        least, most = np.full(targets, np.inf), np.zeros(targets)
        for a in range(laws.offsets.size - 1):
            if targets > 0 and laws.offsets[a] < laws.offsets[a + 1]:
                for row in coupling_rows(laws, int64(a), int64(new)):
                    least, most = np.minimum(least, row), np.maximum(most, row)
        for k in range(targets):
            if laws.target[first + k] > 0.0:
                result = max(result, np.log(most[k]) - np.log(least[k]))
    return result


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

    * ``squares``: (k_B, k_B) sd² of B. ``law``: (k_A, k_A) P(a, a*) of the root. ``limits``, ``kinds``: of B.

    ``EdgeFigures.fails`` tells where drawing again does not suffice.
    """
    laws, given = edge.laws(squares), rows_with_both(edge, law)
    partnered = np.where(edge.partnered, given, 0.0)
    shares, missing = most_probable(partnered, np.diff(laws.offsets) > 0, left_out)
    of_tuple = missing[edge.masks.table.rows]
    redraws = edge.redraws.astype(np.float64)
    told = np.zeros((laws.target.size, len(kinds.sets)))
    law_sums, greatest, both, stays = np.zeros((4, laws.target.size))
    sums = EdgeSums(law_sums, greatest, both, np.full(laws.target.size, -np.inf), stays, told)
    joint, fails = np.zeros(laws.kernel.shape), np.zeros(len(law), np.bool_)
    sum_edge(laws, shares, missing, limits, solve, redraws, sums, joint, fails, kinds.table)
    rest = max(0.0, 1.0 - float(joint.sum()))
    seen = sums.law > 0.0
    figures = EdgeFigures(
        float(given.max(axis=0, initial=0.0).sum()) + max(0.0, 1.0 - float(given.sum())),
        min(float(sums.greatest.sum()) + rest, 1.0),
        min(float(sums.both.sum()) + rest, 1.0),
        float((sums.greatest[seen] / sums.law[seen] + of_tuple[seen]).max(initial=0.0)),
        float(sums.excess.max(initial=-np.inf)),
        float(sums.stays.sum()),
        rest,
        joint / max(float(joint.sum()), 1e-300),
        fails,
        law_sums,
        np.minimum(told + np.where(seen, of_tuple, 0.0)[:, None], 1.0),
    )
    changed = max(0.0, 1.0 - float(np.trace(figures.joint)) - figures.left_out)
    return replace(edge, redraws=redraws.astype(np.float32), changed=changed), figures


def rows_with_both(edge: Edge, joint: Float64Matrix) -> Float64Matrix:
    """Return (k_A, k_A) float64: P(a, a*) of the rows that have both attributes; ``joint``: that of all rows."""
    prior = joint.sum(axis=1)
    shares = np.bincount(edge.pairs.table.rows, edge.pairs.counts, minlength=len(prior)) / edge.pairs.counts.sum()
    return np.asarray(joint * np.where(prior > 0.0, shares / np.where(prior > 0.0, prior, 1.0), 0.0)[:, None])


def most_probable(law: Float64Matrix, has_partners: BoolArray, left_out: float) -> tuple[Float64Matrix, Float64Array]:
    """Return (k, k) float64: P(a, a*) of the most probable values a of each mask a* (row), 0 for the others, and (k,)
    the share of each a* that is left out, at most ``left_out``.

    ``law``: (k, k) P(a, a*). ``has_partners``: (k,) whether a value has any partner.
    """
    by_mask = law.T.copy()
    by_mask[:, ~has_partners] = 0.0
    totals = by_mask.sum(axis=1)
    ranks = np.argsort(by_mask, axis=1)
    below = np.cumsum(np.take_along_axis(by_mask, ranks, axis=1), axis=1)
    kept = np.take_along_axis(below > left_out * totals[:, None], np.argsort(ranks, axis=1), axis=1)
    by_mask[~kept] = 0.0
    missing = 1.0 - by_mask.sum(axis=1) / np.where(totals > 0.0, totals, 1.0)
    return by_mask, np.where(totals > 0.0, missing, 0.0)
