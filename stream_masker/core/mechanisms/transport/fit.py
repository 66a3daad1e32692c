"""The map: its laws, its kernels, and the scaling that keeps the law (Cuturi 2013; Peyré and Cuturi 2019, section 4).

A record s = (a, b) of the window becomes t = (a*, b*) with the probability K_A(a, a*)·K_B(b, b*)·Ψ(t) / Z(s), where
Z(s) = Σ_t K_A·K_B·Ψ, and Ψ is such that masked records have the law T. One attribute is the same as a pair of it and
an attribute that always has the same value, the root, with K_B = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, ratio
from stream_masker.core.distance import Distance
from stream_masker.core.statistics.counts import SparseCounts, marginals, sum_by_key
from stream_masker.errors import StatisticsError

COMPARED = 512
"""The number of concepts that are compared with all values at once."""
BLOCK_DEPTHS = (3, 2, 1)
"""The depths of blocks, chapters and the root: within blocks the mass of rare tuples spreads, or one level up."""
CUT = 4.0
"""κ: by how much the greatest entries of a column of a kernel are lowered in all, in logarithms."""
LEAST = np.float32(-28.0)
"""The least ln K before levels, so that every value can be reached from every other one."""
LEVEL_ROUNDS, SHARPENED_ROUNDS, LEVEL_ERROR = 30, 6, 3e-3
"""How often a kernel is levelled at most, also after λ changed little, and the change of levels that ends it."""
LAW_ERROR, LAW_ROUNDS = 1e-3, 40
"""The total variation between the law of masks and T that ends a scaling, and its greatest number of rounds."""
RELAXATION = np.float32(1.4)
"""Φ is multiplied by its change to this power, which halves the rounds (Thibault and others 2021)."""
DISTANCE_ERROR = 0.003
LAMBDA_BOUNDS = (1e-2, 1e4)


@dataclass(frozen=True, eq=False)
class Values:
    """The k values of one attribute. Every other concept counts as the nearest of them, of least position if equal.

    ``positions``: (k,) int32.
    """

    distance: Distance
    positions: Int32Array

    @classmethod
    def most_frequent(cls, distance: Distance, codes: Int64Array, counts: Int64Array, most: int) -> Values:
        """Return the ``most`` most frequent values; ``codes``, ``counts``: (m,) positions that occur so often."""
        positions, index = np.unique(codes, return_inverse=True)
        frequent = np.argsort(-np.bincount(index, counts), kind="stable")[:most]
        return cls(distance, positions[np.sort(frequent)].astype(np.int32))

    @property
    def walked(self) -> Values:
        """The same values by chapter, then by block, so that those of each stand next to each other."""
        order = np.lexsort([self.positions.astype(np.int64), *(self.ancestors(depth) for depth in BLOCK_DEPTHS)])
        return Values(self.distance, self.positions[order])

    @cached_property
    def squares(self) -> Float32Array:
        """(k, k) float32 d²."""
        squares: Float32Array = (self.distance.matrix(self.positions) ** 2).astype(np.float32)
        return squares

    @cached_property
    def _index_of(self) -> Int32Array:
        """Of each position of the taxonomy the index of its value, −1 where it is not known yet."""
        index_of = np.full(len(self.distance.taxonomy), -1, np.int32)
        index_of[self.positions] = np.arange(self.positions.size)
        return index_of

    def indices(self, codes: NDArray[np.integer]) -> Int32Array:
        """Return (n,) int32: the index of each present code's value. Remembers the nearest value of new codes."""
        new = np.unique(codes[self._index_of[codes] < 0]).astype(np.int32)
        for start in range(0, new.size, COMPARED):
            own = new[start : start + COMPARED]
            self._index_of[own] = np.argmin(self.distance.between(own, self.positions), axis=1)
        return np.asarray(self._index_of[codes], np.int32)

    def ancestors(self, depth: int) -> Int64Array:
        """Return (k,) int64: the ancestor of each value at a depth of its line of first parents, or the value itself
        above that."""
        line, tau = [self.positions.astype(np.int64)], self.distance.taxonomy
        while line[-1].any():  # The row of the root is empty; the next one begins with the root, which stays.
            line.append(tau.parents[tau.parent_offsets[line[-1]]].astype(np.int64))
        links = (np.array(line) > 0).sum(axis=0)
        return np.asarray(np.array(line)[np.maximum(links - depth + 1, 0), np.arange(self.positions.size)])


@dataclass(frozen=True, eq=False)
class Law:
    """The window's law of pairs of values, and what is written for them; of one attribute, each value and the root.

    * ``values``: k_A and k_B, of both attributes.
    * ``tuples``: (2, m) int64, the indices of the m pairs of the window, ascending. ``counts``: (m,) int64 records.
    * ``heavy``: (m,) whether a pair is of enough patients. ``frequent``: the same of values, (k_A,) and (k_B,).
    """

    values: Sequence[Values]
    tuples: Int64Array
    counts: Int64Array
    heavy: BoolArray
    frequent: Sequence[BoolArray]

    @classmethod
    def of(cls, values: Sequence[Values], codes: Sequence[Int64Array], column: SparseCounts, least: int) -> Law:
        """Return the law of a column with these (m,) ``codes`` of both attributes; ``least``: how many patients are
        enough."""
        size = values[1].positions.size
        a, b = (v.indices(own).astype(np.int64) for v, own in zip(values, codes, strict=True))
        merged = sum_by_key(a * size + b, column.counts, column.key_bits)
        sides = zip(values, marginals(merged, size), strict=True)
        frequent = [np.isin(np.arange(v.positions.size), side.keys[side.units >= least]) for v, side in sides]
        return cls(values, np.array(np.divmod(merged.keys, size)), merged.counts, merged.units >= least, frequent)

    def published(self) -> list[Any]:
        """Return what is published: lists of arrays, of values their positions."""
        return [[v.positions for v in self.values], self.tuples, self.counts, self.heavy, self.frequent]

    @classmethod
    def read(cls, published: Sequence[Any], distances: Sequence[Distance]) -> Law:
        """Return what was ``published``; ``distances``: of both attributes."""
        positions, *others = published
        return cls(list(map(Values, distances, positions)), *others)

    @property
    def share(self) -> Float64Array:
        """(m,) float64 P."""
        return np.asarray(self.counts / self.counts.sum())

    def marginal(self, which: int) -> Float64Array:
        """Return (k,) float64 P(x) of an attribute."""
        return np.asarray(np.bincount(self.tuples[which], self.share, self.values[which].positions.size))

    def table(self, numbers: NDArray[np.number]) -> Float32Array:
        """Return (k_A, k_B) float32 with these (m,) numbers of the window's pairs, 0 for others."""
        result = np.zeros([each.positions.size for each in self.values], np.float32)
        result[*self.tuples] = numbers
        return result

    @cached_property
    def target(self) -> Float32Array:
        """(k_A, k_B) float32 T: tuples of enough patients stay, and the mass of the others spreads.

        It spreads within the pair of their blocks, in proportion to the frequencies of codes of enough patients, or one
        level up where there are none. So a written tuple is no proof of one of the window.

        Raises StatisticsError if no code is of enough patients.
        """
        target, rest = self.table(np.where(self.heavy, self.share, 0.0)), np.where(self.heavy, 0.0, self.share)
        for depth in BLOCK_DEPTHS:
            (first, a), (second, b) = (self._shares(j, depth) for j in (0, 1))
            mass, cells = np.zeros((first.max() + 1, second.max() + 1)), (first[self.tuples[0]], second[self.tuples[1]])
            can = np.logical_and(np.bincount(first, a)[cells[0]] > 0.0, np.bincount(second, b)[cells[1]] > 0.0)
            np.add.at(mass, cells, np.where(can, rest, 0.0))
            target += (a[:, None] * mass[first]).astype(np.float32)[:, second] * b.astype(np.float32)
            rest = np.where(can, 0.0, rest)
        if not target.any():
            raise StatisticsError("no code is of enough patients to be written: use a smaller least, or more records")
        return np.asarray(target / target.sum(dtype=np.float64), np.float32)

    def _shares(self, j: int, depth: int) -> tuple[Int64Array, Float64Array]:
        """Return the group of each value of attribute j at a depth, and the share of each value in its group."""
        groups = np.unique(self.values[j].ancestors(depth), return_inverse=True)[1]
        weights = self.marginal(j) * self.frequent[j]
        return groups, ratio(weights, np.bincount(groups, weights)[groups].astype(np.float64))


@dataclass(frozen=True, eq=False)
class Kernel:
    """K(a, a*) = exp(−λ·d² − w), levelled: the greatest entries of φ·K in a column are cut to one level e^u.

    So K = min(exp(−λ·d²), e^u(a*) / φ(a)). By this the best guess of a value is right as rarely as a linear programme
    allows, nearly: 0.163 where plain exp(−λ·d²) has 0.27, for the real principal diagnoses at α = 1.

    ``values``: k of them. ``sharpness``: λ. ``weights``: (k,) float32 ln φ. ``levels``: (k,) float32 u.
    """

    values: Values
    sharpness: float
    weights: Float32Array
    levels: Float32Array

    @classmethod
    def started(cls, values: Values, share: Float64Array, sharpness: float) -> Kernel:
        """Return a kernel to start from; ``share``: (k,) P(x). Of λ = 0 and shares of 1, K = 1."""
        weights = np.log(np.sqrt(share)).astype(np.float32)
        return cls(values, sharpness, weights, np.full(share.size, weights.min(), np.float32))

    @property
    def base(self) -> Float32Array:
        """(k, k) float32 −λ·d², at least ``LEAST``."""
        return np.asarray(np.maximum(np.float32(-self.sharpness) * self.values.squares, LEAST), np.float32)

    @cached_property
    def matrix(self) -> Float32Array:
        """(k, k) float32 K."""
        return np.asarray(np.exp(np.minimum(self.base, self.levels - self.weights[:, None])), np.float32)

    def sharper(self, excess: float) -> Kernel:
        """Return the kernel with another λ; ``excess``: its E[d²] divided by what is wanted."""
        return replace(self, sharpness=float(np.clip(self.sharpness * excess**0.5, *LAMBDA_BOUNDS)))


def levelled(kernel: Kernel, law: Law, which: int, wanted: float | None, rounds: int = LEVEL_ROUNDS) -> Kernel:
    """Return the kernel of one attribute, levelled in turn with the scaling of this attribute until it settles.

    ``wanted``: E[d²] of the map of this attribute alone, for which λ is searched; None keeps λ.
    """
    p, t = law.marginal(which).astype(np.float32), law.target.sum(axis=1 - which)
    tuple_weights = np.exp(kernel.weights)
    for _ in range(rounds):
        before = levels = kernel.levels
        weights = np.log(tuple_weights)
        heights = kernel.base + weights[:, None]
        for _ in range(3):  # steps of Newton's method to Σ_a max(0, heights(a, a*) − u(a*)) = κ
            above = heights > levels
            counts, sums = above.sum(axis=0), np.where(above, heights, np.float32(0.0)).sum(axis=0)
            lowest = heights.max(axis=0) - np.float32(CUT)
            levels = np.where(counts > 0, (sums - np.float32(CUT)) / np.maximum(counts, 1), lowest).astype(np.float32)
        kernel = replace(kernel, weights=weights, levels=levels)
        matrix = kernel.matrix
        for _ in range(5):
            mask_weights = t / np.einsum("a,ab->b", tuple_weights, matrix)  # threads of BLAS would wait for each other
            tuple_weights = np.maximum(p / np.einsum("ab,b->a", matrix, mask_weights), np.float32(1e-30))
        settled = float(np.abs(levels - before).max()) < LEVEL_ERROR
        if wanted is not None:
            excess = float(np.einsum("a,ab,ab,b", tuple_weights, matrix, kernel.values.squares, mask_weights)) / wanted
            settled, kernel = settled and abs(excess - 1.0) < DISTANCE_ERROR, kernel.sharper(excess)
        if settled:
            break
    return kernel


@dataclass(frozen=True, eq=False)
class Map:
    """A map of records. ``tuple_weights``: (m,) float32 Φ of the window's tuples; all follows from it."""

    law: Law
    kernels: tuple[Kernel, ...]
    tuple_weights: Float32Array

    @property
    def matrices(self) -> tuple[Float32Array, Float32Array]:
        """K_A and K_B."""
        return self.kernels[0].matrix, self.kernels[1].matrix

    @cached_property
    def mask_weights(self) -> Float32Array:
        """(k_A, k_B) float32 Ψ = T / (K_Aᵀ·Φ·K_B)."""
        reached = self.matrices[0].T @ (self.law.table(self.tuple_weights) @ self.matrices[1])
        return np.asarray(self.law.target / reached)

    @cached_property
    def inner(self) -> Float32Array:
        """(k_B, k_A) float32 C(b, a*) = Σ_b* K_B(b, b*)·Ψ(a*, b*)."""
        return np.ascontiguousarray(self.matrices[1] @ self.mask_weights.T)

    @cached_property
    def totals(self) -> Float32Array:
        """(k_A, k_B) float32 Z(a, b)."""
        return np.ascontiguousarray(self.matrices[0] @ self.inner.T)

    @cached_property
    def factors(self) -> tuple[tuple[Float32Array, Float32Array], ...]:
        """For each attribute (k_A, k) and (k, k_B) float32, of which posteriors G are the products.

        G(x, t) = first[i, x]·second[x, j] / chances[i, j] is the posterior of the value x given the mask t = (i, j),
        before a redraw.
        """
        (near, far), weights = self.matrices, self.law.table(self.law.share / self.totals[*self.law.tuples])
        return (near.T, weights @ far), (near.T @ weights, far)

    @cached_property
    def chances(self) -> Float32Array:
        """(k_A, k_B) float32 Σ_s P(s)/Z(s)·K_A·K_B; times Ψ, the law of masks: T but for ``LAW_ERROR``."""
        first, second = self.factors[0]
        return np.asarray(first @ second)

    @cached_property
    def law_of_masks(self) -> Float64Array:
        """(n,) float64: the law of the n = k_A·k_B masks, which are numbered row by row."""
        return (self.chances * self.mask_weights).astype(np.float64).ravel()

    def joint(self, which: int, redraw_chance: Float32Array) -> Float64Array:
        """Return (k, k) float64 P(x, x*) of an attribute, with a redraw by (k_A, k_B) η; it sums to 1."""
        first, second = self.factors[which]

        def together(weights: Float32Array) -> Float32Array:
            return np.asarray(first.T * (second @ weights.T) if which == 0 else second * (first.T @ weights))

        again = self.mask_weights * redraw_chance
        before, after = (together(again).sum(axis=1 - axis, dtype=np.float64) for axis in (0, 1))
        joint = together(self.mask_weights - again) + np.outer(before, after / max(float(after.sum()), 1e-300))
        return np.asarray(joint / joint.sum())

    def mean(self, which: int, redraw_chance: Float32Array) -> Float64Array:
        """Return (k,) float64 R̄, the mean of G over the masks that are redrawn; ``redraw_chance``: (n,) η."""
        (first, second), weights = self.factors[which], redraw_chance * self.law_of_masks
        shares = ratio(weights.astype(np.float32).reshape(self.chances.shape), self.chances)
        sums = (first.T * (second @ shares.T)).sum(axis=1, dtype=np.float64)
        return np.asarray(sums / max(float(weights.sum()), 1e-300))

    def told(self, which: int, redraw_chance: Float32Array, masks: Int64Array) -> Float64Array:
        """Return (k, m) float64: the posteriors of the values of an attribute given m masks, with a redraw by η."""
        (first, second), (i, j) = self.factors[which], np.divmod(masks, self.chances.shape[1])
        before = (first[i].T * second[:, j]) / self.chances[i, j].astype(np.float64)
        return np.asarray(before + redraw_chance[masks] * (self.mean(which, redraw_chance)[:, None] - before))

    def scaled(self) -> Map:
        """Return the map whose masks have the law T but for an error, by over-relaxed scaling."""
        share, found = self.law.share, self
        for _ in range(LAW_ROUNDS):
            change = (share / found.totals[*self.law.tuples] / found.tuple_weights).astype(np.float32)
            settled = float(np.abs(change - 1.0) @ share) < LAW_ERROR
            found = replace(found, tuple_weights=found.tuple_weights * (change if settled else change**RELAXATION))
            if settled:
                break
        return found
