"""The figures of a version that the page shows: only what the metrics and the drift topic show to people as well.

The verdict leaves out an attribute that has nearly always the same value: it is guessed and repeated in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from stream_masker.core.drift import Drift
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.statistics import Statistics
from stream_masker.core.utility import Utility
from stream_masker.pipeline.calibration.publication import LabelledConcept
from stream_masker.pipeline.calibration.risk import VersionRisk
from stream_masker.pipeline.calibration.versions import DataKind, Publish
from stream_masker.pipeline.wire.statistics import StatisticsMessage
from stream_masker.summary import three_sentences


def unchanged_share(publish: Publish) -> float | None:
    """Return the share of records in which masking changes no value: measured, else expected; None if unknown."""
    if publish.effect is not None:
        return publish.effect.unchanged_records
    risk = None if publish.risk is None else publish.risk.risk
    return None if risk is None else risk.unchanged_records


def sentences_of(publish: Publish, *, incomplete: bool) -> tuple[str, str, str]:
    """Return what an attacker learns, what stays as it was, and what is kept; ``incomplete``: see ``three_sentences``.

    The last one is what the mechanism preserves in expectation, unless the means of the window may be shown.
    """
    shown = all(set(each) == set(publish.statistics.attributes) for each in publish.means.values())
    return three_sentences(
        None if publish.risk is None else publish.risk.risk,
        promise=None if publish.risk is None else publish.risk.promise,
        unchanged=None if publish.effect is None else publish.effect.unchanged,
        unchanged_records=unchanged_share(publish),
        before=publish.statistics if shown else None,
        after=publish.masked if shown else None,
        preserves=MECHANISMS[publish.message.mechanism].method_card.preserves,
        incomplete=incomplete,
    )


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

    ``certainty``: the greatest posterior of a value given all masks of its record, None if nothing is promised.
    """

    prior: float
    vulnerability: float
    given_record: float | None
    certain: float
    unchanged: float
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


def published_figures(publish: Publish, *, incomplete: bool) -> VersionFigures:
    """Return the figures of a version that was just published; ``incomplete``: see ``three_sentences``."""
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
        risk={} if publish.risk is None else _risk(publish.risk, incomplete),
        linked=None if publish.risk is None else publish.risk.linked,
        crossed=() if publish.risk is None else publish.risk.crossed,
        sentences=()
        if publish.risk is None or publish.risk.risk is None
        else sentences_of(publish, incomplete=incomplete),
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


def _risk(version: VersionRisk, incomplete: bool) -> dict[str, AttributeRiskFigures]:
    risk = version.risk
    if risk is None:
        return {}
    records = risk.record or {}
    return {
        name: AttributeRiskFigures(
            prior=value.prior,
            vulnerability=value.vulnerability,
            given_record=records[name].vulnerability if name in records else None,
            certain=value.certain,
            unchanged=risk.unchanged[name],
            certainty=records[name].greatest
            if not incomplete and version.promise is not None and name in records
            else None,
        )
        for name, value in risk.value.items()
    }


NOT_KNOWN_YET = "not known yet"

MAX_UNCHANGED, MAX_CORRELATION_ERROR = 0.6, 0.1
"""The share of the values that masking leaves as they are, and the difference of a correlation. The alerts have the
same limits by default."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question: None if it is neither yes nor no, with a word for it; and the reasons."""

    question: str
    yes: bool | None
    reasons: tuple[str, ...] = ()
    word: str = NOT_KNOWN_YET


def verdict(latest: VersionFigures) -> tuple[Answer, Answer]:
    """Return whether a version protects values, and whether it keeps their meaning."""
    risks, changes = tuple(_risks(latest)), tuple(_changes(latest))
    kept = not changes if "masked" in latest.windows else None
    return _protected(latest, risks), Answer("Meaning kept", kept, changes)


def _protected(latest: VersionFigures, risks: tuple[str, ...]) -> Answer:
    """Return whether values are protected: in every record if the mechanism promises it, or on average only."""
    if risks or not latest.risk:
        return Answer("Protected", False if risks else None, risks)
    if any(risk.certainty is None for risk in latest.risk.values()):
        return Answer("Protected", None, ("nothing is promised about single records",), "on average only")
    return Answer("Protected", True)


def _risks(latest: VersionFigures) -> Iterator[str]:
    yield from latest.crossed
    for name, risk in latest.risk.items():
        if risk.unchanged > MAX_UNCHANGED and risk.prior <= MAX_UNCHANGED:
            yield f"{risk.unchanged:.0%} of the values of {name} stay as they are"


def _changes(latest: VersionFigures) -> Iterator[str]:
    masked = latest.windows.get("masked")
    for pair, original in latest.windows["original"].correlation.items():
        after = original if masked is None else masked.correlation.get(pair, original)
        if abs(after - original) > MAX_CORRELATION_ERROR:
            yield f"sdCor of {' and '.join(pair)} is {after:.2f} instead of {original:.2f}"
