"""All alerts: their expressions, and the rules that Prometheus reads.

The result of each expression has the labels ``namespace`` and ``job``, so two installations in one Prometheus have
alerts of their own. Outside Kubernetes there is no namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import yaml
from queries import checked, metric

from stream_masker.core.statistics.drift import VERDICTS

PREFIX = "StreamMasker"
RUNBOOKS = "docs/operations.md"
"""The page with a section for each alert."""

MARK = "<<{}>>"
"""A mark that the chart replaces by a value."""

REPORTED_ELSEWHERE = "brokers|statistics"
"""Components of a process that have alerts of their own."""

TREND, IDLE, REMEMBERED, LASTING = "10m", "30m", "1d", "1h"
"""Ranges: of the trend of the lag; without records, after which an input is idle; how long an installation without any
process counts as gone, before it counts as removed; and after which drift lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When alerts fire, as texts of PromQL.

    ``window``: the range of the rates. ``stale_seconds``: age of statistics. ``lag``: uncommitted records.
    Shares, in [0, 1]: ``rejected`` of the records, ``unchanged`` of the window's values.
    """

    window: str = "5m"
    stale_seconds: str = "3600"
    rejected: str = "0.01"
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
        return f"max by ({_joined(*checked(name, *labels))}) ({self.series(name, **selected)})"

    def sum(self, name: str) -> str:
        """Return the sum in each installation."""
        return f"sum by ({_joined()}) ({self.series(name)})"

    def rate(self, name: str, window: str) -> str:
        """Return the rate of a counter in each installation."""
        return f"sum by ({_joined()}) (rate({self.series(name)}[{window}]))"

    def increased(self, name: str) -> str:
        """Return the installations in which a counter has increased."""
        return f"sum by ({_joined()}) (increase({self.series(name)}[{self.at.window}])) > 0"

    def gone(self, process: str) -> str:
        """Return the installations without a process of a kind, of those that had any process lately; all of them, if
        Prometheus knows none."""
        remembered = f"max_over_time({self.series('build_info')}[{REMEMBERED}])"
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
    return (*_process_alerts(found), *_record_alerts(found), *_statistics_alerts(found))


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
    lag = found.sum("consumer_lag")
    trend = f"sum by ({_joined()}) (deriv({found.series('consumer_lag')}[{TREND}]))"
    return (
        Alert(
            "NotMasking",
            "critical",
            "5m",
            f"{found.most('held_because')} == 1 or ({records} == 0 and {lag} > 0)",
            "Input waits and is not masked: a worker has no usable statistics, or no transaction is committed.",
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
            "MessagesRefused",
            "critical",
            "0s",
            found.increased("messages_refused_total"),
            "Messages of an internal topic are not authentic.",
        ),
    )


def _statistics_alerts(found: Expressions) -> tuple[Alert, ...]:
    """Values of an attribute that has nearly always the same one are repeated, whatever masking does."""
    at, prior = found.at, found.most("risk_prior", "attribute")
    return (
        Alert(
            "StatisticsStale",
            "warning",
            "5m",
            f"{found.most('statistics_age_seconds')} > {at.stale_seconds} "
            f"and {found.rate('records_in_total', IDLE)} > 0",
            "Records arrive, and a process uses statistics that are {{ $value | humanizeDuration }} old.",
        ),
        Alert(
            "DriftNeedsAction",
            "warning",
            "10m",
            f"{found.most('drift_verdict', 'against')} == {VERDICTS.index('act')}",
            "The values differ from the {{ $labels.against }} version so much that practice acts.",
        ),
        Alert(
            "DriftLasts",
            "warning",
            LASTING,
            f"{found.most('drift_verdict', against='baseline')} >= {VERDICTS.index('watch')}",
            "The values have differed from the baseline for an hour, by more than chance.",
        ),
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
            "The calibrator withholds statistics: their disclosure risk is too high, or they cannot be computed.",
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


def rules_yaml(found: tuple[Alert, ...]) -> str:
    """Return the file of the rules of alerts."""
    return yaml.safe_dump(rules(found), sort_keys=False, width=1000)
