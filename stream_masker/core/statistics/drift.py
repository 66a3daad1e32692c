"""Drift: by how much two windows differ, and by how much they would differ without drift.

Each figure has a *null band*, within which it stays if both windows are random samples of one law:

* The figures of an attribute are measured on random divisions of both windows' values into two. PSI and the divergence
  of large samples are multiples of χ² then (their classes have at least five expected values), and the limit is the
  quantile of a multiple of χ² with the mean and the deviation of the divisions, or the greatest of these.
* sdCor is asymptotically normal. Its deviation is that of its influence function, the limit of resampling.

A figure beyond its band is worth a look (``watch``) at a level that is corrected for the number of figures. Some call
for action (``act``) from a size on that practice uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import ranges
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts, marginals
from stream_masker.core.statistics.packing import unpack_observed
from stream_masker.core.statistics.statistics import Marginal
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError, StatisticsError

Verdict: TypeAlias = Literal["none", "watch", "act"]

VERDICTS: tuple[Verdict, ...] = ("none", "watch", "act")
"""All verdicts, from the least serious one on."""

ACT: Mapping[str, float] = {"psi_blocks": 0.25, "novel": 0.1}
"""The values from which on figures of an attribute call for action."""

ACT_BEYOND_BAND = 0.05
"""How far a difference of sdCor is beyond its band when it calls for action."""

FALSE_ALARMS = 0.05
"""The largest share of versions without drift of which any figure is beyond its band."""

LEAST_EXPECTED = 5
"""The least number of values that is expected in a class of PSI and the divergence; smaller classes are merged."""

BLOCK_DEPTH = 3
"""The depth of blocks in the taxonomy; the root has depth 1, and the chapters of the ICD depth 2."""

DRAWS, FREQUENT, MOST_VALUES, MOST_MOVED = 200, 32, 1_000, 5
"""The number of random divisions, of the values whose ancestors can be their sMean, of the values by which the
deviation of sdCor is estimated, and of the classes that are named at each level."""

ATTRIBUTE_FIGURES = (
    "psi_blocks", "psi_codes", "divergence_blocks", "divergence_codes", "energy", "mean", "variance", "novel",
)  # fmt: skip
"""The figures of an attribute."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measure of drift, at least 0, and its null band.

    ``usual``, ``rare``: what it exceeds without drift in 5 % and in 1 % of the cases. ``limit``: beyond it, the figure
    is not ``none``.
    """

    value: float
    usual: float
    rare: float
    limit: float
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("value", "usual", "rare", "limit", "verdict")}


@dataclass(frozen=True, slots=True)
class Moved:
    """A block or code whose share of an attribute's values has changed; ``before``, ``now``: the shares, in [0, 1]."""

    level: Literal["blocks", "codes"]
    concept: str
    label: str
    before: float
    now: float

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("level", "concept", "label", "before", "now")}


@dataclass(frozen=True, slots=True)
class AttributeDrift:
    """The drift of one attribute: its figures by name (``ATTRIBUTE_FIGURES``).

    * ``psi_blocks``, ``psi_codes``: the population stability index Σ (q − p)·ln(q / p) of blocks and of codes.
    * ``divergence_blocks``, ``divergence_codes``: the Jensen–Shannon divergence, base 2 (Lin 1991: equation 4.1).
    * ``energy``: 2·E sd(X, Y) − E sd(X, X′) − E sd(Y, Y′). ``mean``: sd(sMean, sMean′). ``variance``: |ΔsVar|.
    * ``novel``: the share of values whose concept had not occurred up to the older window.

    ``moved``: the blocks and codes whose shares have changed most, of both levels, the greatest changes first.
    """

    figures: Mapping[str, Figure]
    moved: tuple[Moved, ...]

    @property
    def verdict(self) -> Verdict:
        return worst(figure.verdict for figure in self.figures.values())

    def to_dict(self) -> dict[str, Any]:
        figures = {name: figure.to_dict() for name, figure in self.figures.items()}
        return {"verdict": self.verdict, "figures": figures, "moved": [each.to_dict() for each in self.moved]}


@dataclass(frozen=True, slots=True)
class PairDrift:
    """The drift of a pair of attributes. ``correlation``: |ΔsdCor|."""

    correlation: Figure

    @property
    def verdict(self) -> Verdict:
        return self.correlation.verdict


@dataclass(frozen=True, slots=True)
class Drift:
    """Drift from the statistics of version ``since`` to those of ``version``.

    ``pairs``: attributes i < j; empty if the counts of the newer window are not known.
    """

    version: int
    since: int
    attributes: Mapping[str, AttributeDrift]
    pairs: Mapping[tuple[str, str], PairDrift]

    @property
    def verdict(self) -> Verdict:
        """The most serious verdict of all figures."""
        attributes = (attribute.verdict for attribute in self.attributes.values())
        return worst([*attributes, *(pair.verdict for pair in self.pairs.values())])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form: attributes by name, pairs as a list."""
        return {
            "version": self.version,
            "since": self.since,
            "verdict": self.verdict,
            "attributes": {name: drift.to_dict() for name, drift in self.attributes.items()},
            "pairs": [
                {"attributes": list(pair), "verdict": drift.verdict, "correlation": drift.correlation.to_dict()}
                for pair, drift in self.pairs.items()
            ],
        }


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the most serious of some verdicts; ``none`` without any."""
    return max(verdicts, key=VERDICTS.index, default="none")


def drift_between(
    before: Statistics,
    now: Statistics,
    distances: Sequence[Distance],
    counts: Counts | None = None,
    *,
    comparisons: int = 1,
    shown: int = 1,
) -> Drift:
    """Return the drift from one window to another. It is the same for every call with equal arguments.

    * ``distances``: one per attribute, in their order. ``counts``: those of the newer window, for the pairs.
    * ``comparisons``: with how many other windows the newer one is compared; verdicts are corrected for it.
    * ``shown``: the least number of values of a class that is named or counted on its own.

    Raises StatisticsError if the two have different attributes, lack the counts of values, or contain a concept that
    the taxonomy does not hold (of another version of the ontology).
    """
    check_same_attributes(now, before, distances)
    names, pairs = now.attributes, [] if counts is None else list(combinations(range(len(now.attributes)), 2))
    level = 1.0 - FALSE_ALARMS / (comparisons * (len(names) * len(ATTRIBUTE_FIGURES) + len(pairs)))
    windows = {name: _Windows(name, before, now, d, shown) for name, d in zip(names, distances, strict=True)}
    return Drift(
        version=now.version,
        since=before.version,
        attributes={name: both.drift(level) for name, both in windows.items()},
        pairs={} if counts is None else {
            (names[i], names[j]): _pair_drift(before, now, counts, (i, j), distances, level) for i, j in pairs
        },
    )  # fmt: skip


def check_same_attributes(new: Statistics, old: Statistics, distances: Sequence[Distance]) -> None:
    """Raise StatisticsError unless the attributes are equal, ParameterError unless each attribute has a distance."""
    if new.attributes != old.attributes:
        raise StatisticsError("only statistics of the same attributes, in the same order, can be compared")
    if len(distances) != len(new.attributes):
        raise ParameterError(f"there are {len(new.attributes)} attributes and {len(distances)} distances")


def mean_distance(attribute: str, new: Statistics, old: Statistics, d: Distance) -> float:
    """sd(sMean, sMean') of an attribute. Raises StatisticsError if the taxonomy does not hold both means."""
    means = (new.mean[attribute], old.mean[attribute])
    _check_in_taxonomy(attribute, means, d)
    return d(*means)


class _Windows:
    """The values of an attribute in two windows, which is all that its figures depend on.

    ``positions``: (k,) int32, ascending, the concepts of either window. ``counts``: (2, k) int64, older window first;
    ``draws``: (draws, 2, k), the same of random divisions.
    """

    def __init__(self, name: str, before: Statistics, now: Statistics, d: Distance, shown: int) -> None:
        both = [statistics.values.get(name, {}) for statistics in (before, now)]
        if not all(both):
            raise StatisticsError(f"the statistics of {name} have no counts of values: compute them again")
        ids = sorted(both[0].keys() | both[1].keys())
        _check_in_taxonomy(name, (*ids, before.mean[name], now.mean[name]), d)
        self.d, self.shown, tau = d, shown, d.taxonomy
        positions = tau.encode(ids)
        order = np.argsort(positions)
        self.positions = positions[order]
        self.counts = np.array([[window.get(c, 0) for c in ids] for window in both], np.int64)[:, order]
        self.means = np.array([tau.position(statistics.mean[name]) for statistics in (before, now)], np.int32)
        self.known = unpack_observed(before.observed[name], len(tau))[self.positions]
        rng, total = np.random.default_rng([before.version, now.version]), self.counts.sum(axis=0)
        older = rng.multivariate_hypergeometric(total, int(self.counts[0].sum()), DRAWS, method="marginals")
        self.draws = np.stack([older, total - older], axis=1)

    def drift(self, level: float) -> AttributeDrift:
        """Return the figures; ``level``: that of the limits."""
        blocks = blocks_of(self.positions, self.d.taxonomy)
        figures: dict[str, Figure] = {}
        for kind, labels in (("blocks", blocks), ("codes", self.positions)):
            group = merged(labels, self.counts, max(LEAST_EXPECTED, self.shown))
            own, drawn = _by_group(group, self.counts), _by_group(group, self.draws)
            for name, measure in (("psi", stability_index), ("divergence", jensen_shannon)):
                key = f"{name}_{kind}"
                figures[key] = _figure(key, float(measure(own)), measure(drawn), level)
        distances = self.d.between(self.positions, self.positions).astype(np.float32)
        energy = float(_energy(self.counts[None], distances)[0])
        figures["energy"] = _figure("energy", energy, _energy(self.draws, distances), level)
        figures |= self._moments(level)
        novel = float(_shares(self.counts)[1] @ ~self.known)
        drawn_novel = (_shares(self.draws)[:, 1] * (self.draws[:, 0] == 0)).sum(axis=1)
        figures["novel"] = _figure("novel", novel, drawn_novel, level)
        moved = [*self._moved("blocks", blocks), *self._moved("codes", self.positions)]
        return AttributeDrift({name: figures[name] for name in ATTRIBUTE_FIGURES}, tuple(moved))

    def _moments(self, level: float) -> dict[str, Figure]:
        """Return the figures of sMean and sVar. The sMean of a division is an ancestor of a frequent value."""
        tau, often = self.d.taxonomy, np.argsort(-self.counts.sum(axis=0), kind="stable")[:FREQUENT]
        above = np.unique(
            np.concatenate([tau.encode(list(tau.ancestors_of(c))) for c in tau.decode(self.positions[often])])
        )
        candidates = np.union1d(above, self.means).astype(np.int32)
        to_values, among = self.d.between(self.positions, candidates), self.d.between(candidates, candidates)
        shares = _shares(self.draws)
        mean = np.argmin(shares @ to_values, axis=2)
        variances = np.take_along_axis(shares @ to_values**2, mean[..., None], axis=2)[..., 0]
        own = np.searchsorted(candidates, self.means)
        variance = (_shares(self.counts) * to_values.T[own] ** 2).sum(axis=1)
        measured = {
            "mean": (float(among[own[0], own[1]]), among[mean[:, 0], mean[:, 1]]),
            "variance": (abs(float(variance[1] - variance[0])), abs(variances[:, 1] - variances[:, 0])),
        }
        return {name: _figure(name, value, draws, level) for name, (value, draws) in measured.items()}

    def _moved(self, level: Literal["blocks", "codes"], labels: Int32Array) -> list[Moved]:
        """Return the classes that moved most, of those with enough values in either window. Few values count as 0."""
        classes, group = np.unique(labels, return_inverse=True)
        counts = _by_group(group, self.counts)
        seen = np.where(counts < self.shown, 0, counts) / self.counts.sum(axis=1)[:, None]
        change = abs(seen[1] - seen[0])
        most = [i for i in np.argsort(-change, kind="stable")[:MOST_MOVED].tolist() if change[i] > 0]
        tau = self.d.taxonomy
        ids = tau.decode(classes[most])
        return [
            Moved(level, concept, tau.label(concept), float(seen[0, i]), float(seen[1, i]))
            for concept, i in zip(ids, most, strict=True)
        ]


def blocks_of(positions: Int32Array, taxonomy: Taxonomy) -> Int32Array:
    """Return (k,) int32: the ancestor at the depth of blocks of each of k concepts; itself, if it is above that depth.

    Of several ancestors of that depth, the first one counts.
    """
    closure, starts = taxonomy.closure, taxonomy.closure.offsets[positions]
    lengths = closure.offsets[positions + 1] - starts
    owner, concept = np.repeat(np.arange(positions.size), lengths), closure.ancestors[ranges(starts, lengths)]
    at = taxonomy.depth[concept] == np.minimum(taxonomy.depth[positions], BLOCK_DEPTH)[owner]
    first = np.unique(owner[at], return_index=True)[1]
    return np.asarray(concept[at][first], np.int32)


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


def _by_group(group: Int64Array, counts: Int64Array) -> Int64Array:
    """Return counts (…, k) of k values as those of their groups, (…, g)."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    return np.asarray(np.add.reduceat(counts[..., order], starts, axis=-1))


def stability_index(counts: NDArray[np.number]) -> Float64Array:
    """PSI = Σ (q − p)·ln(q / p) of counts (…, 2, g); half a value stands for none."""
    shares = _shares(np.maximum(counts, 0.5))
    p, q = shares[..., 0, :], shares[..., 1, :]
    return np.asarray(((q - p) * np.log(q / p)).sum(axis=-1))


def jensen_shannon(counts: NDArray[np.number]) -> Float64Array:
    """JSD = ½·KL(p ‖ m) + ½·KL(q ‖ m) with m = (p + q)/2, base 2, of counts (…, 2, g) (Lin 1991: equation 4.1)."""
    shares = _shares(counts)
    ratio = shares / np.maximum(shares.mean(axis=-2, keepdims=True), np.finfo(np.float64).tiny)
    terms = shares * np.log2(np.where(ratio > 0.0, ratio, 1.0))
    return np.asarray(np.clip(0.5 * terms.sum(axis=(-2, -1)), 0.0, 1.0))


def _shares(counts: NDArray[np.number]) -> Float64Matrix:
    """Return counts (…, k) as shares of their sums."""
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def _energy(counts: Int64Array, distances: NDArray[np.float32]) -> Float64Array:
    """Return (n,) float64: the energy distance of the two windows of each of n divisions, (n, 2, k)."""
    shares = _shares(counts)
    difference = (shares[:, 1] - shares[:, 0]).astype(np.float32)
    return np.asarray(abs(np.einsum("nk,nk->n", difference @ distances, difference, dtype=np.float64)))


def _quantile(draws: Float64Array, share: float) -> float:
    """Return the quantile of the gamma law with the mean and deviation of draws (Wilson and Hilferty 1931)."""
    mean, deviation = float(draws.mean()), float(draws.std())
    if mean <= 0.0 or deviation <= 0.0:
        return max(mean, 0.0)
    part = (deviation / mean) ** 2 / 9.0
    return mean * max(0.0, 1.0 - part + NormalDist().inv_cdf(share) * math.sqrt(part)) ** 3


def _figure(name: str, value: float, draws: Float64Array, level: float) -> Figure:
    """Return a figure; ``draws``: what it is without drift. No limit is below any of these."""
    usual, rare, most = np.quantile(draws, [0.95, 0.99, 1.0], method="higher").tolist()
    limit = max(_quantile(draws, level), most)
    acts = value >= ACT.get(name, math.inf)
    return Figure(value, usual, rare, limit, "none" if value <= limit else "act" if acts else "watch")


def _pair_drift(
    before: Statistics,
    now: Statistics,
    counts: Counts,
    pair: tuple[int, int],
    distances: Sequence[Distance],
    level: float,
) -> PairDrift:
    """Return the drift of sdCor. The elements of an array are not independent: records count, not rows."""
    value = abs(float(now.correlation[pair] - before.correlation[pair]))
    rows = counts.pairs[pair]
    if not rows.rows:
        return PairDrift(Figure(value, 0.0, 0.0, 0.0, "none"))
    share = min(1.0, rows.rows / max(1, counts.records))
    sizes = [max(1.0, share * statistics.records) for statistics in (before, now)]
    bias, deviation = correlation_null(rows, distances[pair[0]], distances[pair[1]], *sizes)
    usual, rare, limit = (bias + NormalDist().inv_cdf(0.5 + share / 2) * deviation for share in (0.95, 0.99, level))
    verdict: Verdict = "none" if value <= limit else "act" if value >= limit + ACT_BEYOND_BAND else "watch"
    return PairDrift(Figure(value, usual, rare, limit, verdict))


def correlation_null(
    pair: SparseCounts, d_a: Distance, d_b: Distance, before: float, now: float
) -> tuple[float, float]:
    """Return the size of the bias and the deviation of the difference of sdCor between two samples of one law.

    ``pair``: the counts of pairs, whose law it is. ``before``, ``now``: the sizes of the samples. V-statistics of small
    samples are too large by the terms of each row with itself (Székely, Rizzo and Bakirov 2007), which is the bias.
    """
    a, b, first, second, weights = _frequent(pair, d_a, d_b)
    table = np.zeros((a.shape[0], b.shape[0]), np.float32)
    table[first, second] = weights
    own_a, own_b = table.sum(axis=1), table.sum(axis=0)
    a, b = _centred(a, own_a), _centred(b, own_b)
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


def _frequent(
    pair: SparseCounts, d_a: Distance, d_b: Distance
) -> tuple[NDArray[np.float32], NDArray[np.float32], Int64Array, Int64Array, Float64Array]:
    """Return the distances between the frequent values of each attribute, and the pairs of these with their shares."""
    kept = []
    for side in marginals(pair, len(d_b.taxonomy)):
        kept.append(side.select(np.sort(np.argsort(-side.counts, kind="stable")[:MOST_VALUES])))
    keys_a, keys_b = np.divmod(pair.keys, len(d_b.taxonomy))
    some = np.isin(keys_a, kept[0].keys) & np.isin(keys_b, kept[1].keys)
    weights = pair.counts[some] / pair.counts[some].sum()
    a, b = (
        d.levels[Marginal.of(side, d).distances].astype(np.float32) for side, d in zip(kept, (d_a, d_b), strict=True)
    )
    first, second = np.searchsorted(kept[0].keys, keys_a[some]), np.searchsorted(kept[1].keys, keys_b[some])
    return a, b, first, second, weights


def _centred(distances: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    means = distances @ weights
    return np.asarray(distances - means[:, None] - means + weights @ means, np.float32)


def _correlation(moments: Float64Array) -> float:
    """Return sdCor of sdCov², sdVar(A)² and sdVar(B)²."""
    mixed, first, second = np.maximum(moments, 0.0).tolist()
    return math.sqrt(mixed / math.sqrt(first * second)) if first * second > 0 else 0.0


def _check_in_taxonomy(attribute: str, concepts: Sequence[str], d: Distance) -> None:
    missing = sum(concept not in d.taxonomy for concept in concepts)
    if missing:
        raise StatisticsError(
            f"the statistics of {attribute} name {missing} concepts that its taxonomy does not hold: "
            "they were computed with another ontology or root"
        )
