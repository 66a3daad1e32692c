"""Chi-square tests of the association between nominal attributes, before and after masking (2012: section 3.2).

In a contingency table, O are the observed counts and E = row · column / total the expected counts without association.
Pearson's χ² is Σ (O − E)² / E. The likelihood-ratio χ² is 2·Σ O·ln(O / E). Both have (r − 1)·(c − 1) degrees of
freedom. Empty rows and columns are removed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.errors import ParameterError

LARGE_CELLS = 0.8
LARGE_COUNT = 5.0
LEAST_COUNT = 1.0
"""The tests need large samples: this share of expected counts above ``LARGE_COUNT``, and all above ``LEAST_COUNT``."""

PRECISION = 1e-15
MAX_SERIES_STEPS = 1_000_000
TINY = 1e-300


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """The result of both tests.

    pearson, likelihood_ratio: χ² ≥ 0. degrees: degrees of freedom. pearson_p, likelihood_ratio_p: p-values in [0, 1].
    large_sample: whether more than 80% of the expected counts are above 5 and all are above 1, as the tests require.
    """

    pearson: float
    likelihood_ratio: float
    degrees: int
    pearson_p: float
    likelihood_ratio_p: float
    large_sample: bool


def contingency(pair: SparseCounts, size: int) -> Int64Array:
    """Return (r, c) int64: the counts of the pairs of values that two attributes have.

    ``size``: the number of concepts in the taxonomy of the second attribute.
    """
    a, b = np.divmod(pair.keys, size)
    rows, columns = np.unique(a), np.unique(b)
    table = np.zeros((rows.size, columns.size), np.int64)
    table[np.searchsorted(rows, a), np.searchsorted(columns, b)] = pair.counts
    return table


def chi_square(table: NDArray[np.integer]) -> ChiSquare:
    """Test a contingency table. Raises ParameterError unless its counts are non-negative and some are positive."""
    observed = _without_empty(np.asarray(table, np.float64))
    expected = observed.sum(axis=1)[:, None] * observed.sum(axis=0)[None, :] / observed.sum()
    pearson = float(((observed - expected) ** 2 / expected).sum())
    positive = observed > 0.0
    ratio = max(0.0, 2.0 * float((observed[positive] * np.log(observed[positive] / expected[positive])).sum()))
    degrees = (observed.shape[0] - 1) * (observed.shape[1] - 1)
    large = bool((expected > LARGE_COUNT).mean() > LARGE_CELLS and expected.min() > LEAST_COUNT)
    return ChiSquare(pearson, ratio, degrees, p_value(pearson, degrees), p_value(ratio, degrees), large)


def chi_squares(counts: Counts, sizes: Sequence[int]) -> dict[tuple[int, int], ChiSquare]:
    """Test each pair of attributes that occur together, from the counts of an original or masked window.

    ``sizes``: the number of concepts in the taxonomy of each attribute.
    """
    return {(i, j): chi_square(contingency(pair, sizes[j])) for (i, j), pair in counts.pairs.items() if len(pair.keys)}


def _without_empty(table: Float64Array) -> Float64Array:
    if table.ndim != 2 or not table.size or table.min() < 0.0 or not table.any():
        raise ParameterError("a contingency table must have two dimensions, no negative count and some positive one")
    return table[table.any(axis=1)][:, table.any(axis=0)]


def p_value(statistic: float, degrees: int) -> float:
    """P(χ² ≥ statistic): the regularised upper incomplete gamma function Q(degrees / 2, statistic / 2).

    It is 1 if there are no degrees of freedom.
    """
    if degrees == 0 or statistic <= 0.0:
        return 1.0
    a, x = degrees / 2.0, statistic / 2.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    return max(0.0, 1.0 - scale * _series(a, x)) if x < a + 1.0 else scale * _fraction(a, x)


def _series(a: float, x: float) -> float:
    """Return Σ xⁿ / (a·(a + 1)…(a + n)), the series of the lower function; it converges fast for x < a + 1."""
    term = total = 1.0 / a
    for n in range(1, MAX_SERIES_STEPS):
        term *= x / (a + n)
        total += term
        if term < total * PRECISION:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """Return the continued fraction of Γ(a, x)·exp(x) / xᵃ by Lentz's method; it converges fast for x ≥ a + 1."""
    b = x + 1.0 - a
    c, d = 1.0 / TINY, 1.0 / b
    product = d
    for n in range(1, MAX_SERIES_STEPS):
        step = -n * (n - a)
        b += 2.0
        d = 1.0 / (step * d + b or TINY)
        c = b + step / c or TINY
        product *= c * d
        if abs(c * d - 1.0) < PRECISION:
            break
    return product
