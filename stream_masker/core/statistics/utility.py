"""Utility: what masking preserves, by the metrics of 2017, section 5, from statistics before and after masking.

Masking moves means, dispersions and correlations by design. So the masks are also compared with those that the
mechanism makes of such records with the statistics of the window. What drifts from these beyond chance is worse than
the statistics explain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from stream_masker.core.batch import Distortion
from stream_masker.core.distance import Distance
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.drift import Drift, Verdict, drift_between
from stream_masker.core.statistics.summary import Statistics


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
