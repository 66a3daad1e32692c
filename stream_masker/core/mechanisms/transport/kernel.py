"""The kernel K = exp(−λ·d² − w) of one attribute: the least that an attacker can gain from a mask at a given distance.

Rounds level the columns of φ·exp(−λ·d²) to u, and scale columns and rows to the law (docs/derivations.md: Transport).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Float32Matrix, Float64Array, Float64Matrix
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.kernels.sums import sum_of, sum_of_products
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_array, read_float

KAPPA = 8.0
"""κ. At the distances of the default, the vulnerability is within a tenth of the linear programme's bound."""
DUAL_KAPPA, DUAL_STEP, DUAL_SEARCHES, DUAL_ROUNDS = 64.0, 0.4, 6, 12
"""κ, the first step of ln λ, the number of steps, and the rounds of each, of the bound of all vulnerabilities."""
LEVEL_ROUNDS = 40
LEVEL_ERROR = 2e-2
"""The rounds end when the sum of absolute differences between the rows and their law is at most this."""
DISTANCE_ERROR = 0.02
"""The greatest |ln E − ln target| of the mean squared distance of a kernel's own coupling."""
MAX_KERNEL_SEARCHES = 24
FIRST_SHARPNESS, MAX_SHARPNESS_STEP = 3.0, 1.5
"""λ times the mean squared distance, at the start of the search, and the greatest step of ln λ."""
NEWTON_STEPS = 30
LEVEL_PRECISION = 1e-9
MAX_EXPONENT = 36.0
"""The greatest exponent of a kernel. The product of two kernels stays above 10⁻³², so that nothing underflows."""
MAX_LOG = 1e4
GREATEST = float(np.finfo(np.float32).max)
"""The greatest numbers of a model, logarithms and others."""


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """What determines the exponents of a kernel of k values.

    ``sharpness``: λ. ``rows``: (k,) ln φ. ``levels``: (k,) ln u, infinite where nothing is cut.
    """

    sharpness: float
    rows: Float64Array
    levels: Float64Array

    @classmethod
    def flat(cls, size: int, sharpness: float) -> Levels:
        """Return those of the kernel exp(−λ·d²)."""
        return cls(sharpness, np.zeros(size), np.full(size, np.inf))

    def costs(self, squares: Float64Matrix) -> Float32Matrix:
        """Return (k, k) float32 ≥ 0: λ·d² + w of each value (row) and mask (column); ``squares``: (k, k) d²."""
        moved = self.sharpness * squares
        cut = np.maximum(self.rows[:, None] - moved - self.levels[None, :], 0.0)
        return np.asarray(moved + cut, np.float32)

    def rounded(self) -> Levels:
        """Return the same with the numbers that a model holds."""
        rows, levels = (each.astype(np.float32).astype(np.float64) for each in (self.rows, self.levels))
        return Levels(self.sharpness, rows, levels)

    def to_model(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return {
            "sharpness": self.sharpness,
            "rows": pack_array(self.rows.astype(np.float32)),
            "levels": pack_array(self.levels.astype(np.float32)),
        }

    @classmethod
    def from_model(cls, model: object, size: int) -> Levels:
        """Restore what ``to_model`` returns. Raises StatisticsError."""
        rows = read_array(model, "rows", np.float32, size, low=-MAX_LOG, high=MAX_LOG)
        levels = read_array(model, "levels", np.float32, size, low=-MAX_LOG)
        sharpness = read_float(model, "sharpness", 1.0 / GREATEST, GREATEST)
        return cls(sharpness, rows.astype(np.float64), levels.astype(np.float64))


def leveled(law: Float64Array, squares: Float64Matrix, sharpness: float) -> Levels:
    """Return the levels of the kernel of a given λ. For the other arguments see ``design``."""
    rows, levels = np.log(law), np.full(law.size, np.inf)
    level(law, squares, np.exp(-sharpness * squares), sharpness, KAPPA, LEVEL_ROUNDS, rows, levels)
    return Levels(sharpness, rows, levels).rounded()


def design(law: Float64Array, squares: Float64Matrix, wanted: float, start: Levels | None) -> Levels:
    """Return the levels of the kernel whose own coupling has about the mean squared distance ``wanted``.

    * ``law``: (k,) p, positive. ``squares``: (k, k) d², symmetric. ``start``: the levels of a similar law, or None.
    """
    rows, levels = np.log(law) if start is None else start.rows.copy(), np.full(law.size, np.inf)
    point = math.log(FIRST_SHARPNESS / wanted if start is None else start.sharpness)
    low, high = (-np.inf, np.inf), (np.inf, -np.inf)
    for _ in range(MAX_KERNEL_SEARCHES):
        sharpness = math.exp(point)
        moved = level(law, squares, np.exp(-sharpness * squares), sharpness, KAPPA, LEVEL_ROUNDS, rows, levels)
        miss = math.log(max(moved, 1e-12) / wanted)
        if abs(miss) <= DISTANCE_ERROR or high[0] - low[0] < DISTANCE_ERROR / 4.0:
            break
        low, high = ((point, miss), high) if miss > 0.0 else (low, (point, miss))
        step = float(np.clip(miss, -MAX_SHARPNESS_STEP, MAX_SHARPNESS_STEP))
        if -np.inf < low[0] and high[0] < np.inf:
            share = float(np.clip(low[1] / (low[1] - high[1]), 0.1, 0.9))
            step = low[0] + share * (high[0] - low[0]) - point
        point += step
    return Levels(sharpness, rows, levels).rounded()


def least_vulnerability(law: Float64Array, squares: Float64Matrix, square: float, levels: Levels) -> float:
    """Return a lower bound of the vulnerability of all channels that keep a law at a mean squared distance.

    The vulnerability's linear programme (docs/derivations.md: Transport) has the dual Σ p·α + Σ p·β − λ·E, for all α, β
    and λ ≥ 0 with Σ_x max(0, α(x) + β(y) − λ·d²) ≤ 1. Rows and levels of any κ, divided by it, are such α and −β; a
    great κ is near the best ones. The best λ is found by steps, as the dual is concave.

    * ``law``: (k,) p, positive. ``squares``: (k, k) d². ``square``: E. ``levels``: those of a kernel at about this E.
    """
    rows, cuts, scratch = levels.rows * (DUAL_KAPPA / KAPPA), np.full(law.size, np.inf), np.empty(law.size)

    def dual(point: float) -> float:
        sharpness = math.exp(point)
        level(law, squares, np.exp(-sharpness * squares), sharpness, DUAL_KAPPA, DUAL_ROUNDS, rows, cuts)
        terms = zip(rows - sharpness * squares, cuts.tolist(), strict=True)
        betas = np.array([cut_level(each, before, DUAL_KAPPA, scratch) for each, before in terms])
        return (float(np.dot(law, rows - betas)) - sharpness * square) / DUAL_KAPPA

    point, step = math.log(levels.sharpness * DUAL_KAPPA / KAPPA), -DUAL_STEP
    best = dual(point)
    for _ in range(DUAL_SEARCHES):
        value = dual(point + step)
        point, best, step = (point + step, value, step) if value > best else (point, best, -step / 2.0)
    return max(best, float(law.max()))


@kernel
def level(
    law: Float64Array,
    squares: Float64Matrix,
    gibbs: Float64Matrix,
    sharpness: float,
    kappa: float,
    rounds: int,
    rows: Float64Array,
    levels: Float64Array,
) -> float:
    """Set ln φ and ln u of a given λ and κ, from the start ``rows``, and return the mean squared distance.

    ``gibbs``: (k, k) exp(−λ·d²).
    """
    size = law.size
    moved = 0.0
    phi, sums, terms, scratch = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for _ in range(rounds):
        moved = 0.0
        sums[:] = 0.0
        for x in range(size):
            phi[x] = np.exp(rows[x])
        for y in range(size):
            for x in range(size):
                terms[x] = rows[x] - sharpness * squares[y, x]
            levels[y] = cut_level(terms, levels[y], kappa, scratch)
            moved += add_column(law[y], squares[y], gibbs[y], phi, np.exp(levels[y]), sums, scratch)
        error = 0.0
        for x in range(size):
            error += abs(sums[x] - law[x])
            rows[x] += np.log(law[x]) - np.log(sums[x])
        if error <= LEVEL_ERROR:
            break
    return moved


@kernel
def cut_level(terms: Float64Array, before: float, kappa: float, scratch: Float64Array) -> float:
    """Return ln u of a column, by Newton's method, which converges from below as what exceeds u is convex in u.

    ``terms``: (k,) ln φ − λ·d². ``before``: ln u of similar terms, or infinity. ``scratch``: (k,), overwritten.
    """
    found = before
    for _ in range(NEWTON_STEPS):
        above = int64(0)
        for x in range(terms.size):
            scratch[x] = max(terms[x] - found, 0.0)
            above += scratch[x] > 0.0
        if above == 0:
            found = terms.max() - kappa
            continue
        step = (sum_of(scratch) - kappa) / above
        found += step
        if 0.0 <= step < LEVEL_PRECISION:
            break
    return found


@part
def add_column(
    law: float,
    squares: Float64Array,
    gibbs: Float64Array,
    phi: Float64Array,
    cut: float,
    sums: Float64Array,
    scratch: Float64Array,
) -> float:
    """Add a column of the coupling to the sums of rows, and return its part of the mean squared distance.

    ``scratch``: (k,), overwritten.
    """
    for x in range(phi.size):
        scratch[x] = min(phi[x] * gibbs[x], cut)
    scale = law / sum_of(scratch)
    for x in range(phi.size):
        sums[x] += scratch[x] * scale
    moved: float = sum_of_products(scratch, squares) * scale
    return moved


@kernel
def kernel_of(costs: Float32Matrix, exponent: float) -> Float32Matrix:
    """Return (k, k) float32: exp(−exponent·costs) of a value (row) and its mask (column), with exponents of at most
    ``MAX_EXPONENT``."""
    result = np.empty_like(costs)
    for x in range(costs.shape[0]):
        row = costs[x]
        into = result[x]
        for y in range(row.size):
            into[y] = np.exp(-min(np.float32(exponent) * row[y], np.float32(MAX_EXPONENT)))
    return result
