"""What the metrics of a worker tell of a record: its outcome, and nothing of its mask."""

from __future__ import annotations

from dataclasses import replace

from exercised_metrics import block, counts
from prometheus_client import CollectorRegistry
from results import result_of

from stream_masker.core.batch import Distortion
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Masked, RecordOutcome, Rejected, Result
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.worker import WorkerReport

TIMES = ("_duration_seconds_sum", "_duration_seconds_bucket", "_created")


def metrics_after(*results: Result) -> dict[tuple[str, ...], float]:
    """Return the values of all series that do not measure time, after batches are committed."""
    registry = CollectorRegistry()
    report = WorkerReport(Metrics(registry, "worker"), Health())
    for result in results:
        report.committed([result], 0.1)
    every = (sample for family in registry.collect() for sample in family.samples)
    return {(s.name, *s.labels.values()): s.value for s in every if not s.name.endswith(TIMES)}


def record(outcome: RecordOutcome, *, moved: bool = False) -> Result:
    """Return the outcome of a record that is the only one between two scrapes; ``moved``: whether its code changes."""
    alone = block(0)
    if moved:
        far = (Distortion(1, 1.0, 1.0),) * len(alone.distortions)
        return result_of([outcome], [replace(alone, masked=counts(9), distortions=far, unchanged=0)])
    return result_of([outcome], [replace(alone, masked=alone.original, unchanged=1)])


def test_the_metrics_of_a_worker_tell_nothing_of_the_mask_of_a_lone_record() -> None:
    """A counter of unchanged values would tell whether a record shows its original code."""
    kept = metrics_after(record(Masked(0, b'{"code": "a11"}', b"k", [], 1)))
    assert metrics_after(record(Masked(0, b'{"code": "d49"}', b"k", [], 1), moved=True)) == kept
    assert metrics_after(record(Masked(0, None, b"k", [], 1))) != kept
    assert metrics_after(record(Rejected(0, Reason.MISSING))) != kept
