"""The exact probabilities of semantic noise: what each value becomes, and each pair of values together.

The distances around a value are the same for every reference. The reference decides which candidates are admissible. So
the probability that |ε| leads to a distance has a closed form in the law of the attribute's own noise, and a class of
candidates has its share of the distance. A *situation* is a value together with its reference. The transition
probabilities of a value are averages over the references that it has in the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import (
    BoolArray,
    Float64Array,
    Float64Cube,
    Float64Matrix,
    Int32Array,
    Int64Array,
    Levels,
    UInt64Array,
    ratio,
)
from stream_masker.core.kernels import (
    EQUAL,
    FARTHER,
    NEARER,
    Situations,
    add_likelihoods,
    add_weights,
    pair_likelihoods,
)
from stream_masker.core.random import exponential_roots
from stream_masker.core.replacement import NO_REFERENCE, Candidates, Replacer
from stream_masker.core.risk.law import Channel, OutputClasses
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.table import DistanceTable

SCALE_NODES = 40
MAX_SCALE = 6.0
"""√W of Laplace noise beyond which it is neglected: e^−36."""

MAX_CORRELATION = 0.9999
"""The greatest correlation of two noises that the quadrature resolves; greater ones are reduced to it."""

STEPS = 16
"""The steps of the quadrature in each cell."""

REACH = 9.0
"""Standard deviations beyond which normal noise is neglected."""

LEAST_CELLS = 24
"""The least number of cells of distances, about."""


class Distribution(StrEnum):
    """A distribution of noise: √W·Z with Z ~ N(0, σ²). Laplace noise has W ~ Exp(1), normal noise W = 1."""

    NORMAL = "normal"
    LAPLACE = "laplace"

    @property
    def scaled(self) -> bool:
        """Whether W is random."""
        return self is Distribution.LAPLACE

    def roots(self, words: UInt64Array) -> Float64Array:
        """Return (k,) float64: √W from (k,) random words."""
        return exponential_roots(words) if self.scaled else np.ones(len(words))

    def quadrature(self) -> list[tuple[float, float]]:
        """Return values of √W with their weights."""
        if not self.scaled:
            return [(1.0, 1.0)]
        nodes, weights = np.polynomial.legendre.leggauss(SCALE_NODES)
        roots = 0.5 * MAX_SCALE * (nodes + 1.0)
        masses = weights * roots * np.exp(-(roots**2))
        return list(zip(roots.tolist(), (masses / masses.sum()).tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """The symmetric law of ε with standard deviation ``deviation`` > 0. A Laplace variate has the rate √2 / σ."""

    deviation: float
    distribution: Distribution

    def below(self, distances: Float64Array) -> Float64Array:
        """Return P(|ε| ≤ x) for each distance x ≥ 0."""
        if self.distribution is Distribution.LAPLACE:
            return np.asarray(-np.expm1(-distances * self._rate))
        return np.array([math.erf(x / (self.deviation * math.sqrt(2.0))) for x in distances.tolist()])

    def square_below(self, distances: Float64Array) -> Float64Array:
        """Return E[ε²; |ε| ≤ x] for each distance x ≥ 0."""
        if self.distribution is Distribution.LAPLACE:
            scaled = distances * self._rate
            rest = np.exp(-scaled) * (scaled**2 + 2.0 * scaled + 2.0)
            return np.asarray((2.0 - rest) / self._rate**2)
        scaled = distances / self.deviation
        density = np.sqrt(2.0 / math.pi) * np.exp(-0.5 * scaled**2)
        return np.asarray(self.deviation**2 * (self.below(distances) - scaled * density))

    def masses(self, distances: Float64Array) -> Float64Array:
        """Return the probability that |ε| lies between each distance, the first of which is 0, and the next."""
        return np.diff(np.append(self.below(distances), 1.0))

    def squares(self, distances: Float64Array) -> Float64Array:
        """Return the mean of ε² between each distance and the next one; 0 where |ε| never is."""
        sums = np.diff(np.append(self.square_below(distances), self.deviation**2))
        return ratio(sums, self.masses(distances))

    @property
    def _rate(self) -> float:
        return math.sqrt(2.0) / self.deviation


def noise_cells(
    laws: tuple[NoiseLaw, NoiseLaw], correlation: float, u: Float64Array, v: Float64Array, *, shared: bool
) -> Float64Cube:
    """Return (2, k, l): P(u_i < |x| ≤ u_i+1, v_j < |y| ≤ v_j+1) of two noises x > 0 and y.

    Given x the noise y is normal, so x alone is integrated, by the midpoint rule. First index: 0 for equal signs of
    both, 1 for opposite ones.

    * ``laws``: of both noises. ``shared``: whether one √W scales both; otherwise they are independent.
    * ``u``, ``v``: (k,) and (l,) ascending distances from 0 on, after which infinity follows.
    """
    if not shared:
        half = 0.25 * np.outer(laws[0].masses(u), laws[1].masses(v))
        return np.stack([half, half])
    rho = min(max(correlation, -MAX_CORRELATION), MAX_CORRELATION)
    cells, bounds = np.zeros((2, u.size, v.size)), np.append(v, np.inf)
    for scale, weight in laws[0].distribution.quadrature():
        first, second = scale * laws[0].deviation, scale * laws[1].deviation
        width = np.maximum(np.minimum(np.append(u[1:], np.inf), REACH * first) - u, 0.0)[:, None] / STEPS
        x = (u[:, None] + width * (np.arange(STEPS) + 0.5)) / first
        density = np.exp(-0.5 * x**2)
        exact = 0.5 * NoiseLaw(first, Distribution.NORMAL).masses(u)
        mass = density * ratio(exact, density.sum(axis=1))[:, None]
        for k, sign in enumerate((1.0, -1.0)):
            centred = (bounds - (sign * rho * second) * x[:, :, None]) / (second * math.sqrt(1.0 - rho**2))
            cells[k] += weight * np.einsum("ui,uiv->uv", mass, np.diff(_normal_below(centred)))
    return cells


def _normal_below(z: Float64Array) -> Float64Array:
    """Return P(Z ≤ z) of a standard normal variate."""
    values = [0.5 * math.erfc(each) for each in (-z * math.sqrt(0.5)).ravel().tolist()]
    return np.array(values).reshape(z.shape)


class References(NamedTuple):
    """The references of n values of one attribute, in S situations.

    * ``which``: (S,) int64, the index of the value. ``references``: (S,) int32 positions; ``NO_REFERENCE`` for none.
    * ``shares``: (S,) float64, the probability of the reference given the value.
    """

    which: Int64Array
    references: Int32Array
    shares: Float64Array

    @classmethod
    def single(cls, n: int, reference: int) -> References:
        """Return the situations of n values that all have the same reference."""
        return cls(np.arange(n), np.full(n, reference, np.int32), np.ones(n))

    @classmethod
    def paired(cls, values: Int32Array, counts: Counts, j: int, size: int) -> References:
        """Return the situations of values of attribute j whose reference is the value of the other one.

        A value that the window does not have gets the partners of all other values.

        * ``values``: (n,) int32, ascending positions. ``size``: the number of concepts of the attributes' taxonomy.
        """
        pair, column = counts.pairs[0, 1], counts.values[1 - j]
        own, other = np.divmod(pair.keys, size)[:: 1 if j == 0 else -1]
        asked, rows = np.isin(own, values), np.zeros(size, np.int64)
        place, seen = np.searchsorted(values, own[asked]), pair.counts[asked]
        rows[counts.values[j].keys] = counts.values[j].counts
        novel = np.flatnonzero(rows[values] == 0)
        index = np.concatenate((place, np.arange(values.size), np.repeat(novel, column.keys.size)))
        none = np.full(values.size, NO_REFERENCE)
        references = np.concatenate((other[asked], none, np.tile(column.keys, novel.size)))
        alone = rows[values] - np.bincount(place, seen, values.size)
        weights = np.concatenate((seen, alone, np.tile(column.counts, novel.size)))
        shares, some = weights / np.bincount(index, weights, values.size)[index], weights > 0.0
        return cls(index[some], references[some].astype(np.int32), shares[some])


@dataclass(frozen=True, slots=True, eq=False)
class MaskRule:
    """What the values of one attribute become at each noise.

    * ``replacer``: the rule, with the table and the candidates. ``law``: that of the attribute's noise.
    * ``reference``: the position of the reference of all values; not used if it is the value of another attribute.
    """

    replacer: Replacer
    law: NoiseLaw
    reference: int

    def channel(self, values: Int32Array, given: References) -> Channel:
        """Return the transition probabilities of values, (n,) int32 ascending positions, in their situations."""
        situations = self.situations(values[given.which], given.references)
        some, classes = mask_classes(self.replacer.table, self.replacer.candidates, values)
        rows = np.zeros((values.size, some.size))
        add_likelihoods(situations, self._chances(situations), given.shares, given.which, some, rows)
        return Channel(values, rows, classes)

    def _chances(self, given: Situations) -> Float64Cube:
        """Return (S, 3, L): the probability to become a class of weight 1, by its side and distance."""
        masses, (size, signs, cells) = 0.5 * self.law.masses(given.grid), given.high.shape
        of_row, reached = np.arange(size * signs).reshape(size, signs, 1) * (cells + 1), np.zeros(1)
        for ends, share in ((given.high, given.up), (given.low, 1.0 - given.up)):
            weights = (masses * share).ravel()
            reached = reached + np.bincount((of_row + ends).ravel(), weights, size * signs * (cells + 1))
        levels = reached.reshape(size, signs, 1, cells + 1)[..., :cells]
        return np.asarray((given.shares * levels).sum(axis=1))

    def situations(self, values: Int32Array, references: Int32Array) -> Situations:
        """Return the situations of S values beside their references: (S,) int32 positions, or ``NO_REFERENCE``."""
        classes, table = self.replacer.classes, self.replacer.table
        references = np.where(references == NO_REFERENCE, values, references)
        positions = np.unique(np.append(values, references))
        index, rows = table.slots(positions), table.all_rows
        own, beside = (index[np.searchsorted(positions, each)] for each in (values, references))
        grid, compact = self._grid(
            rows[np.ix_(index, np.union1d(np.flatnonzero(classes.used), table.class_of[values]))]
        )
        totals, shape = classes.weights.astype(np.float64), (values.size, 2, grid.size)
        made = Situations(
            rows,
            compact,
            grid,
            totals,
            own,
            beside,
            table.class_of[values],
            shares=np.zeros((values.size, 2, 3, grid.size)),
            high=np.zeros(shape, np.int32),
            low=np.zeros(shape, np.int32),
            up=np.zeros(shape),
        )
        self._weigh(made)
        self._choose(made, self.replacer.candidates.weights[values] > 0)
        return made

    def _grid(self, levels: Levels) -> tuple[Float64Array, Int32Array]:
        """Return ascending distances from 0 on, with those of some levels, and the index of each level among them.

        Between distances there are others, so that within a cell the noise hardly varies.
        """
        compact = np.zeros(self.replacer.table.levels.size, np.int32)
        compact[levels], compact[0] = 1, 1
        reached = np.flatnonzero(compact)
        distances, parts = self.replacer.table.levels[reached], 1 + LEAST_CELLS // reached.size
        steps = distances[:-1, None] + np.diff(distances)[:, None] * (np.arange(parts) / parts)
        compact[reached] = np.arange(reached.size) * parts
        return np.append(steps, distances[-1]), compact

    def _weigh(self, given: Situations) -> None:
        """Fill ``shares``."""
        drawn, sums = np.zeros(given.shares.shape, np.bool_), np.zeros((given.values.size, 3, given.grid.size))
        add_weights(given, np.flatnonzero(self.replacer.classes.used), sums)
        sums[..., 0] = 0.0
        drawn[:, 0, NEARER] = drawn[:, 1, FARTHER] = True
        drawn[:, :, EQUAL] = (sums[:, :2] <= 0.0) & self.replacer.weak
        sums = sums[:, None]
        free = (given.references == given.values)[:, None] | ~(drawn & (sums > 0.0)).any(axis=(2, 3))
        drawn[free] = True
        given.shares[:] = drawn * ratio(np.float64(1.0), (drawn * sums).sum(axis=2, keepdims=True))
        given.shares[..., 0] = 1.0

    def _choose(self, given: Situations, stays: BoolArray) -> None:
        """Fill ``high``, ``low`` and ``up``; ``stays``: (S,) whether the values are candidates."""
        grid, reached = given.grid, given.shares.any(axis=2)
        places = np.arange(grid.size, dtype=np.int32)
        low = np.maximum.accumulate(np.where(reached, places, 0), axis=2)
        above = np.minimum.accumulate(np.where(reached, places, grid.size)[:, :, :0:-1], axis=2)[:, :, ::-1]
        high = np.append(above, np.full_like(above[:, :, :1], grid.size), axis=2)
        of_low, of_high = grid[low] ** 2, np.append(grid, np.inf)[high] ** 2
        share = np.clip((self.law.squares(grid) - of_low) / (of_high - of_low), 0.0, 1.0)
        rounded = self.replacer.calibrated & ((low > 0) | stays[:, None, None])
        given.high[:], given.low[:] = high, low
        given.up[:] = np.where(high == grid.size, 0.0, np.where(rounded, share, 1.0))


def mask_classes(table: DistanceTable, candidates: Candidates, values: Int32Array) -> tuple[Int64Array, OutputClasses]:
    """Return the classes of candidates and of some values, ascending, and the same as classes of masks.

    Of the members of a value's class, only the value is a mask. ``values``: (n,) int32 positions.
    """
    totals, weights = candidates.by_class(table).weights.astype(np.float64), candidates.weights.astype(np.float64)
    some = np.unique(np.append(np.flatnonzero(totals), table.class_of[values]))
    others = np.isin(table.class_of, table.class_of[values])
    others[values] = False
    weights[others] = 0.0
    place = np.full(totals.size, -1, np.int32)
    place[some] = np.arange(some.size)
    class_of = np.where(weights > 0.0, place[table.class_of], np.int32(-1))
    class_of[values] = place[table.class_of[values]]
    representatives = table.members[table.starts[some]]
    representatives[class_of[values]] = values
    return some, OutputClasses(class_of, weights, totals[some], representatives)


@dataclass(frozen=True, slots=True, eq=False)
class PairMasks:
    """P(a*, b* | a, b) for t combinations of values: a ``MaskLaw``.

    * ``rules``: of both attributes. ``situations``: of the t values of both.
    * ``cells``: the law of both noises (``noise_cells``), which are taken as independent within a cell.
    """

    rules: tuple[MaskRule, MaskRule]
    situations: tuple[Situations, Situations]
    cells: Float64Cube

    def likelihoods(self, masked: Sequence[tuple[int, ...]]) -> Float64Matrix:
        positions = np.array(masked).T
        classes = [rule.replacer.table.class_of[codes] for rule, codes in zip(self.rules, positions, strict=True)]
        first, second = self.situations
        return pair_likelihoods(first, classes[0], second, classes[1], self.cells)
