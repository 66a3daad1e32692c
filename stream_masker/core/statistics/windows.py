"""Two windows of an attribute: how much they differ, and how much two random samples of the same values would."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import Float64Array, Float64Matrix, Int32Array, Int64Array, unpack_observed
from stream_masker.core.distance import Distance
from stream_masker.core.statistics.counts import SparseCounts, marginals
from stream_masker.core.statistics.statistics import Marginal, Statistics
from stream_masker.errors import StatisticsError

LEAST_EXPECTED, BLOCK_DEPTH = 5, 3
"""The least number of values that is expected in a class of PSI and the divergence, smaller ones being merged; and the
depth of blocks in the taxonomy, of which the root has depth 1, and the chapters of the ICD depth 2."""

DRAWS, FREQUENT, MOST_MOVED = 200, 32, 5
"""The number of random divisions, of the values whose ancestors can be their sMean, and of the classes that are named
at each level."""

ROWS_AT_ONCE = 1_024
"""The number of rows of a matrix of distances that are held at once."""

MOST_VALUES = 1_000
"""The number of frequent values by which the deviation of sdCor is estimated."""


Band: TypeAlias = tuple[float, float, float]
"""The usual, the rare and the greatest size of a figure without drift (``drift.Figure``)."""

Measured: TypeAlias = tuple[str, Float64Array]
"""The name of a figure, and (1 + draws,) what it is for two windows, and for random divisions of their values."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A block or code whose share of an attribute's values has changed; ``before``, ``now``: the shares, in [0, 1]."""

    level: Literal["blocks", "codes"]
    concept: str
    label: str
    before: float
    now: float


class Windows:
    """The values of an attribute in two windows.

    ``positions``: (k,) int32, ascending, the concepts of either window. ``counts``: (1 + draws, 2, k) int64, those of
    the older and of the newer window, and the same of random divisions. ``records``: the numbers of events.
    """

    def __init__(self, name: str, before: Statistics, now: Statistics, d: Distance) -> None:
        """Raises StatisticsError if the counts of values are missing."""
        both = [statistics.values.get(name, {}) for statistics in (before, now)]
        if not all(both):
            raise StatisticsError(f"the statistics of {name} have no counts of values: compute them again")
        self.name, self.d, self.records, tau = name, d, (before.records, now.records), d.taxonomy
        self._means, every = tau.encode([before.mean[name], now.mean[name]]), np.zeros((2, len(tau)), np.int64)
        self._change = abs(now.variance[name] - before.variance[name])
        for counts, window in zip(every, both, strict=True):
            counts[tau.encode([*window])] = [*window.values()]
        self.positions: Int32Array = np.flatnonzero(every.any(axis=0)).astype(np.int32)
        own, rng = every[:, self.positions], np.random.default_rng([before.version, now.version])
        self._is_novel = ~unpack_observed(before.observed[name], len(tau))[self.positions]
        older = rng.multivariate_hypergeometric(own.sum(axis=0), int(own[0].sum()), DRAWS, method="marginals")
        self.counts: Int64Array = np.stack([[own[0], *older], [own[1], *own.sum(axis=0) - older]], axis=1)

    def moments(self) -> Iterator[Measured]:
        """Yield the differences of sMean and of sVar; the sMean of a division is an ancestor of a frequent value."""
        tau, often = self.d.taxonomy, np.argsort(-self.counts[0].sum(axis=0), kind="stable")[:FREQUENT]
        candidates = np.union1d(self._means, tau.closure.above(self.positions[often])[1])
        to_values, among = self.d.between(self.positions, candidates), self.d.matrix(candidates)
        shares = shares_of(self.counts[1:])
        totals, squares = (np.tensordot(shares, each, 1) for each in (to_values, to_values**2))  # one product each
        mean = np.argmin(totals, axis=2)
        variances = np.take_along_axis(squares, mean[..., None], axis=2)[..., 0]
        yield "mean", np.append(self.d.pairs(*self._means[:, None]), among[mean[:, 0], mean[:, 1]])
        yield "variance", np.append(self._change, abs(variances[:, 1] - variances[:, 0]))

    def shares(self, least: int) -> Iterator[Measured]:
        """Yield the figures of shares; ``least``: the least number of values of a class that counts on its own, and of
        all novel values together."""
        for level, labels in self._levels:
            counts = by_group(merged(labels, self.counts[0], max(LEAST_EXPECTED, least)), self.counts)
            yield f"psi_{level}", stability_index(counts)
            yield f"divergence_{level}", jensen_shannon(counts)
        older, newer = self.counts[:, 0], self.counts[:, 1]
        difference, energy = (shares_of(newer) - shares_of(older)).astype(np.float32), np.zeros(len(older))
        for start in range(0, self.positions.size, ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            distances = self.d.between(self.positions[some], self.positions).astype(np.float32)
            energy += np.einsum("nk,nk->n", difference[:, some] @ distances, difference, dtype=np.float64)
        yield "energy", abs(energy)
        novel = np.where(older == 0, newer, 0).sum(axis=1)
        novel[0] = newer[0] @ self._is_novel
        novel[0] *= novel[0] >= least
        yield "novel", novel / newer.sum(axis=1)

    def moved(self, least: int) -> Iterator[Moved]:
        """Yield the classes that moved most, of those with ``least`` values in either window. Fewer count as 0."""
        for level, labels in self._levels:
            classes, group = np.unique(labels, return_inverse=True)
            counts = by_group(group, self.counts[0])
            seen = np.where(counts < least, 0, counts) / counts.sum(axis=1)[:, None]
            change = abs(seen[1] - seen[0])
            most = [i for i in np.argsort(-change, kind="stable")[:MOST_MOVED].tolist() if change[i] > 0]
            for concept, i in zip(self.d.taxonomy.decode(classes[most]), most, strict=True):
                label = self.d.taxonomy.label(concept)
                yield Moved(level, concept, label, float(seen[0, i]), float(seen[1, i]))

    @cached_property
    def _levels(self) -> tuple[tuple[Literal["blocks"], Int32Array], tuple[Literal["codes"], Int32Array]]:
        """The class of each concept at both levels, (k,) positions; of several blocks, the first one."""
        owner, block = self.d.taxonomy.ancestors_at(self.positions, BLOCK_DEPTH)
        return ("blocks", block[np.unique(owner, return_index=True)[1]]), ("codes", self.positions)


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


def shares_of(counts: NDArray[np.number]) -> Float64Matrix:
    """Return counts (…, k) as shares of their sums."""
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


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


def correlation_band(pair: SparseCounts, one: Windows, other: Windows, level: float) -> Band:
    """Return the null band of |ΔsdCor| of two attributes; its limit is exceeded with the probability 1 − ``level``.

    It is 1 where no row has both attributes. The deviation is that of the influence function, the limit of resampling.
    V-statistics of small samples are too large by the terms of each row with itself (Székely, Rizzo and Bakirov 2007),
    which is the bias. The elements of an array are not independent, so the sizes are those of the numbers of records.

    ``pair``: the counts of pairs in the newer window.
    """
    if not pair.rows:
        return 1.0, 1.0, 1.0
    d_a, d_b, size_b = one.d, other.d, len(other.d.taxonomy)
    before, now = (max(1.0, min(1.0, pair.rows / max(1, one.records[1])) * size) for size in one.records)
    frequent = [side.keys[np.argsort(-side.counts, kind="stable")[:MOST_VALUES]] for side in marginals(pair, size_b)]
    pair = pair.select(np.logical_and(*map(np.isin, np.divmod(pair.keys, size_b), frequent)))
    if not pair.keys.size:
        return 0.0, 0.0, 0.0
    sides = [Marginal.of(side, d) for side, d in zip(marginals(pair, size_b), (d_a, d_b), strict=True)]
    first, second = map(np.searchsorted, [side.positions for side in sides], np.divmod(pair.keys, size_b))
    a, b = (side.centred() for side in sides)
    weights, table = pair.counts / pair.rows, np.zeros((len(a), len(b)))
    table[first, second] = weights
    squares = [each**2 @ (side.weights / side.rows) for each, side in zip((a, b), sides, strict=True)]
    products = np.stack([(a @ (table @ b))[first, second], squares[0][first], squares[1][second]])
    own_a, own_b = a.diagonal()[first], b.diagonal()[second]
    moments, terms = products @ weights, np.stack([own_a * own_b, own_a**2, own_b**2]) @ weights
    if moments.min() <= 0.0:
        return 0.0, 0.0, 0.0
    law = np.maximum(moments - terms / now, 1e-3 * moments)
    influence = _correlation(moments) * ((1.0, -0.5, -0.5) / moments @ products)
    deviation = math.sqrt(float(weights @ influence**2) * (1.0 / before + 1.0 / now))
    bias = abs(_correlation(law + terms / before) - _correlation(law + terms / now))
    usual, rare, limit = (bias + NormalDist().inv_cdf(0.5 + p / 2) * deviation for p in (0.95, 0.99, level))
    return usual, rare, limit


def _correlation(moments: Float64Array) -> float:
    """Return sdCor of sdCov², sdVar(A)² and sdVar(B)²."""
    mixed, first, second = np.maximum(moments, 0.0).tolist()
    return math.sqrt(mixed / math.sqrt(first * second)) if first * second > 0 else 0.0
