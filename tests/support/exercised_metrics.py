"""Metrics of a worker and a calibrator, set by the service's own code on small inputs, and a record of every call."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import KafkaError, TopicPartition
from prometheus_client import CollectorRegistry
from support.small_configuration import write_small

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.pipeline.calibration.risk import VersionRisk
from stream_masker.pipeline.calibration.versions import Publish
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Block, Stratum
from stream_masker.pipeline.wire.blocks import encode_block
from stream_masker.pipeline.wire.sealing import RefusalCause, TopicSeal
from stream_masker.service.calibrator.components import CalibratorComponents, build_components
from stream_masker.service.calibrator.engine import CalibratorEngine
from stream_masker.service.calibrator.metrics import initialise_counters, set_risk_metrics
from stream_masker.service.calibrator.session import CalibrationSession
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.kafka.unread_records import SkippedOffsets
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metric_definitions import ProcessName
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.batch import TransactionCounts
from stream_masker.service.worker.report import WorkerReport
from stream_masker.service.worker.starts import EndedWorkers, WorkerStart

NOMINAL, NUMERIC = ("one", "two"), ("age", "charge")
CONCEPTS = ("secret-a", "secret-b", "secret-c", "secret-d", "B20")
"""Concept ids, one of which is sensitive; none of them may appear in a label."""

PARTITIONS = (Partition("discharges", 0), Partition("admissions", 3))
RECORDS = 10


class MetricCall(NamedTuple):
    """A call of ``Metrics`` with the metric's name, the amount or value, and the labels."""

    method: str
    name: str
    value: float
    labels: dict[str, str]


class RecordingMetrics(Metrics):
    """Real metrics in a registry of their own that also record their calls."""

    def __init__(self, process: ProcessName) -> None:
        super().__init__(CollectorRegistry(), process)
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
    report.start()
    report.refused_message(RefusalCause.FORGED)
    masking = SimpleNamespace(alpha=dict.fromkeys((*NOMINAL, *NUMERIC), 0.3))
    report.statistics(SimpleNamespace(masking=masking, version=3, published=1, refusals=1, refused="version 4"), None)
    skipped = SkippedOffsets(lambda _: 0)
    skipped.pass_to(PARTITIONS[0], 3, 5)
    inputs = SimpleNamespace(place_missing=lambda waiting: None)
    source = {"unreadable": dict, "skipped": skipped, "without_place": set, "lag": lambda: dict.fromkeys(PARTITIONS, 7)}
    ended = EndedWorkers(SimpleNamespace(take=lambda committed: {one: WorkerStart(3, 2) for one in committed}))
    ended.take(dict.fromkeys(PARTITIONS, 3))
    report.partitions(SimpleNamespace(assigned=set(PARTITIONS), ended=ended, **source), inputs)
    counts = TransactionCounts(
        masked=8,
        tombstones=1,
        causes=Counter({(Reason.UNKNOWN_CODE.value, None): 1}),
        emptied=3,
        suppressed=Counter({NOMINAL[0]: 2}),
        blocks=2,
        blocks_left_out=1,
        uncounted=3,
    )
    for outcome in (TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED):
        report.batch(outcome, counts, 0.3)
    return metrics


def calibrator_metrics(folder: Path) -> RecordingMetrics:
    """Return the metrics of a calibrator that published versions and refused a block and a configuration."""
    publisher: Any = AcceptingPublisher()
    components = replace(build_components(write_configuration(folder)), publisher=publisher)
    metrics = RecordingMetrics("calibrator")
    initialise_counters(metrics)
    publish_versions(components, metrics)
    assess_transport(components, metrics)
    refuse_configuration(components, metrics)
    return metrics


def write_configuration(folder: Path) -> Configuration:
    root, *children = CONCEPTS
    rows = [f"{child},{root}" for child in children[:2]] + [f"{child},{children[0]}" for child in children[2:]]
    nominal = {name: {"path": name, "ontology": "small"} for name in NOMINAL}
    numeric = {name: {"path": name, "numeric": {}} for name in NUMERIC}
    path = write_small(
        folder,
        rows="\n".join(["concept,parent", f"{root},", *rows, ""]),
        attributes={**nominal, **numeric},
        internal_topics={"encryption": False},
        publication={"min_records": 1, "epsilon": 0.5},
        calibration={"every_records": 2 * RECORDS, "min_records": RECORDS},
    )
    return load_configuration(path, {})


def assess_transport(components: CalibratorComponents, metrics: Metrics) -> None:
    """Set the metrics of the risk that only transport has, which takes no numeric attributes."""
    taxonomies = {name: components.subject.taxonomies[name] for name in NOMINAL}
    transport = SemanticTransport(taxonomies, alpha=0.3, certainty=1.0, least=1, seed=b"a seed of sixteen bytes")
    codes = [CONCEPTS[1 + k % (len(CONCEPTS) - 1)] for k in range(RECORDS)]
    transport.learn_many([dict.fromkeys(NOMINAL, code) for code in codes])
    transport.calibrate()
    set_risk_metrics(metrics, VersionRisk(transport.risk(), 0.0, 0.0, (), promise=transport.promise))


class EmptyTopics:
    """A consumer of topics without records."""

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Accept any assignment."""

    def list_topics(self, topic: str, timeout: float) -> None:
        """Look up nothing."""

    def get_watermark_offsets(self, partition: TopicPartition, **_: object) -> tuple[int, int]:
        return (0, 0)

    def consume(self, records: int, timeout: float) -> list[Any]:
        return [SimpleNamespace(error=lambda: KafkaError(KafkaError._PARTITION_EOF))]


class AcceptingPublisher:
    """A publisher that writes nothing."""

    def poll(self) -> None:
        """Serve no callbacks."""

    def close(self) -> None:
        """Close nothing."""

    def publish(self, publish: Publish) -> int:
        return 0


def publish_versions(components: CalibratorComponents, metrics: Metrics) -> None:
    """Run a session: a refused block, versions from blocks with different values and from samples, and a tick."""
    consumer: Any = EmptyTopics()
    session = CalibrationSession.recover(components, metrics, consumer, lambda: False)
    session.deliver(0, 0, None, b"not a block")
    session.deliver(0, 0, None, TopicSeal("calibration", [bytes(16)]).seal(b"", b"sealed with another secret"))
    for offset in range(1, 7):
        counted = replace(block(offset), stratum=None if offset < 4 else Stratum(1, 1))
        raw = encode_block(counted, components.subject.taxonomies, configuration="0123456789abcdef", numeric=NUMERIC)
        session.deliver(offset, 0, None, raw)
        while session.pending_windows:
            session.publish_next()
            session.assess_risk()
    session.tick(time.time())


def block(offset: int) -> Block:
    first = offset * RECORDS
    distortions = (Distortion(RECORDS, 2.5, 0.9), Distortion(RECORDS, 1.0, 0.4))
    both = counts(2 * offset), counts(2 * offset + 1)
    return Block("discharges", 0, first, first + RECORDS - 1, 0, 1, *both, distortions, {})


def counts(seed: int) -> Counts:
    rng = np.random.default_rng(seed)
    columns = tuple(Column(rng.integers(0, len(CONCEPTS), RECORDS).astype(np.int32)) for _ in NOMINAL)
    numbers = rng.normal(size=(RECORDS, len(NUMERIC)))
    return count_batch(Batch(RECORDS, columns, numeric=numbers), [len(CONCEPTS)] * len(NOMINAL))


class RefusingFile:
    """A configuration file whose every change is refused."""

    refused = "noise_key: a change here needs a restart"
    refusals = 0

    def reload_if_changed(self, *, force: bool) -> bool:
        self.refusals += 1
        return False


def refuse_configuration(components: CalibratorComponents, metrics: Metrics) -> None:
    """Run an engine until it has refused a configuration file."""
    health, file = Health(), RefusingFile()
    configuration_file: Any = file
    engine = CalibratorEngine(components, metrics, health, lambda error: None, configuration_file)
    engine.start()
    engine.tick()
    deadline = time.monotonic() + 30
    while not health.notes and time.monotonic() < deadline:
        time.sleep(0.01)
    engine.stop()
