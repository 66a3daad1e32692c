"""The measures of drift between counts of two windows, and what they are without drift."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.statistics.counts import SparseCounts, marginals
from stream_masker.core.statistics.statistics import Marginal

MOST_VALUES = 1_000
"""The number of frequent values by which the deviation of sdCor is estimated."""


def merged(labels: Int32Array, counts: Int64Array, least: int) -> Int64Array:
    """Return (k,) int64: the class of each of k values, numbered from 0, in which labels are merged that are too rare.

    A class has at least ``least`` values that are expected in the smaller of two windows, if both have one law.

    ``labels``: (k,); ``counts``: (2, k).
    """
    sizes, (found, index) = counts.sum(axis=1), np.unique(labels, return_inverse=True)
    expected = np.bincount(index, counts.sum(axis=0), found.size) * (sizes.min() / sizes.sum())
    large = expected >= least
    classes = np.cumsum(large) - 1
    rest = int(np.count_nonzero(large))
    if large.any() and expected[~large].sum() < least:
        rest = int(classes[np.argmin(np.where(large, expected, np.inf))])
    return np.where(large, classes, rest)[index]


def by_group(group: Int64Array, counts: Int64Array) -> Int64Array:
    """Return counts (…, k) of k values as those of their groups, (…, g)."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    return np.asarray(np.add.reduceat(counts[..., order], starts, axis=-1))


def stability_index(counts: NDArray[np.number]) -> Float64Array:
    """PSI = Σ (q − p)·ln(q / p) of counts (…, 2, g); half a value stands for none."""
    shares = shares_of(np.maximum(counts, 0.5))
    p, q = shares[..., 0, :], shares[..., 1, :]
    return np.asarray(((q - p) * np.log(q / p)).sum(axis=-1))


def jensen_shannon(counts: NDArray[np.number]) -> Float64Array:
    """JSD = ½·KL(p ‖ m) + ½·KL(q ‖ m) with m = (p + q)/2, base 2, of counts (…, 2, g) (Lin 1991: equation 4.1)."""
    shares = shares_of(counts)
    ratio = shares / np.maximum(shares.mean(axis=-2, keepdims=True), np.finfo(np.float64).tiny)
    terms = shares * np.log2(np.where(ratio > 0.0, ratio, 1.0))
    return np.asarray(np.clip(0.5 * terms.sum(axis=(-2, -1)), 0.0, 1.0))


def shares_of(counts: NDArray[np.number]) -> Float64Matrix:
    """Return counts (…, k) as shares of their sums."""
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def energy_distance(counts: Int64Array, distances: NDArray[np.float32]) -> Float64Array:
    """Return (n,) float64: the energy distance of the two windows of each of n divisions, (n, 2, k)."""
    shares = shares_of(counts)
    difference = (shares[:, 1] - shares[:, 0]).astype(np.float32)
    return np.asarray(abs(np.einsum("nk,nk->n", difference @ distances, difference, dtype=np.float64)))


def gamma_quantile(draws: Float64Array, share: float) -> float:
    """Return the quantile of the gamma law with the mean and deviation of draws (Wilson and Hilferty 1931)."""
    mean, deviation = float(draws.mean()), float(draws.std())
    if mean <= 0.0 or deviation <= 0.0:
        return max(mean, 0.0)
    part = (deviation / mean) ** 2 / 9.0
    return mean * max(0.0, 1.0 - part + NormalDist().inv_cdf(share) * math.sqrt(part)) ** 3


def correlation_null(
    pair: SparseCounts, d_a: Distance, d_b: Distance, before: float, now: float
) -> tuple[float, float]:
    """Return the size of the bias and the deviation of the difference of sdCor between two samples of one law.

    ``pair``: the counts of pairs, whose law it is. ``before``, ``now``: the sizes of the samples. V-statistics of small
    samples are too large by the terms of each row with itself (Székely, Rizzo and Bakirov 2007), which is the bias.
    """
    size_b = len(d_b.taxonomy)
    frequent = [side.keys[np.argsort(-side.counts, kind="stable")[:MOST_VALUES]] for side in marginals(pair, size_b)]
    pair = pair.select(np.logical_and(*map(np.isin, np.divmod(pair.keys, size_b), frequent)))
    if not pair.keys.size:
        return 0.0, 0.0
    sides = [Marginal.of(side, d) for side, d in zip(marginals(pair, size_b), (d_a, d_b), strict=True)]
    first, second = map(np.searchsorted, [side.positions for side in sides], np.divmod(pair.keys, size_b))
    a, b = (side.centred().astype(np.float32) for side in sides)
    own_a, own_b = ((side.weights / side.rows).astype(np.float32) for side in sides)
    weights, table = pair.counts / pair.rows, np.zeros((own_a.size, own_b.size), np.float32)
    table[first, second] = weights
    mixed = (a @ (table @ b))[first, second].astype(np.float64)
    squares = (a**2 @ own_a)[first].astype(np.float64), (b**2 @ own_b)[second].astype(np.float64)
    itself = np.diag(a)[first].astype(np.float64), np.diag(b)[second].astype(np.float64)
    moments = np.array([weights @ mixed, weights @ squares[0], weights @ squares[1]])
    terms = np.array([weights @ (itself[0] * itself[1]), weights @ itself[0] ** 2, weights @ itself[1] ** 2])
    if moments.min() <= 0.0:
        return 0.0, 0.0
    law = np.maximum(moments - terms / now, 1e-3 * moments)
    size = _correlation(moments)
    influence = size * (mixed / moments[0] - 0.5 * squares[0] / moments[1] - 0.5 * squares[1] / moments[2])
    deviation = math.sqrt(float(weights @ influence**2) * (1.0 / before + 1.0 / now))
    return abs(_correlation(law + terms / before) - _correlation(law + terms / now)), deviation


def _correlation(moments: Float64Array) -> float:
    """Return sdCor of sdCov², sdVar(A)² and sdVar(B)²."""
    mixed, first, second = np.maximum(moments, 0.0).tolist()
    return math.sqrt(mixed / math.sqrt(first * second)) if first * second > 0 else 0.0
