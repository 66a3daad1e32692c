"""The choice of a candidate within limits of utility and risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_masker.errors import ParameterError
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.measurement import Measurement
from stream_masker.evaluation.report.overview import risk_figure
from stream_masker.evaluation.report.page import ReportSection, ReportTable, html_page

SEARCHED_ALPHAS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0)
"""The noise levels of a search."""

SHOWN_CANDIDATES = 12


@dataclass(frozen=True, slots=True)
class Limits:
    """What a method must meet; None for no limit.

    ``vulnerability``, ``rmse``: the most for any attribute. ``correlation``: the least share of the sdCor of any pair
    that is kept, 1 − |ΔsdCor| / sdCor, in [0, 1]. Raises ParameterError without any limit.
    """

    vulnerability: float | None = None
    rmse: float | None = None
    correlation: float | None = None

    def __post_init__(self) -> None:
        if self.vulnerability is None and self.rmse is None and self.correlation is None:
            raise ParameterError("there is no limit: give a greatest vulnerability or RMSE, or a least correlation")

    def excess(self, m: Measurement, data: DataSet) -> float:
        """Return how far a measurement is beyond the limits, as a sum of differences; 0 if it meets them."""
        return (
            _above(m.vulnerability, self.vulnerability)
            + _above(m.rmse, self.rmse)
            + _above(-kept_correlation(m, data), None if self.correlation is None else -self.correlation)
        )

    def __str__(self) -> str:
        named = (("vulnerability at most", self.vulnerability), ("RMSE at most", self.rmse))
        texts = [f"{name} {value:g}" for name, value in named if value is not None]
        if self.correlation is not None:
            texts.append(f"at least {self.correlation:g} of the correlation kept")
        return ", ".join(texts)


def _above(value: float, limit: float | None) -> float:
    return 0.0 if limit is None else max(0.0, value - limit)


def kept_correlation(m: Measurement, data: DataSet) -> float:
    """Return the least share of the sdCor of any pair that is kept, in [0, 1]; 1 without pairs that are correlated."""
    names, shares = data.attributes, [1.0]
    for (a, b), pair in m.utility.pairs.items():
        original = float(data.statistics.correlation[names.index(a), names.index(b)])
        if original > 0.0:
            shares.append(max(0.0, 1.0 - pair.correlation_error / original))
    return min(shares)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A measurement that meets the limits, or the nearest one.

    ``met``: whether it meets them. ``meeting``: the number of measurements that do. ``ranked``: all, the best first.
    """

    limits: Limits
    best: Measurement
    met: bool
    meeting: int
    ranked: tuple[Measurement, ...]

    def text(self, data: DataSet) -> str:
        """Return the recommendation and its reason, as a paragraph."""
        best = self.best
        figures = (
            f"RMSE {best.rmse:.3f}, vulnerability {best.vulnerability:.3f}, {kept_correlation(best, data):.0%} of the "
            f"correlation kept"
        )
        if not self.met:
            return (
                f"No setting of the {len(self.ranked)} measured meets the limits ({self.limits}). The nearest is "
                f"{best.candidate.label}: {figures}. Relax a limit, or measure other methods."
            )
        aim = "the least RMSE" if self.limits.vulnerability is not None else "the least vulnerability"
        return (
            f"{best.candidate.label} is recommended: {figures}. {self.meeting} of {len(self.ranked)} settings measured "
            f"meet the limits ({self.limits}); it has {aim} of them. Vulnerability is the chance that an "
            "attacker guesses a value right who knows the method and the distribution of the original records, but not "
            "the secret; RMSE is the root mean square distance of masked values. Both are those of the worst attribute."
        )


def recommend(measured: Sequence[Measurement], limits: Limits, data: DataSet) -> Recommendation:
    """Choose a measurement.

    Among those that meet the limits, it is the one with the least RMSE if the vulnerability is limited, otherwise the
    one with the least vulnerability. Without any it is the nearest one. Raises ParameterError if nothing was measured.
    """
    if not measured:
        raise ParameterError("no method that was to be measured can mask these data as configured")
    ranked = sorted(measured, key=lambda m: (limits.excess(m, data), *_aims(m, limits), m.candidate.label))
    meeting = sum(limits.excess(m, data) == 0.0 for m in measured)
    return Recommendation(limits, ranked[0], meeting > 0, meeting, tuple(ranked))


def _aims(m: Measurement, limits: Limits) -> tuple[float, ...]:
    aims = (m.rmse, m.vulnerability) if limits.vulnerability is not None else (m.vulnerability, m.rmse)
    return (*aims, m.correlation_error)


def recommendation_html(recommendation: Recommendation, data: DataSet) -> str:
    """Return the recommendation as an HTML page: the paragraph, the picture with the limits, and the best
    candidates."""
    figure = risk_figure(recommendation.ranked, (recommendation.limits.rmse, recommendation.limits.vulnerability))
    header = ("method", "RMSE", "vulnerability", "correlation kept", "beyond the limits")
    rows = tuple(
        (
            m.candidate.label,
            f"{m.rmse:.3f}",
            f"{m.vulnerability:.3f}",
            f"{kept_correlation(m, data):.3f}",
            f"{recommendation.limits.excess(m, data):.3f}",
        )
        for m in recommendation.ranked[:SHOWN_CANDIDATES]
    )
    table = ReportTable("The best settings", header, rows)
    return html_page("Recommendation", (recommendation.text(data),), [ReportSection("Settings", (), (figure, table))])
