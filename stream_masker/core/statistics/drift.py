"""Drift: by how much two windows differ, and by how much they would differ without drift.

Each figure has a *null band*, within which it stays if both windows are random samples of one law:

* The figures of an attribute are measured on random divisions of both windows' values into two. PSI and the divergence
  of large samples are multiples of χ² then (their classes have at least five expected values), and the limit is the
  quantile of a multiple of χ² with the mean and the deviation of the divisions, or the greatest of these.
* sdCor is asymptotically normal. Its deviation is that of its influence function, the limit of resampling.

A figure beyond its band is worth a look (``watch``) at a level that is corrected for the number of figures. Some
figures call for action (``act``) from a usual limit on, such as a PSI of 0.25.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array, Int32Array, Int64Array
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.divergences import (
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
Band: TypeAlias = tuple[float, float, float]
"""The usual, the rare and the greatest size of a figure without drift (``Figure``)."""

VERDICTS: tuple[Verdict, ...] = ("none", "watch", "act")
"""All verdicts, from the least serious one on."""

ACT: Mapping[str, float] = {"psi_blocks": 0.25, "novel": 0.1}
"""The values from which on figures of an attribute call for action."""

ACT_BEYOND_BAND = 0.05
"""How far a difference of sdCor, or a figure of utility, is beyond its band when it calls for action."""

FALSE_ALARMS = 0.05
"""The largest share of versions without drift of which any figure is beyond its band."""

LEAST_EXPECTED, BLOCK_DEPTH = 5, 3
"""The least number of values that is expected in a class of PSI and the divergence, smaller ones being merged; and the
depth of blocks in the taxonomy, of which the root has depth 1, and the chapters of the ICD depth 2."""

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

    @classmethod
    def of(cls, value: float, band: Band, acts: float = math.inf) -> Figure:
        """Return a figure beside its band. It calls for action from ``acts`` on."""
        verdict: Verdict = "none" if value <= band[2] else "act" if value >= acts else "watch"
        return cls(value, *band, verdict)


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
class Drift:
    """Drift from the statistics of version ``since`` to those of ``version``.

    ``pairs``: attributes i < j; empty if the counts of the newer window are not known.
    """

    version: int
    since: int
    attributes: Mapping[str, AttributeDrift]
    pairs: Mapping[tuple[str, str], Figure]

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
                {"attributes": list(pair), "verdict": figure.verdict, "correlation": asdict(figure)}
                for pair, figure in self.pairs.items()
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
    check_comparable(before, now, distances)
    names, number = now.attributes, 0 if counts is None else len(counts.pairs)
    level = limit_level(comparisons * (len(names) * len(ATTRIBUTE_FIGURES) + number))
    windows = [Windows(name, before, now, d) for name, d in zip(names, distances, strict=True)]
    values, bands = changes(before, now, distances), null_bands(windows, counts, level)
    attributes = {}
    for name, both in zip(names, windows, strict=True):
        novel = ~unpack_observed(before.observed[name], len(both.d.taxonomy))[both.positions]
        found = both.shares(novel, level, shown)
        found |= {kind: Figure.of(values[name,][kind], own) for kind, own in bands.pop((name,)).items()}
        attributes[name] = AttributeDrift({kind: found[kind] for kind in ATTRIBUTE_FIGURES}, tuple(both.moved(shown)))
    drifts = {
        (a, b): Figure.of(values[a, b]["correlation"], own["correlation"], own["correlation"][2] + ACT_BEYOND_BAND)
        for (a, b), own in bands.items()
    }
    return Drift(now.version, before.version, attributes, drifts)


def limit_level(figures: int) -> float:
    """Return the level of the limits of some figures, of which rarely any is beyond its own without drift."""
    return 1.0 - FALSE_ALARMS / max(1, figures)


def check_comparable(old: Statistics, new: Statistics, distances: Sequence[Distance]) -> None:
    """Raise StatisticsError unless both have the same attributes, and concepts of the distances' taxonomies only.

    Raises ParameterError unless each attribute has a distance.
    """
    if new.attributes != old.attributes:
        raise StatisticsError("only statistics of the same attributes, in the same order, can be compared")
    if len(distances) != len(new.attributes):
        raise ParameterError(f"there are {len(new.attributes)} attributes and {len(distances)} distances")
    for name, d in zip(new.attributes, distances, strict=True):
        named = {concept for each in (old, new) for concept in (each.mean[name], *each.values.get(name, ()))}
        if missing := sum(concept not in d.taxonomy for concept in named):
            raise StatisticsError(
                f"the statistics of {name} name {missing} concepts that its taxonomy does not hold: "
                "they were computed with another ontology or root"
            )


def changes(
    old: Statistics, new: Statistics, distances: Sequence[Distance], growth: Mapping[str, float] | None = None
) -> dict[tuple[str, ...], dict[str, float]]:
    """Return by how much two statistics differ, by the names of an attribute or of a pair.

    Of an attribute, ``mean``: sd(sMean, sMean′), and ``variance``: |sVar′ − growth·sVar|. Of a pair, ``correlation``:
    |ΔsdCor|.
    """
    names, factors = old.attributes, growth or {}
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for name, d in zip(names, distances, strict=True):
        variance = abs(new.variance[name] - factors.get(name, 1.0) * old.variance[name])
        found[name,] = {"mean": d(new.mean[name], old.mean[name]), "variance": variance}
    for i, j in combinations(range(len(names)), 2):
        found[names[i], names[j]] = {"correlation": float(new.correlation_change(old)[i, j])}
    return found


def null_bands(
    windows: Sequence[Windows], counts: Counts | None, level: float
) -> dict[tuple[str, ...], dict[str, Band]]:
    """Return the null bands of ``changes``; ``counts``: those of the newer window, without which no pair has one."""
    found: dict[tuple[str, ...], dict[str, Band]] = {}
    for each in windows:
        found[each.name,] = {kind: band(draws, level) for kind, draws in each.moments().items()}
    if counts is not None:
        for (i, j), pair in counts.pairs.items():
            own = correlation_band(windows[i], windows[j], pair, counts.records, level)
            found[windows[i].name, windows[j].name] = {"correlation": own}
    return found


def band(draws: Float64Array, level: float) -> Band:
    """Return the usual, rare and greatest size of a figure from what it is without drift. No limit is below a draw."""
    usual, rare, most = np.quantile(draws, [0.95, 0.99, 1.0], method="higher").tolist()
    return usual, rare, max(gamma_quantile(draws, level), most)


def correlation_band(a: Windows, b: Windows, pair: SparseCounts, records: int, level: float) -> Band:
    """Return the band of the difference of sdCor. The elements of an array are not independent: records count."""
    if not pair.rows:
        return 1.0, 1.0, 1.0
    share = min(1.0, pair.rows / max(1, records))
    bias, deviation = correlation_null(pair, a.d, b.d, *(max(1.0, share * size) for size in a.records))
    usual, rare, limit = (bias + NormalDist().inv_cdf(0.5 + part / 2) * deviation for part in (0.95, 0.99, level))
    return usual, rare, limit


class Windows:
    """The values of an attribute in two windows, which is all that its figures depend on.

    ``positions``: (k,) int32, ascending, the concepts of either window. ``counts``: (2, k) int64, older window first;
    ``draws``: (draws, 2, k), the same of random divisions. ``records``: the numbers of events.
    """

    def __init__(self, name: str, before: Statistics, now: Statistics, d: Distance) -> None:
        """Raises StatisticsError if the counts of values are missing."""
        both = [statistics.values.get(name, {}) for statistics in (before, now)]
        if not all(both):
            raise StatisticsError(f"the statistics of {name} have no counts of values: compute them again")
        self.name, self.d, self.records, tau = name, d, (before.records, now.records), d.taxonomy
        self._means, every = tau.encode([before.mean[name], now.mean[name]]), np.zeros((2, len(tau)), np.int64)
        for counts, window in zip(every, both, strict=True):
            counts[tau.encode([*window])] = [*window.values()]
        self.positions: Int32Array = np.flatnonzero(every.any(axis=0)).astype(np.int32)
        self.counts: Int64Array = every[:, self.positions]
        rng, total = np.random.default_rng([before.version, now.version]), self.counts.sum(axis=0)
        older = rng.multivariate_hypergeometric(total, int(self.counts[0].sum()), DRAWS, method="marginals")
        self.draws = np.stack([older, total - older], axis=1)

    def shares(self, novel: BoolArray, level: float, least: int) -> dict[str, Figure]:
        """Return the figures of shares.

        * ``novel``: (k,) which concepts had not occurred. ``level``: that of the limits. ``least``: of ``merged``.
        """
        figures = {}
        for kind, labels in (("blocks", self.blocks), ("codes", self.positions)):
            group = merged(labels, self.counts, max(LEAST_EXPECTED, least))
            own, drawn = by_group(group, self.counts), by_group(group, self.draws)
            for name, measure in (("psi", stability_index), ("divergence", jensen_shannon)):
                key = f"{name}_{kind}"
                figures[key] = Figure.of(float(measure(own)), band(measure(drawn), level), ACT.get(key, math.inf))
        distances = self.d.matrix(self.positions).astype(np.float32)
        energy = float(energy_distance(self.counts[None], distances)[0])
        figures["energy"] = Figure.of(energy, band(energy_distance(self.draws, distances), level))
        drawn_novel = (shares_of(self.draws)[:, 1] * (self.draws[:, 0] == 0)).sum(axis=1)
        share = float(shares_of(self.counts)[1] @ novel)
        figures["novel"] = Figure.of(share, band(drawn_novel, level), ACT["novel"])
        return figures

    @cached_property
    def blocks(self) -> Int32Array:
        """(k,) int32: the block of each concept; of several, the first one."""
        owner, block = self.d.taxonomy.ancestors_at(self.positions, BLOCK_DEPTH)
        return block[np.unique(owner, return_index=True)[1]]

    def moments(self) -> dict[str, Float64Array]:
        """Return (draws,) the differences of sMean and of sVar in the random divisions.

        The sMean of a division is an ancestor of a frequent value.
        """
        tau, often = self.d.taxonomy, np.argsort(-self.counts.sum(axis=0), kind="stable")[:FREQUENT]
        candidates = np.union1d(self._means, tau.closure.above(self.positions[often])[1])
        to_values, among = self.d.between(self.positions, candidates), self.d.matrix(candidates)
        shares = shares_of(self.draws)  # tensordot makes one product of matrices of them, instead of one a division
        mean = np.argmin(np.tensordot(shares, to_values, 1), axis=2)
        squares = np.tensordot(shares, to_values**2, 1)
        variances = np.take_along_axis(squares, mean[..., None], axis=2)[..., 0]
        return {"mean": among[mean[:, 0], mean[:, 1]], "variance": abs(variances[:, 1] - variances[:, 0])}

    def moved(self, least: int) -> Iterator[Moved]:
        """Yield the classes that moved most, of those with ``least`` values in either window. Fewer count as 0."""
        for level, labels in (("blocks", self.blocks), ("codes", self.positions)):
            classes, group = np.unique(labels, return_inverse=True)
            counts = by_group(group, self.counts)
            seen = np.where(counts < least, 0, counts) / self.counts.sum(axis=1)[:, None]
            change = abs(seen[1] - seen[0])
            most = [i for i in np.argsort(-change, kind="stable")[:MOST_MOVED].tolist() if change[i] > 0]
            for concept, i in zip(self.d.taxonomy.decode(classes[most]), most, strict=True):
                label = self.d.taxonomy.label(concept)
                yield Moved(level, concept, label, float(seen[0, i]), float(seen[1, i]))  # type: ignore[arg-type]
