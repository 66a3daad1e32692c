"""The policy that ends a batch: the interface between reading and masking, and the default policy by size and time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeAlias

from stream_masker.service.kafka.partitions import Partition
from stream_masker.service.worker.batch import BatchLimits, GroupShortfall, KafkaMessage, MessageBatch


class Batcher(Protocol):
    """Collects messages and returns them in batches. Messages that it keeps are neither masked nor committed.

    The messages of a partition arrive in order. ``now``: seconds of a monotonic clock.
    """

    def add(self, messages: Sequence[KafkaMessage], *, partitions: Collection[Partition], now: float) -> None:
        """Add the messages of these partitions; ignore those of others."""

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Drop the messages of partitions that are revoked, or read again from their committed offsets."""

    def room(self) -> int:
        """Return how many messages to read next; 0 if a batch is complete."""

    def time_left(self, now: float) -> float | None:
        """Return the seconds until a batch is complete without further messages; None if that never happens."""

    def take(self, now: float) -> MessageBatch:
        """Return and forget the complete batch; an empty one if none is complete."""


PutBack: TypeAlias = Callable[[Partition, Sequence[KafkaMessage], GroupShortfall, float], None]
"""``put_back(partition, messages, shortfall, now)`` returns to a batcher a group that is too small and all after it."""


def no_groups(partition: Partition, messages: Sequence[KafkaMessage], shortfall: GroupShortfall, now: float) -> None:
    """Put nothing back: there are no groups."""


class SizeTimeBatcher:
    """Ends a batch of all partitions at a number of records or bytes, or after a delay from its first record.

    Batches are small at low load and full under high load.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._batch = MessageBatch(limits)
        self._first = 0.0

    def add(self, messages: Sequence[KafkaMessage], *, partitions: Collection[Partition], now: float) -> None:
        if not self._batch.records:
            self._first = now
        self._batch.add(messages, partitions=partitions)

    def drop(self, partitions: Iterable[Partition]) -> None:
        self._batch.drop(partitions)

    def room(self) -> int:
        """Return 1 while the batch is empty: a read for more messages would wait for all of them."""
        if self._batch.full:
            return 0
        return self._batch.room if self._batch.records else 1

    def time_left(self, now: float) -> float | None:
        return self._first + self._limits.delay - now if self._batch.records else None

    def take(self, now: float) -> MessageBatch:
        batch, self._batch = self._batch, MessageBatch(self._limits, mean_size=self._batch.mean_size)
        return batch
