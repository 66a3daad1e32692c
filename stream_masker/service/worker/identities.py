"""The ids of the input topics: when they are requested again, because a topic may have been created anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stream_masker.service.kafka.partitions import Partition
from stream_masker.service.worker.batch import MessageBatch


class TopicIds:
    """Requests the ids of input topics before records are masked that may be those of another topic of the same name.

    Noise by position depends on the id, because such a topic has the same positions. The id is requested for the first
    records of a partition after a rebalance, and for records below those that have been read.
    """

    def __init__(self, request: Callable[[Sequence[str]], bool]) -> None:
        """``request``: requests and sets the ids of topics; it returns False if the process stops before that."""
        self.request = request
        self._next: dict[Partition, int] = {}
        self._current: MessageBatch | None = None

    def in_doubt(self, batch: MessageBatch) -> list[str]:
        """Return the topics whose ids must be requested before a batch is masked."""
        self._current = batch
        first = batch.first_offsets().items()
        return sorted({one.topic for one, offset in first if offset < self._next.get(one, offset + 1)})

    def passed(self, batch: MessageBatch) -> None:
        """Note up to where a batch has been masked, unless there was a rebalance meanwhile."""
        if batch is self._current:
            self._next |= batch.next_offsets()

    def forget(self) -> None:
        """Request all ids again: partitions are being revoked, and may come back."""
        self._next.clear()
        self._current = None
