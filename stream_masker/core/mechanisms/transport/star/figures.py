"""What the masks of the root and of a child tell, from the exact channel P(a, b)·M(a* | a)·M(b* | b, a, a*).

Given A*, the mask B* is independent of A: its law is P(b* | a*), whatever a is. So B* tells nothing about A that A*
does not tell, but A* and B* together tell more about B than B* alone.

A large window has many pairs (a, a*), most of which hardly ever occur. The least probable ones of each a* can be left
out; what they would contribute counts as guessed right, so the figures are then upper bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float32Array, Float64Array, Float64Cube, Float64Matrix, Int32Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.limits import Caps, inside_of
from stream_masker.core.mechanisms.transport.scaling.columns import Columns, set_certainty, set_figures
from stream_masker.core.mechanisms.transport.scaling.solver import LEAST
from stream_masker.core.mechanisms.transport.star.couplings import Conditional, coupling_of
from stream_masker.core.mechanisms.transport.star.edges import Edge
from stream_masker.core.risk.kinds import NO_KINDS, Kinds, KindTable
from stream_masker.core.risk.sampling import RecordRisk

LEFT_OUT = 2e-3
"""The share of each a* whose least probable pairs (a, a*) are left out."""
FLOORS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""The least η of the masks of a*, where some exceed a limit: what is drawn again must be a mixture."""
REDRAW_ROUNDS = 20
REDRAW_MARGIN = 1.02
"""By which factor η exceeds what is needed in a round."""


class EdgeFigures(NamedTuple):
    """What the masks of the root A and its child B tell, of rows that have both; bounds, as pairs are left out.

    * ``child``: what they tell of B, of each pair (a*, b*), of which m may be written.
    * ``records``: (m,) a bound of max P(a, b, a*, b*). ``stays``: (m,) P(a = a*, b = b*, a*, b*), before masks are
      drawn again. ``fails``: (k_A,) the values a* whose limits cannot be met. ``root``: V(A | A*, B*).
    """

    child: Columns
    records: Float64Array
    stays: Float64Array
    fails: BoolArray
    root: float

    @property
    def both(self) -> float:
        """V(A, B | A*, B*)."""
        return min(float(self.records.sum()) + self.child.left_out, 1.0)

    def of_record(self, *, root_first: bool) -> RecordRisk:
        """Return the figures as those of records of both attributes, in their order."""
        of_attributes = (self.root, self.child.vulnerability)[:: 1 if root_first else -1]
        return RecordRisk(self.both, of_attributes, float(self.stays.sum()), self.child.left_out)


class Masks(NamedTuple):
    """What the m masks b* of one a* tell of the k values b, in each of l laws.

    * ``columns``: (l, m, k) P(b, a*, b*). ``totals``: (l, m) their sums. ``target``: (m,) P(b* | a*).
    * ``missing``: (l,) the share that is left out. ``redrawn``: (l, k) the posterior of values whose masks are drawn
      again. ``again``: (l,) how many these are.
    """

    columns: Float64Cube
    totals: Float64Matrix
    target: Float64Array
    missing: Float64Array
    redrawn: Float64Matrix
    again: Float64Array


@part
def needed_of(inside: float, redrawn: float, limit: float, back: float) -> float:
    """Return η at which (1 − η)·inside + η·back·redrawn is the limit of its total, 0 if it is not exceeded, 1 if there
    is none; ``back``: how many masks become this one for each that is drawn again."""
    if inside <= limit:
        return 0.0
    return (inside - limit) / (inside - limit + back * (limit - redrawn)) if redrawn < limit else 1.0


@part
def needed_redraw(
    column: Float64Array, redrawn: Float64Array, limits: Caps, law: int, total: float, missing: float, back: float
) -> float:
    """Return the least η at which no limit of a column is exceeded; ``redrawn``: (k,) the posterior of what is drawn
    again."""
    result = 0.0
    for x in range(column.size):
        limit = limits.values[law, x] - missing
        if column[x] > limit * total:
            result = max(result, needed_of(column[x] / total, redrawn[x], limit, back))
    for group in range(limits.groups.shape[1]):
        inside, again = inside_of(column, limits, group), inside_of(redrawn, limits, group)
        result = max(result, needed_of(inside / total, again, limits.groups[law, group] - missing, back))
    return result


@part
def fill_redrawn(masks: Masks, redraws: Float64Array) -> float:
    """Set ``redrawn`` and ``again`` of all laws, and return Σ P(b* | a*)·η."""
    drawn = 0.0
    for k in range(redraws.size):
        drawn += masks.target[k] * redraws[k]
    masks.redrawn[:] = 0.0
    masks.again[:] = 0.0
    for law in range(masks.again.size):
        redrawn, columns = masks.redrawn[law], masks.columns[law]
        for k in range(redraws.size):
            masks.again[law] += redraws[k] * masks.totals[law, k]
            if redraws[k] > 0.0:
                for x in range(redrawn.size):
                    redrawn[x] += redraws[k] * columns[k, x]
        for x in range(redrawn.size):
            redrawn[x] /= max(masks.again[law], LEAST)
    return drawn


@part
def solve_redraws(masks: Masks, limits: Caps, redraws: Float64Array) -> bool:
    """Set η, (m,), of the masks of one a* such that no limit is exceeded; return whether that is possible."""
    laws = masks.again.size
    for floor in FLOORS:
        for k in range(redraws.size):
            redraws[k] = floor
        for _ in range(REDRAW_ROUNDS):
            drawn, exceeded = fill_redrawn(masks, redraws), False
            for law in range(laws):
                redrawn = masks.redrawn[law]
                if drawn == 0.0:
                    redrawn[:] = 1.0
                elif needed_redraw(redrawn, redrawn, limits, law, 1.0, masks.missing[law], 1.0) > 0.0:
                    exceeded = True
            if exceeded:
                break
            raised = False
            for k in range(redraws.size):
                needed = 0.0
                for law in range(laws):
                    total, redrawn = masks.totals[law, k], masks.redrawn[law]
                    back = masks.again[law] * masks.target[k] / max(drawn * total, LEAST)
                    of_law = needed_redraw(masks.columns[law, k], redrawn, limits, law, total, masks.missing[law], back)
                    needed = max(needed, of_law)
                if needed > redraws[k]:
                    redraws[k] = min(REDRAW_MARGIN * needed, 1.0)
                    raised = True
            if not raised:
                return True
            if floor == 0.0:
                break
    return False


@part
def apply_redraws(masks: Masks, redraws: Float64Array, both: Float64Array) -> None:
    """Change P(b, a*, b*) of one a*, and the bounds ``both``, (m,), by what is drawn again."""
    drawn = fill_redrawn(masks, redraws)
    if drawn == 0.0:
        return
    again = 0.0
    for k in range(redraws.size):
        again += redraws[k] * both[k]
    for k in range(redraws.size):
        share = redraws[k] * masks.target[k] / drawn
        both[k] = (1.0 - redraws[k]) * both[k] + share * again
        for law in range(masks.again.size):
            column, redrawn, back = masks.columns[law, k], masks.redrawn[law], share * masks.again[law]
            masks.totals[law, k] = (1.0 - redraws[k]) * masks.totals[law, k] + back
            for x in range(column.size):
                column[x] = (1.0 - redraws[k]) * column[x] + back * redrawn[x]


@kernel
def sum_edge(
    laws: Conditional,
    weights: Float64Matrix,
    shares: Float64Matrix,
    missing: Float64Matrix,
    limits: Caps,
    solve: bool,
    redraws: Float64Array,
    squares: Float64Matrix,
    kinds: KindTable,
    figures: EdgeFigures,
) -> None:
    """Sum over the couplings of an edge: set the figures of pairs, and ``fails``.

    * ``weights``: (l, n) those of the pairs (a, b) in each law. ``shares``, ``missing``: those of ``most_probable``.
    * ``redraws``: (m,) η, which is found if ``solve``.
    """
    size, of_laws = squares.shape[0], len(weights)
    for new in range(shares.shape[0]):
        first, last = laws.mask_offsets[new], laws.mask_offsets[new + 1]
        if shares[new].max() == 0.0 or first == last:
            continue
        partners, again = laws.mask_partners[first:last], redraws[first:last]
        both, stays = figures.records[first:last], figures.stays[first:last]
        masks = Masks(
            np.zeros((of_laws, last - first, size)),
            np.zeros((of_laws, last - first)),
            laws.target[first:last],
            missing[new],
            np.empty((of_laws, size)),
            np.empty(of_laws),
        )
        mass = 0.0
        for a in range(shares.shape[1]):
            share = shares[new, a]
            if share > 0.0:
                begin, end = laws.offsets[a], laws.offsets[a + 1]
                own = laws.partners[begin:end]
                rows = coupling_of(laws, int64(a), int64(new))
                mass += share
                for k in range(partners.size):
                    most, of_mask = add_coupling(masks.columns[0, k], own, rows[k], share, partners[k])
                    both[k] = max(both[k], share * most)
                    stays[k] += share * of_mask if a == new else 0.0
                    for law in range(1, of_laws):
                        of_pairs = weights[law, begin:end]
                        masks.totals[law, k] += add_weighted(masks.columns[law, k], own, rows[k], share, of_pairs)
        masks.totals[0] = mass * masks.target
        if solve:
            figures.fails[new] = not solve_redraws(masks, limits, again)
        apply_redraws(masks, again, both)
        for k in range(partners.size):
            t, own_mask, column, total = first + k, int64(partners[k]), masks.columns[0, k], mass * masks.target[k]
            set_figures(figures.child, t, own_mask, column, total, total, limits, squares, kinds)
            for law in range(1, of_laws):
                total = masks.totals[law, k]
                set_certainty(figures.child, t, masks.columns[law, k], total, masks.missing[law], limits, law)


@part
def add_coupling(
    column: Float64Array, own: Int32Array, row: Float32Array, share: float, mask: int
) -> tuple[float, float]:
    """Add the probabilities of values b, times ``share``, to those of all values; return the greatest of them, and that
    of ``mask``."""
    most, of_mask = np.float32(0.0), np.float32(0.0)
    for j in range(own.size):
        column[own[j]] += share * np.float64(row[j])
        most = max(most, row[j])
        if own[j] == mask:
            of_mask = row[j]
    return np.float64(most), np.float64(of_mask)


@part
def add_weighted(
    column: Float64Array, own: Int32Array, row: Float32Array, share: float, weights: Float64Array
) -> float:
    """Add the probabilities of values b in another law, and return their sum; ``weights``: those of the pairs."""
    total = 0.0
    for j in range(own.size):
        added = share * weights[j] * np.float64(row[j])
        column[own[j]] += added
        total += added
    return total


@kernel
def conditional_epsilon(laws: Conditional) -> float:
    """Return the greatest ln M(b* | b, a, a*) − ln M(b* | b′, a′, a*) of an edge, over all a* and window pairs.

    What is drawn again only mixes these laws, which makes ratios smaller.
    """
    result = 0.0
    for new in range(laws.mask_offsets.size - 1):
        targets = laws.mask_offsets[new + 1] - laws.mask_offsets[new]
        least, most = np.full(targets, np.inf), np.zeros(targets)
        for a in range(laws.offsets.size - 1):
            if targets > 0 and laws.offsets[a] < laws.offsets[a + 1]:
                rows, source = coupling_of(laws, int64(a), int64(new)), laws.source[laws.offsets[a] :]
                for k in range(targets):
                    for j in range(laws.offsets[a + 1] - laws.offsets[a]):
                        given = np.float64(rows[k, j]) / source[j]
                        least[k], most[k] = min(least[k], given), max(most[k], given)
        for k in range(targets):
            result = max(result, np.log(most[k]) - np.log(least[k]))
    return result


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
    laws, rows, prior = edge.laws(squares), edge.pairs.counts / edge.pairs.counts.sum(), law.sum(axis=1)
    with_both = np.bincount(edge.pairs.table.rows, rows, len(law))
    given = law * np.where(prior > 0.0, with_both / np.where(prior > 0.0, prior, 1.0), 0.0)[:, None]
    partnered = np.where(edge.partnered, given, 0.0)
    weights = edge.weights
    of_values = np.array([np.bincount(edge.pairs.table.rows, rows * each, len(law)) for each in weights])
    shares, missing = most_probable(partnered, of_values, left_out)
    redraws, size = edge.redraws.astype(np.float64), laws.target.size
    child = Columns.empty(size, len(squares), kinds)._replace(missing=missing[edge.masks.table.rows, 0])
    of_root = float(given.max(axis=0, initial=0.0).sum()) + max(0.0, 1.0 - float(given.sum()))
    figures = EdgeFigures(child, np.zeros(size), np.zeros(size), np.zeros(len(law), np.bool_), of_root)
    sum_edge(laws, weights, shares, missing, limits, solve, redraws, squares, kinds.table, figures)
    joint = np.ascontiguousarray(child.joint.T) / max(float(child.joint.sum()), 1e-300)
    figures = figures._replace(child=child._replace(joint=joint))
    return replace(edge, redraws=redraws.astype(np.float32), changed=figures.child.changed), figures


def most_probable(law: Float64Matrix, pairs: Float64Matrix, left_out: float) -> tuple[Float64Matrix, Float64Matrix]:
    """Return (k, k) float64: P(a, a*) of the most probable values a of each mask a* (row), 0 for the others, and (k, l)
    the share of each a* that is left out in each law, of the first one at most ``left_out``.

    ``law``: (k, k) P(a, a*). ``pairs``: (l, k) how frequent the values of A with a partner are in each law.
    """
    by_mask = law.T.copy()
    by_mask[:, pairs[0] <= 0.0] = 0.0
    whole, totals = by_mask.copy(), by_mask.sum(axis=1)
    ranks = np.argsort(by_mask, axis=1)
    below = np.cumsum(np.take_along_axis(by_mask, ranks, axis=1), axis=1)
    kept = np.take_along_axis(below > left_out * totals[:, None], np.argsort(ranks, axis=1), axis=1)
    by_mask[~kept] = 0.0
    of_laws = (pairs / np.where(pairs[0] > 0.0, pairs[0], 1.0)).T
    missing = 1.0 - by_mask @ of_laws / np.maximum(whole @ of_laws, LEAST)
    return by_mask, np.where(totals[:, None] > 0.0, missing, 0.0)
