"""What both masks of a pair tell of the kind of a value: its chapter, its block, and whether it is sensitive."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.mechanisms.transport.scaling.binding import Binding
from stream_masker.core.mechanisms.transport.scaling.columns import Side, fill_limited
from stream_masker.core.mechanisms.transport.scaling.solver import Problem, Scaling, seen_from
from stream_masker.core.risk.kinds import Kinds, KindTable, greatest_kinds
from stream_masker.core.risk.meaning import MeaningRisk


def meaning_of(problem: Problem, scaling: Scaling, kinds: Kinds, *, first: bool) -> MeaningRisk:
    """Return what both masks tell of the kinds of the first attribute's values, or of the second one's."""
    side = seen_from(problem, scaling.kernels, scaling.phi, first=first)
    mine, others = scaling.binding if first else scaling.binding[::-1]
    weights, shares = np.zeros(problem.law.size), np.zeros((problem.law.size, len(kinds.sets)))
    share_kinds(side, mine, others, scaling.psi, kinds.table, weights, shares)
    values = problem.table.rows if first else problem.table.columns
    prior = np.bincount(values, problem.law, side.kernel.shape[1]).astype(np.float64)
    return MeaningRisk.of_shares(kinds, prior, weights / weights.sum(), shares.T)


@kernel
def share_kinds(
    side: Side,
    mine: Binding,
    others: Binding,
    psi: Float64Array,
    kinds: KindTable,
    weights: Float64Array,
    shares: Float64Matrix,
) -> None:
    """Set ``weights``, (m,), to the shares of masks, and ``shares``, (m, g), to the greatest of a kind given each."""
    column = np.empty(side.kernel.shape[1])
    for t in range(psi.size):
        if psi[t] > 0.0:
            total = fill_limited(side, mine, others, t, column)
            weights[t] = psi[t] * total
            greatest_kinds(column, total, kinds, shares[t])
