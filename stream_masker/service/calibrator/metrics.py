"""The calibrator's metrics of a window: its statistics, their drift, and the utility of its masked data."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Final

from stream_masker.core.statistics.drift import VERDICTS, Drift, Utility
from stream_masker.core.statistics.summary import Statistics
from stream_masker.pipeline.messages import REFUSAL_CAUSES, Taxonomies
from stream_masker.pipeline.risk import VersionRisk
from stream_masker.pipeline.versions import DataKind, Publish
from stream_masker.service.observability.metrics import Metrics

OF_A_VERSION: Final = (
    *("svar", "sdcov", "sdcor", "smean"),
    *("drift", "drift_limit", "drift_moved", "drift_verdict", "rmse", "unchanged_share"),
)
"""The labelled metrics of a version. One without masks, or that no other precedes, does not have all of them."""


def forget_version(metrics: Metrics) -> None:
    """Remove all figures of an earlier version."""
    for name in OF_A_VERSION:
        metrics.forget(name)


def set_version_metrics(metrics: Metrics, publish: Publish, taxonomies: Taxonomies) -> None:
    """Set the metrics of a version that was just published."""
    forget_version(metrics)
    set_window_metrics(metrics, publish.shown, taxonomies)
    for attribute, share in (publish.unchanged or {}).items():
        metrics.set("unchanged_share", share, attribute=attribute)
    if publish.utility is not None:
        set_utility_metrics(metrics, publish.utility)
    for against, drift in {"previous": publish.previous, "baseline": publish.baseline}.items():
        if drift is not None:
            set_drift_metrics(metrics, drift, against)


def set_window_metrics(metrics: Metrics, windows: Mapping[DataKind, Statistics], taxonomies: Taxonomies) -> None:
    """Set sVar, sdCov with sdVar, sdCor and sMean of the original and the masked window of a published version."""
    for data, statistics in windows.items():
        for i, attribute in enumerate(statistics.attributes):
            metrics.set("svar", statistics.variance[attribute], attribute=attribute, data=data)
            variance = float(statistics.covariance[i, i])
            metrics.set("sdcov", variance, first=attribute, second=attribute, data=data)
            if mean := statistics.mean[attribute]:
                label = taxonomies[attribute].label(mean)
                metrics.set("smean", 1, attribute=attribute, data=data, concept=mean, label=label)
        for (i, first), (j, second) in combinations(enumerate(statistics.attributes), 2):
            metrics.set("sdcov", float(statistics.covariance[i, j]), first=first, second=second, data=data)
            metrics.set("sdcor", float(statistics.correlation[i, j]), first=first, second=second, data=data)
    original = windows["original"]
    metrics.set("statistics_version", original.version)
    metrics.set("window_records", original.records)


def set_drift_metrics(metrics: Metrics, drift: Drift, against: str) -> None:
    """Set the figures of the drift from the previous version, the baseline or the expected masks, and their limits."""
    figures = {(name, kind): figure for name, each in drift.attributes.items() for kind, figure in each.figures.items()}
    figures |= {(", ".join(pair), "correlation"): each for pair, each in drift.pairs.items()}
    metrics.set("drift_verdict", VERDICTS.index(drift.verdict), against=against)
    for (attribute, kind), figure in figures.items():
        metrics.set("drift", figure.value, attribute=attribute, figure=kind, against=against)
        metrics.set("drift_limit", figure.limit, attribute=attribute, figure=kind, against=against)
    for attribute, each in drift.attributes.items() if against == "baseline" else ():
        for one in each.moved:
            labels = {"attribute": attribute, "level": one.level, "concept": one.concept, "label": one.label}
            metrics.set("drift_moved", one.now - one.before, **labels)


def set_utility_metrics(metrics: Metrics, utility: Utility) -> None:
    """Set the metrics of the masked data's utility (2017: section 5); without a verdict, RMSE alone."""
    for attribute, own in utility.attributes.items():
        metrics.set("rmse", own.rmse_actual, attribute=attribute, kind="actual")
        metrics.set("rmse", own.rmse_target, attribute=attribute, kind="target")
    if utility.expected is not None:
        set_drift_metrics(metrics, utility.expected, "expected")


def set_risk_metrics(metrics: Metrics, version: VersionRisk) -> None:
    """Set the metrics of a version's disclosure risk. A figure that is not known is left out."""
    metrics.set("risk_limits_crossed", len(version.crossed))
    for attribute, value in version.risk.value.items():
        metrics.set("risk_prior", value.prior, attribute=attribute)
    for given, disclosures in {"value": version.risk.value, "record": version.risk.record or {}}.items():
        for attribute, learned in disclosures.items():
            metrics.set("risk_vulnerability", learned.vulnerability, attribute=attribute, given=given)
            metrics.set("risk_certain_share", learned.certain, attribute=attribute, given=given)


def initialise_counters(metrics: Metrics) -> None:
    """Initialise the calibrator's counters to 0, so that they are exported from the start."""
    for outcome in ("merged", "refused"):
        metrics.add("blocks_read_total", 0, outcome=outcome)
    metrics.add("statistics_withheld_total", 0)
    metrics.add("statistics_refused_total", 0)
    for topic in ("calibration", "statistics"):
        for cause in REFUSAL_CAUSES:
            metrics.add("messages_refused_total", 0, topic=topic, cause=cause)
