"""What the masks of the root and of a child tell, from the exact channel P(a, b)·M(a* | a)·M(b* | b, a, a*).

The least probable pairs (a, a*) of each a* are left out; what they would contribute counts as guessed right, so the
figures are upper bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    BoolArray,
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Cube,
    Float64Matrix,
    Int32Array,
)
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.kinds import NO_KINDS, Kinds, KindTable
from stream_masker.core.mechanisms.transport.limits import PRIOR_ROOM, Caps, inside_of
from stream_masker.core.mechanisms.transport.scaling.columns import Columns, greatest_of, set_certainty, set_figures
from stream_masker.core.mechanisms.transport.scaling.solver import LEAST
from stream_masker.core.mechanisms.transport.star.couplings import Conditional, coupling_of, span
from stream_masker.core.mechanisms.transport.star.edges import Edge

LEFT_OUT = 2e-3
"""The share of each a* whose least probable pairs (a, a*) are left out."""
FLOORS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""The least η of the masks of a*, where some exceed a limit: what is drawn again must be a mixture."""
REDRAW_ROUNDS = 20
REDRAW_MARGIN = 1.02
"""By which factor η exceeds what is needed in a round."""


class EdgeFigures(NamedTuple):
    """What the masks of the root A and its child B tell, of rows that have both; bounds, as pairs are left out.

    * ``child``: what they tell of B, of each pair (a*, b*), of which m may be written. ``surest``: (m,) the greatest
      posterior of a value of A in the law of events, 0 where B* tells nothing of A.
    * ``records``: (m,) a bound of max P(a, b, a*, b*). ``stays``: (m,) P(a = a*, b = b*, a*, b*), before masks are
      drawn again. ``fails``: (k_A,) the values a* whose limits cannot be met. ``root``: V(A | A*, B*).
    """

    child: Columns
    surest: Float64Array
    records: Float64Array
    stays: Float64Array
    fails: BoolArray
    root: float

    @property
    def both(self) -> float:
        """V(A, B | A*, B*)."""
        return min(float(self.records.sum()) + self.child.left_out, 1.0)


class Masks(NamedTuple):
    """What the m masks b* of one a* tell in each of l laws, of k things: the values and the sensitive groups of B, and
    those of A in laws in which b* tells of A.

    * ``columns``: (l, m, k) P(x, a*, b*). ``totals``: (l, m) P(a*, b*). ``target``: (m,) P(b* | a*).
    * ``bounds``: (l, k) the limits of posteriors. ``missing``: (l,) the share that is left out.
    * ``redrawn``: (l, k) the posterior of what is drawn again. ``again``: (l,) how much that is.
    """

    columns: Float64Cube
    totals: Float64Matrix
    target: Float64Array
    bounds: Float64Matrix
    missing: Float64Array
    redrawn: Float64Matrix
    again: Float64Array


@part
def needed_redraw(masks: Masks, law: int, column: Float64Array, total: float, back: float) -> float:
    """Return the least η at which no limit of a column is exceeded, with (1 − η)·column + η·back·redrawn; 1 if there is
    none. ``back``: how many masks become this one for each that is drawn again."""
    result, redrawn = 0.0, masks.redrawn[law]
    for x in range(column.size):
        limit = masks.bounds[law, x] - masks.missing[law]
        if column[x] > limit * total:
            excess = column[x] / total - limit
            needed = excess / (excess + back * (limit - redrawn[x])) if redrawn[x] < limit else 1.0
            result = max(result, needed)
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
            redrawn[x] = redrawn[x] / max(masks.again[law], LEAST) if drawn > 0.0 else 1.0
    return drawn


@part
def raise_redraws(masks: Masks, redraws: Float64Array, drawn: float) -> bool:
    """Raise η of the masks that exceed a limit; return whether there are any."""
    raised = False
    for k in range(redraws.size):
        needed = 0.0
        for law in range(masks.again.size):
            total = masks.totals[law, k]
            back = masks.again[law] * masks.target[k] / max(drawn * total, LEAST)
            needed = max(needed, needed_redraw(masks, law, masks.columns[law, k], total, back))
        if needed > redraws[k]:
            redraws[k] = min(REDRAW_MARGIN * needed, 1.0)
            raised = True
    return raised


@part
def solve_redraws(masks: Masks, redraws: Float64Array) -> bool:
    """Set η, (m,), of the masks of one a* such that no limit is exceeded; return whether that is possible."""
    for floor in FLOORS:
        redraws[:] = floor
        for _ in range(REDRAW_ROUNDS):
            drawn, exceeded = fill_redrawn(masks, redraws), False
            for law in range(masks.again.size if drawn > 0.0 else 0):
                exceeded = exceeded or needed_redraw(masks, law, masks.redrawn[law], 1.0, 1.0) > 0.0
            if exceeded:
                break
            if not raise_redraws(masks, redraws, drawn):
                return True
            if floor == 0.0:
                break
    return False


@part
def apply_redraws(masks: Masks, redraws: Float64Array, both: Float64Array) -> None:
    """Change P(x, a*, b*) of one a*, and the bounds ``both``, (m,), by what is drawn again."""
    drawn, again = fill_redrawn(masks, redraws), 0.0
    for k in range(redraws.size):
        again += redraws[k] * both[k]
    for k in range(redraws.size if drawn > 0.0 else 0):
        share = redraws[k] * masks.target[k] / drawn
        both[k] = (1.0 - redraws[k]) * both[k] + share * again
        for law in range(masks.again.size):
            column, redrawn, back = masks.columns[law, k], masks.redrawn[law], share * masks.again[law]
            masks.totals[law, k] = (1.0 - redraws[k]) * masks.totals[law, k] + back
            for x in range(column.size):
                column[x] = (1.0 - redraws[k]) * column[x] + back * redrawn[x]


@part
def raise_bounds(masks: Masks, first: int) -> None:
    """Raise the limits of what A is to what a* alone tells of records that have B; ``first``: the first one of A."""
    for law in range(1, masks.again.size):
        whole = masks.totals[law].sum()
        for x in range(first, masks.bounds.shape[1]):
            given = masks.columns[law, :, x].sum() / max(whole, LEAST)
            masks.bounds[law, x] = max(masks.bounds[law, x], given * (1.0 + PRIOR_ROOM / 2.0) + masks.missing[law])


@part
def fill_groups(column: Float64Array, limits: Caps) -> None:
    """Set what follows the values of an attribute in a column, (k + g,), to the sums of its groups."""
    for group in range(limits.groups.shape[1]):
        column[limits.values.shape[1] + group] = inside_of(column, limits, group)


class Sums(NamedTuple):
    """What the columns of an edge are summed from.

    * ``weights``: (l, n) those of the pairs (a, b) in each law. ``shares``, ``missing``: those of ``most_probable``.
    * ``child``, ``root``: the limits of B, and of A. ``place``: where those of A begin in ``bounds``, (l, k).
    """

    laws: Conditional
    weights: Float64Matrix
    shares: Float64Matrix
    missing: Float64Matrix
    child: Caps
    root: Caps
    bounds: Float64Matrix
    place: int


@kernel
def sum_edge(sums: Sums, solve: bool, redraws: Float64Array, kinds: KindTable, figures: EdgeFigures) -> None:
    """Sum over the couplings of an edge: set the figures of pairs, and ``fails``.

    ``redraws``: (m,) η, which is found if ``solve``.
    """
    shares, laws, things = sums.shares, len(sums.weights), sums.bounds.shape[1]
    for new in range(shares.shape[0]):
        first, last = span(sums.laws.target, new)
        if shares[new].max() == 0.0 or first == last:
            continue
        columns, totals = np.zeros((laws, last - first, things)), np.zeros((laws, last - first))
        scratch, again, target = np.empty((laws, things)), redraws[first:last], sums.laws.target.shares[first:last]
        masks = Masks(columns, totals, target, sums.bounds.copy(), sums.missing[new], scratch, np.empty(laws))
        mass = 0.0
        for a in range(shares.shape[1]):
            if shares[new, a] > 0.0:
                mass += shares[new, a]
                add_couplings(masks, figures, sums, coupling_of(sums.laws, int64(a), int64(new)), int64(a), int64(new))
        totals[0] = mass * target
        for law in range(laws):
            for k in range(last - first):
                fill_groups(columns[law, k], sums.child)
                if sums.place < things:
                    fill_groups(columns[law, k, sums.place :], sums.root)
        raise_bounds(masks, sums.place)
        if solve:
            figures.fails[new] = not solve_redraws(masks, again)
        apply_redraws(masks, again, figures.records[first:last])
        set_edge_figures(masks, figures, sums, int64(new), mass, kinds)


@part
def add_couplings(masks: Masks, figures: EdgeFigures, sums: Sums, rows: Float32Matrix, a: int, new: int) -> None:
    """Add the coupling of a pair (a, a*), ``rows``, to the columns."""
    share, (first, last) = sums.shares[new, a], span(sums.laws.target, new)
    begin, end = span(sums.laws.source, a)
    own = sums.laws.source.partners[begin:end]
    for k in range(last - first):
        mask = sums.laws.target.partners[first + k]
        most, of_mask = add_coupling(masks.columns[0, k], own, rows[k], share, mask)
        figures.records[first + k] = max(figures.records[first + k], share * most)
        figures.stays[first + k] += share * of_mask if a == new else 0.0
        for law in range(1, masks.again.size):
            added = add_weighted(masks.columns[law, k], own, rows[k], share, sums.weights[law, begin:end])
            masks.totals[law, k] += added
            if sums.place < masks.bounds.shape[1]:
                masks.columns[law, k, sums.place + a] = added


@part
def set_edge_figures(masks: Masks, figures: EdgeFigures, sums: Sums, new: int, mass: float, kinds: KindTable) -> None:
    """Set the figures of the masks of one a*; ``mass``: P(a*)."""
    first, last = span(sums.laws.target, new)
    size, place = sums.child.values.shape[1], sums.place
    for k in range(last - first):
        t, total = first + k, mass * masks.target[k]
        own = int64(sums.laws.target.partners[t])
        set_figures(figures.child, t, own, masks.columns[0, k, :size], total, total, sums.child, kinds)
        for law in range(1, masks.again.size):
            column, whole, left = masks.columns[law, k], masks.totals[law, k], masks.missing[law]
            set_certainty(figures.child, t, column[:size], whole, left, sums.child, law)
            if place < column.size and whole > 0.0:
                greatest = greatest_of(column[place : place + sums.root.values.shape[1]]) / whole
                figures.surest[t] = max(figures.surest[t], greatest + left)


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
    for new in range(laws.target.offsets.size - 1):
        first, last = span(laws.target, new)
        least, most = np.full(last - first, np.inf), np.zeros(last - first)
        for a in range(laws.source.offsets.size - 1 if first < last else 0):
            begin, end = span(laws.source, a)
            if begin < end:
                rows = coupling_of(laws, int64(a), int64(new))
                for k in range(last - first):
                    for j in range(end - begin):
                        given = np.float64(rows[k, j]) / laws.source.shares[begin + j]
                        least[k], most[k] = min(least[k], given), max(most[k], given)
        for k in range(last - first):
            result = max(result, np.log(most[k]) - np.log(least[k]))
    return result


def limited(
    edge: Edge,
    squares: Float64Matrix,
    law: Float64Matrix,
    limits: tuple[Caps, Caps],
    left_out: float = LEFT_OUT,
    *,
    solve: bool = True,
    kinds: Kinds = NO_KINDS,
) -> tuple[Edge, EdgeFigures]:
    """Return an edge whose masks are drawn again where they exceed the limits, if ``solve``, and its figures.

    * ``squares``: (k_B, k_B) sd² of B. ``law``: (k_A, k_A) P(a, a*) of the root. ``limits``: those of B, and of A.
      ``kinds``: of B.

    ``EdgeFigures.fails`` tells where drawing again does not suffice.
    """
    laws, rows, prior = edge.laws(squares), edge.pairs.counts / edge.pairs.counts.sum(), law.sum(axis=1)
    with_both = np.bincount(edge.pairs.table.rows, rows, len(law))
    given = law * np.where(prior > 0.0, with_both / np.where(prior > 0.0, prior, 1.0), 0.0)[:, None]
    partnered = np.where(edge.partnered, given, 0.0)
    weights = edge.weights
    of_values = np.array([np.bincount(edge.pairs.table.rows, rows * each, len(law)) for each in weights])
    shares, missing = most_probable(partnered, of_values, left_out)
    redraws, size = edge.redraws.astype(np.float64), laws.target.shares.size
    child = Columns.empty(size, len(squares), kinds)._replace(missing=missing[edge.masks.table.rows, 0])
    of_root = float(given.max(axis=0, initial=0.0).sum()) + max(0.0, 1.0 - float(given.sum()))
    figures = EdgeFigures(child, np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(len(law), np.bool_), of_root)
    bounds = np.concatenate([each.both for each in limits[: 1 + edge.tells_of_root]], axis=1)
    sums = Sums(laws, weights, shares, missing, *limits, bounds, limits[0].both.shape[1])
    sum_edge(sums, solve, redraws, kinds.table, figures)
    joint = np.ascontiguousarray(child.joint.T) / max(float(child.joint.sum()), LEAST)
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
