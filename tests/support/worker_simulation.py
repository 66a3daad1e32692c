"""A worker on a simulated broker: rebalances, failed, lost and stuck transactions at random, in one thread.

The worker's loop, state machine, source and batchers are the real ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar

from prometheus_client import CollectorRegistry
from results import result_of
from simulated_kafka import SimulatedBroker, SimulatedConsumer, SimulatedPipeline
from worker_bench import OUTPUTS

from stream_masker.pipeline.records import Inputs, Masked, Result
from stream_masker.pipeline.runs import GroupTooSmallError
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.background import Liveness
from stream_masker.service.worker.batch import BatchLimits
from stream_masker.service.worker.batcher import LoadBatcher, MicroWindowBatcher, MicroWindowLimits
from stream_masker.service.worker.input_topics import TopicIds
from stream_masker.service.worker.loop import Worker, WorkerComponents
from stream_masker.service.worker.partition_source import PartitionSource
from stream_masker.service.worker.refusals import RefusedRecords
from stream_masker.service.worker.report import WorkerReport

READS = 4_000
"""Reads after which a worker that has not ended makes no progress."""


class SimulatedBackground:
    """Runs tasks in the calling thread, at a random time while it reads ahead or polls the group.

    ``abandoned``: how often a revocation abandoned the transaction that the worker was waiting for.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.random = simulation.random
        self.poll: Callable[[], None] = lambda: None
        self.abandoned = 0

    def run(self, task: Callable[[], Any], meanwhile: Callable[[Callable[[], bool]], None] = lambda _: None) -> Any:
        results: list[Any] = []

        def done() -> bool:
            self.simulation.pipeline.progress()
            if not results and self.random.random() < 0.3:
                results.append(task())
            return bool(results)

        meanwhile(done)
        while not done():
            self.poll()
        return results[0]

    def wait_until_done(self, future: Future[Any], limit: Callable[[], float]) -> bool:
        for _ in range(30):
            self.simulation.pipeline.progress()
            if future.done():
                return True
            if self.random.random() < 0.3:
                self.poll()
            if not future.done() and self.simulation.pipeline.idle:
                assert limit() == 0.0, "the worker waits for a transaction that it has abandoned"
                self.abandoned += 1
                return False
        return future.done()


class SimulatedMasker:
    """Masks a record as its offset; groups are too small at random."""

    reads_headers = False

    def __init__(self, random: Random, *, needs_group: bool) -> None:
        self.random, self.needs_group = random, needs_group

    def mask(self, topic: str, partition: int, records: Inputs, *, statistics_version: int, hold: bool) -> Result:
        if hold and self.random.random() < 0.3:
            raise GroupTooSmallError(1)
        return result_of([Masked(offset, b"%d" % offset, None, [], 1) for offset in records.offsets])

    def mask_all(self, topic: str, records: Mapping[int, Inputs], *, statistics_version: int) -> dict[int, Result]:
        return {p: self.mask(topic, p, one, statistics_version=1, hold=False) for p, one in records.items()}


class ImpatientLiveness(Liveness):
    """Pauses take no time."""

    def pause(self, seconds: float) -> bool:
        return self.beat()


class NoStatisticsConsumer:
    at_end = True

    def poll(self) -> list[Any]:
        return []

    def close(self) -> None:
        """Close nothing."""


class Simulation:
    """One run of a worker: ``faulty_reads`` reads with faults. It stops then, or when all records are processed."""

    alpha: ClassVar[dict[str, float]] = {}

    def __init__(self, random: Random, *, faulty_reads: int, until_complete: bool, grouped: bool) -> None:
        self.random = random
        self.faulty_reads, self.until_complete = faulty_reads, until_complete
        self.reads, self.now = 0, 0.0
        self.stop = threading.Event()
        self.broker = SimulatedBroker(random)
        self.pipeline = SimulatedPipeline(self)
        self.background = SimulatedBackground(self)
        self.metrics = Metrics(CollectorRegistry(), "worker")
        self.consumers: list[SimulatedConsumer] = []
        self.worker = self._worker(SimulatedMasker(random, needs_group=grouped))

    @property
    def faulty(self) -> bool:
        return self.reads < self.faulty_reads

    def tick(self, seconds: float) -> None:
        """Advance the clock by a read; stop the worker when it is time."""
        self.reads, self.now = self.reads + 1, self.now + seconds
        assert self.reads < READS, "the worker makes no progress"
        if not self.faulty and (not self.until_complete or self.broker.complete):
            self.stop.set()

    def run_and_check(self) -> None:
        """Run the worker to its end, and check that nothing is open and that every record was processed once."""
        self.worker.run()
        assert self.pipeline.closed
        assert self.pipeline.pending is self.pipeline.open_transaction is None
        assert all(consumer.closed for consumer in self.consumers)
        self.broker.resolve()
        self.broker.check()
        assert self.broker.complete or not self.until_complete

    def count(self, name: str, **labels: str) -> float:
        """A metric of the worker."""
        return self.metrics.registry.get_sample_value(f"stream_masker_{name}", labels) or 0.0

    def connect(self) -> SimulatedConsumer:
        self.consumers.append(SimulatedConsumer(self))
        return self.consumers[-1]

    def _worker(self, masker: SimulatedMasker) -> Worker:
        health = Health()
        liveness = ImpatientLiveness(health, self.stop)
        source, may_hold = self._source(liveness, grouped=masker.needs_group)
        self.background.poll = source.poll
        configuration = SimpleNamespace(hash="0" * 16)
        masking = SimpleNamespace(
            masker_of=lambda _: masker, alpha=self.alpha, configuration=configuration
        )
        return Worker(
            WorkerComponents(
                source=source,
                pipeline=self.pipeline,
                background=self.background,
                statistics_consumer=NoStatisticsConsumer(),
                statistics_topic=SimpleNamespace(due=False),
                active_statistics=SimpleNamespace(version=1, published=0, refused=None, refusals=0, masking=masking),
                inputs=SimpleNamespace(due=False, place_missing=lambda waiting: None),
                topic_ids=TopicIds(lambda _: True),
                outputs=lambda _: OUTPUTS,
                liveness=liveness,
                health=health,
                report=WorkerReport(self.metrics, health, lambda: self.now),
                refused=RefusedRecords(),
                may_hold=may_hold,
            ),
            clock=lambda: self.now,
        )

    def _source(self, liveness: Liveness, *, grouped: bool) -> tuple[PartitionSource, Callable[..., bool]]:
        limits = MicroWindowLimits(records=4, size=1_000, delay=0.5, batch=8)
        windows = MicroWindowBatcher(limits, minimum=lambda: 2 if self.faulty else 1)
        batcher = windows if grouped else LoadBatcher(BatchLimits(records=6, size=1_000, delay=0.2))
        source = PartitionSource(
            client=self.connect(),
            connect=self.connect,
            topics=["in"],
            batcher=batcher,
            beat=liveness.beat,
            put_back=windows.put_back,
            clock=lambda: self.now,
        )
        return source, limits.may_hold
