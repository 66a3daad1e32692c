"""The metric definitions, and the metrics that the service sets."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from exercised_metrics import (
    CONCEPTS,
    LABEL,
    NOMINAL,
    NUMERIC,
    PARTITIONS,
    RecordingMetrics,
    calibrator_metrics,
    worker_metrics,
)
from prometheus_client import CollectorRegistry, generate_latest

from stream_masker.core.statistics.drift import ATTRIBUTE_FIGURES
from stream_masker.pipeline.messages import StatisticsSource
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.seal import RefusalCause
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import (
    ALL_METRICS,
    METRIC_DEFINITIONS,
    Declaration,
    Metrics,
    metrics_table,
    process_registry,
)
from stream_masker.service.worker.report import RETENTION, TransactionOutcome
from stream_masker.service.worker.statistics import HoldReason


@pytest.fixture
def worker() -> Metrics:
    return Metrics(CollectorRegistry(), "worker")


def exported_names(metrics: Metrics) -> set[str]:
    return {family.name for family in metrics.registry.collect()}


@pytest.mark.parametrize("process", ["worker", "calibrator"])
def test_process_has_exactly_its_defined_metrics(process: str) -> None:
    definition = {d.full_name.removesuffix("_total") for d in METRIC_DEFINITIONS if process in d.processes}
    assert exported_names(Metrics(CollectorRegistry(), process)) == definition


def test_there_are_at_most_45_metrics_with_names_and_texts_by_the_conventions() -> None:
    names = [one.full_name for one in ALL_METRICS]
    assert len(set(names)) == len(names) <= 45
    assert all(re.fullmatch(r"stream_masker_[a-z_]+", name) for name in names)
    for one in ALL_METRICS:
        assert one.name.endswith("_total") == (one.kind == "counter")
        assert one.help.endswith(".")


def test_metrics_table_has_every_metric_with_its_labels() -> None:
    rows = metrics_table().splitlines()[2:]
    for declaration, row in zip(ALL_METRICS, rows, strict=True):
        assert f"`{declaration.full_name}`" in row
        assert all(f"`{label}`" in row for label in declaration.labels)


def test_counters_gauges_and_histograms_are_exported(worker: Metrics) -> None:
    worker.add("records_in_total", 5)
    worker.add("records_rejected_total", 2, reason="missing")
    worker.set("assigned_partitions", 1)
    worker.observe("batch_duration_seconds", 3)
    text = generate_latest(worker.registry).decode()
    assert "stream_masker_records_in_total 5.0" in text
    assert 'stream_masker_records_rejected_total{reason="missing"} 2.0' in text
    assert "stream_masker_assigned_partitions 1.0" in text
    assert "stream_masker_batch_duration_seconds_count 1.0" in text


def test_forgotten_metric_exports_no_series(worker: Metrics) -> None:
    worker.set("consumer_lag", 7, topic="discharges", partition="3")
    worker.forget("consumer_lag")
    assert 'partition="3"' not in generate_latest(worker.registry).decode()


def test_forgotten_gauges_are_exported_again_when_they_are_set(worker: Metrics) -> None:
    worker.set("assigned_partitions", 1)
    worker.set("consumer_lag", 7, topic="discharges", partition="3")
    worker.add("records_in_total", 5)
    worker.forget_gauges()
    gauges = {d.full_name for d in METRIC_DEFINITIONS if d.kind == "gauge"}
    assert not exported_names(worker) & gauges
    assert "stream_masker_records_in_total 5.0" in generate_latest(worker.registry).decode()
    worker.set("assigned_partitions", 0)
    worker.forget("consumer_lag")
    text = generate_latest(worker.registry).decode()
    assert "stream_masker_assigned_partitions 0.0" in text
    assert 'partition="3"' not in text
    with pytest.raises(KeyError):
        worker.set("window_records", 1)


def test_undefined_metrics_and_labels_are_errors(worker: Metrics) -> None:
    with pytest.raises(KeyError):
        worker.add("no_such_total")
    with pytest.raises(KeyError):
        worker.add("window_records")
    with pytest.raises(KeyError):
        worker.set("records_in_total", 1)
    with pytest.raises(ValueError, match="label"):
        worker.add("records_rejected_total", 1, code="x")


def test_a_scrape_reads_the_version_and_the_state_of_the_process() -> None:
    health = Health()
    registry = process_registry("worker", health)
    health.reason("brokers", "no broker answers")
    text = generate_latest(registry).decode()
    assert 'process="worker"' in text
    assert "stream_masker_ready 0.0" in text
    assert 'stream_masker_not_ready_because{component="brokers"} 1.0' in text
    assert "process_resident_memory_bytes" in text
    health.reason("brokers", None)
    health.reason("start", None)
    text = generate_latest(registry).decode()
    assert "stream_masker_ready 1.0" in text
    assert 'stream_masker_not_ready_because{component="brokers"} 0.0' in text


LABEL_VALUES = {
    "attribute": {*NOMINAL, *NUMERIC, ", ".join(NOMINAL)},
    "first": {*NOMINAL, *NUMERIC},
    "second": {*NOMINAL, *NUMERIC},
    "partition": set(map(str, PARTITIONS)),
    "reason": {*Reason, *HoldReason},
    "outcome": {*TransactionOutcome, "merged", "refused", "suppressed", "generalized"},
    "source": {*get_args(StatisticsSource)},
    "data": {"original", "masked"},
    "against": {"previous", "baseline"},
    "kind": {"actual", "target"},
    "given": {"value", "record"},
    "topic": {"calibration", "statistics", "discharges"},
    "cause": {*RefusalCause, RETENTION},
    "concept": {*CONCEPTS},
    "label": {LABEL, ""},
    "level": {"blocks", "codes"},
    "figure": {*ATTRIBUTE_FIGURES, "correlation"},
}
"""All values that a label can have, for the attributes, topics, partitions and concepts of ``exercised_metrics``."""


@pytest.fixture(scope="module", params=["worker", "calibrator"])
def exercised(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RecordingMetrics:
    """The metrics of each process after its own code has set them."""
    if request.param == "worker":
        return worker_metrics()
    return calibrator_metrics(tmp_path_factory.mktemp("calibrator"))


def definitions_of(metrics: Metrics) -> list[Declaration]:
    names = exported_names(metrics)
    return [d for d in METRIC_DEFINITIONS if d.full_name.removesuffix("_total") in names]


def test_every_metric_is_set_by_the_service(exercised: RecordingMetrics) -> None:
    assert {call.name for call in exercised.calls} == {d.name for d in definitions_of(exercised)}


def test_every_counter_is_counted(exercised: RecordingMetrics) -> None:
    counted = {call.name for call in exercised.calls if call.method == "add" and call.value > 0}
    counters = {d.name for d in definitions_of(exercised) if d.kind == "counter"}
    assert counters - counted <= {"statistics_refused_total"}


def test_every_exported_series_has_the_defined_labels(exercised: RecordingMetrics) -> None:
    definitions = {d.full_name.removesuffix("_total"): d for d in definitions_of(exercised)}
    families = [family for family in exercised.registry.collect() if family.name in definitions]
    assert {family.name for family in families} == set(definitions)
    for family in families:
        assert family.samples, family.name
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == set(definitions[family.name].labels), sample


def test_every_label_is_bounded(exercised: RecordingMetrics) -> None:
    assert {label for d in METRIC_DEFINITIONS for label in d.labels} == LABEL_VALUES.keys()
    labelled = [(label, value) for call in exercised.calls for label, value in call.labels.items()]
    assert labelled
    assert [(label, value) for label, value in labelled if value not in LABEL_VALUES[label]] == []
    assert not {value for label, value in labelled if label != "concept"} & set(CONCEPTS)
    assert {call.name for call in exercised.calls if "concept" in call.labels} <= {"smean", "drift_moved"}
