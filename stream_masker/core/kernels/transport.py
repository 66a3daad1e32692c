"""The compiled parts of semantic transport: the search of what masks tell, and draws.

Candidates are visited one after the other (``core.kernels.draws.accepts``), near ones first, so that a draw visits few,
and a window that slid a little changes few masks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Array,
    UInt16Matrix,
    UInt64Array,
)
from stream_masker.core.kernels.draws import accepts, mixed_word, uniform
from stream_masker.core.kernels.jit import inlined, int64, kernel

REDRAWN, SECOND, UP, AGAIN = map(
    np.uint64, (0x5851F42D4C957F2D, 0x14057B7EF767814F, 0x2545F4914F6CDD1D, 0x9E6C63D0876A9A47)
)
"""What tells the random words of one record's draws from each other."""
NEWTON_STEPS, BALANCED_ROUNDS = 3, 5
LEAST_WEIGHT = np.float32(1e-30)
"""The least φ."""


@kernel
def greatest_products(first: Float32Matrix, second: Float32Matrix) -> Float32Matrix:
    """Return (n, m) float32: max over x of first[i, x] · second[x, j], of (n, k) and (k, m) numbers that are not
    negative."""
    result = np.zeros((first.shape[0], second.shape[1]), np.float32)
    for i in range(first.shape[0]):
        best = result[i]
        for x in range(first.shape[1]):
            weight, row = first[i, x], second[x]
            for j in range(row.size):
                product = weight * row[j]
                best[j] = product if product > best[j] else best[j]
    return result


@kernel
def sparse_product(
    rows: Int32Array, columns: Int32Array, weights: Float32Array, table: Float32Matrix, size: int
) -> Float32Matrix:
    """Return (size, k) float32: the product of a sparse matrix, of (m,) ``weights`` at ``rows`` and ``columns``, and a
    table of k columns."""
    result = np.zeros((size, table.shape[1]), np.float32)
    for m in range(rows.size):
        into, row, weight = result[rows[m]], table[columns[m]], weights[m]
        for k in range(row.size):
            into[k] += weight * row[k]
    return result


@kernel
def lowered_levels(base: Float32Matrix, weights: Float32Array, levels: Float32Array, cut: float) -> Float32Array:
    """Return (k,) float32 u with Σ_a max(0, q(a, a*) − u(a*)) = cut, by steps of Newton's method from ``levels``.

    q(a, a*) = weights[a] + base[a, a*], of (k,) and (k, k) numbers.
    """
    found = levels.copy()
    for _ in range(NEWTON_STEPS):
        counts = np.zeros(found.size, np.float32)
        sums = np.full(found.size, np.float32(-cut))
        tops = np.full(found.size, np.float32(-np.inf))
        for a in range(base.shape[0]):
            weight, row = weights[a], base[a]
            for c in range(found.size):
                q = weight + row[c]
                above = q > found[c]
                counts[c] += np.float32(1.0) if above else np.float32(0.0)
                sums[c] += q if above else np.float32(0.0)
                tops[c] = q if q > tops[c] else tops[c]
        for c in range(found.size):
            found[c] = sums[c] / counts[c] if counts[c] > 0.0 else tops[c] - np.float32(cut)
    return found


@kernel
def balanced(
    matrix: Float32Matrix, transposed: Float32Matrix, p: Float32Array, t: Float32Array, phi: Float32Array
) -> tuple[Float32Array, Float32Array]:
    """Return φ and ψ, (k,) float32 each, after some rounds of ψ = t / (φ·K), φ = p / (K·ψ).

    ``matrix``, ``transposed``: (k, k) float32 K. Small products are faster here than in BLAS, whose threads would wait
    for each other.
    """
    for _ in range(BALANCED_ROUNDS):
        sums = np.zeros_like(phi)
        for a in range(phi.size):
            sums += phi[a] * matrix[a]
        psi = t / sums
        sums = np.zeros_like(phi)
        for a in range(phi.size):
            sums += psi[a] * transposed[a]
        phi = np.maximum(p / sums, LEAST_WEIGHT)
    return phi, psi


class Draws(NamedTuple):
    """The arrays of the draws of a map of k_A × k_B values; see ``fit.Map`` for their mathematics.

    * ``first_order``, ``second_order``: (k, k) uint16, the order in which candidates are visited for each value.
    * ``first``, ``second``: (k, k) float32 K in this order. ``totals``: (k_A, k_B) Z. ``inner``: (k_B, k_A) C.
    * ``psi``: (k_A, k_B) float32 Ψ. ``eta``: (k_A, k_B) float32. ``redrawn``: (k_A, k_B) float32 R, up to a factor;
      ``redrawn_first``: (k_A,) float64 its sums. ``salts``: of both attributes, (k,) uint64 each.
    """

    first_order: UInt16Matrix
    second_order: UInt16Matrix
    first: Float32Matrix
    second: Float32Matrix
    totals: Float32Matrix
    inner: Float32Matrix
    psi: Float32Matrix
    eta: Float32Matrix
    redrawn: Float32Matrix
    redrawn_first: Float64Array
    first_salts: UInt64Array
    second_salts: UInt64Array


@inlined
def draw_near(
    order: Int32Array, near: Float32Array, weights: Float32Array, left: float, salts: UInt64Array, word: np.uint64
) -> int:
    """Return a candidate drawn with weights near[k] · weights[order[k]], whose sum is ``left``."""
    last = int64(order[0])
    for k in range(order.size):
        candidate = int64(order[k])
        weight = np.float64(near[k]) * np.float64(weights[candidate])
        if weight > 0.0:
            last = candidate
            if accepts(word, salts[candidate], weight, left):
                break
            left -= weight
    return last


@inlined
def draw_weighted(weights: Float64Array, left: float, salts: UInt64Array, word: np.uint64) -> int:
    """Return an index drawn with these weights, whose sum is ``left``."""
    last = int64(0)
    for k in range(weights.size):
        weight = np.float64(weights[k])
        if weight > 0.0:
            last = int64(k)
            if accepts(word, salts[k], weight, left):
                break
            left -= weight
    return last


@kernel
def draw_pairs(
    draws: Draws, a: Int32Array, b: Int32Array, words: UInt64Array, others: UInt64Array
) -> tuple[Int32Array, Int32Array]:
    """Return (n,) int32 each: the masks of n pairs of indices of values; ``words``, ``others``: of each value."""
    first, second = np.empty(a.size, np.int32), np.empty(a.size, np.int32)
    redrawn_total = draws.redrawn_first.sum()
    for i in range(a.size):
        x, y, word, other = a[i], b[i], words[i], others[i]
        total = np.float64(draws.totals[x, y])
        x_new = draw_near(draws.first_order[x], draws.first[x], draws.inner[y], total, draws.first_salts, word)
        total = np.float64(draws.inner[y, x_new])
        y_new = draw_near(draws.second_order[y], draws.second[y], draws.psi[x_new], total, draws.second_salts, other)
        eta = np.float64(draws.eta[x_new, y_new])
        if eta > 0.0 and uniform(mixed_word(word ^ mixed_word(other ^ REDRAWN))) < eta:
            word = mixed_word(word ^ SECOND)
            x_new = draw_weighted(draws.redrawn_first, redrawn_total, draws.first_salts, word)
            row, other = draws.redrawn[x_new], mixed_word(other ^ SECOND)
            y_new = draw_weighted(row, draws.redrawn_first[x_new], draws.second_salts, other)
        first[i], second[i] = x_new, y_new
    return first, second


class Couplings(NamedTuple):
    """The arrays of the draws of an attribute's k_B values given k_A values of the root; see ``given``.

    * ``source``: (k_A, k_B) float32 P(b | a). ``target``: (k_A, k_B) float32 P(b* | a*).
    * ``block``: (k_B,) int32, the block of each value. ``nodes``: (levels, blocks) int32, what each block belongs to at
      each level: itself, its chapter, everything.
    * ``eta``: (k_A, k_B) float32 η(a*, b*). ``salts``: (k_B,) uint64.
    """

    source: Float32Matrix
    target: Float32Matrix
    block: Int32Array
    nodes: Int32Matrix
    eta: Float32Matrix
    salts: UInt64Array


@inlined
def climb(
    p: Float32Array,
    q: Float32Array,
    block: Int32Array,
    nodes: Int32Matrix,
    chance: Float64Matrix,
    left: Float64Matrix,
    sums: Float64Matrix,
) -> None:
    """Couple two laws level by level, the nearest first; ``sums``: (4, blocks), overwritten.

    For each level and block, (levels, blocks): ``chance`` is that of what its node has too much of p to become what the
    node has too much of q, and ``left`` the share of the latter, of each value in the block, that lower levels left.
    """
    sums[:] = 0.0
    for x in range(p.size):
        difference = np.float64(p[x]) - np.float64(q[x])
        sums[0 if difference > 0.0 else 1, block[x]] += abs(difference)
    left[0, :] = 1.0
    for level in range(nodes.shape[0]):
        sums[2:] = 0.0
        for v in range(nodes.shape[1]):
            sums[2, nodes[level, v]] += sums[0, v]
            sums[3, nodes[level, v]] += sums[1, v]
        for v in range(nodes.shape[1]):
            more, less = sums[2, nodes[level, v]], sums[3, nodes[level, v]]
            chance[level, v] = min(less / more, 1.0) if more > 0.0 else 0.0
            kept = max(1.0 - more / less, 0.0) if less > 0.0 else 0.0
            sums[0, v] *= 1.0 - chance[level, v]
            sums[1, v] *= kept
            if level + 1 < nodes.shape[0]:
                left[level + 1, v] = left[level, v] * kept


@kernel
def draw_given(
    couplings: Couplings,
    root: Int32Array,
    root_new: Int32Array,
    values: Int32Array,
    words: UInt64Array,
    offsets: Int64Array,
) -> Int32Array:
    """Return (m,) int32: the masks of values that are drawn given the value of their record's root, and its mask.

    * ``root``, ``root_new``: (n,) indices of n records. ``values``, ``words``: (m,) those of record i are
      offsets[i] … offsets[i + 1] − 1. Where all of them differ, so do their masks, if the law allows it: one that is
      there already is drawn again, from its block if others of that are left, or one level up.
    """
    block, nodes, salts = couplings.block, couplings.nodes, couplings.salts
    chance, left = np.empty(nodes.shape), np.empty(nodes.shape)
    weights, sums = np.empty(block.size), np.empty((4, nodes.shape[1]))
    result = np.empty(values.size, np.int32)
    for i in range(offsets.size - 1):
        p, q, eta = couplings.source[root[i]], couplings.target[root_new[i]], couplings.eta[root_new[i]]
        if offsets[i] < offsets[i + 1]:
            climb(p, q, block, nodes, chance, left, sums)
        unlike = True
        for k in range(offsets[i], offsets[i + 1]):
            unlike = unlike and not contains(values, offsets[i], k, int64(values[k]))
        for k in range(offsets[i], offsets[i + 1]):
            word, b, chosen = words[k], int64(values[k]), int64(values[k])
            if not (p[b] > 0.0 and uniform(mixed_word(word ^ UP)) * np.float64(p[b]) < np.float64(q[b])):
                level = level_of(p[b] > 0.0, chance[:, block[b]], word)
                for x in range(q.size):
                    near = level >= 0 and nodes[level, block[x]] == nodes[level, block[b]]
                    surplus = max(np.float64(q[x]) - np.float64(p[x]), 0.0)
                    weights[x] = surplus * left[level, block[x]] if near else (q[x] if level < 0 else 0.0)
                chosen = draw_weighted(weights, weights.sum(), salts, mixed_word(word ^ SECOND))
            if uniform(mixed_word(word ^ REDRAWN)) < eta[chosen]:
                for x in range(q.size):
                    weights[x] = np.float64(q[x]) * np.float64(eta[x])
                chosen = draw_weighted(weights, weights.sum(), salts, mixed_word(word ^ AGAIN))
            if unlike and contains(result, offsets[i], k, chosen):
                for level in range(nodes.shape[0]):
                    for x in range(q.size):
                        near = nodes[level, block[x]] == nodes[level, block[chosen]]
                        weights[x] = q[x] if near and not contains(result, offsets[i], k, x) else 0.0
                    if weights.sum() > 0.0:
                        chosen = draw_weighted(weights, weights.sum(), salts, mixed_word(word))
                        break
            result[k] = chosen
    return result


@inlined
def level_of(known: bool, chance: Float64Array, word: np.uint64) -> int:
    """Return the level at which a value finds its mask; −1 if its law given the root is not known, so that its mask is
    any of the root's mask."""
    for level in range(chance.size):
        word = mixed_word(word ^ UP)
        if known and chance[level] > 0.0 and uniform(mixed_word(word)) < chance[level]:
            return level
    return -1


@inlined
def contains(values: Int32Array, start: int, end: int, value: int) -> bool:
    """Return whether a value occurs between ``start`` and ``end``."""
    found = False
    for k in range(start, end):
        found = found or values[k] == value
    return found
