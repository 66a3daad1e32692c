"""All alerts: their expressions, and the rules that Prometheus reads.

The result of each expression has the labels ``namespace`` and ``job``, so two installations in one Prometheus have
alerts of their own. Outside Kubernetes there is no namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import yaml
from queries import by, metric

PREFIX = "StreamMasker"
RUNBOOKS = "docs/operations.md"
"""The page with a section for each alert."""

MARK = "<<{}>>"
"""A mark that the chart replaces by a value."""

REPORTED_ELSEWHERE = "brokers|statistics"
"""Components of a process that have alerts of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When alerts fire, as texts of PromQL.

    * ``window``, ``lag_window``: durations of the rates, and of the trend of the lag. ``idle_window``: an input without
      records for this duration is idle. ``remembered``: an installation without any process counts as gone for this
      duration, and as removed after it.
    * ``stale_seconds``: age of statistics. ``lag``: uncommitted records. ``divergence``: Jensen-Shannon divergence, in
      [0, 1]. ``rmse_error``: relative difference of actual and target RMSE.
    * Shares, in [0, 1]: ``rejected`` of the records, ``truncated`` and ``unchanged`` of the window's values.
    """

    window: str = "5m"
    lag_window: str = "10m"
    idle_window: str = "30m"
    remembered: str = "1d"
    stale_seconds: str = "3600"
    divergence: str = "0.1"
    rmse_error: str = "0.2"
    rejected: str = "0.01"
    truncated: str = "0.05"
    unchanged: str = "0.6"
    lag: str = "100000"


def camel_case(name: str) -> str:
    """Return the name of a threshold in the values of the chart."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


MARKED = Thresholds(**{field.name: MARK.format(camel_case(field.name)) for field in fields(Thresholds)})


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert. ``lasts``: how long its expression holds before it fires, as a PromQL duration."""

    name: str
    severity: Literal["critical", "warning"]
    lasts: str
    expression: str
    summary: str

    @property
    def full_name(self) -> str:
        """The name in Prometheus, which is also the heading of its runbook."""
        return PREFIX + self.name


@dataclass(frozen=True, slots=True)
class Expressions:
    """Parts of expressions. ``matchers``: in PromQL, of all series that alerts look at; empty for all series."""

    at: Thresholds
    matchers: str = ""

    def series(self, name: str, *matchers: str, **labels: str) -> str:
        """Return the selector of a metric (``queries.metric``)."""
        return metric(name, *matchers, *([self.matchers] if self.matchers else []), **labels)

    def most(self, name: str, *labels: str, **selected: str) -> str:
        """Return the maximum in each installation, and by labels of the metric."""
        return f"max by ({_joined(*by(name, *labels))}) ({self.series(name, **selected)})"

    def least(self, name: str) -> str:
        return f"min by ({_joined()}) ({self.series(name)})"

    def sum(self, name: str) -> str:
        return f"sum by ({_joined()}) ({self.series(name)})"

    def rate(self, name: str, window: str) -> str:
        return f"sum by ({_joined()}) (rate({self.series(name)}[{window}]))"

    def increased(self, name: str) -> str:
        return f"sum by ({_joined()}) (increase({self.series(name)}[{self.at.window}])) > 0"

    def gone(self, process: str) -> str:
        """Return the installations without a process of a kind, of those that had any process lately; all of them, if
        Prometheus knows none."""
        remembered = f"max_over_time({self.series('build_info')}[{self.at.remembered}])"
        running = self.series("build_info", process=process)
        return (
            f"max by (namespace, job) ({remembered}) unless max by (namespace, job) ({running}) "
            f"or on () absent({running})"
        )

    def not_ready(self, *matchers: str, **labels: str) -> str:
        """Return the components that are the reason why a process is not ready."""
        return f"max by ({_joined('component')}) ({self.series('not_ready_because', *matchers, **labels)}) == 1"


def _joined(*labels: str) -> str:
    return ", ".join(("namespace", "job", *labels))


def alerts(at: Thresholds, matchers: str = "") -> tuple[Alert, ...]:
    """Return all alerts with these thresholds, for the series that ``matchers`` select."""
    found = Expressions(at, matchers)
    return (*_process_alerts(found), *_record_alerts(found), *_statistics_alerts(found), *_protection_alerts(found))


def _process_alerts(found: Expressions) -> tuple[Alert, ...]:
    return (
        Alert("NoWorker", "critical", "5m", found.gone("worker"), "No worker runs, so nothing is masked."),
        Alert(
            "NoCalibrator",
            "warning",
            "5m",
            found.gone("calibrator"),
            "No calibrator runs: statistics become old, and their risk is not computed.",
        ),
        Alert("NoBroker", "critical", "1m", found.not_ready(component="brokers"), "No broker answers a process."),
        Alert(
            "NotReady",
            "warning",
            "15m",
            found.not_ready(f'component!~"{REPORTED_ELSEWHERE}"'),
            "A process is not ready; the component is {{ $labels.component }}.",
        ),
    )


def _record_alerts(found: Expressions) -> tuple[Alert, ...]:
    at = found.at
    records, rejected = (found.rate(name, at.window) for name in ("records_in_total", "records_rejected_total"))
    lag = found.sum("consumer_lag_assigned")
    trend = f"sum by ({_joined()}) (deriv({found.series('consumer_lag_assigned')}[{at.lag_window}]))"
    return (
        Alert(
            "NotMasking",
            "critical",
            "5m",
            f"{found.most('held')} == 1 or ({records} == 0 and {lag} > 0)",
            "Input waits and is not masked: a worker has no usable statistics, or no transaction is committed.",
        ),
        Alert(
            "SecretsDiffer",
            "critical",
            "1m",
            f"{found.most('held_because', reason='other_secret')} == 1",
            "A worker has another masking secret than the published statistics are for, so it masks nothing.",
        ),
        Alert(
            "PartitionUnreadable",
            "critical",
            "1m",
            f"{found.most('unreadable_partitions')} > 0",
            "A partition of the input cannot be read on: its records wait, and no error passes by itself.",
        ),
        Alert(
            "RecordsSkipped",
            "critical",
            "0s",
            found.increased("records_skipped_total"),
            "Records were passed without masking: retention has deleted them.",
        ),
        Alert(
            "RejectionRate",
            "warning",
            "10m",
            f"{rejected} / {records} > {at.rejected}",
            "{{ $value | humanizePercentage }} of the records are rejected.",
        ),
        Alert(
            "LagGrowing",
            "warning",
            "15m",
            f"{trend} > 0 and {lag} > {at.lag}",
            "The workers do not keep up with the input.",
        ),
        Alert(
            "TruncationRate",
            "warning",
            "15m",
            f"{found.most('truncated_share', 'attribute')} > {at.truncated}",
            "The noise of {{ $labels.attribute }} is often greater than any distance, so it is truncated.",
        ),
    )


def _statistics_alerts(found: Expressions) -> tuple[Alert, ...]:
    """A mechanism with a promise for every record moves values farther than the target where the promise needs it."""
    at = found.at
    actual, target = (found.most("rmse", "attribute", kind=kind) for kind in ("actual", "target"))
    promise = found.most("risk_certainty", "attribute", given="record")
    version = "statistics_version"
    return (
        Alert(
            "StatisticsStale",
            "warning",
            "5m",
            f"{found.most('statistics_age_seconds')} > {at.stale_seconds} "
            f"and {found.rate('records_in_total', at.idle_window)} > 0",
            "Records arrive, and the statistics are {{ $value | humanizeDuration }} old: is the calibrator running?",
        ),
        Alert(
            "DriftOverThreshold",
            "warning",
            "10m",
            f"{found.most('drift_divergence', 'attribute', 'against')} > {at.divergence}",
            "The values of {{ $labels.attribute }} differ from the {{ $labels.against }} version.",
        ),
        Alert(
            "UtilityOffTarget",
            "warning",
            "30m",
            f"1 - {actual} / ({target} > 0) > {at.rmse_error} "
            f"or {actual} / ({target} > 0) - 1 > {at.rmse_error} unless {promise}",
            "Masked values of {{ $labels.attribute }} are not as far from the originals as the noise requires.",
        ),
        Alert(
            "StatisticsRefused",
            "warning",
            "0s",
            found.increased("statistics_refused_total"),
            "A process cannot use a published version. It keeps the one in force; without one, it waits.",
        ),
        Alert(
            "VersionsDiffer",
            "warning",
            "15m",
            f"{found.most(version)} > {found.least(version)}",
            "Processes use different versions of the statistics; {{ $value }} is the latest one.",
        ),
    )


def _protection_alerts(found: Expressions) -> tuple[Alert, ...]:
    """Values of an attribute that has nearly always the same one are repeated, whatever masking does."""
    at, prior = found.at, found.most("risk_prior", "attribute")
    return (
        Alert(
            "RiskOverLimit",
            "critical",
            "0s",
            f"{found.most('risk_limits_crossed')} > 0",
            "The disclosure risk of the last statistics version is beyond a limit.",
        ),
        Alert(
            "ValuesUnchanged",
            "critical",
            "15m",
            f"{found.most('unchanged_share', 'attribute')} > {at.unchanged} unless {prior} > {at.unchanged}",
            "Masking leaves {{ $value | humanizePercentage }} of the values of {{ $labels.attribute }} as they are.",
        ),
        Alert(
            "StatisticsWithheld",
            "critical",
            "0s",
            found.increased("statistics_withheld_total"),
            "The calibrator withholds statistics because of their disclosure risk.",
        ),
        Alert(
            "MessagesRefused",
            "critical",
            "0s",
            found.increased("messages_refused_total"),
            "Messages of an internal topic are not authentic.",
        ),
    )


def rules(found: tuple[Alert, ...]) -> Mapping[str, Any]:
    """Return the rule group of alerts, as Prometheus and a PrometheusRule have it."""
    return {"groups": [{"name": "stream-masker", "rules": [_rule(alert) for alert in found]}]}


def _rule(alert: Alert) -> Mapping[str, Any]:
    return {
        "alert": alert.full_name,
        "expr": alert.expression,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": f"{RUNBOOKS}#{alert.full_name.lower()}"},
    }


def rules_yaml() -> str:
    """Return the file of the rules with the default thresholds, for all series."""
    return _text(alerts(Thresholds()))


def marked_rules_yaml() -> str:
    """Return the file from which the chart makes its rules, with marks for thresholds and matchers."""
    return _text(alerts(MARKED, MARK.format("selector")))


def _text(found: tuple[Alert, ...]) -> str:
    return yaml.safe_dump(rules(found), sort_keys=False, width=1000)
