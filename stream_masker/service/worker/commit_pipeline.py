"""Two producers used in turn, so that one batch is masked and written while the one before it commits.

A producer can have but one open transaction, and librdkafka's next one waits 20 ms and more while the coordinator
still writes the markers of the last. So transactions alternate between two producers, and what one producer would
guarantee by itself is kept by order:

* the records of a batch are sent when all of the batch before stand in the log, so a partition's order is the input's;
* one thread commits, batch after batch; after one that failed, the batch that follows is aborted, never committed.

A committed offset is thus never ahead of an uncommitted record. Committed readers see the batches in order too: they
wait at the first record of an open transaction. Each producer has a transactional id of its own.

A call of librdkafka's may never return, whatever its timeout, when brokers come and go: ``send_offsets_to_transaction``
was seen to. Its producer is then forsaken, and a new one under its transactional id shuts it out: should the call end
after all, the brokers refuse what it does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from stream_masker.service.kafka.transactional_producer import (
    ATTEMPT_SECONDS,
    EXPEDITED_PATIENCE_SECONDS,
    STEP_PATIENCE_SECONDS,
    SendMessages,
    TransactionalProducer,
    TransactionOutcome,
)
from stream_masker.service.worker.background import SerialExecutor

log = logging.getLogger(__name__)

PIPELINE_DEPTH = 2

COMMIT_STUCK_SECONDS = 2 * (STEP_PATIENCE_SECONDS + ATTEMPT_SECONDS) + 1
"""Seconds after which a transaction that should have been committed, or else aborted, is stuck."""

EXPEDITED_STUCK_SECONDS = 2 * (EXPEDITED_PATIENCE_SECONDS + ATTEMPT_SECONDS) + 1
"""The same while partitions wait to be given up, or the process to end."""


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """A transaction that is committing. ``in_log``: done when its records stand in the log, or never will."""

    outcome: Future[TransactionOutcome]
    in_log: Future[None] = field(default_factory=Future)


class CommitPipeline:
    """Transactions one after the other, each filled while the one before it commits.

    All methods are for one thread at a time; commits and aborts happen in a thread of their own.
    """

    def __init__(self, producers: Sequence[TransactionalProducer]) -> None:
        self._producers = list(producers)
        self._turns = 0
        self._busy = 0
        self._hand = SerialExecutor("committing")

    def open(self) -> bool:
        """Gets every producer ready that is not; waits for the brokers. False: stopping. Raises like a producer's."""
        return all(producer.ready or producer.open() for producer in self._producers)

    def fill(self, produce: Callable[[SendMessages], None]) -> TransactionOutcome | None:
        """Begins the next transaction with what ``produce`` sends; None: it is open, else what became of it.

        To be called when the records of the last transaction stand in the log.
        """
        return self._producers[self._free].fill(produce)

    def commit(self, offsets: list[TopicPartition], group: object) -> PendingCommit:
        """Lets the transaction that was filled commit. To be called when the last one is committed."""
        self._busy, in_log = self._free, Future[None]()
        self._turns += 1
        producer = self._producers[self._busy]
        return PendingCommit(self._hand.submit(lambda: _commit(producer, offsets, group, in_log)), in_log)

    def abort(self) -> Future[TransactionOutcome]:
        """Aborts the transaction that was filled. To be called when nothing is committing."""
        self._busy = self._free
        return self._hand.submit(self._producers[self._busy].abort)

    def forsake(self) -> TransactionOutcome:
        """Leaves a producer that is stuck committing or aborting to itself; ``open`` puts another in its place."""
        log.warning("a transaction has neither been committed nor aborted for long: its producer is replaced")
        self._producers[self._busy] = self._producers[self._busy].successor()
        self._hand = SerialExecutor("committing")
        return TransactionOutcome.UNKNOWN

    def hurry(self) -> None:
        """Has the steps of open transactions give up soon."""
        for producer in self._producers:
            producer.hurry()

    def close(self) -> None:
        """Aborts what is open, unless that takes too long: then the brokers will."""
        self.hurry()
        wait([self._hand.submit(self._close)], EXPEDITED_PATIENCE_SECONDS + ATTEMPT_SECONDS + 1)

    def _close(self) -> None:
        for producer in self._producers:
            producer.close()

    @property
    def _free(self) -> int:
        return self._turns % len(self._producers)


def _commit(
    producer: TransactionalProducer, offsets: list[TopicPartition], group: object, in_log: Future[None]
) -> TransactionOutcome:
    def written() -> None:
        in_log.set_result(None)

    try:
        return producer.commit(offsets, group, written)
    finally:
        if not in_log.done():
            written()
