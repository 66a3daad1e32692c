"""The columns of a coupling of pairs, and the factors that limit them.

The posterior of a value x of one attribute ("mine") given a masked tuple t is its share of the column
g(x) = K(x, x*)·r(x, t)·Σ φ·K·r over the other attribute's values ("theirs").
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
    Int64Array,
)
from stream_masker.core.kernels.elementary import inner_product
from stream_masker.core.kernels.jit import int32, int64, kernel, part
from stream_masker.core.kernels.simd import sum_of, sum_of_products
from stream_masker.core.mechanisms.transport.kinds import Kinds, KindTable, greatest_kinds
from stream_masker.core.mechanisms.transport.limits import Caps, cut_column, excess_of, fill_weighted, within_limits
from stream_masker.core.mechanisms.transport.scaling.table import Binding, Lines, factor_of

CANCELLED = 1e-2
"""Where factors leave a smaller share of a sum, it is computed again without differences, which would be inexact."""
NEGLIGIBLE = 1e-9
"""Factors of values with a smaller share of their column are not kept: their values are beyond any limit."""
ROOM = 1 << 14
"""The number of factors for which there is room at first; a column has at most 2,000."""


class Side(NamedTuple):
    """A pair of attributes as seen from one of them, "mine"; the other is "theirs". All arrays are by tuple t.

    * ``mine``, ``theirs``: (m,) indices of the values of both attributes of each tuple.
    * ``my_lines``, ``my_entries``, ``lines``, ``entries``: the tuples of each of my and of their values, as compressed
      rows.
    * ``kernel``: (k, k) float32, K of a mask of mine (row) and a value (column): transposed. ``sums``: (l, k) float32
      Σ φ·K of their values, of each mask of theirs and each value of mine.
    * ``their_kernel``: (l, l) float32 K of their values, of a mask (row) and a value (column).
    * ``phi``: (m,) φ.
    """

    mine: Int64Array
    my_lines: Int64Array
    my_entries: Int64Array
    theirs: Int64Array
    lines: Int64Array
    entries: Int64Array
    kernel: Float32Matrix
    sums: Float32Matrix
    their_kernel: Float32Matrix
    phi: Float64Array


@part
def fill_column(side: Side, others: Binding, t: int, column: Float64Array) -> float:
    """Set ``column``, (k,), to g of my values without my factors, and return its sum."""
    own = side.kernel[side.mine[t]]
    sums = side.sums[side.theirs[t]]
    for x in range(column.size):
        column[x] = np.float64(own[x]) * np.float64(sums[x])
    kernel_row = side.their_kernel[side.theirs[t]]
    for f in range(others.offsets[t], others.offsets[t + 1]):
        other = others.values[f]
        lost = (np.float64(others.factors[f]) - 1.0) * np.float64(kernel_row[other])
        for e in range(side.lines[other], side.lines[other + 1]):
            tuple_ = side.entries[e]
            x = side.mine[tuple_]
            column[x] += side.phi[tuple_] * lost * np.float64(own[x])
    for f in range(others.offsets[t], others.offsets[t + 1]):
        other = others.values[f]
        for e in range(side.lines[other], side.lines[other + 1]):
            x = int64(side.mine[side.entries[e]])
            if column[x] < CANCELLED * np.float64(own[x]) * np.float64(sums[x]):
                column[x] = np.float64(own[x]) * sum_value(side, others, t, x)
    total: float = sum_of(column)
    return total


@part
def sum_value(side: Side, others: Binding, t: int, x: int) -> float:
    """Return Σ φ·K·r over their values for a value of mine and a mask."""
    total, kernel_row = 0.0, side.their_kernel[side.theirs[t]]
    for e in range(side.my_lines[x], side.my_lines[x + 1]):
        s = side.my_entries[e]
        other = int64(side.theirs[s])
        total += side.phi[s] * np.float64(kernel_row[other]) * factor_of(others, t, other)
    return total


@part
def fill_limited(side: Side, mine: Binding, others: Binding, t: int, column: Float64Array) -> float:
    """Set ``column``, (k,), to g of my values with all factors, and return its sum."""
    total = fill_column(side, others, t, column)
    for f in range(mine.offsets[t], mine.offsets[t + 1]):
        x = mine.values[f]
        cut = column[x] * np.float64(mine.factors[f])
        total -= column[x] - cut
        column[x] = cut
    return total


@part
def keep_factors(
    column: Float64Array, mine: Float64Array, least: float, values: Int32Array, factors: Float32Array, count: int
) -> int:
    """Append the factors of a column to those that are kept, and return how many these are."""
    for x in range(column.size):
        if mine[x] < 1.0 and column[x] > least:
            values[count] = int32(x)
            factors[count] = np.float32(mine[x])
            count += 1
    return count


@kernel
def bound(side: Side, others: Binding, written: BoolArray, limits: Caps) -> tuple[Float64Array, Binding]:
    """Return (m,) the sums of all columns, cut to my limits, and my factors; tuples that are not written have none."""
    size, count = side.kernel.shape[1], int64(0)
    column, mine, laws, scratch = np.empty(size), np.empty(size), np.empty(size, np.int64), np.empty((4, 2))
    totals, offsets = np.ones(written.size), np.zeros(written.size + 1, np.int64)
    values, factors = np.empty(ROOM, np.int32), np.empty(ROOM, np.float32)
    for t in range(totals.size):
        if written[t]:
            totals[t] = fill_column(side, others, t, column)
            if not within_limits(column, limits, totals[t], mine):
                totals[t] = cut_column(column, limits, totals[t], mine, laws, scratch)
                if count + size > values.size:
                    values, factors = np.concatenate((values, values)), np.concatenate((factors, factors))
                count = keep_factors(column, mine, NEGLIGIBLE * totals[t], values, factors, count)
        offsets[t + 1] = count
    return totals, Binding(offsets, values[:count].copy(), factors[:count].copy())


@kernel
def add_factors(
    side: Side, mine: Binding, others: Binding, psi: Float64Array, with_others: bool, result: Float64Array
) -> None:
    """Add what my factors change to the sums Σ_t ψ·K·r of all tuples s, ``result``, (m,).

    ``with_others``: whether their factors count too; they do for one of both attributes.
    """
    for t in range(psi.size):
        for f in range(mine.offsets[t], mine.offsets[t + 1]):
            x = mine.values[f]
            lost = psi[t] * (np.float64(mine.factors[f]) - 1.0) * np.float64(side.kernel[side.mine[t], x])
            row = side.their_kernel[side.theirs[t]]
            limited = with_others and others.offsets[t] < others.offsets[t + 1]
            for e in range(side.my_lines[x], side.my_lines[x + 1]):
                s = side.my_entries[e]
                other = int64(side.theirs[s])
                factor = factor_of(others, t, other) if limited else 1.0
                result[s] += lost * np.float64(row[other]) * factor


@kernel
def sum_again(
    side: Side,
    masks: tuple[Float32Matrix, Float32Matrix],
    mine: Binding,
    others: Binding,
    bound_by: tuple[Lines, Lines],
    whole: Float64Array,
    result: Float64Array,
) -> None:
    """Compute the sums Σ_t ψ·K·r again of which factors leave little, without differences.

    * ``side``: with ψ in place of φ, and Σ ψ·K of each value of theirs and each mask of mine as ``sums``.
      ``masks``: my and their K of a value (row) and a mask (column).
    * ``bound_by``: the tuples with a factor of each of my and of their values.
    * ``whole``: (m,) the sums without factors.
    """
    left = np.empty(masks[0].shape[1], np.float32)
    for s in range(result.size):
        if result[s] >= CANCELLED * whole[s]:
            continue
        x, other = int64(side.mine[s]), int64(side.theirs[s])
        my_row, their_row, sums = masks[0][x], masks[1][other], side.sums[other]
        left[:] = my_row
        for offsets, tuples, value in ((*bound_by[0], x), (*bound_by[1], other)):
            for f in range(offsets[value], offsets[value + 1]):
                left[side.mine[tuples[f]]] = 0.0
        total = np.float64(sum_of_products(left, sums))
        least = NEGLIGIBLE * total
        for offsets, tuples, value in ((*bound_by[0], x), (*bound_by[1], other)):
            for f in range(offsets[value], offsets[value + 1]):
                mask = int64(side.mine[tuples[f]])
                if left[mask] == 0.0 and my_row[mask] * sums[mask] > least:
                    left[mask] = my_row[mask]
                    for e in range(side.my_lines[mask], side.my_lines[mask + 1]):
                        t = int64(side.my_entries[e])
                        weight = side.phi[t] * np.float64(my_row[mask]) * np.float64(their_row[side.theirs[t]])
                        total += weight * factor_of(mine, t, x) * factor_of(others, t, other)
        result[s] = total


class Columns(NamedTuple):
    """What the masks of one attribute tell: the posterior given each of m tuples; 0 for those that are not written.

    * ``shares``: (m,) the law of masks. ``greatest``: (m,) the greatest posterior of a value. ``stays``: (m,) the
      posterior of the value that equals the mask. ``missing``: (m,) the share of a posterior that is left out.
      ``surest``: (m,) the greatest posterior in any law, with what is left out. ``excess``: (m,) by how much a value or
      a group exceeds its limit at most, in any law; a bound of it where none does.
    * ``kinds``: (m, g) the greatest posterior of a kind of values, for each guess. ``joint``: (k, k) P(a, a*), if it
      was asked for.
    """

    shares: Float64Array
    greatest: Float64Array
    stays: Float64Array
    missing: Float64Array
    surest: Float64Array
    excess: Float64Array
    kinds: Float64Matrix
    joint: Float64Matrix

    @classmethod
    def empty(cls, masks: int, values: int, kinds: Kinds) -> Columns:
        """Return figures to be filled; ``joint`` is that of ``values``."""
        shares, greatest, stays, missing, surest = np.zeros((5, masks))
        excess, told = np.full(masks, -np.inf), np.zeros((masks, len(kinds.sets)))
        return cls(shares, greatest, stays, missing, surest, excess, told, np.zeros((values, values)))

    @property
    def left_out(self) -> float:
        """The share of records that are left out, which count as guessed right."""
        return max(0.0, 1.0 - float(self.shares.sum()))

    @property
    def vulnerability(self) -> float:
        """The chance that the best guess of a value, given all masks of the record, is right."""
        return min(inner_product(self.shares, self.greatest) + self.left_out, 1.0)

    @property
    def changed(self) -> float:
        """The share of values that change, without those that are left out."""
        return max(0.0, 1.0 - inner_product(self.shares, self.stays) - self.left_out)

    @property
    def certainty(self) -> float:
        """The greatest posterior of a value, over all tuples that are written, in any law."""
        return float(self.surest[self.shares > 0.0].max(initial=0.0))


@part
def greatest_of(column: Float64Array) -> float:
    """Return the greatest number of a column of numbers from 0."""
    result = 0.0
    for x in range(column.size):
        result = max(result, column[x])
    return result


@part
def set_figures(
    figures: Columns, t: int, own: int, column: Float64Array, total: float, share: float, limits: Caps, kinds: KindTable
) -> None:
    """Set the figures of a tuple with mask ``own`` in the first law, and add to ``joint`` of (mask, value).

    ``column``: (k,) its posterior times ``total``. ``share``: that of the tuple, up to a factor.
    """
    figures.shares[t] = share
    figures.greatest[t] = set_certainty(figures, t, column, total, figures.missing[t], limits, 0)
    figures.stays[t] = column[own] / total
    greatest_kinds(column, total, kinds, figures.kinds[t])
    if figures.joint.size > 0:
        into = figures.joint[own]
        for x in range(column.size):
            into[x] += share / total * column[x]


@part
def set_certainty(
    figures: Columns, t: int, column: Float64Array, total: float, missing: float, limits: Caps, law: int
) -> float:
    """Raise the certainty and the excess of a tuple to those in a law, and return the greatest posterior.

    ``missing``: what is left out of ``column``. Where no limit can be exceeded, a bound of the excess counts.
    """
    if not total > 0.0:
        return 0.0
    greatest = greatest_of(column) / total
    excess = greatest - limits.least[law]
    if limits.groups.size > 0 or excess + missing > 0.0:
        excess = excess_of(column, limits, law, total) / total
    figures.surest[t] = max(figures.surest[t], greatest + missing)
    figures.excess[t] = max(figures.excess[t], excess + missing)
    return greatest


@kernel
def mean_squares(
    side: Side, mine: Binding, others: Binding, psi: Float64Array, squares: Float64Matrix
) -> tuple[Float64Array, Float64Array]:
    """Return the law of masks, (m,), up to a factor, and the mean of sd² of my values given each of them."""
    column, shares, moved = np.empty(side.kernel.shape[1]), np.zeros(psi.size), np.zeros(psi.size)
    for t in range(psi.size):
        if psi[t] > 0.0:
            total = fill_limited(side, mine, others, t, column)
            shares[t] = psi[t] * total
            moved[t] = sum_of_products(column, squares[side.mine[t]]) / total
    return shares, moved


@kernel
def fill_figures(
    side: Side, mine: Binding, others: Binding, limits: Caps, psi: Float64Array, kinds: KindTable, figures: Columns
) -> None:
    """Set the figures of the tuples that are written, shares up to a factor."""
    column, weighted = np.empty(side.kernel.shape[1]), np.empty(side.kernel.shape[1])
    for t in range(psi.size):
        if psi[t] > 0.0:
            total = fill_limited(side, mine, others, t, column)
            set_figures(figures, t, int64(side.mine[t]), column, total, psi[t] * total, limits, kinds)
            for law in range(1, limits.least.size):
                whole = fill_weighted(column, limits, law, weighted)
                set_certainty(figures, t, weighted, whole, 0.0, limits, law)
