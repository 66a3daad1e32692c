"""How long each alert takes to fire after its fault has begun, and to end after it: the table of the documentation.

promtool scrapes and evaluates once a minute, as Prometheus does by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import prometheus
import pytest
from alert_series import BEHIND, JOB, WORKING, failed_minutes
from alerts import Thresholds, alerts
from queries import metric
from support.documentation import ROOT

BEFORE, DURING, AFTER = 60, 90, 60
"""Minutes of the fault and around it."""

ATTRIBUTE = {"attribute": "principal"}
FAULTS: Mapping[str, Mapping[str, str]] = {
    "NoWorker": {metric("build_info", JOB, process="worker"): "_"},
    "NoCalibrator": {metric("build_info", JOB, process="calibrator"): "_"},
    "NoBroker": {metric("not_ready_because", JOB, component="brokers"): "1"},
    "NotReady": {metric("not_ready_because", JOB, component="transactions"): "1"},
    "NotMasking": {metric("held", JOB): "1"},
    "SecretsDiffer": {metric("held_because", JOB, reason="other_secret"): "1"},
    "PartitionUnreadable": {metric("unreadable_partitions", JOB): "1"},
    "RecordsSkipped": {metric("records_skipped_total", JOB, cause="retention"): "0+5"},
    "RejectionRate": {metric("records_rejected_total", JOB, reason="missing"): "0+3000"},
    "LagGrowing": {metric("consumer_lag_assigned", JOB): "150000+5000"},
    "TruncationRate": {metric("truncated_share", JOB, **ATTRIBUTE): "0.15"},
    "StatisticsStale": {metric("statistics_age_seconds", JOB): "60+60"},
    "DriftOverThreshold": {metric("drift_divergence", JOB, **ATTRIBUTE, against="baseline"): "0.3"},
    "UtilityOffTarget": {metric("rmse", JOB, **ATTRIBUTE, kind="actual"): "0.1"},
    "StatisticsRefused": {metric("statistics_refused_total", JOB): "0+1"},
    "VersionsDiffer": {metric("statistics_version", JOB, BEHIND): "1"},
    "RiskOverLimit": {metric("risk_limits_crossed", JOB): "2"},
    "ValuesUnchanged": {metric("unchanged_share", JOB, **ATTRIBUTE): "0.81"},
    "StatisticsWithheld": {metric("statistics_withheld_total", JOB): "0+1"},
    "MessagesRefused": {metric("messages_refused_total", JOB, topic="statistics", cause="forged"): "0+1"},
}
"""The series of each fault: its value, its first value and the step of a minute, or ``_`` for none.

Prometheus notices at once that a series has ended.
"""

ROW = re.compile(r"^\| \[`StreamMasker(\w+)`\]\(#streammasker(\w+)\) \| .+ \| (.+) \| (.+) \|$", re.MULTILINE)
ROWS = {name: times for name, _, *times in ROW.findall((ROOT / "docs" / "operations.md").read_text())}
"""The times of each alert in the documentation."""


def with_fault(selector: str, usual: str, fault: str) -> str:
    """Return a series in promtool's notation with a fault in its middle; counters go on from where they are."""
    level, steps = 0.0, []
    for minutes, shape in ((BEFORE, usual), (DURING, fault), (AFTER, usual)):
        first, _, step = shape.partition("+")
        start = level if "_total" in selector else first
        steps.append(f"stale _x{minutes - 1}" if first == "_" else f"{start}+{step or 0}x{minutes - 1}")
        level += minutes * float(step or 0)
    return " ".join(steps)


def shape(notation: str) -> str:
    """Return the usual value of a series, with its step if it is a counter."""
    return notation.rsplit(maxsplit=1)[-1].partition("x")[0]


def measured(folder: Path, name: str) -> tuple[int, int]:
    """Return the minutes until an alert fires, and until it has ended."""
    fault = FAULTS[name]
    usual = {selector: shape(WORKING.get(selector, "_")) for selector in (*WORKING, *fault)}
    series = {one: with_fault(one, usual[one], fault.get(one, usual[one])) for one in usual}
    firing = f'ALERTS{{alertname="StreamMasker{name}", alertstate="firing"}}'
    minutes = failed_minutes(folder, series, f"count({firing})", BEFORE + DURING + AFTER)
    assert minutes == list(range(minutes[0], minutes[-1] + 1))
    return minutes[0] - BEFORE, minutes[-1] + 1 - BEFORE - DURING


def told(minutes: int) -> str:
    return f"{minutes} min" if minutes else "at once"


def test_the_documentation_has_a_row_for_each_alert() -> None:
    assert list(ROWS) == [alert.full_name.removeprefix("StreamMasker") for alert in alerts(Thresholds())]
    assert FAULTS.keys() == ROWS.keys()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FAULTS)
def test_an_alert_fires_and_ends_as_documented(name: str, tmp_path: Path) -> None:
    prometheus.required()
    assert ROWS[name] == [told(minutes) for minutes in measured(tmp_path, name)]
