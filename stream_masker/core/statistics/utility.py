"""Utility: what masking preserves, by the metrics of 2017, section 5, from statistics before and after masking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from stream_masker.core.batch import Distortion
from stream_masker.core.distance import Distance
from stream_masker.core.statistics.drift import check_same_attributes, mean_distance
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError


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
class Utility:
    """Utility of a masked window. ``pairs``: attributes i < j."""

    attributes: Mapping[str, AttributeUtility]
    pairs: Mapping[tuple[str, str], PairUtility]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form: attributes by name, pairs as a list."""
        return {
            "attributes": {name: asdict(measured) for name, measured in self.attributes.items()},
            "pairs": [{"attributes": list(pair), **asdict(measured)} for pair, measured in self.pairs.items()],
        }


def utility(
    original: Statistics,
    masked: Statistics,
    distortions: Sequence[Distortion],
    alpha: float | Mapping[str, float],
    distances: Sequence[Distance],
) -> Utility:
    """Return the utility metrics of a window, from its original and masked statistics.

    ``distortions``, ``distances``: one per attribute, in their order. ``alpha``: the noise level, of all attributes or
    of each by name. Raises StatisticsError for statistics of different attributes, ParameterError if an attribute lacks
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
    )


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
        mean_distance=mean_distance(attribute, masked, original, d),
        variance=masked.variance[attribute],
        variance_error=abs(masked.variance[attribute] - growth * original.variance[attribute]),
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
