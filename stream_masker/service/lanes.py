"""Two producers used in turn, so that one batch is masked and written while the one before it commits.

A producer can have but one open transaction, and librdkafka's next one waits 20 ms and more while the coordinator
still writes the markers of the last. So transactions alternate between two producers, and what one producer would
guarantee by itself is kept by order:

* the records of a batch are sent when all of the batch before stand in the log, so a partition's order is the input's;
* one thread commits, batch after batch; after one that failed, the batch that follows is aborted, never committed.

A committed offset is thus never ahead of an uncommitted record. Committed readers see the batches in order too: they
wait at the first record of an open transaction. Each producer has a transactional id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from stream_masker.service.producer import Outcome, Send, TransactionalProducer

LANES = 2


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction that is committing. ``in_log``: done when its records stand in the log, or never will."""

    outcome: Future[Outcome]
    in_log: Future[None] = field(default_factory=Future)


class Lanes:
    """Transactions one after the other, each filled while the one before it commits.

    All methods but ``hurry`` are for one thread at a time; commits happen in a thread of their own.
    """

    def __init__(self, producers: Sequence[TransactionalProducer]) -> None:
        self._producers = tuple(producers)
        self._turns = 0
        self._committing = ThreadPoolExecutor(1, thread_name_prefix="committing")

    def open(self) -> bool:
        """Gets every producer ready that is not; waits for the brokers. False: stopping. Raises like a producer's."""
        return all(producer.ready or producer.open() for producer in self._producers)

    def fill(self, produce: Callable[[Send], None]) -> Outcome | None:
        """Begins the next transaction with what ``produce`` sends; None: it is open, else what became of it.

        To be called when the records of the last transaction stand in the log.
        """
        return self._free.fill(produce)

    def commit(self, offsets: list[TopicPartition], group: object) -> Commit:
        """Lets the transaction that was filled commit. To be called when the last one is committed."""
        producer, in_log = self._free, Future[None]()
        self._turns += 1
        return Commit(self._committing.submit(_commit, producer, offsets, group, in_log), in_log)

    def abort(self) -> Outcome:
        """Aborts the transaction that was filled."""
        return self._free.abort()

    def hurry(self) -> None:
        """Has the steps of open transactions give up soon."""
        for producer in self._producers:
            producer.hurry()

    def close(self) -> None:
        """Waits for what is committing, and aborts what was filled."""
        self.hurry()
        self._committing.shutdown()
        for producer in self._producers:
            producer.close()

    @property
    def _free(self) -> TransactionalProducer:
        return self._producers[self._turns % len(self._producers)]


def _commit(
    producer: TransactionalProducer, offsets: list[TopicPartition], group: object, in_log: Future[None]
) -> Outcome:
    def written() -> None:
        in_log.set_result(None)

    try:
        return producer.commit(offsets, group, written)
    finally:
        if not in_log.done():
            written()
