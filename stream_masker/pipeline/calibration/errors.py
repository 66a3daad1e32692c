"""Standard errors of sVar and sdCor, for a window that is a uniform sample of the stream's records.

Both come from the influence function: the effect that one row has on a statistic, to first order. The standard error is
the standard deviation of the rows' influences over √n. For sVar the influence of a value a is sd(a, sMean)² - sVar,
because sMean minimises the sum of distances. sdCov² (2017: equation 18) is a V-statistic of the double-centred
distances δ, whose projection on one row (x, y) is g(x, y) = E[δA(x, X)·δB(y, Y)] (Hoeffding 1948; Székely, Rizzo and
Bakirov 2007: section 2). The influence on ln sdCor is then g_AB/V_AB - g_AA/(2 V_AA) - g_BB/(2 V_BB), with V = E[g].

An event with several elements is several dependent rows; n is at most the number of events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.summary import Statistics

MAX_ROWS: Final = 1_500
"""The largest number of rows whose influences are computed. More rows are sampled, with an error of 1/√(2 ·
MAX_ROWS)."""

SAMPLE_SEED: Final = 2017


@dataclass(frozen=True, slots=True)
class StandardErrors:
    """The standard errors of sVar by attribute, and of sdCor by pair of attributes, i < j.

    A pair without a correlation has no error: the first-order influence vanishes with it.
    """

    variance: dict[str, float]
    correlation: dict[tuple[str, str], float]


def standard_errors(counts: Counts, statistics: Statistics, distances: Sequence[Distance]) -> StandardErrors:
    """Return the standard errors of the statistics of the counted records; ``distances``: one per attribute, in
    order."""
    names = statistics.attributes
    variance = {
        name: _variance_error(values, statistics.mean[name], d, counts.records)
        for name, values, d in zip(names, counts.values, distances, strict=True)
        if values.rows
    }
    correlation = {
        (names[i], names[j]): error
        for (i, j), pairs in counts.pairs.items()
        if pairs.rows and (error := _correlation_error(pairs, distances[i], distances[j], counts.records)) is not None
    }
    return StandardErrors(variance, correlation)


def _variance_error(values: SparseCounts, mean: str, d: Distance, records: int) -> float:
    squares = d.between(values.keys.astype(np.int32), [mean])[:, 0] ** 2
    share = values.counts / values.rows
    spread = float(share @ squares**2 - (share @ squares) ** 2)
    return math.sqrt(max(0.0, spread) / min(values.rows, records))


def _correlation_error(pairs: SparseCounts, first: Distance, second: Distance, records: int) -> float | None:
    rows = _some_rows(pairs)
    codes_a, a = np.unique(rows // len(second.taxonomy), return_inverse=True)
    codes_b, b = np.unique(rows % len(second.taxonomy), return_inverse=True)
    centred_a, centred_b = _centred(first, codes_a, a), _centred(second, codes_b, b)
    together = np.zeros((codes_a.size, codes_b.size))
    np.add.at(together, (a, b), 1 / rows.size)
    g_ab = ((centred_a @ together) @ centred_b)[a, b]
    g_aa, g_bb = (_self_projection(m, codes)[codes] for m, codes in ((centred_a, a), (centred_b, b)))
    covariance, variance_a, variance_b = (float(g.mean()) for g in (g_ab, g_aa, g_bb))
    if min(covariance, variance_a, variance_b) <= 0:
        return None
    influence = g_ab / covariance - g_aa / (2 * variance_a) - g_bb / (2 * variance_b)
    correlation = math.sqrt(covariance / math.sqrt(variance_a * variance_b))
    return correlation * float(influence.std()) / math.sqrt(min(pairs.rows, records))


def _some_rows(pairs: SparseCounts) -> Int64Array:
    """Return the keys of the rows, (n,) int64, or those of a random sample of ``MAX_ROWS`` rows if there are more."""
    if pairs.rows <= MAX_ROWS:
        return np.repeat(pairs.keys, pairs.counts)
    sampled = np.random.default_rng(SAMPLE_SEED).integers(0, pairs.rows, MAX_ROWS)
    return pairs.keys[np.searchsorted(np.cumsum(pairs.counts), sampled, side="right")]


def _centred(d: Distance, codes: Int64Array, index: Int64Array) -> Float64Array:
    """Return (k, k) float64: the distances between k codes, double-centred over the rows.

    ``index``: (n,) int64, the code of each row.
    """
    matrix = d.matrix(codes.astype(np.int32))
    share = np.bincount(index, minlength=codes.size) / index.size
    mean = matrix @ share
    centred: Float64Array = matrix - mean[:, None] - mean[None, :] + share @ mean
    return centred


def _self_projection(centred: Float64Array, index: Int64Array) -> Float64Array:
    """Return (k,) float64: g(x, x) of each code."""
    return (centred**2) @ (np.bincount(index, minlength=len(centred)) / index.size)
