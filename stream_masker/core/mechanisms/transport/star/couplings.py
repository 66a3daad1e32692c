"""Transport of an attribute B given another one, A: of the elements of an array, or of a scalar.

For each pair (a, a*) the values of B move by an entropic optimal transport from the law P(b | a) to the law P(b | a*).
Sinkhorn's iteration is stopped after ``SINKHORN_STEPS`` and rounded to the exact marginals (Altschuler, Weed and
Rigollet 2017: algorithm 2): a share of each row is kept, and what the columns then lack is drawn independently. A
coupling of n partners of a and m partners of a* is held as 2·(m + n) numbers: of each partner of a*, ψ and what the
columns lack; of each partner of a, the share of its row that is drawn from ψ, and the sum of its weights. It is
computed when (a, a*) first occurs, and kept in bounded memory. Draws from ψ visit the nearest masks first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    BoolArray,
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Array,
    UInt64Array,
)
from stream_masker.core.kernels.draws import accepts, mixed_word, uniform
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.kernels.sums import sum_of_products
from stream_masker.core.mechanisms.transport.sampling import draw_nearest, tuple_index
from stream_masker.core.mechanisms.transport.scaling.table import CountedPairs

SINKHORN_STEPS = 6
SINKHORN_ERROR = 1e-2
LEAST_LACK = 1e-300


class Rows(NamedTuple):
    """Laws of B given each value of A: the ``shares``, (n,), of the ``partners`` of each a, as compressed rows."""

    offsets: Int64Array
    partners: Int32Array
    shares: Float64Array

    @classmethod
    def of(cls, pairs: CountedPairs) -> Rows:
        """Return P(b | a) of counted pairs."""
        table, counts = pairs
        totals = np.bincount(table.rows, counts.astype(np.float64), minlength=table.shape[0])
        return cls(table.by_row.offsets, table.columns.astype(np.int32), np.asarray(counts / totals[table.rows]))

    @classmethod
    def of_values(cls, shares: Float64Array) -> Rows:
        """Return the law of an attribute that is masked alone, with a single row; ``shares``: (k,)."""
        return cls(np.array([0, shares.size]), np.arange(shares.size, dtype=np.int32), shares)

    def equal_share(self, weights: Float64Array) -> float:
        """Return the chance that two draws of one row are equal; ``weights``: (k_A,) those of the rows."""
        rows = np.repeat(np.arange(weights.size), np.diff(self.offsets))
        totals = np.bincount(rows, self.shares, weights.size)
        squares = np.bincount(rows, self.shares**2, weights.size)
        held = totals > 0.0
        equal = weights[held] * squares[held] / totals[held] ** 2
        return float(equal.sum() / max(weights[held].sum(), np.finfo(np.float64).tiny))


class Conditional(NamedTuple):
    """The laws P(b | a), ``source``, and those of masks P(b* | a*), ``target``; ``kernel``: (k_B, k_B) float32 K_B."""

    source: Rows
    target: Rows
    kernel: Float32Matrix


@part
def span(rows: Rows, a: int) -> tuple[int, int]:
    """Return the first partner of a, and the end of its partners."""
    return int64(rows.offsets[a]), int64(rows.offsets[a + 1])


@part
def has_partners(laws: Conditional, a: int, new: int) -> bool:
    """Return whether both values of A are there and have partners; if not, B is masked without its context."""
    if a < 0 or new < 0:
        return False
    own, own_end = span(laws.source, a)
    first, end = span(laws.target, new)
    return own_end > own and end > first


@kernel
def covered_pairs(laws: Conditional, a: Int32Array, new_a: Int32Array) -> BoolArray:
    """Return (n,) bool: ``has_partners`` of pairs (a, a*)."""
    result = np.empty(a.size, np.bool_)
    for i in range(a.size):
        result[i] = has_partners(laws, int64(a[i]), int64(new_a[i]))
    return result


class Coupling(NamedTuple):
    """The coupling of a pair (a, a*) with m partners of a* and n of a.

    * ``rows``: (m, w) float32 K_B of the partners of a* (rows) and of a, with columns of zeros up to whole vectors.
    * ``psi``, ``rest``: (m,) float64 ψ, and what the columns lack. ``kept``, ``totals``: (n,) float64 the share of each
      row that is drawn from ψ, and the sum of its weights.
    * ``phi``, ``left``: (w,) float32 what ψ·``rows`` is multiplied by, and what the rows of a lack.
    """

    rows: Float32Matrix
    psi: Float64Array
    rest: Float64Array
    kept: Float64Array
    totals: Float64Array
    phi: Float32Array
    left: Float32Array


@kernel
def solve_coupling(laws: Conditional, a: int, new: int) -> Coupling:
    """Compute the coupling of a pair (a, a*)."""
    own, own_end = span(laws.source, a)
    first, end = span(laws.target, new)
    n, m = own_end - own, end - first
    floats, psi, rest = np.zeros((2, n), np.float32), np.empty(m), np.empty(m)
    coupling = Coupling(np.empty((m, n), np.float32), psi, rest, np.empty(n), np.empty(n), floats[0], floats[1])
    iterate(
        laws.kernel,
        laws.source.partners[own:own_end],
        laws.target.partners[first:end],
        laws.source.shares[own:own_end],
        laws.target.shares[first:end],
        coupling,
    )
    return coupling


@part
def iterate(
    matrix: Float32Matrix,
    own: Int32Array,
    partners: Int32Array,
    source: Float64Array,
    target: Float64Array,
    coupling: Coupling,
) -> None:
    """Solve a coupling, of which ``phi`` and ``left`` are zeros.

    Sinkhorn's iteration ends with exact laws of b*; then the laws of b are reduced to theirs.
    """
    rows, psi, phi, sums = coupling.rows, coupling.psi, coupling.phi, coupling.left
    for k in range(target.size):
        row, values = rows[k], matrix[partners[k]]
        for i in range(source.size):
            row[i] = values[own[i]]
        row[source.size :] = 0.0
    for i in range(source.size):
        phi[i] = np.float32(source[i])
    for step in range(SINKHORN_STEPS):
        missing, sums[:] = 0.0, 0.0
        for k in range(target.size):
            total = np.float64(sum_of_products(rows[k], phi))
            missing += abs(psi[k] * total - target[k]) if step > 0 else 1.0
            psi[k] = target[k] / total
            add_scaled(sums, rows[k], psi[k])
        if missing < SINKHORN_ERROR or step == SINKHORN_STEPS - 1:
            break
        for i in range(source.size):
            phi[i] = np.float32(source[i]) / sums[i]
    for i in range(source.size):
        kept = min(np.float64(phi[i]) * np.float64(sums[i]) / source[i], 1.0)
        coupling.kept[i], coupling.totals[i] = kept, np.float64(sums[i])
        phi[i], sums[i] = np.float32(kept * source[i] / sums[i]), np.float32((1.0 - kept) * source[i])
    sums[source.size :] = 0.0
    for k in range(target.size):
        coupling.rest[k] = max(target[k] - psi[k] * np.float64(sum_of_products(rows[k], phi)), 0.0)


@part
def add_scaled(result: Float32Array, row: Float32Array, weight: float) -> None:
    """Add a multiple of a row."""
    scale = np.float32(weight)
    for k in range(result.size):
        result[k] += scale * row[k]


@part
def coupling_size(laws: Conditional, a: int, new: int) -> int:
    """Return the number of numbers of a coupling."""
    own, own_end = span(laws.source, a)
    first, end = span(laws.target, new)
    return 2 * (end - first + own_end - own)


@kernel
def coupling_of(laws: Conditional, a: int, new: int) -> Float32Matrix:
    """Return (m, w) float32 P(b, b* | a, a*), as ``Coupling.rows``."""
    coupling = solve_coupling(laws, a, new)
    lacking = 0.0
    for rest in coupling.rest:
        lacking += rest
    for k in range(coupling.psi.size):
        row, scale = coupling.rows[k], np.float32(coupling.psi[k])
        share = np.float32(coupling.rest[k] / max(lacking, LEAST_LACK))
        for i in range(row.size):
            row[i] = row[i] * coupling.phi[i] * scale + coupling.left[i] * share
    return coupling.rows


@kernel
def coupling_costs(laws: Conditional, squares: Float64Matrix, a: Int32Array, new_a: Int32Array) -> Float64Array:
    """Return (n,) float64: E[sd²] of B under the couplings of pairs (a, a*); ``squares``: (k_B, k_B) sd²."""
    result = np.zeros(a.size)
    for i in range(a.size):
        own = laws.source.partners[laws.source.offsets[a[i]] : laws.source.offsets[a[i] + 1]]
        rows, first = coupling_of(laws, int64(a[i]), int64(new_a[i])), laws.target.offsets[new_a[i]]
        for k in range(rows.shape[0]):
            row, distances = rows[k], squares[laws.target.partners[first + k]]
            for j in range(own.size):
                result[i] += np.float64(row[j]) * distances[own[j]]
    return result


@part
def draw_among(partners: Int32Array, weights: Float64Array, total: float, word: np.uint64, salts: UInt64Array) -> int:
    """Draw one of the partners of a* in proportion to their weights, and return its index; −1 if all weights are 0."""
    last = int64(-1)
    for k in range(weights.size):
        if weights[k] > 0.0:
            last = k
            if accepts(word, salts[partners[k]], weights[k], total):
                break
            total -= weights[k]
    return last


class Couplings(NamedTuple):
    """The couplings of pairs (a, a*) that occurred.

    * ``starts``: (k_A, k_A) int32, where each begins, −1 if it is not known. ``numbers``: all of them, each as ψ,
      ``rest``, ``kept`` and ``totals``. ``used``: (1,) int64, how many numbers are.
    """

    starts: Int32Matrix
    numbers: Float32Array
    used: Int64Array


@kernel
def start_of(laws: Conditional, couplings: Couplings, a: int, new: int) -> int:
    """Return where the coupling of a pair (a, a*) begins, which is computed if it is not known."""
    if couplings.starts[a, new] < 0:
        size = coupling_size(laws, a, new)
        if couplings.used[0] + size > couplings.numbers.size:
            couplings.starts[:] = -1
            couplings.used[0] = 0
        start = couplings.used[0]
        coupling, end = solve_coupling(laws, a, new), start
        for numbers in (coupling.psi, coupling.rest, coupling.kept, coupling.totals):
            for number in numbers:
                couplings.numbers[end] = np.float32(number)
                end += 1
        couplings.starts[a, new] = start
        couplings.used[0] = start + size
    return int64(couplings.starts[a, new])


class DrawnMasks(NamedTuple):
    """What a draw needs of the masks b* beside their laws, whose rows are in the order of places.

    * ``redraws``: (n,) float64 η of each pair (a*, b*). ``again``: (n,) float64 their weights in a second draw, and
      ``sums``, (k_A,), the sums of these. ``places``: (n,) int32 the place of each pair.
    * ``place_of``: (k_B,) int32, the places of the values of B (``transport.sampling``).
    """

    redraws: Float64Array
    again: Float64Array
    sums: Float64Array
    places: Int32Array
    place_of: Int32Array


@inlined
def draw_mask(
    laws: Conditional,
    masks: DrawnMasks,
    numbers: Float32Array,
    scratch: Float64Array,
    start: int,
    a: int,
    new_a: int,
    b: int,
    word: np.uint64,
    salts: UInt64Array,
) -> int:
    """Draw b*. ``numbers``: of couplings; that of (a, a*) begins at ``start``. ``scratch``, ``salts``: (k_B,)."""
    first, last = span(laws.target, new_a)
    own, own_end = span(laws.source, a)
    size, partners, new = last - first, laws.target.partners, int64(-1)
    source, kept = tuple_index(laws.source.offsets, laws.source.partners, a, b) - own, start + 2 * size
    if source >= 0 and uniform(word) >= numbers[kept + source]:
        weights, lacking = scratch[:size], 0.0
        for k in range(size):
            weights[k] = numbers[start + size + k]
            lacking += weights[k]
        new = draw_among(partners[first:last], weights, lacking, word, salts)
        new = first + new if new >= 0 else new
    if new < 0:
        place, shift = masks.place_of[b], start - first
        total = np.float64(numbers[kept + own_end - own + source]) if source >= 0 else 0.0
        for k in range(size if source < 0 else 0):
            total += np.float64(laws.kernel[b, partners[first + k]]) * np.float64(numbers[start + k])
        line = (first, first + int64(np.searchsorted(masks.places[first:last], place)), last)
        new = draw_nearest(laws.kernel, b, partners, masks.places, numbers, shift, line, place, total, word, salts)
    again = mixed_word(word)
    if new >= 0 and uniform(again) < masks.redraws[new]:
        new = draw_among(partners[first:last], masks.again[first:last], masks.sums[new_a], mixed_word(again), salts)
        new = first + new if new >= 0 else new
    return int64(partners[new]) if new >= 0 else int64(-1)
