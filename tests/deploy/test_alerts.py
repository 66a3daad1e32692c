"""The alerts: promtool checks that each fires and stays silent when it should, and that each has a runbook."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import prometheus
import pytest
import yaml
from alerts import RUNBOOKS, Alert, Thresholds, alerts, rules_yaml
from queries import DEFINITIONS, metric
from support.documentation import ROOT, slug

from stream_masker.service.configuration.schema import configuration_schema

ALERTS = {alert.name: alert for alert in alerts(Thresholds())}
JOB = 'job="masking"'
BEHIND = 'instance="behind"'
LABS = 'population="labs"'
MINUTES = 90

Series = Mapping[str, str]
"""Time series of a test in promtool's notation: values by selector, one value a minute."""

WORKING: Series = {
    metric("held", JOB): f"0x{MINUTES}",
    metric("records_in_total", JOB): f"0+60000x{MINUTES}",
    metric("records_masked_total", JOB): f"0+60000x{MINUTES}",
    metric("records_rejected_total", JOB, reason="missing"): f"0+60x{MINUTES}",
    metric("truncated_share", JOB, attribute="principal"): f"0.001x{MINUTES}",
    metric("unchanged_share", JOB, attribute="principal"): f"0.5x{MINUTES}",
    metric("consumer_lag_assigned", JOB): f"500 900 500x{MINUTES}",
    metric("unreadable_partitions", JOB): f"0x{MINUTES}",
    metric("records_skipped_total", JOB, cause="retention"): f"12x{MINUTES}",
    metric("statistics_age_seconds", JOB): f"60x{MINUTES}",
    metric("statistics_version", JOB): f"2x{MINUTES}",
    metric("statistics_refused_total", JOB): f"2x{MINUTES}",
    metric("drift_divergence", JOB, attribute="principal", against="baseline"): f"0.02x{MINUTES}",
    metric("rmse", JOB, attribute="principal", kind="actual"): f"0.21x{MINUTES}",
    metric("rmse", JOB, attribute="principal", kind="target"): f"0.2x{MINUTES}",
    metric("configuration_refused_total", JOB): f"3x{MINUTES}",
    metric("risk_limits_crossed", JOB): f"0x{MINUTES}",
    metric("statistics_withheld_total", JOB): f"1x{MINUTES}",
    metric("messages_refused_total", JOB, topic="statistics", cause="forged"): f"7x{MINUTES}",
}
"""The series of an installation without problems. Counters of earlier problems do not increase."""

FIRING: Mapping[str, list[Series]] = {
    "NotMasking": [
        {metric("held", JOB): f"1x{MINUTES}"},
        {
            metric("records_in_total", JOB): f"90000x{MINUTES}",
            metric("consumer_lag_assigned", JOB): f"500+0x{MINUTES}",
        },
    ],
    "NoWorker": [{metric("held", JOB): "0x20 _x70"}],
    "PartitionUnreadable": [{metric("unreadable_partitions", JOB): f"1x{MINUTES}"}],
    "StatisticsRefused": [{metric("statistics_refused_total", JOB): f"0+1x{MINUTES}"}],
    "VersionsDiffer": [{metric("statistics_version", JOB, BEHIND): f"1x{MINUTES}"}],
    "RecordsSkipped": [{metric("records_skipped_total", JOB, cause="retention"): f"0+5x{MINUTES}"}],
    "RejectionRate": [{metric("records_rejected_total", JOB, reason="missing"): f"0+3000x{MINUTES}"}],
    "LagGrowing": [{metric("consumer_lag_assigned", JOB): f"0+5000x{MINUTES}"}],
    "ValuesUnchanged": [{metric("unchanged_share", JOB, attribute="principal"): f"0.98x{MINUTES}"}],
    "TruncationRate": [{metric("truncated_share", JOB, attribute="principal"): f"0.15x{MINUTES}"}],
    "StatisticsStale": [{metric("statistics_age_seconds", JOB): f"0+60x{MINUTES}"}],
    "DriftOverThreshold": [
        {metric("drift_divergence", JOB, attribute="principal", against=one): f"0.3x{MINUTES}"}
        for one in ("baseline", "previous")
    ],
    "UtilityOffTarget": [
        *({metric("rmse", JOB, attribute="principal", kind="actual"): f"{actual}x{MINUTES}"} for actual in (0.3, 0.1)),
        {
            metric("rmse", JOB, LABS, attribute="principal", kind="actual"): f"0.15x{MINUTES}",
            metric("rmse", JOB, LABS, attribute="principal", kind="target"): f"0.2x{MINUTES}",
        },
    ],
    "ConfigurationRefused": [{metric("configuration_refused_total", JOB): f"0x{MINUTES - 3} 1x3"}],
    "RiskOverLimit": [{metric("risk_limits_crossed", JOB): f"2x{MINUTES}"}],
    "StatisticsWithheld": [{metric("statistics_withheld_total", JOB): f"0x{MINUTES - 3} 1x3"}],
    "MessagesRefused": [
        {metric("messages_refused_total", JOB, topic="statistics", cause="forged"): f"0x{MINUTES - 3} 1x3"}
    ],
}
"""The series that differ from ``WORKING`` when an alert must fire; several alternatives for each alert."""

SILENT: Mapping[str, list[Series]] = {
    "NotMasking": [
        {metric("held", JOB): f"0x{MINUTES - 3} 1x3"},
        {metric("records_in_total", JOB): f"90000x{MINUTES}", metric("consumer_lag_assigned", JOB): f"0x{MINUTES}"},
    ],
    "NoWorker": [{metric("held", JOB): f"0x{MINUTES - 3} _ 0 0"}],
    "PartitionUnreadable": [{metric("unreadable_partitions", JOB): f"0x{MINUTES - 3} 1 0 0"}],
    "StatisticsRefused": [{}],
    "VersionsDiffer": [{metric("statistics_version", JOB, BEHIND): f"2x{MINUTES}"}],
    "RecordsSkipped": [{}],
    "RejectionRate": [{metric("records_rejected_total", JOB, reason="missing"): f"0+500x{MINUTES}"}],
    "LagGrowing": [
        {metric("consumer_lag_assigned", JOB): f"0+500x{MINUTES}"},
        {metric("consumer_lag_assigned", JOB): f"900000-5000x{MINUTES}"},
    ],
    "ValuesUnchanged": [{metric("unchanged_share", JOB, attribute="principal"): f"0.92x{MINUTES}"}],
    "TruncationRate": [{metric("truncated_share", JOB, attribute="principal"): f"0.03x{MINUTES}"}],
    "StatisticsStale": [
        {metric("statistics_age_seconds", JOB): f"3000x{MINUTES}"},
        {metric("statistics_age_seconds", JOB): f"0+60x{MINUTES}", metric("records_in_total", JOB): f"9x{MINUTES}"},
        {
            metric("statistics_age_seconds", JOB, LABS): f"0+60x{MINUTES}",
            metric("records_in_total", JOB, LABS): f"9x{MINUTES}",
        },
    ],
    "DriftOverThreshold": [
        {metric("drift_divergence", JOB, attribute="principal", against="baseline"): f"0.09x{MINUTES}"}
    ],
    "UtilityOffTarget": [{metric("rmse", JOB, attribute="principal", kind="actual"): f"0.23x{MINUTES}"}],
    "ConfigurationRefused": [{}],
    "RiskOverLimit": [{}],
    "StatisticsWithheld": [{}],
    "MessagesRefused": [{}],
}
"""The series that may differ from ``WORKING`` while the alert stays silent."""


def promtool(folder: Path, series: Series, alert: Alert, expected: bool) -> str:
    """Return the output of promtool for a test of one alert at the end of the series, empty if it passes."""
    (folder / "alerts.yaml").write_text(rules_yaml())
    given = {**WORKING, **series}
    check = {"eval_time": f"{MINUTES}m", "expr": f'count(ALERTS{{alertname="{alert.full_name}", alertstate="firing"}})'}
    samples = [{"labels": "{}", "value": 1}] if expected else []
    test = {
        "rule_files": ["alerts.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": one, "values": values} for one, values in given.items()],
                "promql_expr_test": [{**check, "exp_samples": samples}],
            }
        ],
    }
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    command = ["promtool", "test", "rules", "test.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def cases(chosen: Mapping[str, list[Series]]) -> list[tuple[str, Series]]:
    return [(name, series) for name, alternatives in chosen.items() for series in alternatives]


@pytest.mark.parametrize(("name", "series"), cases(FIRING))
def test_alert_fires(name: str, series: Series, tmp_path: Path) -> None:
    prometheus.required()
    assert promtool(tmp_path, series, ALERTS[name], expected=True) == ""


@pytest.mark.parametrize(("name", "series"), cases(SILENT))
def test_alert_stays_silent(name: str, series: Series, tmp_path: Path) -> None:
    prometheus.required()
    assert promtool(tmp_path, series, ALERTS[name], expected=False) == ""


def test_every_alert_is_tested() -> None:
    assert ALERTS.keys() == FIRING.keys() == SILENT.keys()


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    prometheus.required()
    (tmp_path / "alerts.yaml").write_text(rules_yaml())
    done = subprocess.run(["promtool", "check", "rules", "alerts.yaml"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_runbook() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / RUNBOOKS).read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(alert.full_name for alert in ALERTS.values())
    (group,) = yaml.safe_load(rules_yaml())["groups"]
    links = {rule["annotations"]["runbook_url"] for rule in group["rules"]}
    assert links == {f"{RUNBOOKS}#{slug(heading)}" for heading in headings}


def test_runbooks_name_metrics_and_keys_that_exist() -> None:
    spans = re.findall(r"`([^`\n]+)`", (ROOT / RUNBOOKS).read_text())
    metrics = {span for span in spans if span.startswith("stream_masker_")}
    assert metrics <= {definition.full_name for definition in DEFINITIONS.values()}
    keys = [span.partition(":")[0].split(".") for span in spans if re.match(r"(calibration|worker|risk)\.", span)]
    properties = configuration_schema()
    for section, key in keys:
        assert key in resolved(properties, properties["properties"][section])["properties"], (section, key)


def resolved(schema: Mapping, part: Mapping) -> Mapping:
    return schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
