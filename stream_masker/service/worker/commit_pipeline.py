"""A pipeline of transactions on two producers: one batch is masked and written while the one before it commits.

A producer has at most one open transaction, and its next one is delayed by 20 ms or more while the coordinator writes
the markers of the last. Transactions therefore alternate between two producers, each with its own transactional id.
Order replaces the guarantees that a single producer gives:

* The records of a batch are sent when all records of the batch before are in the log. The order within a partition is
  that of the input.
* One thread commits batch after batch. The batch after a failed one is aborted, never committed.

No offset is therefore committed before the records that it covers. Committed readers also see the batches in order:
they wait at the first record of an open transaction.

A call to librdkafka may never return, despite its timeout, when brokers restart: ``send_offsets_to_transaction`` has
done so. The pipeline then abandons the producer and opens a new one with the same transactional id. The new one fences
the old one: if the call returns later, the brokers reject its requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from stream_masker.service.kafka.messages import SendMessages
from stream_masker.service.kafka.transactional_producer import (
    ATTEMPT_SECONDS,
    EXPEDITED_PATIENCE_SECONDS,
    STEP_PATIENCE_SECONDS,
    TransactionalProducer,
    TransactionOutcome,
)
from stream_masker.service.runtime.process import SerialExecutor

log = logging.getLogger(__name__)

PIPELINE_DEPTH = 2
"""Transactions that may be open at the same time, each on its own producer."""

COMMIT_STUCK_SECONDS = 2 * (STEP_PATIENCE_SECONDS + ATTEMPT_SECONDS) + 1
"""Seconds after which a commit, or the abort that follows it when it fails, is stuck."""

EXPEDITED_STUCK_SECONDS = 2 * (EXPEDITED_PATIENCE_SECONDS + ATTEMPT_SECONDS) + 1
"""The same limit while partitions are being revoked or the process stops."""


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """A commit in progress. ``in_log`` is done when the records are in the log, or when the commit has failed."""

    outcome: Future[TransactionOutcome]
    in_log: Future[None] = field(default_factory=Future)


class CommitPipeline:
    """Transactions in sequence, each written while the one before it commits.

    Only one thread at a time may call the methods. Commits and aborts run on a background thread. ``factories``: make
    an unopened producer for each transactional id.
    """

    def __init__(self, factories: Sequence[Callable[[], TransactionalProducer]]) -> None:
        self._factories = factories
        self._producers = [factory() for factory in factories]
        self._commits = 0
        self._busy = 0
        self._executor = SerialExecutor("committing")

    def open(self) -> bool:
        """Open every producer that is not ready; wait for the brokers. Return False when stopping.

        Raises ServiceError if Kafka refuses a transactional id.
        """
        return all(producer.ready or producer.open() for producer in self._producers)

    def begin(self, produce: Callable[[SendMessages], None]) -> TransactionOutcome | None:
        """Begin the next transaction with the messages that ``produce`` sends.

        Call it when the records of the last transaction are in the log. Return None if the transaction is open, or the
        outcome of the failed one.
        """
        return self._producers[self._next].begin(produce)

    def commit(self, offsets: list[TopicPartition], group: object) -> PendingCommit:
        """Start to commit the open transaction. Call it when the last transaction is committed."""
        self._busy, in_log = self._next, Future[None]()
        self._commits += 1
        producer = self._producers[self._busy]
        return PendingCommit(self._executor.submit(lambda: _commit(producer, offsets, group, in_log)), in_log)

    def abort(self) -> Future[TransactionOutcome]:
        """Start to abort the open transaction. Call it when nothing is committing."""
        self._busy = self._next
        return self._executor.submit(self._producers[self._busy].abort)

    def abandon(self) -> TransactionOutcome:
        """Replace the producer whose commit or abort is stuck; ``open`` opens the new one. Return the outcome UNKNOWN.

        The thread that is stuck is left behind; another one takes its place.
        """
        log.warning("a transaction has been neither committed nor aborted in time: its producer is replaced")
        self._producers[self._busy] = self._factories[self._busy]()
        self._executor = SerialExecutor("committing")
        return TransactionOutcome.UNKNOWN

    def expedite(self) -> None:
        """Shorten the time limits of open transactions."""
        for producer in self._producers:
            producer.expedite()

    def close(self) -> None:
        """Abort open transactions. If that takes too long, the brokers abort them later."""
        self.expedite()
        wait([self._executor.submit(self._close)], EXPEDITED_PATIENCE_SECONDS + ATTEMPT_SECONDS + 1)

    def _close(self) -> None:
        for producer in self._producers:
            producer.close()

    @property
    def _next(self) -> int:
        """The index of the producer of the open or next transaction."""
        return self._commits % len(self._producers)


def _commit(
    producer: TransactionalProducer, offsets: list[TopicPartition], group: object, in_log: Future[None]
) -> TransactionOutcome:
    def on_logged() -> None:
        in_log.set_result(None)

    try:
        return producer.commit(offsets, group, on_logged)
    finally:
        if not in_log.done():
            on_logged()
