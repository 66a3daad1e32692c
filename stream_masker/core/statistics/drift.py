"""Drift: by how much two windows differ, and by how much they would differ without drift.

Each figure has a *null band*, within which it stays if both windows are random samples of one law:

* The figures of an attribute are measured on random divisions of both windows' values into two. PSI and the divergence
  of large samples are multiples of χ² then (their classes have at least five expected values), and the limit is the
  quantile of a multiple of χ² with the mean and the deviation of the divisions, or the greatest of these.
* sdCor is asymptotically normal. Its deviation is that of its influence function, the limit of resampling.

A figure beyond its band is worth a look (``watch``) at a level that is corrected for the number of figures. Some
figures call for action (``act``) from a usual limit on, such as a PSI of 0.25.

Utility is what masking preserves, by the metrics of 2017, section 5, from statistics before and after masking. Masking
moves means, dispersions and correlations by design. So the masks are also compared with those that the mechanism makes
of such records with the statistics of the window. What drifts from these beyond chance is worse than the statistics
explain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, combinations
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np

from stream_masker.core.arrays import Float64Array
from stream_masker.core.batch import Distortion
from stream_masker.core.distance import Distance
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.core.statistics.windows import Band, Moved, Windows, correlation_band

Verdict: TypeAlias = Literal["none", "watch", "act"]
VERDICTS: tuple[Verdict, ...] = ("none", "watch", "act")
"""All verdicts, from the least serious one on."""

ACT: Mapping[str, float] = {"psi_blocks": 0.25, "novel": 0.1}
"""The values from which on figures of an attribute call for action."""

ACT_BEYOND_BAND = 0.05
"""How far a difference of sdCor, or a figure of masks, is beyond its band when it calls for action."""

FALSE_ALARMS = 0.05
"""The largest share of versions without drift of which any figure is beyond its band."""


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
    def of(cls, value: float, band: Band, acts: float | None = None) -> Figure:
        """Return a figure beside its band. It calls for action from ``acts`` on, or ``ACT_BEYOND_BAND`` beyond it."""
        acts = band[2] + ACT_BEYOND_BAND if acts is None else acts
        verdict: Verdict = "none" if value <= band[2] else "act" if value >= acts else "watch"
        return cls(value, *band, verdict)


@dataclass(frozen=True, slots=True)
class AttributeDrift:
    """The drift of one attribute: its figures by name.

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
    are_masks: bool = False,
) -> Drift:
    """Return the drift from one window to another. It is the same for every call with equal arguments.

    * ``distances``: one per attribute, in their order. ``counts``: those of the newer window, for the pairs.
    * ``comparisons``: with how many other windows the newer one is compared; verdicts are corrected for it.
    * ``shown``: the least number of values of a class that is named or counted on its own.
    * ``are_masks``: whether the values are masks, expected and made. Only sMean, sVar and sdCor are compared, each of
      which calls for action if it is far beyond its band.

    Raises StatisticsError if the two have different attributes or lack the counts of values, and UnknownConceptError
    for a concept that the taxonomy does not hold (of another version of the ontology).
    """
    changes = now.correlation_change(before)
    names, found = now.attributes, {} if counts is None else counts.pairs
    windows = [Windows(name, before, now, d) for name, d in zip(names, distances, strict=True)]
    measured = [dict(each.moments() if are_masks else chain(each.shares(shown), each.moments())) for each in windows]
    level = 1.0 - FALSE_ALARMS / max(1, comparisons * (sum(map(len, measured)) + len(found)))
    attributes, pairs = {}, {}
    for each, figures in zip(windows, measured, strict=True):
        judged = {
            kind: Figure.of(float(sizes[0]), band(sizes[1:], level), None if are_masks else ACT.get(kind, math.inf))
            for kind, sizes in figures.items()
        }
        attributes[each.name] = AttributeDrift(judged, () if are_masks else tuple(each.moved(shown)))
    for (i, j), pair in found.items():
        own = correlation_band(pair, windows[i], windows[j], level)
        pairs[names[i], names[j]] = Figure.of(float(changes[i, j]), own)
    return Drift(now.version, before.version, attributes, pairs)


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


@dataclass(frozen=True, slots=True)
class AttributeUtility:
    """Utility of one masked attribute A* of A; 0 is perfect for the differences (2017: section 5, metrics 1 to 3).

    mean_distance: sd(sMean(A*), sMean(A)). variance_error: |sVar(A*) - (1+α)·sVar(A)|.
    rmse_actual: √(Σ sd(a, a*)² / n) of n masked values. rmse_target: √(Σ ε² / n) of the drawn noise. Both are 0 if
    n = 0.
    """

    mean_distance: float
    variance_error: float
    rmse_actual: float
    rmse_target: float


@dataclass(frozen=True, slots=True)
class PairUtility:
    """Utility of a pair of masked attributes; 0 is perfect for the differences (2017: section 5, metrics 4 and 5).

    covariance_error: |sdCov(A*, B*) - (1+α)·sdCov(A, B)|. correlation_error: |sdCor(A*, B*) - sdCor(A, B)|. The paper
    has one α. If the attributes have different ones, 1+α is the geometric mean √((1+α_A)·(1+α_B)), because the
    covariance of two scaled variables grows by the product of their scales.
    """

    covariance_error: float
    correlation_error: float


@dataclass(frozen=True, slots=True)
class Utility:
    """Utility of a masked window. ``pairs``: attributes i < j.

    ``expected``: by how much sMean, sVar and sdCor of the masks differ from those of the masks that the mechanism is
    expected to make; None if no masks were expected.
    """

    attributes: Mapping[str, AttributeUtility]
    pairs: Mapping[tuple[str, str], PairUtility]
    expected: Drift | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the masks; None if no masks were expected."""
        return None if self.expected is None else self.expected.verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form: attributes by name, pairs as a list."""
        return {
            "verdict": self.verdict,
            "expected": None if self.expected is None else self.expected.to_dict(),
            "attributes": {name: asdict(measured) for name, measured in self.attributes.items()},
            "pairs": [{"attributes": list(pair), **asdict(measured)} for pair, measured in self.pairs.items()],
        }


def utility(
    original: Statistics,
    masked: Statistics,
    distortions: Sequence[Distortion],
    alpha: float | Mapping[str, float],
    distances: Sequence[Distance],
    *,
    expected: Statistics | None = None,
    counts: Counts | None = None,
    comparisons: int = 1,
) -> Utility:
    """Return the utility metrics of a window, from its original and masked statistics.

    * ``distortions``, ``distances``: one per attribute, in their order.
    * ``alpha``: the noise level, of all attributes or of each by name.
    * ``expected``: the statistics of masks that the mechanism makes of such records; None for no verdict. ``counts``:
      those of the masked window, for the pairs. ``comparisons``: see ``drift_between``.

    Raises StatisticsError for statistics of different attributes.
    """
    changes = masked.correlation_change(original)
    names, attributes, pairs = original.attributes, {}, {}
    growth = {name: 1.0 + (alpha[name] if isinstance(alpha, Mapping) else alpha) for name in names}
    for name, distortion, d in zip(names, distortions, distances, strict=True):
        attributes[name] = AttributeUtility(
            mean_distance=d(masked.mean[name], original.mean[name]),
            variance_error=abs(masked.variance[name] - growth[name] * original.variance[name]),
            rmse_actual=math.sqrt(distortion.squared_distance / max(1, distortion.values)),
            rmse_target=math.sqrt(distortion.squared_noise / max(1, distortion.values)),
        )
    for (i, a), (j, b) in combinations(enumerate(names), 2):
        grown = math.sqrt(growth[a] * growth[b]) * original.covariance[i, j]
        pairs[a, b] = PairUtility(float(abs(masked.covariance[i, j] - grown)), float(changes[i, j]))
    if expected is None:
        return Utility(attributes, pairs)
    drift = drift_between(expected, masked, distances, counts, comparisons=comparisons, are_masks=True)
    return Utility(attributes, pairs, drift)
