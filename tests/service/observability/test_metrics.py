"""The metrics that are declared, and those that the service sets."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from calibration_bench import block, counts
from exercised_metrics import ATTRIBUTES, CONCEPTS, LABEL, RecordingMetrics, calibrator_metrics, worker_metrics
from prometheus_client import CollectorRegistry, generate_latest
from results import Masked, Outcome, Refused, result_of

from stream_masker.core.batch import Distortion
from stream_masker.pipeline.messages import REFUSAL_CAUSES
from stream_masker.pipeline.records import Reason
from stream_masker.service.observability.metrics import (
    ALL_METRICS,
    METRIC_DEFINITIONS,
    Health,
    Metrics,
    process_registry,
)
from stream_masker.service.worker.worker import TransactionOutcome, WorkerReport


def exported(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def test_there_are_at_most_45_metrics_with_names_and_texts_by_the_conventions() -> None:
    names = [one.full_name for one in ALL_METRICS]
    assert len(set(names)) == len(names) <= 45
    assert all(re.fullmatch(r"stream_masker_[a-z_]+", name) for name in names)
    for one in ALL_METRICS:
        assert one.name.endswith("_total") == (one.kind == "counter")
        assert one.help.endswith(".")


def test_metrics_are_exported_until_they_are_forgotten_and_again_when_they_are_set() -> None:
    worker = Metrics(CollectorRegistry(), "worker")
    worker.add("records_rejected_total", 2, reason="missing")
    worker.set("assigned_partitions", 1)
    worker.add("messages_refused_total", topic="statistics", cause="forged")
    worker.observe("batch_duration_seconds", 3)
    text = exported(worker)
    assert 'stream_masker_records_rejected_total{reason="missing"} 2.0' in text
    assert "stream_masker_assigned_partitions 1.0" in text
    assert "stream_masker_batch_duration_seconds_count 1.0" in text
    worker.forget("messages_refused_total")
    assert 'cause="forged"' not in exported(worker)
    worker.forget()
    gauges = {d.full_name for d in METRIC_DEFINITIONS if d.kind == "gauge"}
    assert not {family.name for family in worker.registry.collect()} & gauges
    assert 'stream_masker_records_rejected_total{reason="missing"} 2.0' in exported(worker)
    worker.set("assigned_partitions", 0)
    assert "stream_masker_assigned_partitions 0.0" in exported(worker)


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
    assert "stream_masker_ready 1.0" in generate_latest(registry).decode()


FIGURES = ("psi_blocks", "divergence_blocks", "psi_codes", "divergence_codes", "energy", "novel", "mean", "variance")
LABEL_VALUES = {
    "attribute": {*ATTRIBUTES, ", ".join(ATTRIBUTES)},
    "first": {*ATTRIBUTES},
    "second": {*ATTRIBUTES},
    "reason": {*Reason},
    "outcome": {*TransactionOutcome, "merged", "refused", "suppressed", "generalized"},
    "data": {"original", "masked"},
    "against": {"previous", "baseline", "expected"},
    "kind": {"actual", "target"},
    "given": {"value", "record"},
    "topic": {"calibration", "statistics"},
    "cause": {*REFUSAL_CAUSES},
    "concept": {*CONCEPTS},
    "label": {LABEL, ""},
    "level": {"blocks", "codes"},
    "figure": {*FIGURES, "correlation"},
}
"""All values that a label can have, for the attributes, partitions and concepts of ``exercised_metrics``."""


@pytest.fixture(scope="module", params=["worker", "calibrator"])
def exercised(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RecordingMetrics:
    """The metrics of each process after its own code has set them."""
    if request.param == "worker":
        return worker_metrics()
    return calibrator_metrics(tmp_path_factory.mktemp("calibrator"))


def test_every_metric_is_set_by_the_service_with_its_labels(
    exercised: RecordingMetrics, request: pytest.FixtureRequest
) -> None:
    process = request.node.callspec.params["exercised"]
    declared = {d.name: d for d in METRIC_DEFINITIONS if process in d.processes}
    assert {call.name for call in exercised.calls} == declared.keys()
    counted = {call.name for call in exercised.calls if call.method == "add" and call.value > 0}
    assert {d.name for d in declared.values() if d.kind == "counter"} - counted <= {"statistics_refused_total"}
    assert all(set(call.labels) == set(declared[call.name].labels) for call in exercised.calls)


def test_every_label_is_bounded(exercised: RecordingMetrics) -> None:
    assert {label for d in METRIC_DEFINITIONS for label in d.labels} == LABEL_VALUES.keys()
    labelled = [(label, value) for call in exercised.calls for label, value in call.labels.items()]
    assert labelled
    assert [(label, value) for label, value in labelled if value not in LABEL_VALUES[label]] == []
    assert not {value for label, value in labelled if label != "concept"} & set(CONCEPTS)
    assert {call.name for call in exercised.calls if "concept" in call.labels} <= {"smean", "drift_moved"}


TIMES = ("_duration_seconds_sum", "_duration_seconds_bucket", "_created")


def metrics_after(outcome: Outcome, *, moved: bool = False) -> dict[tuple[str, ...], float]:
    """All series that do not measure time, after a batch of one record; ``moved``: whether its code changes."""
    registry, alone = CollectorRegistry(), block(0)
    far = (Distortion(1, 1.0, 1.0),) * len(alone.distortions)
    kept = replace(alone, masked=alone.original, unchanged=1)
    counted = replace(alone, masked=counts([3] * 10), distortions=far, unchanged=0) if moved else kept
    WorkerReport(Metrics(registry, "worker"), Health()).committed([result_of([outcome], [counted])], 0.1)
    every = (sample for family in registry.collect() for sample in family.samples)
    return {(s.name, *s.labels.values()): s.value for s in every if not s.name.endswith(TIMES)}


def test_the_metrics_of_a_worker_tell_nothing_of_the_mask_of_a_lone_record() -> None:
    """A counter of unchanged values would tell whether a record shows its original code."""
    kept = metrics_after(Masked(0, b'{"code": "a11"}', b"k", [], 1))
    assert metrics_after(Masked(0, b'{"code": "d49"}', b"k", [], 1), moved=True) == kept
    assert metrics_after(Masked(0, None, b"k", [], 1)) != kept
    assert metrics_after(Refused(0, Reason.MISSING)) != kept
