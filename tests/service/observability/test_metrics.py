"""The declared table of metrics, and the metrics made from it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from stream_masker.service.observability import metric_definitions
from stream_masker.service.observability.metric_definitions import METRIC_DEFINITIONS, metrics_table
from stream_masker.service.observability.metrics import Metrics


@pytest.fixture
def worker() -> Metrics:
    return Metrics(CollectorRegistry(), "worker")


def shown(metrics: Metrics) -> set[str]:
    return {family.name for family in metrics.registry.collect()}


@pytest.mark.parametrize("process", ["worker", "calibrator"])
def test_a_process_has_exactly_the_metrics_declared_for_it(process: str) -> None:
    declared = {d.full_name.removesuffix("_total") for d in METRIC_DEFINITIONS if process in d.processes}
    assert shown(Metrics(CollectorRegistry(), process)) == declared


def test_names_are_unique_and_well_formed() -> None:
    names = [d.full_name for d in METRIC_DEFINITIONS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"stream_masker_[a-z_]+", name) for name in names)


@pytest.mark.parametrize("declared", METRIC_DEFINITIONS, ids=lambda d: d.name)
def test_counters_and_only_counters_are_totals(declared) -> None:
    assert declared.name.endswith("_total") == (declared.kind == "counter")
    assert bool(declared.buckets) == (declared.kind == "histogram")
    assert declared.help.endswith(".")


def test_the_readme_table_has_every_metric_with_its_labels() -> None:
    rows = metrics_table().splitlines()[2:]
    assert len(rows) == len(METRIC_DEFINITIONS)
    for declared, row in zip(METRIC_DEFINITIONS, rows, strict=True):
        assert f"`{declared.full_name}`" in row
        assert all(f"`{label}`" in row for label in declared.labels)


def test_counters_gauges_and_histograms_reach_the_exposition(worker: Metrics) -> None:
    worker.add("records_in_total", 5)
    worker.add("records_rejected_total", 2, reason="missing")
    worker.set("held", 1)
    worker.observe("batch_records", 3)
    text = generate_latest(worker.registry).decode()
    assert "stream_masker_records_in_total 5.0" in text
    assert 'stream_masker_records_rejected_total{reason="missing"} 2.0' in text
    assert "stream_masker_held 1.0" in text
    assert "stream_masker_batch_records_count 1.0" in text


def test_a_forgotten_metric_shows_no_series(worker: Metrics) -> None:
    worker.set("consumer_lag", 7, partition="3")
    worker.forget("consumer_lag")
    assert 'partition="3"' not in generate_latest(worker.registry).decode()


def test_what_is_not_declared_cannot_be_measured(worker: Metrics) -> None:
    with pytest.raises(KeyError):
        worker.add("no_such_total")
    with pytest.raises(KeyError):
        worker.add("window_records")
    with pytest.raises(KeyError):
        worker.set("records_in_total", 1)
    with pytest.raises(ValueError, match="label"):
        worker.add("records_rejected_total", 1, code="x")


def test_two_processes_in_one_program_share_nothing() -> None:
    one, other = (Metrics(CollectorRegistry(), "worker") for _ in range(2))
    one.add("records_in_total")
    assert "stream_masker_records_in_total 0.0" in generate_latest(other.registry).decode()


@pytest.mark.parametrize("declared", METRIC_DEFINITIONS, ids=lambda d: d.name)
def test_everything_declared_is_measured_somewhere(declared) -> None:
    service = Path(metric_definitions.__file__).parent
    code = [path.read_text() for path in service.rglob("*.py") if path.name != "metrics_table.py"]
    assert any(f'"{declared.name}"' in text for text in code)
