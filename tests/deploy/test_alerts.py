"""The alerts: promtool checks that each fires and stays silent when it should, and that each has a runbook."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import prometheus
import pytest
import yaml
from alerts import PREFIX, RULES, rules_yaml
from queries import DECLARATIONS, metric
from support.documentation import DOCS

JOB, OTHER = 'job="masking"', 'job="other"'
WARDS = 'namespace="wards"'
MINUTES = 90

Series = Mapping[str, str]
"""Time series in promtool's notation: values by selector, one value a minute."""

WORKER, CALIBRATOR = (metric("build_info", JOB, process=one) for one in ("worker", "calibrator"))
BROKERS, TRANSACTIONS, STATISTICS = (
    metric("not_ready_because", JOB, component=one) for one in ("brokers", "transactions", "statistics")
)
VERSION = metric("statistics_version", JOB)
IN, MASKED = (metric(f"records_{one}_total", JOB) for one in ("in", "masked"))
REJECTED = metric("records_rejected_total", JOB, reason="missing")
UNCHANGED, PRIOR = (metric(name, JOB, attribute="principal") for name in ("unchanged_share", "risk_prior"))
LAG = metric("consumer_lag", JOB)
SKIPPED = metric("records_skipped_total", JOB)
AGE, LIMITS, WITHHELD = (
    metric(name, JOB) for name in ("statistics_age_seconds", "risk_limits_crossed", "statistics_withheld_total")
)
BASELINE, PREVIOUS, EXPECTED = (
    metric("drift_verdict", JOB, against=one) for one in ("baseline", "previous", "expected")
)
FORGED = metric("messages_refused_total", JOB, topic="statistics", cause="forged")

WORKING: Series = {
    **dict.fromkeys((WORKER, CALIBRATOR), f"1x{MINUTES}"),
    **dict.fromkeys((BROKERS, TRANSACTIONS, BASELINE, EXPECTED, LIMITS), f"0x{MINUTES}"),
    **dict.fromkeys((IN, MASKED), f"0+60000x{MINUTES}"),
    REJECTED: f"0+60x{MINUTES}",
    UNCHANGED: f"0.5x{MINUTES}",
    LAG: f"500 900 500x{MINUTES}",
    VERSION: f"3x{MINUTES}",
    SKIPPED: f"12x{MINUTES}",
    AGE: f"60x{MINUTES}",
    PRIOR: f"0.1x{MINUTES}",
    WITHHELD: f"1x{MINUTES}",
    FORGED: f"7x{MINUTES}",
}
"""The series of an installation without problems. Counters of earlier problems do not increase."""

ENDED = "1x20 _x70"
BOTH = {WORKER: ENDED, CALIBRATOR: ENDED}
OTHER_ENDED = {selector.replace(JOB, OTHER): text for selector, text in BOTH.items()}
IN_WARDS = {metric("build_info", WARDS, JOB, process=one): ENDED for one in ("worker", "calibrator")}

FIRING: Mapping[str, list[Series]] = {
    "NotMasking": [{VERSION: f"0x{MINUTES}"}, {IN: f"90000x{MINUTES}", LAG: f"500+0x{MINUTES}"}],
    "NoWorker": [
        {WORKER: ENDED},
        BOTH,
        {metric("build_info", OTHER, process="calibrator"): f"1x{MINUTES}"},
        OTHER_ENDED,
        IN_WARDS,
    ],
    "NoCalibrator": [{CALIBRATOR: ENDED}, {metric("build_info", OTHER, process="worker"): f"1x{MINUTES}"}],
    "NoBroker": [{BROKERS: f"0x{MINUTES - 5} 1x5"}],
    "NotReady": [
        {metric("not_ready_because", JOB, component=one): f"1x{MINUTES}"}
        for one in ("start", "transactions", "reading", "format", "role", "risk", "stop")
    ],
    "RecordsSkipped": [{SKIPPED: f"0+5x{MINUTES}"}],
    "RejectionRate": [{REJECTED: f"0+3000x{MINUTES}"}],
    "LagGrowing": [{LAG: f"0+5000x{MINUTES}"}],
    "ValuesUnchanged": [{UNCHANGED: f"0.81x{MINUTES}"}],
    "StatisticsStale": [{AGE: f"0+60x{MINUTES}"}],
    "DriftNeedsAction": [{one: f"2x{MINUTES}"} for one in (BASELINE, PREVIOUS, EXPECTED)],
    "DriftLasts": [{BASELINE: f"{verdict}x{MINUTES}"} for verdict in (1, 2)] + [{EXPECTED: f"1x{MINUTES}"}],
    "RiskOverLimit": [{LIMITS: f"2x{MINUTES}"}],
    "StatisticsWithheld": [{WITHHELD: f"0x{MINUTES - 3} 1x3"}],
    "MessagesRefused": [{FORGED: f"0x{MINUTES - 3} 1x3"}],
}
"""The series that differ from ``WORKING`` when an alert must fire; several alternatives for each alert."""

SILENT: Mapping[str, list[Series]] = {
    **{name: [{}] for name in ("RecordsSkipped", "RiskOverLimit", "StatisticsWithheld", "MessagesRefused")},
    "NotMasking": [
        {VERSION: f"3x{MINUTES - 3} 0x3"},
        {metric("statistics_version", JOB, 'instance="calibrator"'): f"0x{MINUTES}"},
        {IN: f"90000x{MINUTES}", LAG: f"0x{MINUTES}"},
    ],
    "NoWorker": [{WORKER: f"1x{MINUTES - 3} _ 1 1"}],
    "NoCalibrator": [{CALIBRATOR: f"1x{MINUTES - 3} _ 1 1"}],
    "NoBroker": [{BROKERS: f"0x{MINUTES - 3} 1 0 0"}, {TRANSACTIONS: f"1x{MINUTES}"}],
    "NotReady": [{BROKERS: f"1x{MINUTES}"}, {STATISTICS: f"1x{MINUTES}"}],
    "RejectionRate": [{REJECTED: f"0+500x{MINUTES}"}],
    "LagGrowing": [{LAG: f"0+500x{MINUTES}"}, {LAG: f"900000-5000x{MINUTES}"}],
    "ValuesUnchanged": [{UNCHANGED: f"0.55x{MINUTES}"}, {UNCHANGED: f"0.92x{MINUTES}", PRIOR: f"0.9x{MINUTES}"}],
    "StatisticsStale": [{AGE: f"3000x{MINUTES}"}, {AGE: f"0+60x{MINUTES}", IN: f"9x{MINUTES}"}],
    "DriftNeedsAction": [{BASELINE: f"1x{MINUTES}"}],
    "DriftLasts": [{PREVIOUS: f"1x{MINUTES}"}, {BASELINE: f"1x40 0x5 1x{MINUTES - 47}"}],
}
"""The series that may differ from ``WORKING`` while the alert stays silent."""


def firing(name: str) -> str:
    """Return the expression that is 1 if an alert fires."""
    return f'count(count by (alertname) (ALERTS{{alertname="{PREFIX}{name}", alertstate="firing"}}))'


def group(series: Series, expression: str, *, holds: bool) -> dict[str, Any]:
    """Return a test of promtool: that the expression is 1 at the end of the series, or has no value."""
    samples = [{"labels": "{}", "value": 1}] if holds else []
    return {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in {**WORKING, **series}.items()],
        "promql_expr_test": [{"eval_time": f"{MINUTES}m", "expr": expression, "exp_samples": samples}],
    }


def promtool(folder: Path, groups: Sequence[Mapping[str, Any]]) -> str:
    """Return the output of promtool for tests of the alerts, empty if they pass."""
    prometheus.required()
    (folder / "alerts.yaml").write_text(rules_yaml())
    test = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": list(groups)}
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    command = ["promtool", "test", "rules", "test.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize(("chosen", "holds"), [(FIRING, True), (SILENT, False)], ids=["firing", "silent"])
def test_each_alert_fires_and_stays_silent(chosen: Mapping[str, list[Series]], holds: bool, tmp_path: Path) -> None:
    cases = [group(each, firing(name), holds=holds) for name, several in chosen.items() for each in several]
    assert promtool(tmp_path, cases) == ""


def test_at_most_15_alerts_are_tested_and_have_a_runbook() -> None:
    assert RULES.keys() == {PREFIX + name for name in FIRING} == {PREFIX + name for name in SILENT}
    assert len(RULES) <= 15
    headings = re.findall(r"^### (StreamMasker\w+)$", (DOCS / "operations.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(RULES)
    links = {name: rule["annotations"]["runbook"] for name, rule in RULES.items()}
    assert links == {name: f"docs/operations.md#{name.lower()}" for name in RULES}


@pytest.mark.parametrize("expression", [rule["expr"] for rule in RULES.values()], ids=RULES)
def test_alerts_are_about_declared_metrics_and_name_their_installation(expression: str) -> None:
    assert {*re.findall(r"stream_masker_\w+", expression)} <= {one.full_name for one in DECLARATIONS.values()}
    grouped = re.findall(r"\b(?:by|on|without) ?\(([^)]*)\)", expression)
    assert {labels.startswith("namespace, job") for labels in grouped if labels} <= {True}
    assert not re.search(r"\b(?:sum|min|max|count) ?\(", expression)
