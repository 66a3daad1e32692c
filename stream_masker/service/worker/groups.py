"""Micro-windows: the groups of records of one partition for mechanisms that mask groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from stream_masker.service.kafka.messages import KafkaMessage, Partition, bytes_of, runs_by_partition
from stream_masker.service.worker.batch import Batch

MAX_GROWTH = 10
"""A group that is still too small is held up to this multiple of its number of records, or up to a batch's bytes."""

ShortGroupPolicy: TypeAlias = Literal["hold", "suppress", "merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The limits that complete a group: ``records`` (≥ 1), ``size`` in bytes (≥ 1), ``delay`` in seconds (> 0).

    ``short``: the policy for a group with too few records to be masked when its delay is over. ``hold``: it waits until
    it has enough; ``suppress``: its records are rejected; ``merge``: it becomes the start of the next group, with a new
    delay. ``batch``: records to read at a time, which may complete several groups.
    """

    records: int
    size: int
    delay: float
    short: ShortGroupPolicy
    batch: int

    def may_hold(self, group: Sequence[KafkaMessage]) -> bool:
        """Return whether a group that is too small may wait for more messages."""
        few = len(group) < MAX_GROWTH * self.records and bytes_of(group) < self.size
        return self.short != "suppress" and few


@dataclass(slots=True)
class _Window:
    """The open window of one partition. ``start``: when its delay began; ``minimum``: messages that complete it."""

    start: float
    minimum: int
    messages: list[KafkaMessage] = field(default_factory=list)
    size: int = 0

    def add(self, messages: Sequence[KafkaMessage]) -> None:
        self.messages.extend(messages)
        self.size += bytes_of(messages)


class GroupBatcher:
    """Collects the records of each partition in a window; a batch consists of the groups that are complete.

    Records in a window are not committed, so they are read again after a crash. ``minimum`` returns the smallest number
    of records that can be masked together.
    """

    def __init__(self, limits: GroupLimits, minimum: Callable[[], int]) -> None:
        self.limits = limits
        self._minimum = minimum
        self._windows: dict[Partition, _Window] = {}

    def add(self, messages: Sequence[KafkaMessage], *, partitions: Collection[Partition], now: float) -> None:
        """Add the messages of these partitions to their windows."""
        for partition, run in runs_by_partition(messages):
            if partition in partitions:
                self._window(partition, now).add(run)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget the windows of partitions."""
        for partition in partitions:
            self._windows.pop(partition, None)

    def room(self) -> int:
        """Return the records of a batch; 0 if a window is full."""
        return 0 if any(map(self._is_full, self._windows.values())) else self.limits.batch

    def seconds_left(self, now: float, *, committing: bool) -> float | None:
        """Return the seconds until the first window's delay ends; None if all are held until they have more records."""
        ends = [window.start + self.limits.delay for window in self._windows.values() if not self._is_held(window)]
        return min(ends) - now if ends else None

    def take(self, now: float) -> Batch:
        """Return the groups that are complete. Messages after a full group start the next window."""
        batch = Batch()
        for partition in list(self._windows):
            while (window := self._windows.get(partition)) and (self._is_full(window) or self._is_due(window, now)):
                batch.groups.setdefault(partition, []).append(self._release(partition, window, now))
        return batch

    def put_back(self, partition: Partition, groups: Sequence[list[KafkaMessage]], lacking: int, now: float) -> None:
        """Return a group that is too small to its window, with the groups after it. ``lacking``: the records it lacks.

        It is complete when it has grown by these, and by at least a tenth: each attempt to mask it has a cost.
        """
        later, size = self._windows.pop(partition, None), len(groups[0])
        start = now if self.limits.short == "merge" else now - self.limits.delay
        window = self._windows[partition] = _Window(start, size + max(1, lacking, size // MAX_GROWTH))
        for messages in [*groups, *([later.messages] if later else [])]:
            window.add(messages)

    def _window(self, partition: Partition, now: float) -> _Window:
        return self._windows.setdefault(partition, _Window(now, self._minimum()))

    def _is_full(self, window: _Window) -> bool:
        limits, count = self.limits, len(window.messages)
        if count >= MAX_GROWTH * limits.records or window.size >= limits.size:
            return True
        return count >= max(limits.records, window.minimum)

    def _is_due(self, window: _Window, now: float) -> bool:
        """Return whether the delay is over and the group may be released. Restart the delay of one that is merged."""
        if now < window.start + self.limits.delay:
            return False
        if len(window.messages) >= window.minimum or self.limits.short == "suppress":
            return True
        if self.limits.short == "merge":
            window.start = now
        return False

    def _is_held(self, window: _Window) -> bool:
        return self.limits.short == "hold" and len(window.messages) < window.minimum

    def _release(self, partition: Partition, window: _Window, now: float) -> list[KafkaMessage]:
        del self._windows[partition]
        count = max(self.limits.records, window.minimum) if window.size < self.limits.size else len(window.messages)
        if window.messages[count:]:
            self._window(partition, now).add(window.messages[count:])
        return window.messages[:count]
