"""The exact probabilities of semantic noise: what each value becomes, and each pair of values together.

The distances around a value are the same for every reference. The reference decides which candidates are admissible. So
the probability that |ε| leads to a distance has a closed form in the law of the attribute's own noise, and a class of
candidates has its share of the distance. A *situation* is a value together with its reference. The transition
probabilities of a value are averages over the references that it has in the window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.arrays import (
    BoolArray,
    Float64Array,
    Float64Cube,
    Float64Matrix,
    Int32Array,
    Int64Array,
    Levels,
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
from stream_masker.core.replacement import NO_REFERENCE, Candidates, Replacer
from stream_masker.core.risk.law import Channel, Likelihoods
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.table import DistanceTable

MAX_CORRELATION = 0.9999
"""The greatest correlation of two noises that the quadrature resolves; greater ones are reduced to it."""

STEPS = 16
"""The steps of the quadrature in each cell."""

REACH = 9.0
"""Standard deviations beyond which normal noise is neglected."""

LEAST_CELLS = 24
"""The least number of cells of distances, about."""


def _laplace_scales() -> list[tuple[float, float]]:
    """Return values of √W, W ~ Exp(1), with their weights, by a Gauss–Legendre rule up to 6, beyond which e^−36 is."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    roots = 3.0 * (nodes + 1.0)
    masses = weights * roots * np.exp(-(roots**2))
    return list(zip(roots.tolist(), (masses / masses.sum()).tolist(), strict=True))


SCALES: Mapping[str, Sequence[tuple[float, float]]] = {"normal": [(1.0, 1.0)], "laplace": _laplace_scales()}
"""The distributions of noise √W·Z, Z ~ N(0, σ²): values of √W with their weights. W ~ Exp(1) makes it Laplace noise."""


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """The symmetric law of ε with standard deviation ``deviation`` > 0; ``distribution``: a name of ``SCALES``."""

    deviation: float
    distribution: str

    def cells(self, distances: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the law of |ε| between each distance, the first of which is 0, and the next or infinity: (k,) its
        probability, and (k,) the mean of ε² there, 0 where |ε| never is. ``distances``: (k,) ascending."""
        masses, squares = np.zeros((2, distances.size))
        for root, weight in SCALES[self.distribution]:
            z = distances / (root * self.deviation)
            below = np.append(2.0 * _normal_below(z) - 1.0, 1.0)
            moment = below - np.append(z * np.exp(-0.5 * z**2), 0.0) * math.sqrt(2.0 / math.pi)
            masses += weight * np.diff(below)
            squares += weight * (root * self.deviation) ** 2 * np.diff(moment)
        return masses, ratio(squares, masses)


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
        half = 0.25 * np.outer(laws[0].cells(u)[0], laws[1].cells(v)[0])
        return np.stack([half, half])
    rho = min(max(correlation, -MAX_CORRELATION), MAX_CORRELATION)
    cells, bounds = np.zeros((2, u.size, v.size)), np.append(v, np.inf)
    for scale, weight in SCALES[laws[0].distribution]:
        first, second = scale * laws[0].deviation, scale * laws[1].deviation
        width = np.maximum(np.minimum(np.append(u[1:], np.inf), REACH * first) - u, 0.0)[:, None] / STEPS
        x = (u[:, None] + width * (np.arange(STEPS) + 0.5)) / first
        density = np.exp(-0.5 * x**2)
        exact = 0.5 * NoiseLaw(first, "normal").cells(u)[0]
        mass = density * ratio(exact, density.sum(axis=1))[:, None]
        for k, sign in enumerate((1.0, -1.0)):
            centred = (bounds - (sign * rho * second) * x[:, :, None]) / (second * math.sqrt(1.0 - rho**2))
            cells[k] += weight * np.einsum("ui,uiv->uv", mass, np.diff(_normal_below(centred)))
    return cells


def _normal_below(z: Float64Array) -> Float64Array:
    """Return P(Z ≤ z) of a standard normal variate."""
    values = [0.5 * math.erfc(each) for each in (-z * math.sqrt(0.5)).ravel().tolist()]
    return np.array(values).reshape(z.shape)


def partners(values: Int32Array, counts: Counts, j: int, size: int) -> tuple[Int64Array, Int32Array, Float64Array]:
    """Return the references of values of attribute j that are the values of the other attribute in the window's rows.

    These are the index of the value, (S,) int64, the position of the reference, (S,) int32, ``NO_REFERENCE`` for none,
    and the number of rows, (S,).

    * ``values``: (n,) int32, ascending positions of values of the window. ``size``: the number of concepts of the
      attributes' taxonomy.
    """
    pair = counts.pairs[0, 1]
    own, other = np.divmod(pair.keys, size)[:: 1 if j == 0 else -1]
    asked, rows = np.isin(own, values), np.zeros(size)
    which, seen = np.searchsorted(values, own[asked]), pair.counts[asked]
    rows[counts.values[j].keys] = counts.values[j].counts
    alone = rows[values] - np.bincount(which, seen, values.size)
    references = np.append(other[asked], np.full(values.size, NO_REFERENCE)).astype(np.int32)
    return np.append(which, np.arange(values.size)), references, np.append(seen, alone)


@dataclass(frozen=True, slots=True, eq=False)
class MaskRule:
    """What the values of one attribute become at each noise.

    * ``replacer``: the rule, with the table and the candidates. ``law``: that of the attribute's noise.
    * ``reference``: the position of the reference of all values; not used if it is the value of another attribute.
    """

    replacer: Replacer
    law: NoiseLaw
    reference: int

    def channel(self, values: Int32Array, which: Int64Array, references: Int32Array, weights: Float64Array) -> Channel:
        """Return the transition probabilities of values, (n,) int32 ascending positions, averaged over references.

        Of S references, (S,) each: the index of the value, the position or ``NO_REFERENCE``, and the weight.
        """
        there = weights > 0.0
        which, references, weights = which[there], references[there], weights[there]
        situations = self.situations(values[which], references)
        some, classes = mask_classes(self.replacer.table, self.replacer.candidates, values)
        rows, shares = np.zeros((values.size, some.size)), weights / np.bincount(which, weights, values.size)[which]
        add_likelihoods(situations, 0.5 * self.law.cells(situations.grid)[0], shares, which, some, rows)
        return Channel(values, rows, classes)

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
        share = np.clip((self.law.cells(grid)[1] - of_low) / (of_high - of_low), 0.0, 1.0)
        rounded = self.replacer.calibrated & ((low > 0) | stays[:, None, None])
        given.high[:], given.low[:] = high, low
        given.up[:] = np.where(high == grid.size, 0.0, np.where(rounded, share, 1.0))


def mask_classes(table: DistanceTable, candidates: Candidates, values: Int32Array) -> tuple[Int64Array, Int32Array]:
    """Return the classes of candidates and of some values, ascending, and the class of each mask among these.

    Of the members of a value's class, only the value is a mask. ``values``: (n,) int32 positions.
    """
    masks = (candidates.weights > 0) & ~np.isin(table.class_of, table.class_of[values])
    masks[values] = True
    positions = np.flatnonzero(masks)
    some, index = np.unique(table.class_of[positions], return_inverse=True)
    class_of = np.full(masks.size, -1, np.int32)
    class_of[positions] = index
    return some.astype(np.int64), class_of


def pair_masks(
    rules: tuple[MaskRule, MaskRule], situations: tuple[Situations, Situations], cells: Float64Cube
) -> Likelihoods:
    """Return P(a*, b* | a, b) for t combinations of values.

    * ``rules``: of both attributes. ``situations``: of the t values of both.
    * ``cells``: the law of both noises (``noise_cells``), which are taken as independent within a cell.
    """

    def likelihoods(masked: Sequence[tuple[int, int]]) -> Float64Matrix:
        classes = [r.replacer.table.class_of[codes] for r, codes in zip(rules, np.array(masked).T, strict=True)]
        return pair_likelihoods(situations[0], classes[0], situations[1], classes[1], cells)

    return likelihoods
