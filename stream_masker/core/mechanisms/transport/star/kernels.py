"""Passes over the couplings of an edge (``transport.star.couplings``), which are computed and discarded one by one.

For each pair (a, a*), the channel M(b* | b, a, a*) of the partners b of a has a row for each b and a column for each
partner b* of a*. Its columns sum to P(b* | a*) under P(b | a), whatever a is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.limits import Caps, excess_of, inside_of
from stream_masker.core.mechanisms.transport.star.couplings import Conditional, solve_coupling
from stream_masker.core.risk.kinds import KindTable, greatest_kinds

FLOORS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""The least η of the masks of a*, where some exceed a limit: what is drawn again must be a mixture."""
REDRAW_ROUNDS = 20
REDRAW_MARGIN = 1.02
"""By which factor η exceeds what is needed in a round."""


class Scratch(NamedTuple):
    """The memory of one coupling of at most n × m partners, with at most k = max(n, m).

    * ``rows``: n·m, the coupling. ``transposed``: n·m, its kernel. ``sums``: (2, k). ``scales``: (3, k), ψ, the missing
      mass and the kept shares.
    """

    rows: Float64Array
    transposed: Float64Array
    sums: Float64Matrix
    scales: Float64Matrix


class Pairs(NamedTuple):
    """Pairs (a, a*) of the root, ordered by a*.

    * ``starts``: (k_A + 1,) where the pairs of each a* start. ``a``: (n,). ``weights``: (n,) P(a, a*).
    * ``missing``: (k_A,) the share of each a* whose pairs are left out.
    """

    starts: Int64Array
    a: Int32Array
    weights: Float64Array
    missing: Float64Array


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
def fill_coupling_rows(laws: Conditional, a: int, new: int, scratch: Scratch, rows: Float64Matrix) -> None:
    """Set ``rows``, (n, m), to M(b* | b, a, a*)."""
    sources, targets = rows.shape
    backward = scratch.transposed[: sources * targets].reshape((targets, sources))
    psi, rest = scratch.scales[0, :targets], scratch.scales[1, :targets]
    kept = scratch.scales[2, :sources]
    solve_coupling(laws, a, new, rows, backward, scratch.sums, psi, rest, kept)
    lacking = rest[targets - 1]
    for i in range(sources):
        row = rows[i]
        total = 0.0
        for k in range(targets):
            row[k] *= psi[k]
            total += row[k]
        share = kept[i] if lacking > 0.0 else 1.0
        from_psi = share / total
        from_rest = (1.0 - share) / lacking if lacking > 0.0 else 0.0
        before = 0.0
        for k in range(targets):
            row[k] = row[k] * from_psi + (rest[k] - before) * from_rest
            before = rest[k]


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
    pairs: Pairs,
    limits: Caps,
    solve: bool,
    redraws: Float64Array,
    scratch: Scratch,
    sums: EdgeSums,
    joint: Float64Matrix,
    fails: BoolArray,
    kinds: KindTable,
) -> None:
    """Sum over the couplings of an edge: set ``sums``, add P(b, b*) to ``joint``, (k_B, k_B).

    * ``redraws``: (m,) η, which is found if ``solve``; ``fails``: (k_A,) set where no η suffices.
    """
    size = joint.shape[0]
    redrawn = np.empty(size)
    for new in range(pairs.starts.size - 1):
        first, last = laws.mask_offsets[new], laws.mask_offsets[new + 1]
        if pairs.starts[new] == pairs.starts[new + 1] or first == last:
            continue
        columns = np.zeros((last - first, size))
        both, stays = sums.both[first:last], sums.stays[first:last]
        mass = 0.0
        for i in range(pairs.starts[new], pairs.starts[new + 1]):
            own = laws.offsets[pairs.a[i]]
            sources = laws.offsets[pairs.a[i] + 1] - own
            rows = scratch.rows[: sources * (last - first)].reshape((sources, last - first))
            fill_coupling_rows(laws, int64(pairs.a[i]), int64(new), scratch, rows)
            mass += pairs.weights[i]
            for j in range(sources):
                weight = pairs.weights[i] * laws.source[own + j]
                b = laws.partners[own + j]
                for k in range(last - first):
                    probability = weight * rows[j, k]
                    columns[k, b] += probability
                    both[k] = max(both[k], probability)
                    if pairs.a[i] == new and laws.mask_partners[first + k] == b:
                        stays[k] = probability
        weights = mass * laws.target[first:last]
        if solve:
            fails[new] = not solve_redraws(columns, weights, limits, pairs.missing[new], redraws[first:last], redrawn)
        apply_redraws(columns, weights, redraws[first:last], redrawn, both)
        for k in range(last - first):
            if weights[k] > 0.0:
                sums.law[first + k] = weights[k]
                sums.greatest[first + k] = columns[k].max()
                sums.excess[first + k] = excess_of(columns[k], limits, weights[k]) / weights[k] + pairs.missing[new]
                greatest_kinds(columns[k], weights[k], kinds, sums.kinds[first + k])
                into = laws.mask_partners[first + k]
                for b in range(size):
                    joint[b, into] += columns[k, b]


@kernel
def greatest_ratio(laws: Conditional, new_a: Int32Array, scratch: Scratch) -> float:
    """Return the greatest ln M(b* | b, a, a*) − ln M(b* | b′, a′, a*), over all pairs (a, b) and (a′, b′) of the edge.

    ``new_a``: (n,) the values a* for which it is computed.
    """
    result = 0.0
    for new in new_a:
        first = laws.mask_offsets[new]
        targets = laws.mask_offsets[new + 1] - first
        least, most = np.full(targets, np.inf), np.zeros(targets)
        for a in range(laws.offsets.size - 1):
            sources = laws.offsets[a + 1] - laws.offsets[a]
            if sources == 0:
                continue
            rows = scratch.rows[: sources * targets].reshape((sources, targets))
            fill_coupling_rows(laws, a, int64(new), scratch, rows)
            for j in range(sources):
                for k in range(targets):
                    least[k] = min(least[k], rows[j, k])
                    most[k] = max(most[k], rows[j, k])
        for k in range(targets):
            if laws.target[first + k] > 0.0:
                result = max(result, np.log(most[k]) - np.log(least[k]))
    return result
