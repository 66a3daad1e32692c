"""Batches of messages: when one ends, and how it is masked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from stream_masker.pipeline.masker import GroupTooSmallError, RecordMasker
from stream_masker.pipeline.records import Inputs, Result
from stream_masker.service.kafka.messages import KafkaMessage, Partition, bytes_of, headers_of, runs_by_partition


@dataclass(slots=True)
class Batch:
    """Groups of messages by partition, in the order of their offsets; one group each unless the mechanism masks groups.

    ``revoked``: a partition of the batch has been revoked, so it must not be committed.
    """

    groups: dict[Partition, list[list[KafkaMessage]]] = field(default_factory=dict)
    revoked: bool = False

    @property
    def records(self) -> int:
        return sum(len(group) for groups in self.groups.values() for group in groups)

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


class Batcher(Protocol):
    """Collects messages and returns them in batches. ``now``: seconds of a monotonic clock."""

    def add(self, messages: Sequence[KafkaMessage], *, partitions: Collection[Partition], now: float) -> None:
        """Add the messages of these partitions, in order; ignore those of others."""

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget the messages of partitions that are revoked or read again."""

    def room(self) -> int:
        """Return how many messages to read next; 0 if a batch is complete."""

    def seconds_left(self, now: float, *, committing: bool) -> float | None:
        """Return the seconds until a batch is complete without further messages; None if that never happens.

        Messages that are already there are read first. ``committing``: whether the batch before is not committed yet.
        """

    def take(self, now: float) -> Batch:
        """Return and forget the complete batch; an empty one if none is complete."""


OVERLAPPED_RECORDS = 2_000
"""A batch of this many records does not wait for the commit before: masking them takes about as long as a commit."""

FILLING_SECONDS = 0.5
"""Seconds from its first record that a batch waits at most for the commit before, and for more records if the batch
before was at least half full."""


class LoadBatcher:
    """Ends a batch of all partitions by the load: when no more records wait and the batch before is committed.

    A batch that ended before that commit would wait for it, and records that arrive meanwhile for another commit. A
    batch that ended later would only delay its records. While records wait, a batch grows to its limits, so that a
    backlog costs few transactions. ``records``, ``size``: at most this many records and bytes; ``delay``: the least
    seconds from the first record.
    """

    def __init__(self, *, records: int, size: int, delay: float) -> None:
        self._records, self._size, self._delay = records, size, delay
        self._messages: dict[Partition, list[KafkaMessage]] = {}
        self._held = self._bytes = 0
        self._mean = 10_000
        self._first, self._filling = 0.0, True

    def add(self, messages: Sequence[KafkaMessage], *, partitions: Collection[Partition], now: float) -> None:
        if not self._held:
            self._first = now
        for partition, run in runs_by_partition(messages):
            if partition in partitions:
                self._messages.setdefault(partition, []).extend(run)
                self._held += len(run)
                self._bytes += bytes_of(run)
        if self._held:
            self._mean = max(1, self._bytes // self._held)

    def drop(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            dropped = self._messages.pop(partition, [])
            self._held -= len(dropped)
            self._bytes -= bytes_of(dropped)

    def room(self) -> int:
        """Return 1 while the batch is empty: a read for more messages would wait for all of them."""
        if self._held >= self._records or self._bytes >= self._size:
            return 0
        return max(1, min(self._records - self._held, (self._size - self._bytes) // self._mean)) if self._held else 1

    def seconds_left(self, now: float, *, committing: bool) -> float | None:
        if not self._held:
            return None
        waits = self._filling or (committing and self._held < OVERLAPPED_RECORDS)
        return self._first + max(self._delay, FILLING_SECONDS if waits else 0.0) - now

    def take(self, now: float) -> Batch:
        batch = Batch({partition: [messages] for partition, messages in self._messages.items()})
        self._filling = 2 * self._held >= self._records or 2 * self._bytes >= self._size
        self._messages, self._held, self._bytes = {}, 0, 0
        return batch


class Shortfall(NamedTuple):
    """A group that is too small: its index among the partition's groups, and the number of records it lacks."""

    group: int
    lacking: int


def mask_batch(
    masker_of: Callable[[str], RecordMasker],
    batch: Batch,
    *,
    statistics_version: int,
    may_hold: Callable[[Sequence[KafkaMessage]], bool],
) -> tuple[dict[Partition, Result], dict[Partition, Shortfall]]:
    """Mask a batch: all records of a topic at once, or group by group if the mechanism masks groups.

    ``masker_of`` returns the masker of a topic. ``may_hold`` tells whether a group that is too small may wait for more
    messages; if not, its records are rejected. Return the results, and the first group of each partition that is too
    small; that group and those after it are in no result.
    """
    results: dict[Partition, Result] = {}
    shortfalls: dict[Partition, Shortfall] = {}
    topics: dict[str, list[Partition]] = {}
    for partition in batch.groups:
        topics.setdefault(partition.topic, []).append(partition)
    for topic, partitions in topics.items():
        masker = masker_of(topic)
        if masker.needs_group:
            for partition in partitions:
                groups = batch.groups[partition]
                result, shortfall = _mask_groups(masker, partition, groups, statistics_version, may_hold)
                results |= {} if result is None else {partition: result}
                shortfalls |= {} if shortfall is None else {partition: shortfall}
        else:
            inputs = {p.number: to_inputs(batch.groups[p][0], headers=masker.reads_headers) for p in partitions}
            masked = masker.mask_all(topic, inputs, statistics_version=statistics_version)
            results |= {Partition(topic, number): result for number, result in masked.items()}
    return results, shortfalls


def _mask_groups(
    masker: RecordMasker,
    partition: Partition,
    groups: Sequence[Sequence[KafkaMessage]],
    version: int,
    may_hold: Callable[[Sequence[KafkaMessage]], bool],
) -> tuple[Result | None, Shortfall | None]:
    """Mask the groups of a partition up to the first one that is too small."""
    results, shortfall = [], None
    for index, group in enumerate(groups):
        records = to_inputs(group, headers=masker.reads_headers)
        try:
            results.append(masker.mask(*partition, records, statistics_version=version, hold=may_hold(group)))
        except GroupTooSmallError as error:
            shortfall = Shortfall(index, error.lacking)
            break
    return Result.joined(results) if results else None, shortfall


def to_inputs(messages: Sequence[KafkaMessage], *, headers: bool) -> Inputs:
    """Convert messages to columns for the record masker; ``headers``: whether to read their headers."""
    return Inputs(
        offsets=[message.offset() for message in messages],
        values=[message.value() for message in messages],
        keys=[message.key() for message in messages],
        timestamps=[message.timestamp()[1] for message in messages],
        headers=list(map(headers_of, messages)) if headers else (),
    )
