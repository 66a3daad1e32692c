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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np

from stream_masker.core.arrays import Float64Array
from stream_masker.core.distance import Distance
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.windows import Moved, Windows, correlation_null
from stream_masker.errors import StatisticsError

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
        return worst(self.figures.values())

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
        figures = (figure for attribute in self.attributes.values() for figure in attribute.figures.values())
        return worst([*figures, *self.pairs.values()])

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


def worst(figures: Iterable[Figure]) -> Verdict:
    """Return the most serious verdict of some figures; ``none`` without any."""
    return max((figure.verdict for figure in figures), key=VERDICTS.index, default="none")


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
        found = {kind: Figure.of(values[name,][kind], own) for kind, own in bands.pop((name,)).items()}
        for kind, value, draws in both.shares(shown):
            found[kind] = Figure.of(value, band(draws, level), ACT.get(kind, math.inf))
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
    """Raise StatisticsError unless both have the same attributes, and concepts of the distances' taxonomies only."""
    if new.attributes != old.attributes:
        raise StatisticsError("only statistics of the same attributes, in the same order, can be compared")
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
    """Return the null bands of ``changes``; ``counts``: those of the newer window, without which no pair has one.

    The elements of an array are not independent, so that the band of a pair is that of its number of records.
    """
    found: dict[tuple[str, ...], dict[str, Band]] = {
        (each.name,): {kind: band(draws, level) for kind, draws in each.moments().items()} for each in windows
    }
    for (i, j), pair in ({} if counts is None else counts.pairs).items():
        a, b, own = windows[i], windows[j], (1.0, 1.0, 1.0)
        if counts is not None and pair.rows:
            share = min(1.0, pair.rows / max(1, counts.records))
            bias, deviation = correlation_null(pair, a.d, b.d, *(max(1.0, share * size) for size in a.records))
            usual, rare, limit = (bias + NormalDist().inv_cdf(0.5 + p / 2) * deviation for p in (0.95, 0.99, level))
            own = usual, rare, limit
        found[a.name, b.name] = {"correlation": own}
    return found


def band(draws: Float64Array, level: float) -> Band:
    """Return the usual, rare and greatest size of a figure from what it is without drift.

    The greatest is the quantile of the gamma law with the mean and deviation of the draws (Wilson and Hilferty 1931),
    or the greatest draw.
    """
    usual, rare, limit = np.quantile(draws, [0.95, 0.99, 1.0], method="higher").tolist()
    mean, deviation = float(draws.mean()), float(draws.std())
    if mean > 0.0 and deviation > 0.0:
        part = (deviation / mean) ** 2 / 9.0
        root = 1.0 - part + NormalDist().inv_cdf(level) * math.sqrt(part)
        limit = max(limit, mean * max(0.0, root) ** 3)
    return usual, rare, limit
