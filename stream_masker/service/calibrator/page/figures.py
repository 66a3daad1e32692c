"""The figures of a version that the page shows: only what the metrics and the drift topic show to people as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from stream_masker.core.drift import Drift
from stream_masker.core.statistics import Statistics
from stream_masker.core.utility import Utility
from stream_masker.pipeline.calibration.publication import LabelledConcept
from stream_masker.pipeline.calibration.risk import VersionRisk
from stream_masker.pipeline.calibration.versions import DataKind, Publish
from stream_masker.pipeline.wire.statistics import StatisticsMessage
from stream_masker.service.calibrator.sentences import sentences_of

PairNames: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class WindowFigures:
    """Figures of a window's original or masked data, by attribute or pair of attributes."""

    mean: Mapping[str, LabelledConcept]
    variance: Mapping[str, float]
    sigma: tuple[tuple[float, ...], ...]
    correlation: Mapping[PairNames, float]


@dataclass(frozen=True, slots=True)
class AttributeRiskFigures:
    """The risk of an attribute, in [0, 1]; ``given_record`` is None for methods that mask groups of records.

    ``repeated``: after several masks, given all masks of the records if their law is known, otherwise its own.
    ``certainty``: the greatest posterior of a value given all masks of its record, None if nothing is promised.
    """

    prior: float
    vulnerability: float
    given_record: float | None
    certain: float
    unchanged: float
    epsilon: float
    repeated: float | None = None
    certainty: float | None = None


@dataclass(frozen=True, slots=True)
class VersionFigures:
    """The figures of a version. ``published``: milliseconds since the epoch; ``rmse``: (actual, target) by attribute;
    ``divergence``: against ``previous`` and ``baseline`` by attribute; ``linked``: the share of records that are
    linked to their masks; ``crossed``: limits of the risk, as sentences; ``sentences``: what an attacker learns, what
    stays as it was and what is kept, once the risk is known.
    """

    version: int
    published: int
    source: str
    records: int
    attributes: tuple[str, ...]
    windows: Mapping[DataKind, WindowFigures]
    rmse: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    divergence: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    risk: Mapping[str, AttributeRiskFigures] = field(default_factory=dict)
    linked: float | None = None
    crossed: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()


def recovered_figures(
    message: StatisticsMessage, shown: Statistics, means: Mapping[str, LabelledConcept]
) -> VersionFigures:
    """Return the figures of a version that was read from the topic; ``shown``, ``means``: what may be published."""
    windows: dict[DataKind, WindowFigures] = {"original": _window(shown, means)}
    attributes = tuple(shown.attributes)
    return VersionFigures(message.version, message.published, message.source, shown.records, attributes, windows)


def published_figures(publish: Publish) -> VersionFigures:
    """Return the figures of a version that was just published."""
    windows: dict[DataKind, WindowFigures] = {"original": _window(publish.statistics, publish.means["original"])}
    if publish.masked is not None:
        windows["masked"] = _window(publish.masked, publish.means["masked"])
    drifts = {"previous": publish.previous, "baseline": publish.baseline}
    return VersionFigures(
        publish.message.version,
        publish.message.published,
        publish.message.source,
        publish.statistics.records,
        tuple(publish.statistics.attributes),
        windows,
        rmse={} if publish.utility is None else _rmse(publish.utility),
        divergence={against: _divergence(drift) for against, drift in drifts.items() if drift is not None},
        risk={} if publish.risk is None else _risk(publish.risk),
        linked=None if publish.risk is None else publish.risk.linked,
        crossed=() if publish.risk is None else publish.risk.crossed,
        sentences=() if publish.risk is None or publish.risk.risk is None else sentences_of(publish),
    )


def _window(shown: Statistics, means: Mapping[str, LabelledConcept]) -> WindowFigures:
    names = shown.attributes
    return WindowFigures(
        mean=means,
        variance=shown.variance,
        sigma=tuple(tuple(row) for row in shown.covariance.tolist()),
        correlation={
            (first, second): float(shown.correlation[i, j])
            for (i, first), (j, second) in combinations(enumerate(names), 2)
        },
    )


def _rmse(utility: Utility) -> dict[str, tuple[float, float]]:
    return {name: (figures.rmse_actual, figures.rmse_target) for name, figures in utility.attributes.items()}


def _divergence(drift: Drift) -> dict[str, float]:
    return {name: figures.divergence for name, figures in drift.attributes.items()}


def _risk(found: VersionRisk) -> dict[str, AttributeRiskFigures]:
    risk = found.risk
    if risk is None:
        return {}
    return {
        name: AttributeRiskFigures(
            prior=risk.prior[name],
            vulnerability=risk.vulnerability[name],
            given_record=None if risk.given_record is None else risk.given_record[name],
            certain=risk.certain[name],
            unchanged=risk.unchanged[name],
            epsilon=risk.epsilon[name],
            certainty=None if risk.certainty_given_record is None else risk.certainty_given_record[name],
            repeated=found.repeated.get("record", found.repeated.get("value", {})).get(name),
        )
        for name in risk.vulnerability
    }
