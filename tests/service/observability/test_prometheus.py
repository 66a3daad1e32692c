"""A real Prometheus scrapes the metrics of a worker and a calibrator: declared metrics can be queried.

With ``STREAM_MASKER_REQUIRE_PROMETHEUS=1`` the tests fail instead of being skipped if Prometheus is not available.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import prometheus
import pytest
from exercised_metrics import RecordingMetrics, calibrator_metrics, worker_metrics
from prometheus_client import CollectorRegistry
from support.small_configuration import small_configuration

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.http import HttpServer
from stream_masker.service.observability.metrics import ALL_METRICS, METRIC_PREFIX, Declaration

PROCESSES = ("worker", "calibrator")
OF_PROMETHEUS = {"instance", "job"}
HISTOGRAM: Mapping[str, set[str]] = {"_bucket": {"le"}, "_sum": set(), "_count": set()}


@dataclass(frozen=True)
class Scraped:
    """The metrics of both processes, the ports that serve them, and the Prometheus server that scraped them."""

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


def series_of(declaration: Declaration) -> dict[str, set[str]]:
    """Return the query names of a metric, each with its labels."""
    suffixes = HISTOGRAM if declaration.kind == "histogram" else {"": set[str]()}
    return {declaration.full_name + suffix: {*declaration.labels, *more} for suffix, more in suffixes.items()}


@pytest.mark.parametrize("process", PROCESSES)
def test_prometheus_has_every_declared_metric_with_its_labels_and_no_other(scraped: Scraped, process: str) -> None:
    expected = {
        name: labels for one in ALL_METRICS if process in one.processes for name, labels in series_of(one).items()
    }
    found = scraped.prometheus.query(f'{{job="{process}",__name__=~"{METRIC_PREFIX}.+"}}')
    assert {one.name: set(one.labels) - OF_PROMETHEUS for one in found} == expected
    held = [
        sample
        for family in scraped.metrics[process].registry.collect()
        if family.name.startswith(METRIC_PREFIX)
        for sample in family.samples
    ]
    assert {(one.name, own_labels(one)): one.value for one in found} == pytest.approx(
        {(one.name, frozenset(one.labels.items())): one.value for one in held}
    )


def own_labels(series: prometheus.Series) -> frozenset[tuple[str, str]]:
    return frozenset((label, text) for label, text in series.labels.items() if label not in OF_PROMETHEUS)


@pytest.mark.parametrize("process", PROCESSES)
def test_promtool_accepts_the_metrics(scraped: Scraped, process: str) -> None:
    page = prometheus.fetch(f"http://127.0.0.1:{scraped.ports[process]}/metrics")
    assert METRIC_PREFIX.encode() in page
    assert prometheus.complaints(page) == ""


def test_promtool_detects_a_violation_of_the_conventions() -> None:
    prometheus.required()
    assert "help" in prometheus.complaints(b"# TYPE stream_masker_bare gauge\nstream_masker_bare 1\n")
