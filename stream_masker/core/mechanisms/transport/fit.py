"""The map: its laws, its kernels, and the scaling that keeps the law (Cuturi 2013; Peyré and Cuturi 2019, section 4).

A record s = (a, b) of the window becomes t = (a*, b*) with the probability

    P(t | s) = K_A(a, a*) · K_B(b, b*) · Ψ(t) / Z(s),    Z(s) = Σ_t K_A·K_B·Ψ,

where Ψ is such that masked records have the law T. One attribute is the same with a second one of a single value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float32Array, Float32Matrix, Float64Array, Int32Array, Int64Array
from stream_masker.core.mechanisms.transport.kernels import lowered_levels
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.ontology.graph import first_parents_of
from stream_masker.errors import StatisticsError

BLOCK_DEPTH = 3
"""The depth of the concepts within which the mass of rare tuples spreads."""
CUT = 4.0
"""κ: by how much the greatest entries of a column of a kernel are lowered in all, in logarithms."""
LEAST = np.float32(-28.0)
"""The logarithm of the least entry of a kernel that is not levelled: every value can be reached from every other
one."""
LEAST_WEIGHT = np.float32(1e-30)
"""The least φ."""
NEWTON_STEPS = 3
SCALED_BETWEEN = 5
LEVEL_ERROR = 1e-3
"""By how much levels change at most when a kernel is settled."""
LEVEL_ROUNDS = 60
"""How often a kernel is levelled."""
SHARPENED_ROUNDS = 8
"""How often it is where λ changed little."""
LAW_ERROR = 1e-3
"""The total variation between the law of masks and T at which a scaling ends."""
RELAXATION = np.float32(1.4)
"""Φ is multiplied by its change to this power, which halves the number of rounds (Thibault and others 2021)."""
ROUNDS = 40
"""The greatest number of rounds of a scaling."""
STEPS = 4
"""How often λ is searched for a distance."""
EXPONENT = 1.6
"""λ is multiplied by (RMSE / target)^1.6, which nearly meets the target."""
DISTANCE_ERROR = 0.003
"""The relative error of the RMSE at which the search of λ ends."""
MOST_DISTANCE = 0.99
"""The greatest mean squared distance that is asked for, as a share of that of independent masks."""
LAMBDA_BOUNDS = (1e-2, 1e4)


class Law(NamedTuple):
    """The law of the window, and the law that is written.

    * ``rows``, ``columns``: (m,) int32, the values of the window's m tuples, in row order. ``share``: (m,) P.
    * ``target``: (k_A, k_B) float32 T.
    """

    rows: Int32Array
    columns: Int32Array
    share: Float64Array
    target: Float32Matrix

    @property
    def dense(self) -> Float32Matrix:
        """(k_A, k_B) float32 P."""
        return self.spread_out(self.share.astype(np.float32))

    def spread_out(self, each: Float32Array) -> Float32Matrix:
        """Return (k_A, k_B) float32: a number of each tuple at its place, 0 elsewhere."""
        result = np.zeros(self.target.shape, np.float32)
        result[self.rows, self.columns] = each
        return result


def ancestors_at(tau: Taxonomy, positions: Int32Array, depth: int) -> Int64Array:
    """Return (k,) int64: the ancestor of each concept at a depth of its line of first parents, or the concept itself
    above that."""
    parent = first_parents_of(tau.parent_offsets, tau.parents)
    line, at = [positions.astype(np.int64)], positions
    while (at > 0).any():
        at = np.where(at > 0, parent[at], 0)
        line.append(at.astype(np.int64))
    ways = np.array(line)
    links = (ways > 0).sum(axis=0)
    return np.asarray(ways[np.maximum(links - depth + 1, 0), np.arange(positions.size)])


class Side(NamedTuple):
    """One attribute of a law that is written: ``lines``: for each depth from that of blocks up to the root, the
    ancestor of each value, (k,); ``counts``: (k,) records; ``frequent``: (k,) whether a value has enough patients."""

    lines: tuple[Int64Array, ...]
    counts: Int64Array
    frequent: BoolArray

    @classmethod
    def of(cls, tau: Taxonomy, positions: Int32Array, counts: Int64Array, frequent: BoolArray) -> Side:
        """Create the side of k values; ``positions``: (k,) int32."""
        depths = range(BLOCK_DEPTH, 0, -1)
        return cls(tuple(ancestors_at(tau, positions, depth) for depth in depths), counts, frequent)

    @classmethod
    def none(cls, count: int) -> Side:
        """Return the side of an attribute with a single value."""
        nothing = np.zeros(1, np.int64)
        return cls((nothing,) * BLOCK_DEPTH, nothing + count, np.ones(1, np.bool_))

    def groups(self, depth: int) -> tuple[Int64Array, int, Float64Array]:
        """Return the group of each value at a depth, how many there are, and the share of each value in its group."""
        groups = np.unique(self.lines[depth], return_inverse=True)[1].reshape(-1)
        size = int(groups.max()) + 1
        weights = np.where(self.frequent, self.counts, 0).astype(np.float64)
        totals = np.bincount(groups, weights, size)[groups]
        return groups, size, np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0.0)


def written_law(
    rows: Int32Array, columns: Int32Array, counts: Int64Array, heavy: BoolArray, sides: tuple[Side, Side]
) -> Float32Matrix:
    """Return (k_A, k_B) float32 T: tuples with enough patients stay, and the mass of the others spreads.

    It spreads within the pair of their blocks, in proportion to the frequencies of codes that have enough patients, or
    one level up where there are none. So a written tuple is no proof of a tuple of the window.

    * ``rows``, ``columns``, ``counts``: (m,) the window's tuples. ``heavy``: (m,) whether each has enough patients.

    Raises StatisticsError if no code has enough patients.
    """
    target = np.zeros((sides[0].counts.size, sides[1].counts.size))
    np.add.at(target, (rows[heavy], columns[heavy]), counts[heavy])
    rows, columns, rest = rows[~heavy], columns[~heavy], counts[~heavy].astype(np.float64)
    for depth in range(BLOCK_DEPTH):
        if not rest.size:
            break
        (first, first_size, a), (second, second_size, b) = (side.groups(depth) for side in sides)
        open_first, open_second = np.bincount(first, a) > 0.0, np.bincount(second, b) > 0.0
        can = open_first[first[rows]] & open_second[second[columns]]
        pair = first[rows[can]] * second_size + second[columns[can]]
        mass = np.bincount(pair, rest[can], first_size * second_size).reshape(first_size, second_size)
        target += a[:, None] * mass[np.ix_(first, second)] * b
        rows, columns, rest = rows[~can], columns[~can], rest[~can]
    total = target.sum()
    if not total > 0.0:
        raise StatisticsError("no code is of enough patients to be written: use a smaller least, or a larger window")
    return np.asarray(target / total, np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """K(a, a*) = exp(−λ·d² − w), levelled: the greatest entries of φ·K in a column are cut to one level e^u.

    So K = min(exp(−λ·d²), e^u(a*) / φ(a)). By this the best guess of a value is right as rarely as a linear programme
    allows, nearly: 0.163 where plain exp(−λ·d²) has 0.27, for the real principal diagnoses at α = 1.

    * ``squares``: (k, k) float32 d². ``sharpness``: λ. ``weights``: (k,) float32 ln φ. ``levels``: (k,) float32 u.
    """

    squares: Float32Matrix
    sharpness: float
    weights: Float32Array
    levels: Float32Array

    @classmethod
    def flat(cls) -> Kernel:
        """Return the kernel of an attribute with a single value."""
        return cls(np.zeros((1, 1), np.float32), 1.0, np.zeros(1, np.float32), np.full(1, 1.0, np.float32))

    @property
    def base(self) -> Float32Matrix:
        """(k, k) float32 −λ·d², at least ``LEAST``."""
        return np.maximum(np.float32(-self.sharpness) * self.squares, LEAST)

    @property
    def matrix(self) -> Float32Matrix:
        """(k, k) float32 K."""
        return np.exp(np.minimum(self.base, self.levels - self.weights[:, None]))


def levelled(
    start: Kernel, law: Float64Array, target: Float64Array, wanted: float | None, rounds: int = LEVEL_ROUNDS
) -> Kernel:
    """Return the kernel of one attribute, levelled in turn with the scaling of this attribute until it settles.

    * ``start``: a kernel of the same distances. ``law``, ``target``: (k,) P and T of the values.
    * ``wanted``: the mean squared distance of the map of this attribute alone, for which λ is searched; None keeps λ.
    """
    p, t = law.astype(np.float32), target.astype(np.float32)
    kernel, base, phi = start, start.base, np.exp(start.weights)
    for _ in range(rounds):
        weights = np.log(phi)
        levels = lowered_levels(base, weights, kernel.levels, CUT, NEWTON_STEPS)
        settled = float(np.abs(levels - kernel.levels).max()) < LEVEL_ERROR
        kernel = replace(kernel, weights=weights, levels=levels)
        matrix = np.exp(np.minimum(base, levels - weights[:, None]))
        for _ in range(SCALED_BETWEEN):
            psi = t / (phi @ matrix)
            phi = np.maximum(p / (matrix @ psi), LEAST_WEIGHT)
        if wanted is not None:
            ratio = float(phi @ (matrix * kernel.squares) @ psi) / wanted
            settled = settled and abs(ratio - 1.0) < DISTANCE_ERROR
            kernel = replace(kernel, sharpness=bounded(kernel.sharpness * ratio))
            base = kernel.base
        if settled:
            break
    return kernel


def bounded(sharpness: float) -> float:
    """Return λ within its bounds."""
    return float(np.clip(sharpness, *LAMBDA_BOUNDS))


@dataclass(frozen=True, eq=False)
class Map:
    """A map of records in use. ``phi``: (m,) float32 Φ of the window's tuples, which determines all the rest."""

    law: Law
    kernels: tuple[Kernel, Kernel]
    phi: Float32Array

    @cached_property
    def matrices(self) -> tuple[Float32Matrix, Float32Matrix]:
        """K_A and K_B."""
        return self.kernels[0].matrix, self.kernels[1].matrix

    @cached_property
    def psi(self) -> Float32Matrix:
        """(k_A, k_B) float32 Ψ = T / (K_Aᵀ·Φ·K_B)."""
        return self.law.target / self.reached(self.phi)

    def reached(self, phi: Float32Array) -> Float32Matrix:
        """Return (k_A, k_B) float32 K_Aᵀ·Φ·K_B."""
        first, second = self.matrices
        return first.T @ (self.law.spread_out(phi) @ second)

    @cached_property
    def inner(self) -> Float32Matrix:
        """(k_B, k_A) float32 C(b, a*) = Σ_b* K_B(b, b*)·Ψ(a*, b*)."""
        return np.ascontiguousarray(self.matrices[1] @ self.psi.T)

    @cached_property
    def totals(self) -> Float32Matrix:
        """(k_A, k_B) float32 Z(a, b)."""
        return np.ascontiguousarray(self.matrices[0] @ self.inner.T)

    @cached_property
    def given(self) -> Float32Array:
        """(m,) float32 P(s) / Z(s), by which Φ is replaced, so that each record is masked with probability 1."""
        return np.asarray(self.law.share / self.totals[self.law.rows, self.law.columns], np.float32)

    @cached_property
    def fronts(self) -> tuple[Float32Matrix, Float32Matrix]:
        """(k_A, k_B) float32 each: Σ_b P/Z·K_B(b, b*) at (a, b*), and Σ_a P/Z·K_A(a, a*) at (a*, b)."""
        weights = self.law.spread_out(self.given)
        return weights @ self.matrices[1], self.matrices[0].T @ weights

    @cached_property
    def chances(self) -> Float32Matrix:
        """(k_A, k_B) float32: Σ_s P(s)/Z(s)·K_A·K_B, so that the law of masks is this times Ψ."""
        return self.matrices[0].T @ self.fronts[0]

    @cached_property
    def written(self) -> Float32Matrix:
        """(k_A, k_B) float32: the law of masks, T but for ``LAW_ERROR``."""
        return self.psi * self.chances

    def joint(self, which: int, psi: Float32Matrix) -> Float32Matrix:
        """Return (k, k) float32 P(x, x*) of attribute ``which``, with other weights Ψ of the masks."""
        front, psi = (self.fronts[0], psi) if which == 0 else (self.fronts[1].T, psi.T)
        return self.matrices[which] * (front @ psi.T)

    def moved(self, which: int) -> float:
        """Return the mean squared distance of attribute ``which``."""
        return float((self.joint(which, self.psi) * self.kernels[which].squares).sum(dtype=np.float64))


def scale(start: Map, error: float) -> Map:
    """Return the map whose masks have the law T but for an error, by over-relaxed scaling from ``start``."""
    law, (first, second), phi = start.law, start.matrices, start.phi
    for _ in range(ROUNDS):
        psi = law.target / start.reached(phi)
        totals = first @ (psi @ second.T)
        change = np.asarray(law.share / totals[law.rows, law.columns], np.float32) / phi
        settled = float(np.abs(change - 1.0) @ law.share) < error
        phi = phi * (change if settled else change**RELAXATION)
        if settled:
            break
    return replace(start, phi=phi)


def greatest_distance(law: Law, kernel: Kernel, which: int) -> float:
    """Return the greatest mean squared distance that is asked for: nearly that of independent masks."""
    share = np.bincount((law.rows, law.columns)[which], law.share, len(kernel.squares))
    target = law.target.sum(axis=1 - which)
    return MOST_DISTANCE * float(share @ kernel.squares @ target)


def sharpened(found: Map, ratios: Sequence[float]) -> Map:
    """Return a map with other kernels; ``ratios``: for each attribute its E[d²] divided by what is wanted."""
    law, kernels = found.law, list(found.kernels)
    for j, ratio in enumerate(ratios):
        share = np.bincount((law.rows, law.columns)[j], law.share, len(kernels[j].squares))
        other = replace(kernels[j], sharpness=bounded(kernels[j].sharpness * ratio ** (EXPONENT / 2.0)))
        kernels[j] = levelled(other, share, law.target.sum(axis=1 - j), None, SHARPENED_ROUNDS)
    return Map(law, (kernels[0], kernels[1]), found.phi)
