"""The policies that end a batch: by the load, or as micro-windows for mechanisms that mask groups.

Each partition has one open micro-window of consecutive records. A window that is complete becomes a group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from stream_masker.errors import ParameterError
from stream_masker.service.kafka.messages import KafkaMessage, Partition, bytes_of
from stream_masker.service.worker.batch import BatchLimits, GroupShortfall, MessageBatch, runs_by_partition


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


MAX_GROWTH = 10
"""A group that is still too small is held up to this multiple of its number of records, or up to a batch's bytes."""

ShortGroupPolicy = Literal["hold", "suppress", "merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroWindowLimits:
    """The limits that complete a group: ``records`` (≥ 1), ``size`` in bytes (≥ 1), ``delay`` in seconds (> 0).

    ``short``: the policy for a group with too few records to be masked when its delay is over. ``hold``: it waits until
    it has enough; ``suppress``: its records are rejected; ``merge``: it becomes the start of the next group, with a new
    delay. ``batch``: records to read at a time, which may complete several groups.
    """

    records: int = 1_000
    size: int = 16_777_216
    delay: float = 10.0
    short: ShortGroupPolicy = "hold"
    batch: int = 10_000

    def __post_init__(self) -> None:
        if self.records < 1 or self.size < 1 or self.delay <= 0:
            raise ParameterError("a group needs limits of at least 1 record and 1 byte, and a delay of more than 0 s")

    def may_hold(self, messages: Sequence[KafkaMessage]) -> bool:
        """Return whether a group that is too small may wait for more messages."""
        few = len(messages) < MAX_GROWTH * self.records and bytes_of(messages) < self.size
        return self.short != "suppress" and few


@dataclass(slots=True)
class _Window:
    """The open window of one partition. ``start``: when its delay began; ``minimum``: messages that complete it."""

    start: float
    minimum: int
    messages: list[KafkaMessage] = field(default_factory=list)
    size: int = 0

    def add(self, message: KafkaMessage) -> None:
        self.messages.append(message)
        self.size += bytes_of([message])


class MicroWindowBatcher:
    """Collects the records of each partition in a window; a batch consists of the groups that are complete.

    Records in a window are not committed, so they are read again after a crash. ``minimum`` returns the smallest number
    of records that can be masked together.
    """

    def __init__(self, limits: MicroWindowLimits, *, minimum: Callable[[], int]) -> None:
        self._limits = limits
        self._minimum = minimum
        self._windows: dict[Partition, _Window] = {}

    def add(self, messages: Sequence[KafkaMessage], *, partitions: Collection[Partition], now: float) -> None:
        for partition, run in runs_by_partition(messages):
            if partition in partitions:
                for message in run:
                    self._window(partition, now).add(message)

    def drop(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._windows.pop(partition, None)

    def end(self, partition: Partition) -> int | None:
        window = self._windows.get(partition)
        return window.messages[-1].offset() + 1 if window else None

    def room(self) -> int:
        """Return the records of a batch; 0 if a window is full."""
        return 0 if any(map(self._is_full, self._windows.values())) else self._limits.batch

    def time_left(self, now: float, *, committing: bool = False) -> float | None:
        """Return the seconds until the first window's delay ends; None if all are held until they have more records."""
        ends = [end for window in self._windows.values() if (end := self._end(window)) is not None]
        return min(ends) - now if ends else None

    def take(self, now: float) -> MessageBatch:
        """Return the groups that are complete. Messages after a full group start the next window."""
        batch = MessageBatch(BatchLimits(records=self._limits.batch, size=self._limits.size))
        for partition in list(self._windows):
            while (window := self._windows.get(partition)) and (self._is_full(window) or self._is_due(window, now)):
                batch.add_group(self._release(partition, window, now), partition=partition)
        return batch

    def put_back(
        self, partition: Partition, messages: Sequence[KafkaMessage], shortfall: GroupShortfall, now: float
    ) -> None:
        """Return a group that is too small to its window, with the messages after it.

        It is complete when it has grown by the records that it lacks, and by at least a tenth: each attempt to mask it
        has a cost.
        """
        later = self._windows.pop(partition, None)
        growth = max(1, shortfall.lacking, shortfall.size // MAX_GROWTH)
        window = self._windows[partition] = _Window(self._delay_start(now), shortfall.size + growth)
        for message in [*messages, *(later.messages if later else ())]:
            window.add(message)

    def _delay_start(self, now: float) -> float:
        """Return when the delay of a returned group began: now if it is merged; if it is held, its delay is over."""
        return now if self._limits.short == "merge" else now - self._limits.delay

    def _window(self, partition: Partition, now: float) -> _Window:
        return self._windows.setdefault(partition, _Window(now, self._minimum()))

    def _is_full(self, window: _Window) -> bool:
        limits, count = self._limits, len(window.messages)
        if count >= MAX_GROWTH * limits.records or window.size >= limits.size:
            return True
        return count >= max(limits.records, window.minimum)

    def _is_due(self, window: _Window, now: float) -> bool:
        """Return whether the delay is over and the group may be released. Restart the delay of one that is merged."""
        if now < window.start + self._limits.delay:
            return False
        if len(window.messages) >= window.minimum or self._limits.short == "suppress":
            return True
        if self._limits.short == "merge":
            window.start = now
        return False

    def _end(self, window: _Window) -> float | None:
        """Return when the window's delay ends; None if it is held until it has more records."""
        held = self._limits.short == "hold" and len(window.messages) < window.minimum
        return None if held else window.start + self._limits.delay

    def _release(self, partition: Partition, window: _Window, now: float) -> list[KafkaMessage]:
        del self._windows[partition]
        count = max(self._limits.records, window.minimum) if window.size < self._limits.size else len(window.messages)
        for message in window.messages[count:]:
            self._window(partition, now).add(message)
        return window.messages[:count]
