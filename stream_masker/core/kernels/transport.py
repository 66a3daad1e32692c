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
    Int32Array,
    Int32Matrix,
    Int64Array,
    UInt16Matrix,
    UInt64Array,
)
from stream_masker.core.kernels.draws import accepts, mixed_word, uniform
from stream_masker.core.kernels.jit import inlined, int64, kernel

REDRAWN, SECOND, AGAIN = map(np.uint64, (0x5851F42D4C957F2D, 0x14057B7EF767814F, 0x9E6C63D0876A9A47))
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
def exceeding_products(
    first: Float32Matrix, rows: Float32Matrix, total: Float32Matrix, bounds: Float64Array, i: Int64Array, j: Int64Array
) -> tuple[Int64Array, Int64Array, Float64Array]:
    """Return (e,) each: t, x and the product of all first[i[t], x]·rows[j[t], x] > total[i[t], j[t]]·bounds[x].

    ``first``: (a, k), ``rows``: (b, k), ``total``: (a, b), ``bounds``: (k,).
    """
    count = 0
    which, value, found = np.empty(i.size, np.int64), np.empty(i.size, np.int64), np.empty(i.size)
    for t in range(i.size):
        left, right, whole = first[i[t]], rows[j[t]], np.float64(total[i[t], j[t]])
        for x in range(bounds.size):
            product = np.float64(left[x]) * np.float64(right[x])
            if product > whole * bounds[x]:
                if count == which.size:
                    which, value = np.append(which, np.empty_like(which)), np.append(value, np.empty_like(value))
                    found = np.append(found, np.empty_like(found))
                which[count], value[count], found[count] = t, x, product
                count += 1
    return which[:count], value[:count], found[:count]


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
    """The laws of an attribute's k_B values given k_A values of the root, as compressed rows; see ``given``.

    Values are in the order of the taxonomy, so that those of a node are next to each other.

    * ``source_offsets``: (k_A + 1,), ``source``: (m,) int32 values, ``shares``: (m,) P(b | a), which sum to 1 for an a.
    * ``target_offsets``, ``target``, ``chances``: the same of P(b* | a*). ``eta``: η of each entry.
    * ``nodes``: (levels, k_B) int32, what each value belongs to: itself, its block, its chapter, all. A row does not
      descend. ``salts``: (k_B,) uint64.
    """

    source_offsets: Int64Array
    source: Int32Array
    shares: Float64Array
    target_offsets: Int64Array
    target: Int32Array
    chances: Float64Array
    eta: Float64Array
    nodes: Int32Matrix
    salts: UInt64Array


class Matches(NamedTuple):
    """Room for the matches of two laws: the entries i and j, and the mass that is moved from i to j."""

    first: Int64Array
    second: Int64Array
    mass: Float64Array


@inlined
def matched(
    own: Int32Array, p: Float64Array, new: Int32Array, q: Float64Array, nodes: Int32Matrix, into: Matches
) -> int:
    """Match two laws, mass by mass, within each node in order, the nearest nodes first; return how many matches.

    ``own``, ``new``: their values, ascending. ``p``, ``q``: their masses; what is not matched for rounding is left.
    """
    count = 0
    for level in range(nodes.shape[0]):
        node, j = nodes[level], 0
        for i in range(own.size):
            if p[i] > 0.0:
                low, high = j, new.size
                while low < high:
                    middle = (low + high) // 2
                    if node[new[middle]] < node[own[i]]:
                        low = middle + 1
                    else:
                        high = middle
                j, left, place = low, p[i], node[own[i]]
                while left > 0.0 and j < new.size and node[new[j]] == place:
                    mass = min(left, q[j])
                    if mass > 0.0:
                        left -= mass
                        q[j] -= mass
                        into.first[count], into.second[count], into.mass[count] = i, j, mass
                        count += 1
                    if left > 0.0:
                        j += 1
                p[i] = left
    return count


@kernel
def joint_given(
    couplings: Couplings, chances: Float64Array, root_new: int, room: Float32Array
) -> tuple[Float32Matrix, Float64Array]:
    """Return (k_B, n) float32 P(b, b* | a*) for the n entries of P(b* | a*), and (k_B,) P(b | a*).

    ``chances``: (k_A,) P(a | a*). ``room``: for the result, k_B·n numbers or more.

    Values a of chance 0 are left out.
    """
    starts, ends = couplings.source_offsets, couplings.target_offsets
    some = slice(ends[root_new], ends[root_new + 1])
    new, q, size = couplings.target[some], couplings.chances[some], couplings.salts.size
    result = room[: size * new.size].reshape(size, new.size)
    result[:] = 0.0
    prior = np.zeros(size)
    into = Matches(np.empty(2 * size, np.int64), np.empty(2 * size, np.int64), np.empty(2 * size))
    for a in range(chances.size):
        if chances[a] > 0.0:
            own, p = couplings.source[starts[a] : starts[a + 1]], couplings.shares[starts[a] : starts[a + 1]]
            for k in range(own.size):
                prior[own[k]] += chances[a] * p[k]
            for k in range(matched(own, p.copy(), new, q.copy(), couplings.nodes, into)):
                result[own[into.first[k]], into.second[k]] += np.float32(chances[a] * into.mass[k])
    return result, prior


@kernel
def exceeding_entries(
    joint: Float32Matrix, prior: Float64Array, chance: Float64Array, bounds: Float64Array
) -> tuple[Int64Array, Int64Array, Float64Array, float]:
    """Return (e,) each: the column j, the row x and the posterior of all joint[x, j] > chance[j]·bounds[x], and the
    greatest other posterior. ``joint``: (k, n), ``prior``, ``chance``: its sums, (k,) and (n,), ``bounds``: (k,)."""
    count, others = 0, 0.0
    column, row, posterior = np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16)
    inverse = np.where(chance > 0.0, 1.0 / np.where(chance > 0.0, chance, 1.0), 0.0)
    for x in range(joint.shape[0]):
        for j in range(joint.shape[1] if prior[x] > 0.0 else 0):
            found = joint[x, j] * inverse[j]
            if found > bounds[x]:
                if count == column.size:
                    column, row = np.append(column, np.empty_like(column)), np.append(row, np.empty_like(row))
                    posterior = np.append(posterior, np.empty_like(posterior))
                column[count], row[count], posterior[count] = j, x, found
                count += 1
            elif found > others:
                others = found
    return column[:count], row[:count], posterior[:count], others


@kernel
def column_costs(joint: Float32Matrix, prior: Float64Array, squares: Float32Matrix, masks: Int32Array) -> Float64Array:
    """Return (n,) float64: Σ_x joint[x, j]·squares[x, masks[j]].

    ``joint``: (k, n), ``prior``: (k,) its sums, ``squares``: (k, k).
    """
    costs = np.zeros(masks.size)
    for x in range(joint.shape[0]):
        for j in range(masks.size if prior[x] > 0.0 else 0):
            costs[j] += joint[x, j] * squares[x, masks[j]]
    return costs


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
    starts, ends, nodes, salts = couplings.source_offsets, couplings.target_offsets, couplings.nodes, couplings.salts
    size, result = couplings.salts.size, np.empty(values.size, np.int32)
    into = Matches(np.empty(2 * size, np.int64), np.empty(2 * size, np.int64), np.empty(2 * size))
    for i in range(offsets.size - 1):
        if offsets[i] == offsets[i + 1]:
            continue
        own = couplings.source[starts[root[i]] : starts[root[i] + 1]]
        p = couplings.shares[starts[root[i]] : starts[root[i] + 1]].copy()
        some = slice(ends[root_new[i]], ends[root_new[i] + 1])
        new, q, eta = couplings.target[some], couplings.chances[some], couplings.eta[some]
        count, salt = matched(own, p, new, q.copy(), nodes, into), salts[new]
        unlike = True
        for k in range(offsets[i], offsets[i + 1]):
            unlike = unlike and not contains(values, offsets[i], k, int64(values[k]))
        for k in range(offsets[i], offsets[i + 1]):
            word, weights = words[k], np.zeros(new.size)
            for match in range(count):
                if own[into.first[match]] == values[k]:
                    weights[into.second[match]] = into.mass[match]
            total = weights.sum()
            chosen = draw_weighted(weights if total > 0.0 else q, total if total > 0.0 else q.sum(), salt, word)
            if uniform(mixed_word(word ^ REDRAWN)) < eta[chosen]:
                weights = q * eta
                chosen = draw_weighted(weights, weights.sum(), salt, mixed_word(word ^ SECOND))
            level = 1
            while unlike and level < nodes.shape[0] and contains(result, offsets[i], k, int64(new[chosen])):
                for x in range(new.size):
                    near = nodes[level, new[x]] == nodes[level, new[chosen]]
                    weights[x] = q[x] if near and not contains(result, offsets[i], k, int64(new[x])) else 0.0
                if weights.sum() > 0.0:
                    chosen = draw_weighted(weights, weights.sum(), salt, mixed_word(word ^ AGAIN))
                level += 1
            result[k] = new[chosen]
    return result


@inlined
def contains(values: Int32Array, start: int, end: int, value: int) -> bool:
    """Return whether a value occurs between ``start`` and ``end``."""
    found = False
    for k in range(start, end):
        found = found or values[k] == value
    return found
