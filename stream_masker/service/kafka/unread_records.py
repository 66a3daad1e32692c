"""Records that a consumer does not read: those of partitions that it cannot read on, and those that it has passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from stream_masker.service.kafka.messages import KafkaMessage, Partition

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
    """Counts the offsets that were passed, by cause.

    Control records and aborted transactions leave gaps between records, too. So an offset of a gap counts as deleted
    only if it is less than the first retained one, and does not precede an end of the partition that was reached.

    ``first_retained`` returns the first retained offset of a partition, None if no broker answers: gaps are counted at
    the next answer. ``skips_retained``: whether the client continues at the end of the partition where its offset was
    deleted.

    * ``_next``: the offset after the committed ones. ``_read``: the offset after the last record of a batch.
    * ``_ends``: the last gap before the end of a partition, of which nothing is to be counted any more.
    * ``_gaps``: the gaps that are not counted yet.
    """

    def __init__(self, first_retained: Callable[[Partition], int | None], *, skips_retained: bool = False) -> None:
        self._first_retained = first_retained
        self._skips_retained = skips_retained
        self._next: dict[Partition, int] = {}
        self._read: dict[Partition, int] = {}
        self._ends: dict[Partition, tuple[int, int]] = {}
        self._gaps: dict[Partition, list[tuple[int, int]]] = {}
        self._counts: Counter[SkipCause] = Counter()

    def start(self, partition: Partition, committed: int) -> None:
        """Note the committed offset of a partition, from which it is read; a negative one means none."""
        self._read.pop(partition, None)
        if committed >= 0:
            self._next[partition] = committed

    def forget(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            for known in (self._next, self._read, self._ends, self._gaps):
                known.pop(partition, None)

    def gather(self, ends: Mapping[Partition, int]) -> None:
        """Note the offsets after the records of a batch, which is not committed yet."""
        self._read |= ends

    def commit(self, partition: Partition, records: Sequence[KafkaMessage]) -> None:
        """Count what is deleted before and between records, in the order of their offsets, that are committed now."""
        start, end = self._next.get(partition, records[0].offset()), records[-1].offset() + 1
        if end - start > len(records):
            offsets = [record.offset() for record in records]
            between = zip([start, *(offset + 1 for offset in offsets)], offsets, strict=False)
            self._gaps.setdefault(partition, []).extend(gap for gap in between if gap[0] < gap[1])
        if partition in self._gaps and (low := self._first_retained(partition)) is not None:
            for gap in self._gaps.pop(partition):
                self._count(partition, *gap, low)
        self._next[partition] = max(start, end)

    def reach_end(self, partition: Partition, end: int, kept: int | None) -> None:
        """Count what is deleted between the last record that was read and the end of a partition.

        ``kept``: the offset after the records that were read and are in no batch yet; None if there are none.
        """
        start = self._read.get(partition, self._next.get(partition, end)) if kept is None else kept
        if end > start and (low := self._first_retained(partition)) is not None:
            self._count(partition, start, end, low)
            self._ends[partition] = (start, end)

    def pass_to(self, partition: Partition, start: int, end: int) -> None:
        """Count the offsets from ``start`` to ``end`` (exclusive) as skipped by the command."""
        self._counts[SkipCause.COMMAND] += end - start
        self._next[partition] = end

    def _count(self, partition: Partition, start: int, end: int, low: int) -> None:
        """Count what is deleted of a gap, without the part of it that preceded an end of the partition."""
        before, reached = self._ends.get(partition, (start, start))
        begin = reached if before == start else start
        last = end if self._skips_retained and low > begin else min(low, end)
        self._counts[SkipCause.RETENTION] += max(0, last - begin)

    def take(self) -> dict[str, int]:
        """Return and forget the numbers by cause."""
        counts, self._counts = self._counts, Counter()
        return {str(cause): count for cause, count in counts.items() if count}
