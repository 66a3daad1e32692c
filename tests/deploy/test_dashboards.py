"""A real Prometheus scrapes a worker and a calibrator: every metric is valid, and every panel has data."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import prometheus
import pytest
from dashboards import DASHBOARDS, Dashboard, dashboard_json
from exercised_metrics import RecordingMetrics, calibrator_metrics, worker_metrics
from prometheus_client import CollectorRegistry
from queries import metric
from support.small_configuration import small_configuration

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.observability.http import HttpServer
from stream_masker.service.observability.metrics import METRIC_PREFIX, Health

DATA_SECONDS = 30
IN_THE_TEST = {"$job": ".*", "$__rate_interval": "15s"}
"""The values that the test substitutes for Grafana's variables."""

EVERY = {
    f"{dashboard.name}: {panel.title}: {legend}": expression
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    if panel.title != "Alerts that fire"
    for legend, expression in panel.queries.items()
}
"""All queries that have data where no alert fires."""


@dataclass(frozen=True)
class Scraped:
    """The metrics of both processes, the ports that serve them, and the Prometheus server that scrapes them."""

    metrics: Mapping[str, RecordingMetrics]
    ports: Mapping[str, int]
    prometheus: prometheus.Prometheus


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    prometheus.required()
    metrics = {"worker": worker_metrics(), "calibrator": calibrator_metrics(tmp_path_factory.mktemp("calibrator"))}
    with contextlib.ExitStack() as stack:
        ports = {process: stack.enter_context(served(one.registry)).port for process, one in metrics.items()}
        server = stack.enter_context(prometheus.scraping(tmp_path_factory.mktemp("prometheus"), ports))
        yield Scraped(metrics, ports, server)


def served(registry: CollectorRegistry) -> HttpServer:
    return HttpServer(parse_configuration(small_configuration("code")), Health(), registry, port=0)


def has_data(server: prometheus.Prometheus, expression: str) -> bool:
    """Return whether an expression has a series whose value is a number, without its filter of what did not happen."""
    expression = re.sub(r" > [01]$", "", expression)
    for variable, value in IN_THE_TEST.items():
        expression = expression.replace(variable, value)
    return any(not math.isnan(series.value) for series in server.query(expression))


@pytest.mark.parametrize("process", ["worker", "calibrator"])
def test_promtool_accepts_the_metrics(scraped: Scraped, process: str) -> None:
    page = prometheus.fetch(f"http://127.0.0.1:{scraped.ports[process]}/metrics")
    assert METRIC_PREFIX.encode() in page
    assert prometheus.complaints(page) == ""
    assert "help" in prometheus.complaints(b"# TYPE stream_masker_bare gauge\nstream_masker_bare 1\n")


def test_every_query_of_every_panel_returns_data_and_smean_has_a_label(scraped: Scraped) -> None:
    without, deadline = dict(EVERY), time.monotonic() + DATA_SECONDS
    while without and time.monotonic() < deadline:
        scraped.metrics["worker"].observe("batch_duration_seconds", 0.3)
        without = {name: query for name, query in without.items() if not has_data(scraped.prometheus, query)}
        time.sleep(0.2)
    assert without == {}
    assert all(series.labels["label"] for series in scraped.prometheus.query(metric("smean")))


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_grafana_has_every_query_of_the_source(dashboard: Dashboard) -> None:
    panels = [panel for panel in json.loads(dashboard_json(dashboard))["panels"] if panel["type"] != "row"]
    written = [target["expr"] for panel in panels for target in panel["targets"]]
    assert written == [expression for panel in dashboard.panels for expression in panel.queries.values()]


def test_a_table_shows_its_value_under_its_name_if_it_has_a_unit() -> None:
    models = [panel for one in DASHBOARDS for panel in json.loads(dashboard_json(one))["panels"]]
    tables = {panel["title"]: panel["transformations"][0]["options"] for panel in models if panel["type"] == "table"}
    shown = [title for title, options in tables.items() if not options["excludeByName"]["Value"]]
    assert shown == ["Codes and blocks that moved most"]
    assert tables[shown[0]]["renameByName"] == {"Value": "change"}
    assert list(tables[shown[0]]["indexByName"]) == ["attribute", "level", "concept", "label", "Value"]
