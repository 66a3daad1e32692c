"""The dashboards: their queries return data from a Prometheus that scrapes the running demonstration."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import prometheus
import pytest
from dashboards import COLUMNS, DASHBOARDS, Dashboard, dashboard_json
from queries import aggregated, metric, quantile, rate
from running_demo import running_demo

DATA_SECONDS = 900
"""The calibrator yields to other processes, so a busy machine delays its first figures by minutes."""

CHECK_SECONDS = 1.0

IN_THE_TEST = {"$job": ".*", "$__rate_interval": "15s", "$__range": "1m"}
"""The values that the test substitutes for Grafana's variables."""

EVERY = {
    f"{dashboard.name}: {panel.title}: {legend}": expression
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    if panel.title != "Alerts that fire"
    for legend, expression in panel.queries.items()
}
"""All queries that have data where no alert fires."""


def panels(dashboard: Dashboard) -> list[dict]:
    return [panel for panel in json.loads(dashboard_json(dashboard))["panels"] if panel["type"] != "row"]


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[prometheus.Prometheus]:
    """A Prometheus that scrapes both processes of a running demonstration, whose window is small."""
    prometheus.required()
    with (
        running_demo(tmp_path, records=1_000, rate=100, drift_after=1_000) as demo,
        prometheus.scraping(tmp_path, demo.ports) as server,
    ):
        yield server


def has_data(server: prometheus.Prometheus, expression: str) -> bool:
    """Return whether an expression has a series whose value is a number."""
    return any(not math.isnan(series.value) for series in server.query(substituted(expression)))


def substituted(expression: str) -> str:
    """Return an expression as Grafana sends it, without the filter that hides what did not happen."""
    expression = expression.removesuffix(" > 0")
    for variable, value in IN_THE_TEST.items():
        expression = expression.replace(variable, value)
    return expression


@pytest.mark.exhaustive
@pytest.mark.timeout(DATA_SECONDS + 600)
def test_every_query_of_every_panel_returns_data_and_smean_has_a_label(scraped: prometheus.Prometheus) -> None:
    without, deadline = dict(EVERY), time.monotonic() + DATA_SECONDS
    while without and time.monotonic() < deadline:
        without = {name: query for name, query in without.items() if not has_data(scraped, query)}
        time.sleep(CHECK_SECONDS)
    assert without == {}
    found = scraped.query(metric("smean"))
    assert {series.labels["attribute"] for series in found} == {"principal", "secondary"}
    assert all(series.labels["label"] for series in found)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_grafana_has_every_query_of_the_source(dashboard: Dashboard) -> None:
    written = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]
    assert written == [expression for panel in dashboard.panels for expression in panel.queries.values()]
    assert len({panel["id"] for panel in panels(dashboard)}) == len(dashboard.panels)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_panels_are_within_the_columns_and_do_not_overlap(dashboard: Dashboard) -> None:
    assert [one["title"] for one in panels(dashboard) if one["gridPos"]["x"] + one["gridPos"]["w"] > COLUMNS] == []
    for one, other in combinations([panel["gridPos"] for panel in panels(dashboard)], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_unknown_metrics_and_labels_are_errors() -> None:
    with pytest.raises(KeyError):
        metric("no_such_metric")
    with pytest.raises(ValueError, match="code"):
        aggregated("max", "smean", "code")
    with pytest.raises(ValueError, match="kind"):
        rate("records_in_total", kind="actual")
    with pytest.raises(ValueError, match="gauge, not a histogram"):
        quantile(0.5, "window_records")
