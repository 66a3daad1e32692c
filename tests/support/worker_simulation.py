"""A worker on a simulated group and broker: rebalances, failed, lost and stuck transactions at random, in one thread.

The worker's sessions, source and micro-windows are the real ones. The broker keeps committed offsets and committed
output by partition, and checks them whenever a transaction is committed. Another member of the group processes records
of the partitions that the worker does not own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

from confluent_kafka import OFFSET_STORED, KafkaError, KafkaException, TopicPartition
from consumer import FakeClient, FakeMessage
from prometheus_client import CollectorRegistry
from results import Masked, result_of

from stream_masker.pipeline.masker import GroupTooSmallError
from stream_masker.pipeline.records import Inputs, Result
from stream_masker.service.observability.metrics import Health, Metrics
from stream_masker.service.worker.groups import MicroWindows
from stream_masker.service.worker.source import Limits, Source
from stream_masker.service.worker.transactions import AbortedError, SessionLostError
from stream_masker.service.worker.worker import Clients, Worker, WorkerReport

PARTITIONS = 3
RECORDS = 200
"""Records of each partition."""

READS, LOOKS = 6_000, 50_000
"""Reads, and looks whether a transaction has ended, after which a worker that has not ended makes no progress."""


@dataclass(eq=False)
class Transaction:
    """A transaction: partitions and offsets of its records, the offsets to commit, and the metadata of the group."""

    records: list[tuple[int, int]]
    offsets: dict[int, int]
    group: object
    future: Future[list[Result]] = field(default_factory=Future)


class SimulatedBroker:
    """The group, its committed offsets, and the committed output: by partition, the offsets of the masked records.

    ``prepared``: transactions whose offsets the brokers have accepted; they may be committed even after the member has
    been removed, and the next owners of their partitions wait for them. ``lost``: those whose producers are lost.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.generation = 0
        self.owned: set[int] = set()
        self.committed = dict.fromkeys(range(PARTITIONS), 0)
        self.output: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self.lost: list[Transaction] = []
        self.prepared: list[Transaction] = []

    def metadata(self) -> object:
        """The metadata of the present member and generation."""
        return f"generation {self.generation}"

    def commit(self, transaction: Transaction) -> bool:
        """Commit a transaction, unless its member has been fenced. All its effects are atomic and exactly once."""
        if transaction in self.prepared:
            self.prepared.remove(transaction)
        elif transaction.group != self.metadata():
            return False
        for partition, offset in transaction.records:
            assert offset == len(self.output[partition]), f"record {offset} of {partition} is not the next"
            self.output[partition].append(offset)
        self.committed |= transaction.offsets
        self.check()
        return True

    def check(self) -> None:
        """Every record before the committed offset is in the output, once and in order; no other is."""
        for partition, offset in self.committed.items():
            assert self.output[partition] == list(range(offset))

    def resolve(self) -> None:
        """The coordinator ends the transactions whose producers are lost: it commits or aborts each."""
        lost, self.lost = self.lost, []
        for transaction in lost:
            (self.commit if self.random.random() < 0.5 else self.abort)(transaction)

    def prepare(self, transaction: Transaction) -> None:
        """Accept a transaction's offsets, unless its member has been fenced."""
        if transaction not in self.prepared and transaction.group == self.metadata():
            self.prepared.append(transaction)

    def abort(self, transaction: Transaction) -> None:
        self.prepared = [one for one in self.prepared if one is not transaction]

    def is_stable(self, partition: int) -> bool:
        """Whether no prepared transaction may still change the partition's committed offset."""
        return not any(partition in transaction.offsets for transaction in self.prepared)

    def remove(self, partitions: Iterable[int]) -> None:
        """Partitions get another owner, which processes some of their records."""
        self.generation += 1
        self.owned -= set(partitions)
        for partition in filter(self.is_stable, partitions):
            start = self.committed[partition]
            end = min(RECORDS, start + self.random.choice([0, 0, 1, 3]))
            self.output[partition].extend(range(start, end))
            self.committed[partition] = end
            self.check()

    @property
    def complete(self) -> bool:
        return set(self.committed.values()) == {RECORDS}


class SimulatedConsumer(FakeClient):
    """A consumer whose group rebalances at random within ``consume``, and sometimes removes it without notice.

    ``reassigned``: the partitions assigned in the present ``consume``, which returns no older messages of them.
    """

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self.simulation = simulation
        self.random, self.broker = simulation.random, simulation.broker
        self.next: dict[int, int] = {}
        self.reassigned: set[int] = set()
        self.quiet = 0
        self.removed = self.closed = False

    def consume(self, num_messages: int, timeout: float) -> list[FakeMessage]:
        assert not self.closed
        self.simulation.tick(max(timeout, 0.001))
        early = self.read(num_messages) if self.random.random() < 0.2 else []
        self.reassigned.clear()
        failed = self.rebalance()
        current = [message for message in early if message.partition() not in self.reassigned]
        if failed:
            return [*current, FakeMessage(0, 0, error=KafkaError(KafkaError._FATAL, "fenced"))]
        return current or self.read(num_messages)

    def read(self, limit: int) -> list[FakeMessage]:
        """Some of the next records of the assigned partitions; none in quiet periods."""
        found: list[FakeMessage] = []
        self.quiet = 10 if self.random.random() < 0.05 else max(0, self.quiet - 1)
        if self.quiet:
            return found
        for partition in self.random.sample(sorted(self.next), len(self.next)):
            start = self.next[partition]
            end = min(RECORDS, start + self.random.choice([0, 1, 3]), start + limit - len(found))
            found += [FakeMessage(partition, offset) for offset in range(start, end)]
            self.next[partition] = max(start, end)
        return found

    def rebalance(self) -> bool:
        """Perhaps change the assignment; return whether the client has failed for good."""
        if self.removed:
            self.removed = False
            if self.next:
                FakeClient.revoke(self, *sorted(self.next))
                assert self.simulation.pending is None, "a commit is pending after a loss"
        if self.random.random() < 0.2:
            self.broker.resolve()
        chance = self.random.random() if self.simulation.faulty else 1.0
        if chance < 0.01:
            self.removed = True
            self.broker.remove(set(self.broker.owned))
        elif chance < 0.05 and self.next:
            self.revoke(*self.random.sample(sorted(self.next), self.random.randint(1, len(self.next))))
        elif chance < 0.055:
            return True
        elif chance < 0.4 or not self.simulation.faulty:
            self.join()
        return False

    def join(self) -> None:
        free = filter(self.broker.is_stable, set(range(PARTITIONS)) - self.next.keys())
        chosen = [partition for partition in free if not self.simulation.faulty or self.random.random() < 0.7]
        if chosen and self.callbacks and not self.removed:
            self.broker.generation += 1
            self.broker.owned |= set(chosen)
            self.assign(*sorted(chosen))

    def revoke(self, *partitions: int) -> None:
        """A cooperative revocation: the next owner starts after the callback."""
        super().revoke(*sorted(partitions))
        assert self.simulation.pending is None, "a commit is pending after a revocation"
        self.broker.remove(set(partitions))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            committed = self.broker.committed[one.partition]
            assert one.offset in {committed, OFFSET_STORED}
            self.next[one.partition] = committed
            self.reassigned.add(one.partition)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            del self.next[one.partition]

    def seek(self, partition: TopicPartition) -> None:
        assert partition.partition in self.next, "seek of a partition that is not assigned"
        self.next[partition.partition] = partition.offset

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        unstable = not all(self.broker.is_stable(one.partition) for one in partitions)
        if unstable or (self.simulation.faulty and self.random.random() < 0.2):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out"))
        return [TopicPartition("in", one.partition, self.broker.committed[one.partition]) for one in partitions]

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = 0.0, cached: bool = False
    ) -> tuple[int, int]:
        return 0, RECORDS

    def consumer_group_metadata(self) -> object:
        """Renewed in the background: always that of the present generation."""
        return self.broker.metadata()

    def memberid(self) -> str:
        return "" if self.removed else "member"

    def close(self) -> None:
        assert self.simulation.pending is None, "closed while a transaction commits"
        if self.next and not self.removed:
            self.revoke(*self.next)
        self.broker.remove(set(self.broker.owned))
        self.closed = True


class SimulatedTransactions:
    """Transactions that fail, are lost, or get stuck at random; it checks how they are used."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.random, self.broker = simulation.random, simulation.broker
        self.opened = self.stuck = self.lost = False

    def fails(self, chance: float) -> bool:
        return self.simulation.faulty and self.random.random() < chance

    def open(self) -> None:
        assert self.simulation.pending is None
        self.broker.resolve()
        self.opened = True

    def write(self, results: Mapping[int, Result], group: object) -> Future[list[Result]]:
        assert self.opened
        assert not self.lost, "written on a lost producer"
        assert self.simulation.pending is None, "two transactions at a time"
        records = [(partition, offset) for partition, result in results.items() for offset in result.offsets]
        offsets = {partition: result.offsets[-1] + 1 for partition, result in results.items()}
        transaction = Transaction(records, offsets, group)
        self.simulation.pending, self.stuck = transaction, self.fails(0.05)
        return transaction.future

    def progress(self) -> None:
        """Advance the pending transaction by a step: its offsets are prepared, or it ends."""
        transaction = self.simulation.pending
        if transaction is None or self.stuck or self.random.random() < 0.5:
            return
        if self.random.random() < 0.5:
            self.broker.prepare(transaction)
            return
        self.simulation.pending = None
        try:
            self.end(transaction)
        except AssertionError as error:
            self.simulation.failures.append(error)
            transaction.future.set_exception(error)

    def end(self, transaction: Transaction) -> None:
        """Lose, abort or commit a transaction."""
        if self.fails(0.1):
            self.broker.lost.append(transaction)
            self.lost = True
            transaction.future.set_exception(SessionLostError("lost"))
        elif self.fails(0.1) or not self.broker.commit(transaction):
            self.broker.abort(transaction)
            transaction.future.set_exception(AbortedError("aborted"))
        else:
            transaction.future.set_result([])

    def is_stuck(self) -> bool:
        """A transaction that is given up may still end in the brokers."""
        self.simulation.looks += 1
        assert self.simulation.looks < LOOKS, "the worker waits for a transaction that does not end"
        self.progress()
        if self.stuck and self.simulation.pending is not None:
            self.broker.lost.append(self.simulation.pending)
            self.simulation.pending, self.lost = None, True
        return self.stuck


class SimulatedMasker:
    """Masks a record as its offset; groups are too small at random."""

    reads_headers = False

    def __init__(self, random: Random) -> None:
        self.random = random

    def mask(
        self, topic: str, partition: int, records: Inputs, *, statistics_version: int, hold: bool = False
    ) -> Result:
        if hold and self.random.random() < 0.3:
            raise GroupTooSmallError(1)
        return result_of([Masked(offset, b"%d" % offset, None, [], 1) for offset in records.offsets])

    def mask_all(self, topic: str, inputs: Mapping[int, Inputs], *, statistics_version: int) -> dict[int, Result]:
        return {p: self.mask(topic, p, one, statistics_version=statistics_version) for p, one in inputs.items()}


class Simulation:
    """One run of a worker: ``faulty_reads`` reads with faults. It stops then, or when all records are processed."""

    def __init__(self, random: Random, *, faulty_reads: int, until_complete: bool, grouped: bool) -> None:
        self.random = random
        self.faulty_reads, self.until_complete, self.grouped = faulty_reads, until_complete, grouped
        self.reads, self.looks, self.now = 0, 0, 0.0
        self.failures: list[AssertionError] = []
        self.stop = threading.Event()
        self.broker = SimulatedBroker(random)
        self.pending: Transaction | None = None
        self.checked: set[int] = set()
        self.transactions: list[SimulatedTransactions] = []
        self.consumers: list[SimulatedConsumer] = []
        self.metrics = Metrics(CollectorRegistry(), "worker")
        self.worker = self._worker()

    @property
    def faulty(self) -> bool:
        return self.reads < self.faulty_reads

    def tick(self, seconds: float) -> None:
        """Advance the clock by a read; stop the worker when it is time."""
        self.reads, self.now = self.reads + 1, self.now + seconds
        assert self.reads < READS, "the worker makes no progress"
        self.transactions[-1].progress()
        if not self.faulty and (not self.until_complete or self.broker.complete):
            self.stop.set()

    def run_and_check(self) -> None:
        """Run the worker to its end, and check that nothing is open and that every record was processed once."""
        self.worker.run()
        assert self.failures == []
        assert self.pending is None
        assert all(consumer.closed for consumer in self.consumers)
        assert self.checked == {0, *(n for n, consumer in enumerate(self.consumers, 1) if consumer.callbacks)}
        self.broker.resolve()
        self.broker.check()
        assert self.broker.complete or not self.until_complete

    def connect(self, revoke: Callable[[set[int]], None]) -> Clients:
        self.consumers.append(SimulatedConsumer(self))
        self.transactions.append(SimulatedTransactions(self))
        limits = Limits(records=6, size=1_000, delay=0.2)
        consumer, transactions = self.consumers[-1], self.transactions[-1]
        source: Any = Source(consumer, "in", limits, running=self.running, revoke=revoke, clock=lambda: self.now)  # type: ignore[arg-type]
        windows = MicroWindows(Limits(records=4, size=1_000), lambda: 2 if self.faulty else 1)
        return source, transactions, windows if self.grouped else None  # type: ignore[return-value]

    def running(self, _seconds: float = 0.0) -> bool:
        return not self.stop.is_set()

    def _worker(self) -> Worker:
        statistics: Any = SimpleNamespace(version=1, problem=None, refusals=0, age=0.0)
        statistics.masking = SimpleNamespace(masker=SimulatedMasker(self.random))

        def poll() -> None:
            assert statistics.version or not self.consumers[-1].callbacks, "in the group without statistics"
            statistics.version = int(not self.faulty or self.random.random() > 0.02)

        statistics.poll, statistics.close = poll, lambda: None
        report = WorkerReport(self.metrics, Health())
        parts = {"connect": self.connect, "statistics": statistics, "running": self.running, "report": report}
        return Worker(**parts, check=lambda: self.checked.add(len(self.consumers)))
