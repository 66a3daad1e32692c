"""Utility: what masking preserves, by the metrics of 2017, section 5, from statistics before and after masking.

Masking moves means, dispersions and correlations by design. So each metric is compared with its expectation: the
mechanism masks such records again with the statistics of the window. Around the expectation is the null band of two
random samples. Beyond it, the masks of the window are worse than its statistics explain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

from stream_masker.core.batch import Distortion
from stream_masker.core.distance import Distance
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.drift import (
    ACT_BEYOND_BAND,
    Figure,
    Verdict,
    changes,
    check_comparable,
    limit_level,
    null_bands,
    worst,
)
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.windows import Windows


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
    """Utility of a masked window. ``pairs``: attributes i < j.

    ``figures``: ``mean_distance`` and ``variance_error`` by attribute, as ``mean`` and ``variance``, and
    ``correlation_error`` by the names of a pair with a comma, as ``correlation``; each with the band that the mechanism
    is expected to stay in, and a verdict. Empty if no masks were expected.
    """

    attributes: Mapping[str, AttributeUtility]
    pairs: Mapping[tuple[str, str], PairUtility]
    figures: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict | None:
        """The most serious verdict of all figures; None if there are none."""
        figures = [figure for each in self.figures.values() for figure in each.values()]
        return worst(figures) if figures else None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form: attributes by name, pairs as a list."""
        return {
            "verdict": self.verdict,
            "figures": {name: {kind: asdict(one) for kind, one in each.items()} for name, each in self.figures.items()},
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
    * ``expected``: the statistics of masks that the mechanism makes of such records. ``counts``: those of the masked
      window. With both, the metrics have verdicts.
    * ``comparisons``: how many verdicts there are of the window; they are corrected for it.

    Raises StatisticsError for statistics of different attributes or taxonomies.
    """
    check_comparable(original, masked, distances)
    names = original.attributes
    growth = {name: 1.0 + (alpha[name] if isinstance(alpha, Mapping) else alpha) for name in names}
    found = changes(original, masked, distances, growth)
    attributes = {
        name: AttributeUtility(
            mean_distance=found[name,]["mean"],
            variance=masked.variance[name],
            variance_error=found[name,]["variance"],
            rmse_actual=math.sqrt(distortion.squared_distance / max(1, distortion.values)),
            rmse_target=math.sqrt(distortion.squared_noise / max(1, distortion.values)),
        )
        for name, distortion in zip(names, distortions, strict=True)
    }
    pairs = {}
    for (i, a), (j, b) in combinations(enumerate(names), 2):
        before, after = float(original.covariance[i, j]), float(masked.covariance[i, j])
        error = abs(after - math.sqrt(growth[a] * growth[b]) * before)
        pairs[a, b] = PairUtility(after, error, float(masked.correlation[i, j]), found[a, b]["correlation"])
    figures: dict[str, dict[str, Figure]] = {}
    if expected is not None and counts is not None:
        level = limit_level(comparisons * (2 * len(names) + len(pairs)))
        windows = [Windows(name, expected, masked, d) for name, d in zip(names, distances, strict=True)]
        usual = changes(original, expected, distances, growth)
        for which, bands in null_bands(windows, counts, level).items():
            of_which = figures[", ".join(which)] = {}
            for kind, null in bands.items():
                often, rare, limit = (usual[which][kind] + part for part in null)
                of_which[kind] = Figure.of(found[which][kind], (often, rare, limit), limit + ACT_BEYOND_BAND)
    return Utility(attributes, pairs, figures)
