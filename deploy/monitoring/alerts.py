"""All alerts: their expressions, and the rules that Prometheus reads.

The result of each expression has the labels ``job`` and ``population``, so two installations in one Prometheus have
alerts of their own, and so have the populations of one installation. Without populations there is no such label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import yaml
from queries import by, metric

PREFIX = "StreamMasker"
RUNBOOKS = "deploy/runbooks.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When alerts fire.

    window, lag_window, idle_window: PromQL durations of the rates, of the trend of the lag, and of the time after which
    an input without records counts as idle; stale_seconds: age of statistics; divergence: Jensen-Shannon divergence, in
    [0, 1]; rmse_error: relative difference of actual and target RMSE; rejected: share of the records; truncated:
    share of the window's values; unchanged: share of the window's values that masking leaves as they are; lag:
    uncommitted records.
    """

    window: str = "5m"
    lag_window: str = "10m"
    idle_window: str = "30m"
    stale_seconds: float = 3600
    divergence: float = 0.1
    rmse_error: float = 0.2
    rejected: float = 0.01
    truncated: float = 0.05
    unchanged: float = 0.95
    lag: int = 100_000


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


def alerts(at: Thresholds) -> tuple[Alert, ...]:
    """Return all alerts with these thresholds."""
    return (*_worker_alerts(at), *_statistics_alerts(at), *_protection_alerts(at))


def _worker_alerts(at: Thresholds) -> tuple[Alert, ...]:
    records, rejected = _rate("records_in_total", at), _rate("records_rejected_total", at)
    lag = _sum("consumer_lag_assigned")
    trend = f"sum by (job, population) (deriv({metric('consumer_lag_assigned')}[{at.lag_window}]))"
    unchanged, truncated = (
        f"max by (job, population, attribute) ({metric(name)})" for name in ("unchanged_share", "truncated_share")
    )
    return (
        Alert(
            "NotMasking",
            "critical",
            "5m",
            f"max by (job, population) ({metric('held')}) == 1 or ({records} == 0 and {lag} > 0)",
            "Input waits and is not masked: a worker has no usable statistics, or no transaction is committed.",
        ),
        Alert("NoWorker", "critical", "5m", f"absent({metric('held')})", "Prometheus sees no worker."),
        Alert(
            "PartitionUnreadable",
            "critical",
            "1m",
            f"max by (job, population) ({metric('unreadable_partitions')}) > 0",
            "A partition of the input cannot be read on: its records wait, and no error passes by itself.",
        ),
        Alert(
            "RecordsSkipped",
            "critical",
            "0s",
            _increased("records_skipped_total", at),
            "Records were passed without masking: retention has deleted them, or a person has skipped them.",
        ),
        Alert(
            "RejectionRate",
            "warning",
            "10m",
            f"{rejected} / {records} > {at.rejected:g}",
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
            "ValuesUnchanged",
            "critical",
            "15m",
            f"{unchanged} > {at.unchanged:g}",
            "Masking leaves {{ $value | humanizePercentage }} of the values of {{ $labels.attribute }} as they are.",
        ),
        Alert(
            "TruncationRate",
            "warning",
            "15m",
            f"{truncated} > {at.truncated:g}",
            "The noise of {{ $labels.attribute }} is often greater than any distance, so it is truncated.",
        ),
    )


def _statistics_alerts(at: Thresholds) -> tuple[Alert, ...]:
    age = f"max by (job, population) ({metric('statistics_age_seconds')}) > {at.stale_seconds:g}"
    arriving = f"sum by (job, population) (rate({metric('records_in_total')}[{at.idle_window}])) > 0"
    divergence = f"max by ({', '.join(('job', 'population', *by('drift_divergence', 'attribute', 'against')))})"
    actual, target = (
        f"max by (job, population, attribute) ({metric('rmse', kind=kind)})" for kind in ("actual", "target")
    )
    return (
        Alert(
            "StatisticsStale",
            "warning",
            "5m",
            f"{age} and {arriving}",
            "Records arrive, and the statistics are {{ $value | humanizeDuration }} old: is the calibrator running?",
        ),
        Alert(
            "DriftOverThreshold",
            "warning",
            "10m",
            f"{divergence} ({metric('drift_divergence')}) > {at.divergence:g}",
            "The values of {{ $labels.attribute }} differ from the {{ $labels.against }} version.",
        ),
        Alert(
            "UtilityOffTarget",
            "warning",
            "30m",
            f"abs({actual} / {target} - 1) > {at.rmse_error:g}",
            "Masked values of {{ $labels.attribute }} are not as far from the originals as the noise requires.",
        ),
        Alert(
            "ConfigurationRefused",
            "warning",
            "0s",
            _increased("configuration_refused_total", at),
            "The calibrator refused a changed configuration file.",
        ),
        Alert(
            "StatisticsRefused",
            "warning",
            "0s",
            _increased("statistics_refused_total", at),
            "A process cannot use a published version. It keeps the one in force; without one, it waits.",
        ),
        Alert(
            "VersionsDiffer",
            "warning",
            "15m",
            f"max by (job, population) ({metric('statistics_version')}) > "
            f"min by (job, population) ({metric('statistics_version')})",
            "Processes use different versions of the statistics; {{ $value }} is the latest one.",
        ),
    )


def _protection_alerts(at: Thresholds) -> tuple[Alert, ...]:
    return (
        Alert(
            "RiskOverLimit",
            "critical",
            "0s",
            f"max by (job, population) ({metric('risk_limits_crossed')}) > 0",
            "The disclosure risk of the last statistics version is beyond a limit.",
        ),
        Alert(
            "StatisticsWithheld",
            "critical",
            "0s",
            _increased("statistics_withheld_total", at),
            "The calibrator withholds statistics because of their disclosure risk.",
        ),
        Alert(
            "MessagesRefused",
            "critical",
            "0s",
            _increased("messages_refused_total", at),
            "Messages of an internal topic are not authentic.",
        ),
    )


def _sum(name: str) -> str:
    return f"sum by (job, population) ({metric(name)})"


def _rate(name: str, at: Thresholds) -> str:
    return f"sum by (job, population) (rate({metric(name)}[{at.window}]))"


def _increased(name: str, at: Thresholds) -> str:
    return f"sum by (job, population) (increase({metric(name)}[{at.window}])) > 0"


def rules(found: tuple[Alert, ...]) -> Mapping[str, Any]:
    """Return the rule group of alerts, as Prometheus and a PrometheusRule have it."""
    return {"groups": [{"name": "stream-masker", "rules": [_rule(alert) for alert in found]}]}


def _rule(alert: Alert) -> Mapping[str, Any]:
    return {
        "alert": alert.full_name,
        "expr": alert.expression,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook_url": f"{RUNBOOKS}#{alert.full_name.lower()}"},
    }


def rules_yaml() -> str:
    """Return the file of the rules with the default thresholds."""
    return yaml.safe_dump(rules(alerts(Thresholds())), sort_keys=False, width=1000)
