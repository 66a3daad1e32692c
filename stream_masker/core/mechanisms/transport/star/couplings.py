"""The laws of an attribute given another one, and the couplings of two of them.

Sinkhorn's iteration is stopped after ``SINKHORN_STEPS`` and rounded to the exact marginals (Altschuler, Weed and
Rigollet 2017: algorithm 2): a share of each row and column is kept, and what is missing is drawn independently. The law
of b* is therefore exact for any number of steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float32Matrix, Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.scaling.products import FloatMatrix
from stream_masker.core.mechanisms.transport.scaling.table import CountedPairs

SINKHORN_STEPS = 15
SINKHORN_ERROR = 1e-3


class Conditional(NamedTuple):
    """The laws P(b | a) of k_A × k_B values with m pairs, those of masks P(b* | a*) with n pairs, and the kernel of B.

    * ``offsets``, ``partners``: the pairs as compressed rows. ``source``: (m,) float64 P(b | a).
    * ``mask_offsets``, ``mask_partners``: the pairs of masks. ``target``: (n,) float64 P(b* | a*).
    * ``kernel``: (k_B, k_B) float32 K_B.
    """

    offsets: Int64Array
    partners: Int32Array
    source: Float64Array
    mask_offsets: Int64Array
    mask_partners: Int32Array
    target: Float64Array
    kernel: Float32Matrix

    @classmethod
    def of(cls, pairs: CountedPairs, masks: CountedPairs, second: FloatMatrix) -> Conditional:
        """Create the laws of the window's pairs, and of those of its masks."""
        return cls(*_by_root(pairs), *_by_root(masks), second.astype(np.float32))


def _by_root(pairs: CountedPairs) -> tuple[Int64Array, Int32Array, Float64Array]:
    """Return the pairs as compressed rows, and P(b | a) of each."""
    table, counts = pairs
    totals = np.bincount(table.rows, counts.astype(np.float64), minlength=table.shape[0])
    return table.by_row.offsets, table.columns.astype(np.int32), np.asarray(counts / totals[table.rows])


@kernel
def coupling_sizes(laws: Conditional, a: Int32Array, new_a: Int32Array) -> Int64Array:
    """Return (n,) int64: the entries of the couplings of pairs (a, a*): two for each partner of a*, one for each of
    a."""
    sizes = np.zeros(a.size, np.int64)
    for i in range(a.size):
        targets = laws.mask_offsets[new_a[i] + 1] - laws.mask_offsets[new_a[i]]
        sizes[i] = 2 * targets + laws.offsets[a[i] + 1] - laws.offsets[a[i]]
    return sizes


@part
def multiply_rows(matrix: Float64Matrix, weights: Float64Array, result: Float64Array) -> None:
    """Set ``result``, (m,), to weights · M for a (n, m) matrix. Each sum is in the order of the rows."""
    result[:] = 0.0
    for i in range(weights.size):
        row = matrix[i]
        weight = weights[i]
        for k in range(result.size):
            result[k] += weight * row[k]


class Coupling(NamedTuple):
    """A coupling of n partners of a and m partners of a* that is being solved.

    * ``source``: (n,) P(b | a). ``target``: (m,) the law of the partners of a*.
    * ``forward``, ``backward``: K of these partners, (n, m), and its transpose. ``of_rows``, ``of_columns``: (n,) and
      (m,), overwritten.
    * ``psi``: ψ of each partner of a*, reduced so that no column exceeds its law. ``rest``: cumulative, what the
      columns lack. ``kept``: φ of each partner of a, at last the share of its row that is drawn from ψ.
    """

    source: Float64Array
    target: Float64Array
    forward: Float64Matrix
    backward: Float64Matrix
    of_rows: Float64Array
    of_columns: Float64Array
    psi: Float64Array
    rest: Float64Array
    kept: Float64Array


@part
def scale_coupling(c: Coupling) -> None:
    """Set φ and ψ by Sinkhorn's iteration."""
    for k in range(c.target.size):
        c.psi[k] = c.target[k]
    c.kept[:] = 0.0
    for step in range(SINKHORN_STEPS):
        multiply_rows(c.backward, c.psi, c.of_rows)
        missing = 0.0
        for i in range(c.source.size):
            missing += abs(c.kept[i] * c.of_rows[i] - c.source[i])
            c.kept[i] = c.source[i] / c.of_rows[i]
        if step > 0 and missing < SINKHORN_ERROR:
            break
        multiply_rows(c.forward, c.kept, c.of_columns)
        for k in range(c.target.size):
            if c.target[k] > 0.0:
                c.psi[k] = c.target[k] / c.of_columns[k]


@part
def round_coupling(c: Coupling) -> None:
    """Reduce rows, then columns, to their laws."""
    multiply_rows(c.backward, c.psi, c.of_rows)
    for i in range(c.source.size):
        c.kept[i] = min(c.kept[i], c.source[i] / c.of_rows[i])
    sum_rest = 0.0
    multiply_rows(c.forward, c.kept, c.of_columns)
    for k in range(c.target.size):
        if c.target[k] > 0.0:
            reached = c.of_columns[k] * c.psi[k]
            if reached > c.target[k]:
                c.psi[k] *= c.target[k] / reached
                reached = c.target[k]
            sum_rest += c.target[k] - reached
        c.rest[k] = sum_rest
    multiply_rows(c.backward, c.psi, c.of_rows)
    for i in range(c.source.size):
        c.kept[i] = min(1.0, c.kept[i] * c.of_rows[i] / c.source[i])


@part
def fill_kernels(laws: Conditional, a: int, new: int, forward: Float64Matrix, backward: Float64Matrix) -> None:
    """Set K of the partners of a and of those of a*, (n, m), and its transpose."""
    low, first = laws.offsets[a], laws.mask_offsets[new]
    for i in range(forward.shape[0]):
        row = laws.kernel[laws.partners[low + i]]
        for k in range(forward.shape[1]):
            weight = np.float64(row[laws.mask_partners[first + k]])
            forward[i, k] = weight
            backward[k, i] = weight


@part
def solve_coupling(
    laws: Conditional,
    a: int,
    new: int,
    forward: Float64Matrix,
    backward: Float64Matrix,
    sums: Float64Matrix,
    psi: Float64Array,
    rest: Float64Array,
    kept: Float64Array,
) -> None:
    """Fill the coupling of a pair (a, a*); ``sums``: (2, max(n, m)), overwritten. For the others see ``Coupling``."""
    sources, targets = forward.shape
    own, first = laws.offsets[a], laws.mask_offsets[new]
    fill_kernels(laws, a, new, forward, backward)
    coupling = Coupling(
        laws.source[own : own + sources],
        laws.target[first : first + targets],
        forward,
        backward,
        sums[0, :sources],
        sums[1, :targets],
        psi,
        rest,
        kept,
    )
    scale_coupling(coupling)
    round_coupling(coupling)


@kernel
def solve_couplings(
    laws: Conditional, a: Int32Array, new_a: Int32Array, starts: Int64Array, couplings: Float64Array
) -> None:
    """Fill the couplings of pairs (a, a*), each from its start on.

    K of the partners is copied, so that the steps read it in its order.
    """
    offsets, masks = laws.offsets, laws.mask_offsets
    most, cells = int64(0), int64(0)
    for i in range(a.size):
        sources, targets = offsets[a[i] + 1] - offsets[a[i]], masks[new_a[i] + 1] - masks[new_a[i]]
        most, cells = max(most, sources, targets), max(cells, sources * targets)
    scratch, sums = np.empty((2, cells)), np.empty((2, most))
    for i in range(a.size):
        sources, targets = offsets[a[i] + 1] - offsets[a[i]], masks[new_a[i] + 1] - masks[new_a[i]]
        forward = scratch[0, : sources * targets].reshape((sources, targets))
        backward = scratch[1, : sources * targets].reshape((targets, sources))
        psi = couplings[starts[i] : starts[i] + targets]
        rest = couplings[starts[i] + targets : starts[i] + 2 * targets]
        kept = couplings[starts[i] + 2 * targets : starts[i] + 2 * targets + sources]
        solve_coupling(laws, int64(a[i]), int64(new_a[i]), forward, backward, sums, psi, rest, kept)
