"""Metrics of a worker and a calibrator, set by the service's own code on small inputs, and a record of every call."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from results import Masked, Refused, result_of
from support.calibration_bench import CalibrationBench, block, counts
from support.channels import trained
from support.small_configuration import write_small

from stream_masker import SemanticTransport
from stream_masker.pipeline.messages import TopicSeal
from stream_masker.pipeline.records import Reason
from stream_masker.pipeline.risk import VersionRisk
from stream_masker.service.calibrator.bootstrap import CalibratorComponents, build_components
from stream_masker.service.calibrator.calibration import set_risk_metrics
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.observability.metrics import Health, Metrics, ProcessName, process_registry
from stream_masker.service.worker.worker import TransactionOutcome, WorkerReport

ATTRIBUTES = ("one", "two")
CONCEPTS = ("secret-a", "secret-b", "secret-c", "secret-d", "secret-e", "secret-f", "B20")
"""Concept ids, one of which is sensitive; none of them may appear in a label."""

LABEL = "A disease"
"""The label of all concepts."""

RECORDS = 10
"""The records of a block."""


class MetricCall(NamedTuple):
    """A call of ``Metrics`` with the metric's name, the amount or value, and the labels."""

    method: str
    name: str
    value: float
    labels: dict[str, str]


class RecordingMetrics(Metrics):
    """Real metrics in the registry of a process that also record their calls."""

    def __init__(self, process: ProcessName) -> None:
        super().__init__(process_registry(process, Health()), process)
        self.calls: list[MetricCall] = []

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        self.calls.append(MetricCall("add", name, amount, labels))
        super().add(name, amount, **labels)

    def set(self, name: str, value: float, **labels: str) -> None:
        self.calls.append(MetricCall("set", name, value, labels))
        super().set(name, value, **labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self.calls.append(MetricCall("observe", name, value, labels))
        super().observe(name, value, **labels)


def worker_metrics() -> RecordingMetrics:
    """Return the metrics of a worker that has statistics, partitions, a committed batch and an aborted one."""
    metrics = RecordingMetrics("worker")
    report: Any = WorkerReport(metrics, Health())
    report.refused_message("forged")
    report.statistics(SimpleNamespace(version=3, refusals=1, problem="version 4", age=1.0))
    source = {"topic": "discharges", "unreadable": {}, "take_skipped": lambda: 2, "lag": lambda: 7}
    report.partitions(SimpleNamespace(assigned={0, 3}, **source))
    outcomes = [*(Masked(n, b"{}", None, [], 1) for n in range(8)), Refused(8, Reason.UNKNOWN_CODE)]
    tally = {("emptied", "age"): 3, ("suppressed", ATTRIBUTES[0]): 2, ("generalized", ATTRIBUTES[0]): 1}
    report.committed([replace(result_of(outcomes), tally=Counter(tally))], 0.3)
    report.ended(TransactionOutcome.ABORTED)
    return metrics


def calibrator_metrics(folder: Path) -> RecordingMetrics:
    """Return the metrics of a calibrator that published versions and refused blocks."""
    metrics = RecordingMetrics("calibrator")
    components = build_components(write_configuration(folder))
    publish_versions(CalibrationBench(components, metrics))
    assess_transport(components, metrics)
    return metrics


def write_configuration(folder: Path) -> Configuration:
    root, *children = CONCEPTS
    links = [*((child, root) for child in children[:2]), *((child, children[0]) for child in children[2:])]
    rows = [f"{child},{parent},{LABEL}" for child, parent in links]
    path = write_small(
        folder,
        *ATTRIBUTES,
        rows="\n".join(["concept,parent,label", f"{root},,{LABEL}", *rows, ""]),
        secret=b"0123456789abcdef",
        publication={"min_records": 1},
        calibration={"every_records": 2 * RECORDS, "min_records": RECORDS},
    )
    return load_configuration(path, {})


def assess_transport(components: CalibratorComponents, metrics: Metrics) -> None:
    """Set the metrics of the risk that only transport has."""
    made = SemanticTransport(components.subject.mechanism.taxonomies, alpha=0.3, certainty=1.0, least=1, seed=bytes(16))
    codes = [CONCEPTS[1 + k % (len(CONCEPTS) - 1)] for k in range(RECORDS)]
    transport = trained(made, [dict.fromkeys(ATTRIBUTES, code) for code in codes])
    set_risk_metrics(metrics, VersionRisk(transport.risk(), ()))


def publish_versions(bench: CalibrationBench) -> None:
    """Run a calibration: refused blocks, a window that cannot be computed, and versions of different values."""
    bench.deliver(0, b"not a block")
    bench.deliver(0, TopicSeal("calibration", [bytes(16)]).seal(b"", b"sealed with another secret"))
    some = counts([1] * RECORDS)
    absent = replace(some, values=tuple(column.select(np.zeros(len(column.keys), bool)) for column in some.values))
    bench.deliver(1, replace(block(RECORDS), original=absent))
    bench.advance(0.0)
    for offset in range(2, 7):
        bench.deliver(offset, block(offset * RECORDS))
        bench.advance(100.0 * offset, risk=offset == 6)
    bench.shown(time.time())
