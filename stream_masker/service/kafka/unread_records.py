"""Records that a consumer does not read: those of partitions that it cannot read on, and those that it has passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from stream_masker.service.kafka.partitions import Partition

LASTING_SECONDS = 5.0
"""An error of a partition that lasts this long does not pass by itself. The client repeats it every second."""

REPEATED_SECONDS = 10.0
"""An error that has not been repeated for this long is over."""


class ReadError(NamedTuple):
    """Why a partition cannot be read on: the offset, librdkafka's text, and its first and last time in seconds."""

    offset: int
    text: str
    since: float
    latest: float


class UnreadablePartitions:
    """The partitions whose next record the client cannot read; ``clock``: of the errors, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._errors: dict[Partition, ReadError] = {}

    def fail(self, partition: Partition, offset: int, text: str) -> None:
        """Note an error of a partition, and the offset of the record that cannot be read."""
        now, earlier = self._clock(), self._errors.get(partition)
        since = earlier.since if earlier is not None and earlier.offset == offset else now
        self._errors[partition] = ReadError(offset, text, since, now)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget the errors of partitions that are read again, or belong to another worker."""
        for partition in partitions:
            self._errors.pop(partition, None)

    @property
    def lasting(self) -> Mapping[Partition, ReadError]:
        """The errors that last."""
        now = self._clock()
        self._errors = {p: error for p, error in self._errors.items() if now - error.latest < REPEATED_SECONDS}
        return {p: error for p, error in self._errors.items() if error.latest - error.since >= LASTING_SECONDS}


class SkipCause(StrEnum):
    """Why records were passed and not masked."""

    RETENTION = "retention"
    """The topic's retention has deleted them before a worker read them."""

    COMMAND = "command"
    """A person has skipped them with ``stream-masker skip``."""


class SkippedOffsets:
    """Counts the offsets that were passed, by cause. ``next``: the offset after the committed ones of a partition."""

    def __init__(self) -> None:
        self._next: dict[Partition, int] = {}
        self._counts: Counter[SkipCause] = Counter()

    def start(self, partition: Partition, committed: int) -> None:
        """Note the committed offset of a partition; a negative one means none."""
        if committed >= 0:
            self._next[partition] = committed

    def forget(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)

    def may_have_gap(self, partition: Partition, offset: int) -> bool:
        """Return whether offsets before this one are not committed. Control records leave such gaps too."""
        return offset > self._next.get(partition, offset)

    def retained_from(self, partition: Partition, low: int, offset: int) -> None:
        """Count what retention has deleted before an offset that is read; ``low``: the first retained one."""
        deleted = min(low, offset) - self._next.get(partition, offset)
        if deleted > 0:
            self._counts[SkipCause.RETENTION] += deleted

    def pass_to(self, partition: Partition, start: int, end: int) -> None:
        """Count the offsets from ``start`` to ``end`` (exclusive) as skipped by the command."""
        self._counts[SkipCause.COMMAND] += end - start
        self._next[partition] = end

    def advance(self, partition: Partition, end: int) -> None:
        """Note that a partition is committed up to an offset (exclusive)."""
        self._next[partition] = max(end, self._next.get(partition, end))

    def take(self) -> dict[str, int]:
        """Return and forget the numbers by cause."""
        counts, self._counts = self._counts, Counter()
        return {str(cause): count for cause, count in counts.items()}
