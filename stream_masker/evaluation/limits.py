"""The choice of a candidate within limits of utility and risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Limits:
    """What a method must meet; None for no limit.

    ``vulnerability``, ``rmse``: the most for any attribute, in [0, 1]. ``correlation``: the least share of the sdCor of
    any pair that is kept, 1 − |ΔsdCor| / sdCor, in [0, 1].
    """

    vulnerability: float | None = None
    rmse: float | None = None
    correlation: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.vulnerability, self.rmse, self.correlation))

    def __str__(self) -> str:
        named = (("vulnerability at most", self.vulnerability), ("RMSE at most", self.rmse))
        texts = [f"{name} {value:g}" for name, value in named if value is not None]
        if self.correlation is not None:
            texts.append(f"at least {self.correlation:.0%} of the correlation kept")
        return ", ".join(texts)

    def excess(self, measured: Measurement, data: DataSet) -> float:
        """Return how far a measurement is beyond the limits, as a sum of differences; 0 if it meets them."""
        lost, most_lost = 1.0 - kept_correlation(measured, data), None
        if self.correlation is not None:
            most_lost = 1.0 - self.correlation
        pairs = ((measured.vulnerability, self.vulnerability), (measured.rmse, self.rmse), (lost, most_lost))
        return sum(max(0.0, value - limit) for value, limit in pairs if limit is not None)


def kept_correlation(measured: Measurement, data: DataSet) -> float:
    """Return the least share of the sdCor of any pair that is kept, in [0, 1]; 1 without pairs that are correlated."""
    names, shares = data.attributes, [1.0]
    for (a, b), pair in measured.utility.pairs.items():
        original = float(data.statistics.correlation[names.index(a), names.index(b)])
        if original > 0.0:
            shares.append(max(0.0, 1.0 - pair.correlation_error / original))
    return min(shares)


class Recommendation(NamedTuple):
    """The best measurement within limits, or the nearest one; the number of those that meet them; and the reason."""

    best: Measurement
    meeting: int
    text: str


def recommend(measured: Sequence[Measurement], limits: Limits, data: DataSet) -> Recommendation | None:
    """Choose the best measurement within limits, or the nearest one; None without limits or without measurements.

    The best has the least RMSE if the vulnerability is limited, otherwise the least vulnerability.
    """
    if not (limits and measured):
        return None
    by_risk = limits.vulnerability is None

    def rank(m: Measurement) -> tuple[float | str, ...]:
        aims = (m.vulnerability, m.rmse) if by_risk else (m.rmse, m.vulnerability)
        return (limits.excess(m, data), *aims, m.correlation_error, m.candidate.label)

    best, meeting = min(measured, key=rank), sum(limits.excess(m, data) == 0.0 for m in measured)
    figures = (
        f"{best.candidate.label}: RMSE {best.rmse:.3f}, vulnerability {best.vulnerability:.3f}, "
        f"{kept_correlation(best, data):.0%} of the correlation kept"
    )
    if meeting:
        aim = "the least vulnerability" if by_risk else "the least RMSE"
        text = f"Recommended is {figures}. It has {aim} of the {meeting} of {len(measured)} settings within the limits"
        return Recommendation(best, meeting, f"{text} ({limits}).")
    text = f"None of the {len(measured)} settings meets the limits ({limits}). The nearest is {figures}. "
    return Recommendation(best, 0, f"{text}Relax a limit, or measure other methods.")
