"""The alerts: promtool checks that each fires and stays silent when it should, and that each has a runbook."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import prometheus
import pytest
import yaml
from alert_series import FIRING, JOB, LABORATORY, MINUTES, WARDS, WORKING, Series, run_promtool
from alerts import MARK, MARKED, RUNBOOKS, Alert, Thresholds, alerts, camel_case, rules, rules_yaml
from queries import DECLARATIONS, metric
from support.documentation import ROOT, slug

from stream_masker.service.configuration import configuration_schema

ALERTS = {alert.name: alert for alert in alerts(Thresholds())}
RULES = rules_yaml(alerts(Thresholds()))
SILENT: Mapping[str, list[Series]] = {
    "NotMasking": [
        {metric("held_because", JOB, reason="none_published"): f"0x{MINUTES - 3} 1x3"},
        {
            metric("records_in_total", JOB): f"90000x{MINUTES}",
            metric("consumer_lag", JOB, topic="discharges", partition="0"): f"0x{MINUTES}",
        },
    ],
    "NoWorker": [{metric("build_info", JOB, process="worker"): f"1x{MINUTES - 3} _ 1 1"}],
    "NoCalibrator": [{metric("build_info", JOB, process="calibrator"): f"1x{MINUTES - 3} _ 1 1"}],
    "NoBroker": [
        {metric("not_ready_because", JOB, component="brokers"): f"0x{MINUTES - 3} 1 0 0"},
        {metric("not_ready_because", JOB, component="transactions"): f"1x{MINUTES}"},
    ],
    "NotReady": [
        {metric("not_ready_because", JOB, component=one): f"1x{MINUTES}"} for one in ("brokers", "statistics")
    ],
    "RecordsSkipped": [{}],
    "RejectionRate": [{metric("records_rejected_total", JOB, reason="missing"): f"0+500x{MINUTES}"}],
    "LagGrowing": [
        {metric("consumer_lag", JOB, topic="discharges", partition="0"): f"0+500x{MINUTES}"},
        {metric("consumer_lag", JOB, topic="discharges", partition="0"): f"900000-5000x{MINUTES}"},
    ],
    "ValuesUnchanged": [
        {metric("unchanged_share", JOB, attribute="principal"): f"0.55x{MINUTES}"},
        {
            metric("unchanged_share", JOB, attribute="principal"): f"0.92x{MINUTES}",
            metric("risk_prior", JOB, attribute="principal"): f"0.9x{MINUTES}",
        },
    ],
    "StatisticsStale": [
        {metric("statistics_age_seconds", JOB): f"3000x{MINUTES}"},
        {metric("statistics_age_seconds", JOB): f"0+60x{MINUTES}", metric("records_in_total", JOB): f"9x{MINUTES}"},
    ],
    "DriftNeedsAction": [{metric("drift_verdict", JOB, against="baseline"): f"1x{MINUTES}"}],
    "DriftLasts": [
        {metric("drift_verdict", JOB, against="previous"): f"1x{MINUTES}"},
        {metric("drift_verdict", JOB, against="baseline"): f"1x40 0x5 1x{MINUTES - 47}"},
    ],
    "RiskOverLimit": [{}],
    "StatisticsWithheld": [{}],
    "MessagesRefused": [{}],
}
"""The series that may differ from ``WORKING`` while the alert stays silent."""


def promtool(folder: Path, series: Series, alert: Alert, expected: bool) -> str:
    """Return the output of promtool for a test of one alert at the end of the series, empty if it passes."""
    firing = f'ALERTS{{alertname="{alert.full_name}", alertstate="firing"}}'
    return run_promtool(folder, {**WORKING, **series}, f"count(count by (alertname) ({firing}))", expected)


def cases(chosen: Mapping[str, list[Series]]) -> list[tuple[str, Series]]:
    return [(name, series) for name, alternatives in chosen.items() for series in alternatives]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "series"), cases(FIRING))
def test_alert_fires(name: str, series: Series, tmp_path: Path) -> None:
    prometheus.required()
    assert promtool(tmp_path, series, ALERTS[name], expected=True) == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "series"), cases(SILENT))
def test_alert_stays_silent(name: str, series: Series, tmp_path: Path) -> None:
    prometheus.required()
    assert promtool(tmp_path, series, ALERTS[name], expected=False) == ""


def test_there_are_at_most_15_alerts_and_each_is_tested() -> None:
    assert ALERTS.keys() == FIRING.keys() == SILENT.keys()
    assert len(ALERTS) <= 15


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    prometheus.required()
    (tmp_path / "alerts.yaml").write_text(RULES)
    done = subprocess.run(["promtool", "check", "rules", "alerts.yaml"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)
def test_alerts_name_the_namespace_and_the_job_wherever_they_aggregate(alert: Alert) -> None:
    grouped = re.findall(r"\b(?:by|on|without) ?\(([^)]*)\)", alert.expression)
    assert {labels.startswith("namespace, job") for labels in grouped if labels} <= {True}
    assert not re.search(r"\b(?:sum|min|max|count) ?\(", alert.expression)


def test_an_alert_names_the_namespace_of_its_installation(tmp_path: Path) -> None:
    """Two releases have the same job in two namespaces, and the calibrator of one dies."""
    prometheus.required()
    places = [
        (one, process) for one in (f"{WARDS}, {JOB}", f"{LABORATORY}, {JOB}") for process in ("worker", "calibrator")
    ]
    series = {metric("build_info", place, process=process): f"1x{MINUTES}" for place, process in places}
    series[metric("build_info", f"{WARDS}, {JOB}", process="calibrator")] = "1x20 _x70"
    alive = {metric("build_info", JOB, process=process): "_" for process in ("worker", "calibrator")}
    alert = ALERTS["NoCalibrator"]
    wards = f'ALERTS{{alertname="{alert.full_name}", alertstate="firing", namespace="wards", job="masking"}}'
    assert promtool(tmp_path, {**series, **alive}, alert, expected=True) == ""
    assert run_promtool(tmp_path, {**WORKING, **series, **alive}, f"count({wards})", expected=True) == ""


def test_every_alert_has_a_runbook() -> None:
    headings = re.findall(r"^### (StreamMasker\w+)$", (ROOT / RUNBOOKS).read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(alert.full_name for alert in ALERTS.values())
    (group,) = yaml.safe_load(RULES)["groups"]
    links = {rule["annotations"]["runbook"] for rule in group["rules"]}
    assert links == {f"{RUNBOOKS}#{slug(heading)}" for heading in headings}


@pytest.mark.parametrize("matchers", ["", 'namespace="wards", job="wards/masking"'])
def test_the_marks_of_the_chart_stand_for_thresholds_and_matchers(matchers: str) -> None:
    text = rules_yaml(alerts(MARKED, MARK.format("selector"))).replace("<<selector>>", matchers)
    for field in fields(Thresholds):
        text = text.replace(f"<<{camel_case(field.name)}>>", field.default)
    assert "<<" not in text
    expected = rules(alerts(Thresholds(), matchers))
    found = yaml.safe_load(text)
    squeezed = lambda rule: rule["expr"].replace("{}", "").replace(", }", "}")  # noqa: E731
    for one, other in zip(found["groups"][0]["rules"], expected["groups"][0]["rules"], strict=True):
        assert {**one, "expr": squeezed(one)} == other


def test_the_chart_has_a_value_for_each_threshold() -> None:
    values = yaml.safe_load((ROOT / "deploy" / "chart" / "values.yaml").read_text())["monitoring"]["alerts"]
    assert {name: str(value) for name, value in values["thresholds"].items()} == {
        camel_case(field.name): field.default for field in fields(Thresholds)
    }


def test_runbooks_name_metrics_and_keys_that_exist() -> None:
    spans = re.findall(r"`([^`\n]+)`", (ROOT / RUNBOOKS).read_text())
    metrics = {span for span in spans if span.startswith("stream_masker_")}
    assert metrics <= {definition.full_name for definition in DECLARATIONS.values()}
    keys = [
        span.partition(":")[0].split(".") for span in spans if re.match(r"(calibration|worker|risk|limits)\.", span)
    ]
    properties = configuration_schema()
    for section, key in keys:
        assert key in resolved(properties, properties["properties"][section])["properties"], (section, key)


def resolved(schema: Mapping, part: Mapping) -> Mapping:
    return schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
