"""A simulated group, broker, consumer and commit pipeline with random faults, which check exactly-once processing.

The broker keeps committed offsets and committed output by partition, and checks them whenever a transaction is
committed. Another member of the group processes records of the partitions that the worker does not own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from consumer import FakeMessage, at

from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.worker.commit_pipeline import PendingCommit
from stream_masker.service.worker.partition_source import MAX_RENEWALS

if TYPE_CHECKING:
    from worker_simulation import Simulation

PARTITIONS = 3
RECORDS = 200
"""Records of each partition."""


@dataclass(eq=False)
class Transaction:
    """A transaction: partitions and offsets of its records, the offsets to commit, and the metadata of the group."""

    records: list[tuple[int, int]] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    group: object = None


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
            if self.random.random() < 0.5:
                self.commit(transaction)
            else:
                self.abort(transaction)

    def prepare(self, transaction: Transaction) -> None:
        """Accept a transaction's offsets, unless its member has been fenced."""
        if transaction not in self.prepared and transaction.group == self.metadata():
            self.prepared.append(transaction)

    def abort(self, transaction: Transaction) -> None:
        if transaction in self.prepared:
            self.prepared.remove(transaction)

    def is_stable(self, partition: int) -> bool:
        """Whether no prepared transaction may still change the partition's committed offset."""
        return not any(partition in transaction.offsets for transaction in self.prepared)

    def remove(self, partitions: Iterable[int]) -> None:
        """Partitions get another owner, which processes some of their records."""
        self.generation += 1
        self.owned -= set(partitions)
        for partition in filter(self.is_stable, partitions):
            self.process_elsewhere(partition)

    def process_elsewhere(self, partition: int) -> None:
        start = self.committed[partition]
        end = min(RECORDS, start + self.random.choice([0, 0, 1, 3]))
        self.output[partition].extend(range(start, end))
        self.committed[partition] = end
        self.check()

    @property
    def complete(self) -> bool:
        return all(offset == RECORDS for offset in self.committed.values())


class SimulatedConsumer:
    """A consumer whose group rebalances at random within ``consume``, and sometimes removes it without notice.

    ``reassigned``: the partitions assigned in the present ``consume``, which returns no older messages of them.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.random, self.broker = simulation.random, simulation.broker
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.next: dict[int, int] = {}
        self.paused: set[int] = set()
        self.reassigned: set[int] = set()
        self.quiet = 0
        self.removed = False
        self.closed = False

    def subscribe(self, topics: list[str], **callbacks: Callable[..., None]) -> None:
        self.callbacks = callbacks

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
        """Some of the next records of the assigned partitions that are not paused; none in quiet periods."""
        found: list[FakeMessage] = []
        self.quiet = 10 if self.random.random() < 0.05 else max(0, self.quiet - 1)
        if self.quiet:
            return found
        for partition in self.random.sample(sorted(self.next), len(self.next)):
            start = self.next[partition]
            end = start if partition in self.paused else min(RECORDS, start + self.random.choice([0, 1, 3]))
            end = min(end, start + limit - len(found))
            found += [FakeMessage(partition, offset) for offset in range(start, end)]
            self.next[partition] = max(start, end)
        return found

    def rebalance(self) -> bool:
        """Perhaps change the assignment; return whether the client has failed for good."""
        if self.removed:
            self.lose()
        if self.random.random() < 0.2:
            self.broker.resolve()
        chance = self.random.random() if self.simulation.faulty else 1.0
        if chance < 0.01:
            self.removed = True
            self.broker.remove(set(self.broker.owned))
        elif chance < 0.05 and self.next:
            self.revoke(self.random.sample(sorted(self.next), self.random.randint(1, len(self.next))))
        elif chance < 0.055:
            return len(self.simulation.consumers) < MAX_RENEWALS
        elif chance < 0.4 or not self.simulation.faulty:
            self.assign()
        return False

    def assign(self) -> None:
        free = filter(self.broker.is_stable, set(range(PARTITIONS)) - self.next.keys())
        chosen = [partition for partition in free if not self.simulation.faulty or self.random.random() < 0.7]
        if not chosen or self.removed:
            return
        self.broker.generation += 1
        self.broker.owned |= set(chosen)
        self.callbacks["on_assign"](self, at(*sorted(chosen)))

    def revoke(self, partitions: Iterable[int]) -> None:
        """A cooperative revocation: the next owner starts after the callback."""
        self.callbacks["on_revoke"](self, at(*sorted(partitions)))
        assert self.simulation.pipeline.pending is None, "a commit is pending after a revocation"
        self.broker.remove(set(partitions))

    def lose(self) -> None:
        self.removed = False
        if self.next:
            self.callbacks["on_lost"](self, at(*sorted(self.next)))
            assert self.simulation.pipeline.pending is None, "a commit is pending after a loss"

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self.next[one.partition] = self.broker.committed[one.partition]
            self.reassigned.add(one.partition)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            del self.next[one.partition]

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= {one.partition for one in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= {one.partition for one in partitions}

    def seek(self, partition: TopicPartition) -> None:
        assert partition.partition in self.next, "seek of a partition that is not assigned"
        self.next[partition.partition] = partition.offset

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        unstable = not all(self.broker.is_stable(one.partition) for one in partitions)
        if unstable or (self.simulation.faulty and self.random.random() < 0.2):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out"))
        return [TopicPartition("in", one.partition, self.broker.committed[one.partition]) for one in partitions]

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float, cached: bool) -> tuple[int, int]:
        return 0, RECORDS

    def consumer_group_metadata(self) -> object:
        """Renewed in the background: always that of the present generation."""
        return self.broker.metadata()

    def memberid(self) -> str:
        return "" if self.removed else "member"

    def close(self) -> None:
        if self.next and not self.removed:
            self.revoke(list(self.next))
        self.broker.remove(set(self.broker.owned))
        self.closed = True


class SimulatedPipeline:
    """A commit pipeline whose transactions fail, are lost, or get stuck at random; it checks how it is used.

    ``lost``: the producers, 0 or 1, that have no client until ``open``.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.random, self.broker = simulation.random, simulation.broker
        self.open_transaction: Transaction | None = None
        self.pending: tuple[Transaction, PendingCommit] | None = None
        self.commits = self.busy = 0
        self.lost: set[int] = set()
        self.stuck = self.aborting = self.closed = False
        self.overlaps = 0

    @property
    def idle(self) -> bool:
        """Whether no transaction is being committed or aborted."""
        return self.pending is None and not self.aborting

    def fails(self, chance: float) -> bool:
        return self.simulation.faulty and self.random.random() < chance

    def open(self) -> bool:
        assert self.open_transaction is self.pending is None
        self.broker.resolve()
        self.lost.clear()
        return True

    def begin(self, produce: Callable[..., None]) -> TransactionOutcome | None:
        assert self.open_transaction is None
        assert self.commits % 2 not in self.lost, "begun on a lost producer"
        assert self.pending is None or self.pending[1].in_log.done(), "written before the records before it"
        transaction = Transaction()
        produce(lambda topic, partition, messages, *_: self.send(transaction, topic, partition, messages))
        if self.fails(0.05):
            self.lost.add(self.commits % 2)
            return TransactionOutcome.UNKNOWN
        if self.fails(0.05):
            return TransactionOutcome.ABORTED
        self.open_transaction = transaction
        self.overlaps += self.pending is not None
        return None

    def send(self, transaction: Transaction, topic: str, partition: int, messages: Iterable[Any]) -> list[int]:
        assert topic == "out" or not list(messages)
        transaction.records += [(partition, int(value)) for value, *_ in messages]
        return []

    def commit(self, offsets: list[TopicPartition], group: object) -> PendingCommit:
        assert self.pending is None, "two commits at a time"
        assert self.open_transaction is not None
        assert not self.lost, "committed after a failure without a rewind"
        transaction, self.open_transaction = self.open_transaction, None
        transaction.offsets, transaction.group = {one.partition: one.offset for one in offsets}, group
        self.busy, self.commits = self.commits % 2, self.commits + 1
        self.pending, self.stuck = (transaction, PendingCommit(Future())), self.fails(0.05)
        return self.pending[1]

    def progress(self) -> None:
        """Advance the pending commit by a step: its records are in the log, its offsets are prepared, or it ends."""
        if self.pending is None or self.stuck or self.random.random() < 0.7:
            return
        transaction, commit = self.pending
        if not commit.in_log.done() and self.random.random() < 0.7:
            commit.in_log.set_result(None)
        elif self.random.random() < 0.5:
            self.broker.prepare(transaction)
        else:
            self.end(transaction, commit)

    def end(self, transaction: Transaction, commit: PendingCommit) -> None:
        self.pending = None
        if not commit.in_log.done():
            commit.in_log.set_result(None)
        commit.outcome.set_result(self.outcome(transaction))

    def outcome(self, transaction: Transaction) -> TransactionOutcome:
        """How a commit ends. If its result is lost, the coordinator commits or aborts it later."""
        if self.fails(0.1):
            self.broker.lost.append(transaction)
            self.lost.add(self.busy)
            return TransactionOutcome.UNKNOWN
        if self.fails(0.1):
            self.broker.abort(transaction)
            return TransactionOutcome.ABORTED
        if not self.broker.commit(transaction):
            return TransactionOutcome.ABORTED
        return TransactionOutcome.COMMITTED

    def expedite(self) -> None:
        for _ in range(20):
            self.progress()

    def abandon(self) -> TransactionOutcome:
        """Lose the producer that is stuck; its call may still end in the brokers."""
        if self.aborting:
            self.open_transaction, self.aborting = None, False
        else:
            assert self.pending is not None, "abandoned while nothing is committing"
            self.broker.lost.append(self.pending[0])
            self.pending = None
        self.lost.add(self.busy)
        return TransactionOutcome.UNKNOWN

    def abort(self) -> Future[TransactionOutcome]:
        assert self.pending is None, "aborted while another transaction commits"
        assert self.open_transaction is not None
        aborted: Future[TransactionOutcome] = Future()
        self.busy, self.aborting = self.commits % 2, self.fails(0.1)
        if not self.aborting:
            self.open_transaction = None
            aborted.set_result(TransactionOutcome.ABORTED)
        return aborted

    def close(self) -> None:
        assert self.pending is None, "closed while a transaction commits"
        self.open_transaction, self.closed = None, True
