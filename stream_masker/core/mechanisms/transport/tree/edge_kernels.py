"""Passes over the couplings of an edge (``transport.couplings``), which are computed and discarded one by one.

For each pair (a, a*), the channel M(b* | b, a, a*) of the partners b of a has a row for each b and a column for each
partner b* of a*. Its columns sum to P(b* | a*) under P(b | a), whatever a is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.couplings import Conditional, fill_kernels, solve_coupling


class Scratch(NamedTuple):
    """The memory of one coupling of at most n × m partners, with at most k = max(n, m).

    * ``rows``: n·m, the coupling. ``transposed``: n·m, its kernel. ``sums``: (2, k). ``scales``: (3, k), ψ, the missing
      mass and the kept shares.
    """

    rows: Float64Array
    transposed: Float64Array
    sums: Float64Matrix
    scales: Float64Matrix


@part
def fill_coupling_rows(laws: Conditional, a: int, new: int, scratch: Scratch, rows: Float64Matrix) -> None:
    """Set ``rows``, (n, m), to M(b* | b, a, a*)."""
    own, first = laws.offsets[a], laws.offsets[new]
    sources, targets = rows.shape
    backward = scratch.transposed[: sources * targets].reshape((targets, sources))
    psi, rest = scratch.scales[0, :targets], scratch.scales[1, :targets]
    kept = scratch.scales[2, :sources]
    fill_kernels(laws, a, new, rows, backward)
    solve_coupling(
        laws.source[own : own + sources],
        laws.target[first : first + targets],
        (rows, backward),
        (scratch.sums[0, :sources], scratch.sums[1, :targets]),
        psi,
        rest,
        kept,
    )
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


@kernel
def add_best_guesses(
    laws: Conditional,
    starts: Int64Array,
    a: Int32Array,
    weights: Float64Array,
    scratch: Scratch,
    sums: Float64Array,
    joint: Float64Matrix,
) -> Float64Array:
    """Add the joint law of B and its mask to ``joint``, (k_B, k_B), and return what the masks of both tell.

    The result is (3,) float64: Σ max_b P(b, a*, b*), Σ max_{a, b} P(a, b, a*, b*), and the probability that both values
    stay.

    * ``starts``: (k_A + 1,) where the pairs of each a* start. ``a``: (n,) the values of these pairs. ``weights``: (n,)
      P(a, a*). ``sums``: k_B times the greatest number of partners, overwritten.
    """
    result = np.zeros(3)
    size = joint.shape[0]
    for new in range(starts.size - 1):
        if starts[new] == starts[new + 1]:
            continue
        first = laws.offsets[new]
        targets = laws.offsets[new + 1] - first
        of_values = sums[: size * targets].reshape((size, targets))
        of_values[:] = 0.0
        best = np.zeros(targets)
        for i in range(starts[new], starts[new + 1]):
            own = laws.offsets[a[i]]
            sources = laws.offsets[a[i] + 1] - own
            rows = scratch.rows[: sources * targets].reshape((sources, targets))
            fill_coupling_rows(laws, int64(a[i]), new, scratch, rows)
            for j in range(sources):
                weight = weights[i] * laws.source[own + j]
                total = of_values[laws.partners[own + j]]
                for k in range(targets):
                    probability = weight * rows[j, k]
                    total[k] += probability
                    best[k] = max(best[k], probability)
                if a[i] == new:
                    result[2] += weight * rows[j, j]
        for k in range(targets):
            greatest = 0.0
            for b in range(size):
                greatest = max(greatest, of_values[b, k])
                joint[b, laws.partners[first + k]] += of_values[b, k]
            result[0] += greatest
            result[1] += best[k]
    return result


@kernel
def greatest_ratio(laws: Conditional, new_a: Int32Array, scratch: Scratch) -> float:
    """Return the greatest ln M(b* | b, a, a*) − ln M(b* | b′, a′, a*), over all pairs (a, b) and (a′, b′) of the edge.

    ``new_a``: (n,) the values a* for which it is computed.
    """
    result = 0.0
    for new in new_a:
        first = laws.offsets[new]
        targets = laws.offsets[new + 1] - first
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
