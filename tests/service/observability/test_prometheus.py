"""A real Prometheus scrapes the metrics of a worker and a calibrator: documented metrics can be queried.

With ``STREAM_MASKER_REQUIRE_PROMETHEUS=1`` the tests fail instead of being skipped if Prometheus is not available.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import prometheus
import pytest
from prometheus_client import CollectorRegistry

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.numeric import NumericStatistics
from stream_masker.core.ontology import Ontology
from stream_masker.core.risk.risk import Membership, Risk
from stream_masker.core.statistics import Statistics, compute_statistics, count_batch
from stream_masker.core.statistics.drift import drift_between
from stream_masker.core.statistics.utility import utility
from stream_masker.pipeline.publication import LabelledConcept
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.risk import VersionRisk
from stream_masker.pipeline.window import MaskingEffect
from stream_masker.service.calibrator.metrics import (
    initialise_counters,
    set_drift_metrics,
    set_effect_metrics,
    set_mean_metrics,
    set_risk_metrics,
    set_statistics_metrics,
    set_utility_metrics,
    set_window_metrics,
)
from stream_masker.service.observability.health import Health, HttpServer
from stream_masker.service.observability.metric_definitions import (
    ALL_METRICS,
    METRIC_PREFIX,
    MetricDefinition,
    ProcessName,
)
from stream_masker.service.observability.metrics import Metrics, process_registry
from stream_masker.service.worker.outcomes import TransactionCounts
from stream_masker.service.worker.report import TransactionOutcome, WorkerReport
from stream_masker.service.worker.statistics import HoldReason

NAMES = ("principal", "secondary")
ALPHA = dict(zip(NAMES, (0.3, 0.5), strict=True))
DISTORTIONS = (
    Distortion(values=5, squared_distance=0.8, squared_noise=0.45, truncated=2, unsigned=1),
    Distortion(values=5, squared_distance=1.2, squared_noise=0.9, truncated=0, unsigned=3),
)
LINKS = [("a", "r"), ("b", "r"), ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")]
D = WuPalmer(Ontology.from_edges(LINKS).taxonomy())
BEFORE = (["a1", "a1", "a2", "b1", "a1"], ["b1", "b1", "b2", "a1", "b2"])
NOW = (["b1", "b1", "b2", "b2", "a1"], ["a1", "b1", "b2", "a1", "b1"])
MASKED = (["b2", "a1", "b", "b2", "a2"], ["a2", "b1", "b", "a1", "b2"])

OF_PROMETHEUS = {"instance", "job"}
HISTOGRAM: Mapping[str, set[str]] = {"_bucket": {"le"}, "_sum": set(), "_count": set()}


def statistics(columns: tuple[list[str], ...], version: int, previous: Statistics | None = None) -> Statistics:
    batch = Batch(len(columns[0]), tuple(Column(D.taxonomy.encode(values)) for values in columns))
    counts = count_batch(batch, [len(D.taxonomy)] * len(NAMES), [1, 0])
    return compute_statistics(counts, NAMES, [D] * len(NAMES), version=version, previous=previous)


def worker() -> Metrics:
    """Return the metrics of a worker after a few transactions."""
    metrics = Metrics(process_registry("worker", Health()), "worker")
    report = WorkerReport(metrics, Health())
    report.start(ALPHA)
    causes = Counter({(Reason.UNKNOWN_CODE.value, "p"): 3, (Reason.NOT_JSON.value, None): 1})
    removed = Counter({NAMES[0]: 2})
    written = TransactionCounts(
        masked=990, tombstones=6, causes=causes, blocks=2, blocks_left_out=1, suppressed=removed
    )
    report.committed(written, 0.31)
    report.ended(TransactionOutcome.ABORTED)
    for partition, lag in enumerate((120, 0, 34)):
        metrics.set("consumer_lag", lag, topic="discharges", partition=str(partition))
    metrics.set("consumer_lag_assigned", 154)
    metrics.set("assigned_partitions", 3)
    metrics.set("held", 0)
    metrics.set("held_because", 0, reason=HoldReason.READING)
    in_force(metrics)
    return metrics


NUMBERS = NumericStatistics(("age", "charge"), np.array([40.0, 7.0]), np.array([[4.0, 3.0], [3.0, 9.0]]))


def calibrator() -> Metrics:
    """Return the metrics of a calibrator that has published three versions."""
    metrics = Metrics(process_registry("calibrator", Health()), "calibrator")
    initialise_counters(metrics)
    first = statistics(BEFORE, 1)
    latest = replace(statistics(NOW, 3, previous=first), numeric=NUMBERS)
    masked = replace(statistics(MASKED, 3), numeric=NUMBERS)
    set_window_metrics(metrics, latest)
    set_mean_metrics(metrics, {"original": {"principal": LabelledConcept("b", "Beta")}})
    set_statistics_metrics(metrics, masked, data="masked")
    set_utility_metrics(metrics, utility(latest, masked, DISTORTIONS, ALPHA, [D, D]))
    shares = dict.fromkeys(NAMES, 0.2)
    set_effect_metrics(
        metrics, MaskingEffect(unchanged=shares, truncated=shares, unsigned=shares, unchanged_records=0.1)
    )
    set_drift_metrics(metrics, drift_between(latest, first, [D, D]), against="previous")
    set_drift_metrics(metrics, drift_between(latest, first, [D, D]), against="baseline")
    unique = {"original": 0.2, "masked": 0.1}
    set_risk_metrics(metrics, VersionRisk(risk(NOW), 0.0, 0.1, (), unique, linked=0.3))
    metrics.add("blocks_read_total", 12, outcome="merged")
    metrics.add("statistics_published_total", 3, source="blocks")
    metrics.set("window_blocks", 12)
    metrics.observe("calibration_duration_seconds", 0.04)
    in_force(metrics)
    return metrics


def risk(columns: tuple[list[str], ...]) -> Risk:
    mechanism = SemanticNoise(dict.fromkeys(NAMES, D.taxonomy), seed=b"a secret of the tests")
    mechanism.learn_many(dict(zip(NAMES, row, strict=True)) for row in zip(*columns, strict=True))
    mechanism.calibrate()
    return sensitive(mechanism.risk(draws=100))


def sensitive(risk: Risk) -> Risk:
    """Return the risk with a sensitive group, which no small ontology has."""
    group = {"hiv": Membership(prior=0.1, found=0.2, greatest=0.5)}
    return replace(risk, value={name: replace(each, sensitive=group) for name, each in risk.value.items()})


def in_force(metrics: Metrics) -> None:
    metrics.set("statistics_version", 3)
    metrics.set("statistics_age_seconds", 41.5)
    metrics.add("statistics_refused_total", 1)


@dataclass(frozen=True)
class Scraped:
    """The metrics of both processes, the ports that serve them, and the Prometheus server that scraped them."""

    registries: Mapping[str, CollectorRegistry]
    ports: Mapping[str, int]
    prometheus: prometheus.Prometheus


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    prometheus.required()
    metrics: dict[ProcessName, Metrics] = {"worker": worker(), "calibrator": calibrator()}
    with contextlib.ExitStack() as stack:
        registries = {process: one.registry for process, one in metrics.items()}
        ports = {process: stack.enter_context(served(one)).port for process, one in registries.items()}
        server = stack.enter_context(prometheus.scraping(tmp_path_factory.mktemp("prometheus"), ports))
        yield Scraped(registries, ports, server)


def served(registry: CollectorRegistry) -> HttpServer:
    return HttpServer(host="127.0.0.1", port=0, health=Health(), registry=registry)


def series_of(definition: MetricDefinition) -> dict[str, set[str]]:
    """Return the query names of a metric, each with its labels."""
    suffixes = HISTOGRAM if definition.kind == "histogram" else {"": set[str]()}
    return {definition.full_name + suffix: {*definition.labels, *more} for suffix, more in suffixes.items()}


EVERY = [(process, definition) for definition in ALL_METRICS for process in definition.processes]


@pytest.mark.parametrize(("process", "definition"), EVERY, ids=[f"{process}-{d.name}" for process, d in EVERY])
def test_metric_has_its_documented_name_and_labels(
    scraped: Scraped, process: ProcessName, definition: MetricDefinition
) -> None:
    for name, labels in series_of(definition).items():
        found = scraped.prometheus.query(f'{name}{{job="{process}"}}')
        assert found, name
        assert {frozenset(series.labels) for series in found} == {frozenset(labels | OF_PROMETHEUS)}


@pytest.mark.parametrize("process", ["worker", "calibrator"])
def test_no_undocumented_metric_is_exported(scraped: Scraped, process: ProcessName) -> None:
    shown = {series.name for series in scraped.prometheus.query(f'{{job="{process}",__name__=~"{METRIC_PREFIX}.+"}}')}
    of_process = [definition for definition in ALL_METRICS if process in definition.processes]
    assert shown == {name for definition in of_process for name in series_of(definition)}


@pytest.mark.parametrize("process", ["worker", "calibrator"])
def test_prometheus_stores_every_series_with_its_value(scraped: Scraped, process: ProcessName) -> None:
    found = scraped.prometheus.query(f'{{job="{process}",__name__=~"{METRIC_PREFIX}.+"}}')
    held = [
        sample
        for family in scraped.registries[process].collect()
        if family.name.startswith(METRIC_PREFIX)
        for sample in family.samples
    ]
    assert {(one.name, own_labels(one)): one.value for one in found} == pytest.approx(
        {(one.name, frozenset(one.labels.items())): one.value for one in held}
    )


def own_labels(series: prometheus.Series) -> frozenset[tuple[str, str]]:
    return frozenset((label, text) for label, text in series.labels.items() if label not in OF_PROMETHEUS)


@pytest.mark.parametrize("process", ["worker", "calibrator"])
def test_promtool_accepts_the_metrics(scraped: Scraped, process: ProcessName) -> None:
    page = prometheus.fetch(f"http://127.0.0.1:{scraped.ports[process]}/metrics")
    assert METRIC_PREFIX.encode() in page
    assert prometheus.complaints(page) == ""


def test_promtool_detects_a_violation_of_the_conventions() -> None:
    prometheus.required()
    assert "help" in prometheus.complaints(b"# TYPE stream_masker_bare gauge\nstream_masker_bare 1\n")
