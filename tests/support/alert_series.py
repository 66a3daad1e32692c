"""Time series of an installation without problems and of each alert, and promtool's verdict on them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from alerts import Thresholds, alerts, rules
from queries import metric

JOB, OTHER = 'job="masking"', 'job="other"'
WARDS, LABORATORY = 'namespace="wards"', 'namespace="laboratory"'
MINUTES = 90

Series = Mapping[str, str]
"""Time series of a test in promtool's notation: values by selector, one value a minute."""

WORKING: Series = {
    metric("build_info", JOB, process="worker"): f"1x{MINUTES}",
    metric("build_info", JOB, process="calibrator"): f"1x{MINUTES}",
    metric("not_ready_because", JOB, component="brokers"): f"0x{MINUTES}",
    metric("not_ready_because", JOB, component="transactions"): f"0x{MINUTES}",
    metric("held_because", JOB, reason="other_secret"): f"0x{MINUTES}",
    metric("records_in_total", JOB): f"0+60000x{MINUTES}",
    metric("records_masked_total", JOB): f"0+60000x{MINUTES}",
    metric("records_rejected_total", JOB, reason="missing"): f"0+60x{MINUTES}",
    metric("unchanged_share", JOB, attribute="principal"): f"0.5x{MINUTES}",
    metric("consumer_lag", JOB, topic="discharges", partition="0"): f"500 900 500x{MINUTES}",
    metric("records_skipped_total", JOB, cause="retention"): f"12x{MINUTES}",
    metric("statistics_age_seconds", JOB): f"60x{MINUTES}",
    metric("drift_verdict", JOB, against="baseline"): f"0x{MINUTES}",
    metric("risk_limits_crossed", JOB): f"0x{MINUTES}",
    metric("risk_prior", JOB, attribute="principal"): f"0.1x{MINUTES}",
    metric("statistics_withheld_total", JOB): f"1x{MINUTES}",
    metric("messages_refused_total", JOB, topic="statistics", cause="forged"): f"7x{MINUTES}",
}
"""The series of an installation without problems. Counters of earlier problems do not increase."""

FIRING: Mapping[str, list[Series]] = {
    "NotMasking": [
        {metric("held_because", JOB, reason="none_published"): f"1x{MINUTES}"},
        {
            metric("records_in_total", JOB): f"90000x{MINUTES}",
            metric("consumer_lag", JOB, topic="discharges", partition="0"): f"500+0x{MINUTES}",
        },
    ],
    "NoWorker": [
        {metric("build_info", JOB, process="worker"): "1x20 _x70"},
        {metric("build_info", JOB, process=one): "1x20 _x70" for one in ("worker", "calibrator")},
        {metric("build_info", OTHER, process="calibrator"): f"1x{MINUTES}"},
        {metric("build_info", OTHER, process=one): "1x20 _x70" for one in ("worker", "calibrator")},
        {metric("build_info", WARDS, JOB, process=one): "1x20 _x70" for one in ("worker", "calibrator")},
    ],
    "NoCalibrator": [
        {metric("build_info", JOB, process="calibrator"): "1x20 _x70"},
        {metric("build_info", OTHER, process="worker"): f"1x{MINUTES}"},
    ],
    "NoBroker": [{metric("not_ready_because", JOB, component="brokers"): f"0x{MINUTES - 5} 1x5"}],
    "NotReady": [{metric("not_ready_because", JOB, component="transactions"): f"1x{MINUTES}"}],
    "RecordsSkipped": [{metric("records_skipped_total", JOB, cause="retention"): f"0+5x{MINUTES}"}],
    "RejectionRate": [{metric("records_rejected_total", JOB, reason="missing"): f"0+3000x{MINUTES}"}],
    "LagGrowing": [{metric("consumer_lag", JOB, topic="discharges", partition="0"): f"0+5000x{MINUTES}"}],
    "ValuesUnchanged": [{metric("unchanged_share", JOB, attribute="principal"): f"0.81x{MINUTES}"}],
    "StatisticsStale": [{metric("statistics_age_seconds", JOB): f"0+60x{MINUTES}"}],
    "DriftNeedsAction": [
        {metric("drift_verdict", JOB, against=one): f"2x{MINUTES}"} for one in ("baseline", "previous")
    ],
    "DriftLasts": [{metric("drift_verdict", JOB, against="baseline"): f"{verdict}x{MINUTES}"} for verdict in (1, 2)],
    "RiskOverLimit": [{metric("risk_limits_crossed", JOB): f"2x{MINUTES}"}],
    "StatisticsWithheld": [{metric("statistics_withheld_total", JOB): f"0x{MINUTES - 3} 1x3"}],
    "MessagesRefused": [
        {metric("messages_refused_total", JOB, topic="statistics", cause="forged"): f"0x{MINUTES - 3} 1x3"}
    ],
}
"""The series that differ from ``WORKING`` when an alert must fire; several alternatives for each alert."""


def run_promtool(folder: Path, series: Series, expression: str, expected: bool) -> str:
    """Return the output of promtool for a test that the expression is 1 at the end, or has no value."""
    samples = [{"labels": "{}", "value": 1}] if expected else []
    return _run(folder, series, [{"eval_time": f"{MINUTES}m", "expr": expression, "exp_samples": samples}])


def _run(folder: Path, series: Series, tests: Sequence[Mapping[str, Any]]) -> str:
    """Return the output of promtool, with the rules of the alerts that the tests name."""
    named = tuple(alert for alert in alerts(Thresholds()) if f'"{alert.full_name}"' in tests[0]["expr"])
    (folder / "alerts.yaml").write_text(yaml.safe_dump(rules(named)))
    test = {
        "rule_files": ["alerts.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": one, "values": values} for one, values in series.items()],
                "promql_expr_test": list(tests),
            }
        ],
    }
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    command = ["promtool", "test", "rules", "test.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr if done.returncode else ""
