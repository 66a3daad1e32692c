"""Batches of messages, the micro-windows of mechanisms that mask groups, and how both are masked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from stream_masker.pipeline.masker import GroupTooSmallError, RecordMasker
from stream_masker.pipeline.records import Inputs, Result
from stream_masker.service.kafka.messages import KafkaMessage, Partition, bytes_of, headers_of

MAX_GROWTH = 10
"""A group that is still too small is held up to this multiple of its number of records, or up to a batch's bytes."""

ShortGroupPolicy: TypeAlias = Literal["hold", "suppress"]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most ``records`` and bytes (``size``) of a batch, and the least seconds from its first record (``delay``)."""

    records: int
    size: int
    delay: float = 0.0


@dataclass(slots=True)
class Batch:
    """Groups of messages by partition, in the order of their offsets; one group each unless the mechanism masks groups.

    ``revoked``: a partition of the batch has been revoked, so it must not be committed.
    """

    groups: dict[Partition, list[list[KafkaMessage]]] = field(default_factory=dict)
    revoked: bool = False

    def first_offsets(self) -> dict[Partition, int]:
        """Return the offset of the first message, by partition."""
        return {partition: groups[0][0].offset() for partition, groups in self.groups.items()}

    def next_offsets(self) -> dict[Partition, int]:
        """Return the offset after the last message, by partition."""
        return {partition: groups[-1][-1].offset() + 1 for partition, groups in self.groups.items()}

    def cut(self, partition: Partition, index: int) -> list[list[KafkaMessage]]:
        """Remove and return the groups of a partition from an index on."""
        groups = self.groups[partition]
        cut = groups[index:]
        del groups[index:]
        if not groups:
            del self.groups[partition]
        return cut

    def revoke(self, partitions: Iterable[Partition]) -> None:
        """Remove the messages of revoked partitions."""
        for partition in partitions:
            self.revoked |= self.groups.pop(partition, None) is not None


def mask_batch(masker: RecordMasker, batch: Batch, version: int) -> dict[Partition, Result]:
    """Mask the records of all partitions at once; ``version``: of the statistics."""
    if not batch.groups:
        return {}
    topic = next(iter(batch.groups)).topic
    inputs = {p.number: to_inputs(groups[0], headers=masker.reads_headers) for p, groups in batch.groups.items()}
    results = masker.mask_all(topic, inputs, statistics_version=version)
    return {Partition(topic, number): result for number, result in results.items()}


def to_inputs(messages: Sequence[KafkaMessage], *, headers: bool) -> Inputs:
    """Convert messages to columns for the record masker; ``headers``: whether to read their headers."""
    return Inputs(
        offsets=[message.offset() for message in messages],
        values=[message.value() for message in messages],
        keys=[message.key() for message in messages],
        timestamps=[message.timestamp()[1] for message in messages],
        headers=list(map(headers_of, messages)) if headers else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The limits of a group: ``records`` (≥ 1), ``size`` in bytes (≥ 1), ``delay`` in seconds (> 0).

    ``short``: the policy for a group with too few records to be masked when its delay is over. ``hold``: it waits until
    it has enough; ``suppress``: its records are rejected.
    """

    records: int
    size: int
    delay: float
    short: ShortGroupPolicy

    def may_hold(self, group: Sequence[KafkaMessage]) -> bool:
        """Return whether a group that is too small may wait for more messages."""
        few = len(group) < MAX_GROWTH * self.records and bytes_of(group) < self.size
        return self.short == "hold" and few


@dataclass(slots=True)
class _Window:
    """The open window of one partition. ``due``: when its delay ends; ``minimum``: messages that complete it."""

    due: float
    minimum: int
    messages: list[KafkaMessage] = field(default_factory=list)
    size: int = 0

    def add(self, messages: Sequence[KafkaMessage]) -> None:
        self.messages.extend(messages)
        self.size += bytes_of(messages)


class MicroWindows:
    """Collects the records of each partition in a window, and releases the groups that are complete.

    Records in a window are not committed, so they are read again after a crash. ``minimum`` returns the smallest number
    of records that can be masked together. ``now``: seconds of a monotonic clock.
    """

    def __init__(self, limits: GroupLimits, minimum: Callable[[], int]) -> None:
        self._limits, self._minimum = limits, minimum
        self._windows: dict[Partition, _Window] = {}

    def add(self, batch: Batch, now: float) -> None:
        """Add the messages of a batch to the windows of their partitions."""
        for partition, groups in batch.groups.items():
            for messages in groups:
                self._window(partition, now).add(messages)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget the windows of partitions that are revoked or read again."""
        for partition in partitions:
            self._windows.pop(partition, None)

    def take(self, now: float) -> Batch:
        """Return the groups that are complete. Messages after a full group start the next window."""
        batch = Batch()
        for partition in list(self._windows):
            while (window := self._windows.get(partition)) and (self._is_full(window) or self._is_due(window, now)):
                batch.groups.setdefault(partition, []).append(self._release(partition, window, now))
        return batch

    def mask(self, masker: RecordMasker, batch: Batch, version: int, now: float) -> dict[Partition, Result]:
        """Mask the groups of a batch. One that is too small returns to its window, with the groups after it."""
        results: dict[Partition, Result] = {}
        for partition, groups in [*batch.groups.items()]:
            masked = []
            for index, group in enumerate(groups):
                inputs, hold = to_inputs(group, headers=masker.reads_headers), self._limits.may_hold(group)
                try:
                    masked.append(masker.mask(*partition, inputs, statistics_version=version, hold=hold))
                except GroupTooSmallError as error:
                    self._put_back(partition, batch.cut(partition, index), error.lacking, now)
                    break
            if masked:
                results[partition] = Result.joined(masked)
        return results

    def _put_back(self, partition: Partition, groups: Sequence[list[KafkaMessage]], lacking: int, now: float) -> None:
        """Return groups to their window. It is complete when the first one has grown by the records that it lacks, and
        by at least a tenth: each attempt to mask it has a cost."""
        later, size = self._windows.pop(partition, None), len(groups[0])
        window = self._windows[partition] = _Window(now, size + max(1, lacking, size // MAX_GROWTH))
        for messages in [*groups, *([later.messages] if later else [])]:
            window.add(messages)

    def _window(self, partition: Partition, now: float) -> _Window:
        return self._windows.setdefault(partition, _Window(now + self._limits.delay, self._minimum()))

    def _is_full(self, window: _Window) -> bool:
        limits, count = self._limits, len(window.messages)
        if count >= MAX_GROWTH * limits.records or window.size >= limits.size:
            return True
        return count >= max(limits.records, window.minimum)

    def _is_due(self, window: _Window, now: float) -> bool:
        """Return whether the delay is over and the group need not wait for more records."""
        return now >= window.due and (len(window.messages) >= window.minimum or self._limits.short == "suppress")

    def _release(self, partition: Partition, window: _Window, now: float) -> list[KafkaMessage]:
        del self._windows[partition]
        count = max(self._limits.records, window.minimum) if window.size < self._limits.size else len(window.messages)
        if window.messages[count:]:
            self._window(partition, now).add(window.messages[count:])
        return window.messages[:count]
