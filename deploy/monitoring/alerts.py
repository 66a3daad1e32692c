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

INSTALLATION = ("namespace", "job")
"""The labels of an installation."""

BROKERS, OTHERS = 'component="brokers"', 'component!~"brokers|statistics"'
"""The component of a process that is not ready: the brokers, or one that has no alert of its own."""

TREND, IDLE, REMEMBERED = "10m", "30m", "1d"
"""Ranges: of the trend of the lag; without records, after which an input is idle; and how long an installation without
any process counts as gone, before it counts as removed."""


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


TEXTS: Mapping[str, tuple[Literal["critical", "warning"], str, str]] = {
    "NoWorker": ("critical", "5m", "No worker runs, so nothing is masked."),
    "NoCalibrator": (
        "warning",
        "5m",
        "No calibrator runs: statistics become old, and their risk is not computed.",
    ),
    "NoBroker": ("critical", "1m", "No broker answers a process."),
    "NotReady": ("warning", "15m", "A process is not ready; the component is {{ $labels.component }}."),
    "NotMasking": (
        "critical",
        "5m",
        "Input waits and is not masked: a worker has no usable statistics, or no transaction is committed.",
    ),
    "RecordsSkipped": ("critical", "0s", "Records were passed without masking: retention has deleted them."),
    "RejectionRate": ("warning", "10m", "{{ $value | humanizePercentage }} of the records are rejected."),
    "LagGrowing": ("warning", "15m", "The workers do not keep up with the input."),
    "MessagesRefused": ("critical", "0s", "Messages of an internal topic are not authentic."),
    "StatisticsStale": (
        "warning",
        "5m",
        "Records arrive, and a process uses statistics that are {{ $value | humanizeDuration }} old.",
    ),
    "DriftNeedsAction": (
        "warning",
        "10m",
        "The values, or their masks, differ from the {{ $labels.against }} ones so much that practice acts.",
    ),
    "DriftLasts": (
        "warning",
        "1h",
        "The values, or their masks, have differed from the {{ $labels.against }} ones for an hour, beyond chance.",
    ),
    "RiskOverLimit": ("critical", "0s", "The disclosure risk of the last statistics version is beyond a limit."),
    "ValuesUnchanged": (
        "critical",
        "15m",
        "Masking leaves {{ $value | humanizePercentage }} of the values of {{ $labels.attribute }} as they are.",
    ),
    "StatisticsWithheld": (
        "critical",
        "0s",
        "The calibrator withholds statistics: their disclosure risk is too high, or they cannot be computed.",
    ),
}
"""The severity of each alert, how long its expression holds before it fires, and its summary."""


def alerts(at: Thresholds, matchers: str = "") -> tuple[Alert, ...]:
    """Return all alerts with these thresholds, for the series that ``matchers`` select, in PromQL."""
    found = expressions(at, matchers)
    return tuple(Alert(name, severity, lasts, found[name], text) for name, (severity, lasts, text) in TEXTS.items())


def expressions(at: Thresholds, given: str) -> dict[str, str]:
    """Return the expression of each alert; ``given``: matchers of all series, empty for all of them.

    ``ValuesUnchanged``: the values of an attribute that has nearly always the same one are repeated, whatever masking
    does.
    """

    def series(name: str, *matchers: str, **labels: str) -> str:
        return metric(name, *filter(None, (*matchers, given)), **labels)

    def most(name: str, *labels: str, matcher: str = "") -> str:
        return f"max by ({', '.join((*INSTALLATION, *checked(name, *labels)))}) ({series(name, matcher)})"

    def total(expression: str) -> str:
        return f"sum by ({', '.join(INSTALLATION)}) ({expression})"

    def rate(name: str, window: str) -> str:
        return total(f"rate({series(name)}[{window}])")

    def increased(name: str) -> str:
        return f"{total(f'increase({series(name)}[{at.window}])')} > 0"

    def gone(process: str) -> str:
        """Installations without such a process, of those that had any lately; all, if Prometheus knows none."""
        by, running = f"max by ({', '.join(INSTALLATION)})", series("build_info", process=process)
        remembered = f"max_over_time({series('build_info')}[{REMEMBERED}])"
        return f"{by} ({remembered}) unless {by} ({running}) or on () absent({running})"

    records, lag = rate("records_in_total", at.window), total(series("consumer_lag"))
    trend = total(f"deriv({series('consumer_lag')}[{TREND}])")
    unchanged, prior = most("unchanged_share", "attribute"), most("risk_prior", "attribute")
    lasting = most("drift_verdict", "against", matcher='against!="previous"')
    return {
        "NoWorker": gone("worker"),
        "NoCalibrator": gone("calibrator"),
        "NoBroker": f"{most('not_ready_because', 'component', matcher=BROKERS)} == 1",
        "NotReady": f"{most('not_ready_because', 'component', matcher=OTHERS)} == 1",
        "NotMasking": f"{most('held_because')} == 1 or ({records} == 0 and {lag} > 0)",
        "RecordsSkipped": increased("records_skipped_total"),
        "RejectionRate": f"{rate('records_rejected_total', at.window)} / {records} > {at.rejected}",
        "LagGrowing": f"{trend} > 0 and {lag} > {at.lag}",
        "MessagesRefused": increased("messages_refused_total"),
        "StatisticsStale": (
            f"{most('statistics_age_seconds')} > {at.stale_seconds} and {rate('records_in_total', IDLE)} > 0"
        ),
        "DriftNeedsAction": f"{most('drift_verdict', 'against')} == {VERDICTS.index('act')}",
        "DriftLasts": f"{lasting} >= {VERDICTS.index('watch')}",
        "RiskOverLimit": f"{most('risk_limits_crossed')} > 0",
        "ValuesUnchanged": f"{unchanged} > {at.unchanged} unless {prior} > {at.unchanged}",
        "StatisticsWithheld": increased("statistics_withheld_total"),
    }


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
