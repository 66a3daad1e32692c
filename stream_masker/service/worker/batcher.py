"""When a batch is complete. The seam between reading and masking: other batchers take its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from stream_masker.service.worker.batch import BatchLimits, KafkaMessage, MessageBatch


class Batcher(Protocol):
    """Takes what is read, and gives it back in batches. What it holds back is neither masked nor committed.

    Messages of a partition come in order. ``drop`` is told the partitions whose messages must be forgotten: they are
    given up, or will be read again from their committed offsets. ``now``: seconds of a clock that never goes back.
    """

    def add(self, messages: Iterable[KafkaMessage], *, partitions: Collection[int], now: float) -> None:
        """Takes messages of these partitions; passes over others."""

    def drop(self, partitions: Iterable[int]) -> None:
        """Forgets what came from these partitions."""

    def room(self) -> int:
        """How many more messages to ask for at once; 0: what there is makes a batch."""

    def left(self, now: float) -> float | None:
        """Seconds until what there is makes a batch even if nothing more comes; None: it never will."""

    def take(self, now: float) -> MessageBatch:
        """The batch that is complete; empty if none is."""


class SizeTimeBatcher:
    """Whatever comes, of all partitions together, up to a number of records and bytes and a delay.

    The delay counts from a batch's first record. So a batch is small when little comes, and full under load.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._batch = MessageBatch(limits)
        self._first = 0.0

    def add(self, messages: Iterable[KafkaMessage], *, partitions: Collection[int], now: float) -> None:
        if not self._batch.records:
            self._first = now
        self._batch.add(messages, partitions=partitions)

    def drop(self, partitions: Iterable[int]) -> None:
        self._batch.drop(partitions)

    def room(self) -> int:
        """One while there are none: a read that asks for more waits for them."""
        if self._batch.full:
            return 0
        return self._batch.room if self._batch.records else 1

    def left(self, now: float) -> float | None:
        return self._first + self._limits.delay - now if self._batch.records else None

    def take(self, now: float) -> MessageBatch:
        taken, self._batch = self._batch, MessageBatch(self._limits, mean=self._batch.mean)
        return taken
