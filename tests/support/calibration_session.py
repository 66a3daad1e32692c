"""A calibration session with a fake publisher, and blocks to deliver to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from prometheus_client import CollectorRegistry

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.pipeline.calibration.counting import SampleCounts
from stream_masker.pipeline.calibration.history import History
from stream_masker.pipeline.calibration.versions import Publish, VersionPlanner
from stream_masker.pipeline.calibration.window import WindowLog
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.style import StyleCounts
from stream_masker.pipeline.wire.blocks import block_key, encode_block
from stream_masker.pipeline.wire.chunks import split_message
from stream_masker.pipeline.wire.statistics import StatisticsMessage, encode_statistics
from stream_masker.service.calibrator.components import CalibratorComponents
from stream_masker.service.calibrator.metrics import initialise_counters
from stream_masker.service.calibrator.session import CalibrationSession
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.observability.metrics import Metrics

ONTOLOGY = "concept,parent\na,\nb,a\nc,a\nd,b\ne,b\nf,c\ng,c\n"

ABSENT = -1
"""The code of a missing value."""


class FakePublisher:
    """Records what is published; ``chunks`` is the reported number of chunks."""

    def __init__(self) -> None:
        self.published: list[Publish] = []
        self.chunks = 0
        self.error: Exception | None = None

    def poll(self) -> None:
        """Serve no callbacks."""

    def publish(self, publish: Publish) -> int:
        if self.error is not None:
            raise self.error
        self.published.append(publish)
        return self.chunks


class SessionBench:
    """A session without earlier versions, with its publisher and metrics."""

    def __init__(self, components: CalibratorComponents) -> None:
        self.publisher = FakePublisher()
        self.components = replace(components, publisher=self.publisher)
        self.registry = CollectorRegistry()
        metrics = Metrics(self.registry, "calibrator")
        initialise_counters(metrics)
        history = History(components.subject, components.settings.baseline)
        planner = VersionPlanner(
            components.subject,
            components.new_mechanism(),
            history,
            components.settings,
            components.publication,
            components.risk_limits,
        )
        self.session = CalibrationSession(self.components, metrics, planner, WindowLog(components.settings))

    def deliver(self, offset: int, block: Block | bytes) -> None:
        key = None if isinstance(block, bytes) else block_key(block)
        written = 0 if isinstance(block, bytes) else block.timestamp
        configuration = self.components.configuration
        if not isinstance(block, bytes):
            raw = encode_block(block, self.components.subject.taxonomies, configuration="0")
            block = topic_seal(configuration, configuration.topics.calibration).seal(key or b"", raw)
        self.session.deliver(offset, written, key, block)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"stream_masker_{name}", labels)


def sample(codes: list[int]) -> SampleCounts:
    return SampleCounts(counts(codes), {}, (StyleCounts(), StyleCounts()))


def counts(codes: list[int]) -> Counts:
    columns = tuple(Column(np.array(codes, dtype=np.int32)) for _ in range(2))
    return count_batch(Batch(len(codes), columns), (7, 7))


def block(first: int, codes: list[int] | None = None) -> Block:
    given = counts(codes if codes is not None else [(first + k) % 7 for k in range(10)])
    distortions = (Distortion(10, 2.5, 0.9), Distortion(10, 1.0, 0.4))
    return Block("discharges", 0, first, first + 9, 0, 1, given, given, distortions, {})


def array_block(first: int, lengths: Sequence[int]) -> Block:
    """Return a block of records whose arrays have these lengths. Elements are 0, 1, … in turn, and two records after
    each other have the same scalar."""
    elements = Column((np.arange(sum(lengths)) % 7).astype(np.int32), offsets_from_lengths(np.array(lengths)))
    scalars = Column((np.arange(len(lengths)) // 2 % 7).astype(np.int32))
    given = count_batch(Batch(len(lengths), (scalars, elements)), (7, 7))
    distortions = (Distortion(len(lengths), 2.5, 0.9), Distortion(sum(lengths), 1.0, 0.4))
    return Block("discharges", 0, first, first + len(lengths) - 1, 0, 1, given, given, distortions, {})


def published(bench: SessionBench) -> StatisticsMessage:
    bench.deliver(4, block(0))
    bench.session.publish_next()
    return bench.publisher.published[-1].message


def in_chunks(message: StatisticsMessage) -> list[tuple[bytes | None, bytes | None]]:
    """Return the message in chunks of at most 512 bytes."""
    chunks = [(chunk.key, chunk.value) for chunk in split_message(message.version, encode_statistics(message), 512)]
    assert len(chunks) > 2
    return chunks
