"""The policy that ends a batch: the interface between reading and masking, and the default policy by load."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeAlias

from stream_masker.service.kafka.messages import KafkaMessage
from stream_masker.service.kafka.partitions import Partition
from stream_masker.service.worker.batch import BatchLimits, GroupShortfall, MessageBatch


class Batcher(Protocol):
    """Collects messages and returns them in batches. Messages that it keeps are neither masked nor committed.

    The messages of a partition arrive in order. ``now``: seconds of a monotonic clock.
    """

    def add(self, messages: Sequence[KafkaMessage], *, partitions: Collection[Partition], now: float) -> None:
        """Add the messages of these partitions; ignore those of others."""

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Drop the messages of partitions that are revoked, or read again from their committed offsets."""

    def end(self, partition: Partition) -> int | None:
        """Return the offset after the messages of a partition that are in no batch yet; None if there are none."""

    def room(self) -> int:
        """Return how many messages to read next; 0 if a batch is complete."""

    def time_left(self, now: float, *, committing: bool = False) -> float | None:
        """Return the seconds until a batch is complete without further messages; None if that never happens.

        Messages that are already there are read first. ``committing``: whether the batch before is not committed yet.
        """

    def take(self, now: float) -> MessageBatch:
        """Return and forget the complete batch; an empty one if none is complete."""


PutBack: TypeAlias = Callable[[Partition, Sequence[KafkaMessage], GroupShortfall, float], None]
"""``put_back(partition, messages, shortfall, now)`` returns to a batcher a group that is too small and all after it."""


def no_groups(partition: Partition, messages: Sequence[KafkaMessage], shortfall: GroupShortfall, now: float) -> None:
    """Put nothing back: there are no groups."""


OVERLAPPED_RECORDS = 2_000
"""A batch of this many records does not wait for the commit before: masking them takes about as long as a commit."""

LONGEST_WAIT_SECONDS = 0.5
"""Seconds from its first record after which a batch does not wait for the commit before."""

FILLING_SECONDS = 0.5
"""Seconds from its first record that a batch waits for more if the batch before was at least half full."""


class LoadBatcher:
    """Ends a batch of all partitions by the load: when no more records wait and the batch before is committed.

    A batch that ended before that commit would wait for it, and records that arrive meanwhile for another commit. A
    batch that ended later would only delay its records. So the batches of a low load have the records that arrive
    during a commit. While records wait, a batch grows to its limits of records and bytes, so that a backlog costs few
    transactions; the client may be slower than the worker for a moment, which does not end the batch. In between, a
    batch that is large enough is masked during the commit.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._batch = MessageBatch(limits)
        self._first = 0.0
        self._filling = True

    def add(self, messages: Sequence[KafkaMessage], *, partitions: Collection[Partition], now: float) -> None:
        if not self._batch.records:
            self._first = now
        self._batch.add(messages, partitions=partitions)

    def drop(self, partitions: Iterable[Partition]) -> None:
        self._batch.drop(partitions)

    def end(self, partition: Partition) -> int | None:
        return self._batch.next_offsets().get(partition)

    def room(self) -> int:
        """Return 1 while the batch is empty: a read for more messages would wait for all of them."""
        if self._batch.full:
            return 0
        return self._batch.room if self._batch.records else 1

    def time_left(self, now: float, *, committing: bool = False) -> float | None:
        if not self._batch.records:
            return None
        waits = committing and self._batch.records < OVERLAPPED_RECORDS
        least = LONGEST_WAIT_SECONDS if waits else FILLING_SECONDS if self._filling else 0.0
        return self._first + max(self._limits.delay, least) - now

    def take(self, now: float) -> MessageBatch:
        batch, self._batch = self._batch, MessageBatch(self._limits, mean_size=self._batch.mean_size)
        self._filling = batch.half_full
        return batch
