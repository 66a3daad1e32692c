"""Utility: what masking preserves, by the metrics of 2017, section 5, from statistics before and after masking.

Masking moves means, dispersions and correlations by design. So a metric has a null band around what the mechanism is
expected to do, from masks that it makes of such records again: beyond the band, the masks of a window are worse than
the statistics of the window would have made them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from stream_masker.core.batch import Distortion
from stream_masker.core.distance import Distance
from stream_masker.core.numeric import NumericStatistics
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.drift import (
    ACT_BEYOND_BAND,
    Figure,
    Verdict,
    Windows,
    band,
    check_same_attributes,
    correlation_band,
    limit_level,
    mean_distance,
    worst,
)
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError, StatisticsError


@dataclass(frozen=True, slots=True)
class AttributeUtility:
    """Utility of one masked attribute A* of A; 0 is perfect for the differences (2017: section 5, metrics 1 to 3).

    mean_distance: sd(sMean(A*), sMean(A)). variance: sVar(A*). variance_error: |sVar(A*) - (1+α)·sVar(A)|.
    rmse_actual: √(Σ sd(a, a*)² / n) of n masked values. rmse_target: √(Σ ε² / n) of the drawn noise. Both are 0 if
    n = 0.
    """

    mean_distance: float
    variance: float
    variance_error: float
    rmse_actual: float
    rmse_target: float


@dataclass(frozen=True, slots=True)
class PairUtility:
    """Utility of a pair of masked attributes; 0 is perfect for the differences (2017: section 5, metrics 4 and 5).

    covariance: sdCov(A*, B*). covariance_error: |sdCov(A*, B*) - (1+α)·sdCov(A, B)|. correlation: sdCor(A*, B*).
    correlation_error: |sdCor(A*, B*) - sdCor(A, B)|. The paper has one α. If the attributes have different ones, 1+α is
    the geometric mean √((1+α_A)·(1+α_B)), because the covariance of two scaled variables grows by the product of their
    scales.
    """

    covariance: float
    covariance_error: float
    correlation: float
    correlation_error: float


@dataclass(frozen=True, slots=True)
class NumericUtility:
    """Utility of a masked numeric attribute X* of X (2017: section 3).

    mean_difference: |μ* − μ| / σ. variance_ratio: σ*² / σ², which is 1 + α for noise of level α (equation 4), and 1
    with Kim's correction. Both are 0 if X is constant.
    """

    mean_difference: float
    variance_ratio: float


@dataclass(frozen=True, slots=True)
class NumericPairUtility:
    """Utility of a pair of masked numeric attributes.

    correlation: Pearson's ρ*; 0 for a constant attribute. correlation_error: |ρ* − ρ|, which is 0 for correlated noise
    (2017: equation 8).
    """

    correlation: float
    correlation_error: float


@dataclass(frozen=True, slots=True)
class Utility:
    """Utility of a masked window. ``pairs``, ``numeric_pairs``: attributes i < j.

    ``figures``: ``mean_distance`` and ``variance_error`` by attribute, as ``mean`` and ``variance``, and
    ``correlation_error`` by the names of a pair with a comma, as ``correlation``; each with the band that the mechanism
    is expected to stay in, and a verdict. Empty if no masks were expected.
    """

    attributes: Mapping[str, AttributeUtility]
    pairs: Mapping[tuple[str, str], PairUtility]
    numeric: Mapping[str, NumericUtility] = field(default_factory=dict)
    numeric_pairs: Mapping[tuple[str, str], NumericPairUtility] = field(default_factory=dict)
    figures: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict | None:
        """The most serious verdict of all figures; None if there are none."""
        verdicts = [figure.verdict for each in self.figures.values() for figure in each.values()]
        return worst(verdicts) if verdicts else None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form: attributes by name, pairs as a list; without numeric keys if there are
        none."""
        figures = {name: _by_name(each) for name, each in self.figures.items()}
        data: dict[str, Any] = {"verdict": self.verdict, "figures": figures}
        data |= {"attributes": _by_name(self.attributes), "pairs": _by_pair(self.pairs)}
        if self.numeric:
            data |= {"numeric": _by_name(self.numeric), "numeric_pairs": _by_pair(self.numeric_pairs)}
        return data


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
    * ``expected``: the statistics of masks that the mechanism makes of such records. ``counts``: those of the masked
      window. With both, the metrics have verdicts.
    * ``comparisons``: how many verdicts there are of the window; they are corrected for it.

    Raises StatisticsError for statistics of different attributes, ParameterError if an attribute lacks
    a distortion, a distance or a noise level.
    """
    check_same_attributes(masked, original, distances)
    names = original.attributes
    if len(distortions) != len(names):
        raise ParameterError(f"there are {len(names)} attributes and {len(distortions)} distortions")
    growth = {a: 1.0 + level for a, level in _levels(alpha, names).items()}
    return Utility(
        attributes={
            a: _attribute_utility(a, original, masked, distortion, growth[a], d)
            for a, distortion, d in zip(names, distortions, distances, strict=True)
        },
        pairs={
            (names[i], names[j]): _pair_utility(i, j, original, masked, math.sqrt(growth[names[i]] * growth[names[j]]))
            for i, j in combinations(range(len(names)), 2)
        },
        **_numeric_utility(original.numeric, masked.numeric),
        figures={} if expected is None or counts is None else dict(
            _figures(original, masked, expected, counts, growth, distances, comparisons)
        ),
    )  # fmt: skip


def _figures(
    original: Statistics,
    masked: Statistics,
    expected: Statistics,
    counts: Counts,
    growth: Mapping[str, float],
    distances: Sequence[Distance],
    comparisons: int,
) -> Iterator[tuple[str, dict[str, Figure]]]:
    """Yield the figures by attribute, and by pair. A metric is expected to be at most that of the expected masks and
    their distance from the masks, whose band is that of two random samples."""
    names, pairs = original.attributes, list(combinations(range(len(original.attributes)), 2))
    level = limit_level(comparisons * (2 * len(names) + len(pairs)))
    for name, d in zip(names, distances, strict=True):
        draws = Windows(name, expected, masked, d).moments()
        figures = {}
        for kind, metric in (("mean", _mean_error), ("variance", _variance_error)):
            made, should = (metric(name, original, each, growth[name], d) for each in (masked, expected))
            figures[kind] = _figure(made, should, band(draws[kind], level))
        yield name, figures
    for i, j in pairs:
        null = correlation_band(expected, masked, counts, (i, j), distances, level)
        made, should = (abs(float(each.correlation[i, j] - original.correlation[i, j])) for each in (masked, expected))
        yield f"{names[i]}, {names[j]}", {"correlation": _figure(made, should, null)}


def _figure(value: float, expected: float, null: tuple[float, float, float]) -> Figure:
    usual, rare, limit = (expected + part for part in null)
    return Figure.of(value, (usual, rare, limit), limit + ACT_BEYOND_BAND)


def _mean_error(name: str, original: Statistics, masked: Statistics, growth: float, d: Distance) -> float:
    return mean_distance(name, masked, original, d)


def _variance_error(name: str, original: Statistics, masked: Statistics, growth: float, d: Distance) -> float:
    return abs(masked.variance[name] - growth * original.variance[name])


def _by_name(utilities: Mapping[str, Any]) -> dict[str, Any]:
    return {name: asdict(measured) for name, measured in utilities.items()}


def _by_pair(utilities: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    return [{"attributes": list(pair), **asdict(measured)} for pair, measured in utilities.items()]


def _numeric_utility(original: NumericStatistics | None, masked: NumericStatistics | None) -> dict[str, Any]:
    if original is None or masked is None or masked.names != original.names:
        if original is not masked:
            raise StatisticsError("the statistics are of different numeric attributes")
        return {}
    names = original.names
    deviation = np.sqrt(np.diag(original.covariance))
    before, after = original.correlation, masked.correlation
    return {
        "numeric": {
            name: NumericUtility(
                mean_difference=_ratio(abs(float(masked.mean[i] - original.mean[i])), float(deviation[i])),
                variance_ratio=_ratio(float(masked.covariance[i, i]), float(original.covariance[i, i])),
            )
            for i, name in enumerate(names)
        },
        "numeric_pairs": {
            (names[i], names[j]): NumericPairUtility(float(after[i, j]), abs(float(after[i, j] - before[i, j])))
            for i, j in combinations(range(len(names)), 2)
        },
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _levels(alpha: float | Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    levels = dict(alpha) if isinstance(alpha, Mapping) else dict.fromkeys(names, alpha)
    missing = [name for name in names if name not in levels]
    if missing:
        raise ParameterError(f"alpha gives no level for {', '.join(missing)}")
    return levels


def _attribute_utility(
    attribute: str, original: Statistics, masked: Statistics, distortion: Distortion, growth: float, d: Distance
) -> AttributeUtility:
    return AttributeUtility(
        mean_distance=_mean_error(attribute, original, masked, growth, d),
        variance=masked.variance[attribute],
        variance_error=_variance_error(attribute, original, masked, growth, d),
        rmse_actual=_root_mean(distortion.squared_distance, distortion.values),
        rmse_target=_root_mean(distortion.squared_noise, distortion.values),
    )


def _pair_utility(i: int, j: int, original: Statistics, masked: Statistics, growth: float) -> PairUtility:
    covariance, correlation = float(masked.covariance[i, j]), float(masked.correlation[i, j])
    return PairUtility(
        covariance=covariance,
        covariance_error=abs(covariance - growth * float(original.covariance[i, j])),
        correlation=correlation,
        correlation_error=abs(correlation - float(original.correlation[i, j])),
    )


def _root_mean(total: float, n: int) -> float:
    return math.sqrt(total / n) if n else 0.0
