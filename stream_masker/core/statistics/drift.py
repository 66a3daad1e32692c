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
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.divergences import (
    blocks_of,
    by_group,
    correlation_null,
    energy_distance,
    gamma_quantile,
    jensen_shannon,
    merged,
    shares_of,
    stability_index,
)
from stream_masker.core.statistics.packing import unpack_observed
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

DRAWS, FREQUENT, MOST_MOVED = 200, 32, 5
"""The number of random divisions, of the values whose ancestors can be their sMean, and of the classes that are named
at each level."""

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


@dataclass(frozen=True, slots=True)
class Moved:
    """A block or code whose share of an attribute's values has changed; ``before``, ``now``: the shares, in [0, 1]."""

    level: Literal["blocks", "codes"]
    concept: str
    label: str
    before: float
    now: float


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
        figures = {name: asdict(figure) for name, figure in self.figures.items()}
        return {"verdict": self.verdict, "figures": figures, "moved": list(map(asdict, self.moved))}


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
                {"attributes": list(pair), "verdict": drift.verdict, "correlation": asdict(drift.correlation)}
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
    ``draws``: (draws, 2, k), the same of random divisions. ``moments``: the figures of sMean and sVar.
    """

    def __init__(self, name: str, before: Statistics, now: Statistics, d: Distance, shown: int) -> None:
        both = [statistics.values.get(name, {}) for statistics in (before, now)]
        if not all(both):
            raise StatisticsError(f"the statistics of {name} have no counts of values: compute them again")
        ids = sorted(both[0].keys() | both[1].keys())
        _check_in_taxonomy(name, ids, d)
        self.moments = {
            "mean": mean_distance(name, now, before, d),
            "variance": abs(now.variance[name] - before.variance[name]),
        }
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
            own, drawn = by_group(group, self.counts), by_group(group, self.draws)
            for name, measure in (("psi", stability_index), ("divergence", jensen_shannon)):
                key = f"{name}_{kind}"
                figures[key] = _figure(key, float(measure(own)), measure(drawn), level)
        distances = self.d.between(self.positions, self.positions).astype(np.float32)
        energy = float(energy_distance(self.counts[None], distances)[0])
        figures["energy"] = _figure("energy", energy, energy_distance(self.draws, distances), level)
        figures |= self._moments(level)
        novel = float(shares_of(self.counts)[1] @ ~self.known)
        drawn_novel = (shares_of(self.draws)[:, 1] * (self.draws[:, 0] == 0)).sum(axis=1)
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
        shares = shares_of(self.draws)
        mean = np.argmin(shares @ to_values, axis=2)
        variances = np.take_along_axis(shares @ to_values**2, mean[..., None], axis=2)[..., 0]
        drawn = {"mean": among[mean[:, 0], mean[:, 1]], "variance": abs(variances[:, 1] - variances[:, 0])}
        return {name: _figure(name, value, drawn[name], level) for name, value in self.moments.items()}

    def _moved(self, level: Literal["blocks", "codes"], labels: Int32Array) -> list[Moved]:
        """Return the classes that moved most, of those with enough values in either window. Few values count as 0."""
        classes, group = np.unique(labels, return_inverse=True)
        counts = by_group(group, self.counts)
        seen = np.where(counts < self.shown, 0, counts) / self.counts.sum(axis=1)[:, None]
        change = abs(seen[1] - seen[0])
        most = [i for i in np.argsort(-change, kind="stable")[:MOST_MOVED].tolist() if change[i] > 0]
        tau = self.d.taxonomy
        ids = tau.decode(classes[most])
        return [
            Moved(level, concept, tau.label(concept), float(seen[0, i]), float(seen[1, i]))
            for concept, i in zip(ids, most, strict=True)
        ]


def _figure(name: str, value: float, draws: Float64Array, level: float) -> Figure:
    """Return a figure; ``draws``: what it is without drift. No limit is below any of these."""
    usual, rare, most = np.quantile(draws, [0.95, 0.99, 1.0], method="higher").tolist()
    limit = max(gamma_quantile(draws, level), most)
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


def _check_in_taxonomy(attribute: str, concepts: Sequence[str], d: Distance) -> None:
    missing = sum(concept not in d.taxonomy for concept in concepts)
    if missing:
        raise StatisticsError(
            f"the statistics of {attribute} name {missing} concepts that its taxonomy does not hold: "
            "they were computed with another ontology or root"
        )
