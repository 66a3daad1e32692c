"""A calibration with a fake publisher, and blocks to merge into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
from prometheus_client import CollectorRegistry

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.pipeline.messages import StatisticsMessage, block_key, encode_block
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.versions import History, Publish, VersionPlanner
from stream_masker.pipeline.window import WindowLog
from stream_masker.service.calibrator.bootstrap import CalibratorComponents
from stream_masker.service.calibrator.calibration import Calibration, initialise_counters
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.observability.metrics import Health, Metrics

SECRET = b"the secret of all processes"
ONTOLOGY = "concept,parent\na,\nb,a\nc,a\nd,b\ne,b\nf,c\ng,c\n"
CONCEPTS = 7


class FakePublisher:
    """Records what is published, if its report can be written, or raises ``error``."""

    def __init__(self) -> None:
        self.published: list[Publish] = []
        self.error: Exception | None = None

    def poll(self) -> None:
        """Serve no callbacks."""

    def close(self) -> None:
        """Close nothing."""

    def publish(self, publish: Publish) -> None:
        if self.error is not None:
            raise self.error
        orjson.dumps(publish.report)
        self.published.append(publish)


class CalibrationBench:
    """A calibration without earlier versions, with its publisher and metrics. No sample is taken."""

    def __init__(self, components: CalibratorComponents, metrics: Metrics | None = None) -> None:
        self.publisher: Any = FakePublisher()
        self.components = replace(components, publisher=self.publisher)
        self.metrics = metrics or Metrics(CollectorRegistry(), "calibrator")
        initialise_counters(self.metrics)
        self.planner = VersionPlanner(components.subject, History(components.subject))
        window = WindowLog(components.settings)
        self.calibration = Calibration(self.components, self.metrics, self.planner, window)
        self.calibration._sample_at = float("inf")

    def deliver(self, offset: int, block: Block | bytes) -> None:
        """Merge a block, sealed as a worker does, or the bytes of a message."""
        configuration, key, written = self.components.configuration, b"", 0
        if isinstance(block, Block):
            key, written, subject = block_key(block), block.timestamp, self.components.subject
            raw = encode_block(block, subject.mechanism.taxonomies)
            block = topic_seal(configuration, configuration.topics.calibration).seal(key, raw)
        self.calibration.merge(offset, written, key, block)

    def advance(self, now: float, *, risk: bool = False) -> int:
        """Compute and publish all that is due at a time, in seconds; return the number of tasks.

        ``risk``: whether to compute also the risk of the last version, which is not counted.
        """
        tasks = 0
        while (task := self.calibration.next_task(now)) is not None and (risk or task != self.calibration.assess):
            task()
            tasks += task != self.calibration.assess
        return tasks

    def shown(self, now: float = 0.0) -> Health:
        """Return what the process shows at a time, in seconds."""
        health = Health()
        self.calibration.show(health, now)
        return health

    @property
    def messages(self) -> list[StatisticsMessage]:
        """The published versions."""
        return [publish.message for publish in self.publisher.published]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"stream_masker_{name}", labels)


def counts(codes: list[int]) -> Counts:
    columns = tuple(Column(np.array(codes, dtype=np.int32)) for _ in range(2))
    return count_batch(Batch(len(codes), columns), (CONCEPTS, CONCEPTS))


def block(first: int, codes: list[int] | None = None, *, partition: int = 0, timestamp: int = 0) -> Block:
    """Return the block of ten records, or of those with the given codes."""
    codes = [(first + k) % CONCEPTS for k in range(10)] if codes is None else codes
    given, size = counts(codes), len(codes)
    distortions = (Distortion(size, 2.5, 0.9), Distortion(size, 1.0, 0.4))
    return Block("discharges", partition, first, first + max(size, 1) - 1, timestamp, given, given, distortions)


def array_block(first: int, lengths: Sequence[int]) -> Block:
    """Return a block of records whose arrays have these lengths. Elements are 0, 1, … in turn, and two records after
    each other have the same scalar."""
    elements = Column((np.arange(sum(lengths)) % CONCEPTS).astype(np.int32), offsets_from_lengths(np.array(lengths)))
    scalars = Column((np.arange(len(lengths)) // 2 % CONCEPTS).astype(np.int32))
    given = count_batch(Batch(len(lengths), (scalars, elements)), (CONCEPTS, CONCEPTS))
    distortions = (Distortion(len(lengths), 2.5, 0.9), Distortion(sum(lengths), 1.0, 0.4))
    return Block("discharges", 0, first, first + len(lengths) - 1, 0, given, given, distortions)
