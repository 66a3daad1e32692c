"""The share of rejected records that makes a worker not ready."""

from __future__ import annotations

from collections import Counter

import pytest
from prometheus_client import CollectorRegistry

from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.report import LATEST_RECORDS, LEAST_RECORDS, WorkerReport
from stream_masker.service.worker.transactions import TransactionCounts

REASON = (
    "80% of the latest records were rejected: missing_noise_key at patient.idd 200. Check these paths in the "
    "configuration, or raise limits.rejected_share (0.1)"
)


@pytest.fixture
def health() -> Health:
    made = Health()
    made.reason("start", None)
    return made


@pytest.fixture
def report(health: Health) -> WorkerReport:
    return WorkerReport(Metrics(CollectorRegistry(), "worker"), health, rejected_share=0.1)


def commit(report: WorkerReport, masked: int, rejected: int = 0) -> None:
    causes = Counter({("missing_noise_key", "patient.idd"): rejected} if rejected else {})
    report.committed(TransactionCounts(masked + rejected, masked, causes), 0.1)


@pytest.mark.parametrize(
    ("masked", "rejected", "reasons"),
    [(50, 200, (REASON,)), (900, 100, ()), (0, LEAST_RECORDS - 1, ())],
    ids=["too many", "at the limit", "too few records"],
)
def test_the_reason_names_cause_path_and_limit(
    report: WorkerReport, health: Health, masked: int, rejected: int, reasons: tuple[str, ...]
) -> None:
    commit(report, masked, rejected)
    assert health.reasons == reasons


def test_old_records_are_forgotten(report: WorkerReport, health: Health) -> None:
    commit(report, 0, 1_000)
    for _ in range(25):
        commit(report, LATEST_RECORDS // 10)
    assert health.reasons == ()
