"""The worker's input: the partitions that the group assigns to it, read in batches from the committed offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, TopicPartition

from stream_masker.service.kafka.failures import explained
from stream_masker.service.kafka.messages import Partition, partitions_of, partitions_text, runs_by_partition
from stream_masker.service.observability.logs import RepeatFilter
from stream_masker.service.worker.batch import Batch, Batcher
from stream_masker.service.worker.transactions import SessionLostError

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

READ_SECONDS = 0.05
"""Timeout of one read within a batch, in seconds: a stop is noticed after at most this time."""

COMMITTING_READ_SECONDS = 0.002
"""The same while the batch before commits: the end of the commit is noticed after at most this time."""

IDLE_SECONDS = 0.2
"""Seconds to wait for a batch's first record."""

READ_RECORDS = 50
"""Messages of one read, at most: as many of the topic's greatest size take memory at once, whatever the timeout."""

BROKER_REQUEST_SECONDS = 5.0
"""Timeout of a request to a broker, in seconds."""

SHORT_REQUEST_SECONDS = 0.2
"""Timeout of a request that only a metric needs, in seconds."""

SEEK_ATTEMPTS = 5

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


class Source:
    """The partitions of one consumer. Rebalances happen only within ``read``, ``poll``, ``roll_back`` and ``close``.

    ``batcher`` collects the records. ``running`` records a heartbeat and returns False when the process stops.
    ``has_place`` tells whether the output has a partition for the records of one; others are not read.
    ``before_revoke`` is called before partitions are revoked or lost. ``from_end``: whether a partition without a
    committed offset is read from its end.
    """

    def __init__(
        self,
        client: Consumer,
        batcher: Batcher,
        *,
        running: Callable[[], bool],
        has_place: Callable[[Partition], bool],
        before_revoke: Callable[[], None],
        from_end: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._batcher, self._running = client, batcher, running
        self._has_place, self._before_revoke, self._from_end = has_place, before_revoke, from_end
        self._clock = clock
        self._topics: list[str] = []
        self._member: str | None = None
        self._held = self._leaving = False
        self._current = Batch()
        self._failure: str | None = None
        self._assigned: set[Partition] = set()
        self._waiting: set[Partition] = set()
        self._resets: set[Partition] = set()
        self._start: dict[Partition, int] = {}
        self._read: dict[Partition, int] = {}
        self._done: dict[Partition, int] = {}
        self._ends: dict[Partition, tuple[int, int]] = {}
        self._errors: dict[Partition, ReadError] = {}
        self._skipped = 0

    @property
    def assigned(self) -> frozenset[Partition]:
        return frozenset(self._assigned)

    def follow(self, topics: Sequence[str]) -> None:
        """Read these topics from now on; join the group the first time."""
        if topics and [*topics] != self._topics:
            self._topics = [*topics]
            self._client.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )

    def read(self, committing: Callable[[], bool]) -> Batch:
        """Return the next batch; an empty one if none is complete, or if no record arrives for a while.

        ``committing`` returns whether the batch before is not committed yet. Raises SessionLostError if the client has
        failed for good.
        """
        self._resume()
        self._reset_all()
        batcher, until, drained = self._batcher, self._clock() + IDLE_SECONDS, False
        while (room := batcher.room()) and self._failure is None and self._running():
            busy, now = committing(), self._clock()
            left = batcher.seconds_left(now, committing=busy)
            remaining = until - now if left is None else left
            if drained and remaining <= 0:
                break
            longest = COMMITTING_READ_SECONDS if busy and left is not None else READ_SECONDS
            wanted = min(room, READ_RECORDS)
            messages = self._client.consume(wanted, min(max(0.0, remaining), longest))
            drained = len(messages) < wanted
            self._add(messages)
        self._check()
        self._current = batcher.take(self._clock())
        return self._current

    def poll(self, seconds: float = 0.0) -> None:
        """Serve the group without reading: all partitions are paused until the next ``read``."""
        if not self._held:
            self._held = True
            self._client.pause(_topic_partitions(self._assigned))
        for message in self._client.consume(1, seconds):
            if message.error() is None:
                self._seek(Partition(message.topic(), message.partition()), message.offset())
            else:
                self._handle(message)
        self._check()

    def group(self) -> object | None:
        """Return the group metadata that fences a commit of the current batch (KIP-447).

        None if this client is no longer the member that the partitions were assigned to: librdkafka renews the metadata
        in the background, and once the member has been removed, they no longer fence its commits.
        """
        metadata = self._client.consumer_group_metadata()
        return metadata if self._member is not None and self._client.memberid() == self._member else None

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Note offsets that are committed."""
        for partition in offsets.keys() & self._assigned:
            read, end = self._ends.get(partition, (-1, -1))
            self._done[partition] = end if read == offsets[partition] else offsets[partition]

    def give_back(self, batch: Batch) -> None:
        """Read the records of a batch again, and all after them."""
        self._read_from(batch.first_offsets())

    def roll_back(self) -> None:
        """Read every partition again from its committed offset, or from its start where none is committed."""
        while self._running():
            offsets = self._committed(self._assigned)
            if offsets is not None:
                start = {p: max(offset, self._start.get(p, offset)) for p, offset in offsets.items()}
                self._read_from({p: offset for p, offset in start.items() if offset >= 0})
                return
            self.poll(READ_SECONDS)

    def waiting(self) -> frozenset[Partition]:
        """Return the partitions whose records have no place in the output. Read those that have one now."""
        placed = {partition for partition in self._waiting if self._has_place(partition)}
        self._waiting -= placed
        if placed and not self._held:
            self._client.resume(_topic_partitions(placed))
        return frozenset(self._waiting)

    def unreadable(self) -> dict[Partition, ReadError]:
        """Return the partitions that cannot be read on."""
        now = self._clock()
        self._errors = {p: error for p, error in self._errors.items() if now - error.latest < REPEATED_SECONDS}
        return {p: error for p, error in self._errors.items() if error.latest - error.since >= LASTING_SECONDS}

    def take_skipped(self) -> int:
        """Return and forget the number of offsets that were deleted before they were read."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def lag(self) -> dict[Partition, int]:
        """Return the number of records that are not committed yet, by partition; unknown ones are left out."""
        self._learn(self._assigned - self._done.keys(), SHORT_REQUEST_SECONDS)
        lag = {}
        for partition in sorted(self._assigned & self._done.keys()):
            bounds = self._watermarks(partition, SHORT_REQUEST_SECONDS, cached=not self._held)
            if bounds is None:
                break
            lag[partition] = max(0, bounds[1] - max(bounds[0], self._done[partition]))
        return lag

    def close(self) -> None:
        """Leave the group; a static member stays."""
        self._leaving = True
        self._client.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise SessionLostError(self._failure)

    def _resume(self) -> None:
        if self._held:
            self._held = False
            self._client.resume(_topic_partitions(self._assigned - self._waiting))

    def _add(self, messages: list[Any]) -> None:
        records = [message for message in messages if message.error() is None]
        self._batcher.add(records, partitions=self._assigned - self._waiting, now=self._clock())
        for partition, run in runs_by_partition(records):
            if partition in self._assigned:
                self._start.setdefault(partition, run[0].offset())
                self._read[partition] = run[-1].offset() + 1
                self._errors.pop(partition, None)
        if len(records) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._handle(message)

    def _handle(self, message: Any) -> None:
        """Handle an event of the client."""
        error, partition = message.error(), Partition(message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            self._errors.pop(partition, None)
            read = self._read.get(partition)
            if read is not None:
                self._ends[partition] = (read, message.offset())
                if self._done.get(partition) == read:
                    self._done[partition] = message.offset()
        elif error.code() == KafkaError._FATAL:
            self._failure = error.str()
        elif error.code() == KafkaError._AUTO_OFFSET_RESET and partition in self._assigned:
            self._resets.add(partition)
        else:
            if partition in self._assigned:
                now, earlier = self._clock(), self._errors.get(partition)
                since = earlier.since if earlier and earlier.offset == message.offset() else now
                self._errors[partition] = ReadError(message.offset(), explained(error), since, now)
            log.warning("reading %s: %s", ", ".join(self._topics), explained(error))

    def _reset_all(self) -> None:
        """Read partitions on whose next offset is not in the topic: retention has deleted it, or it never was.

        What was deleted is counted. A request that fails is repeated later.
        """
        for partition in [*self._resets]:
            bounds = self._watermarks(partition, BROKER_REQUEST_SECONDS, cached=False)
            if bounds is None:
                continue
            read = self._read.get(partition)
            start = bounds[1] if read is None and self._from_end else bounds[0]
            self._skipped += max(0, start - read) if read is not None else 0
            log.warning("partition %s is read on from offset %d: the next one is not in the topic", partition, start)
            self._resets.discard(partition)
            self._read[partition] = start
            self._start.setdefault(partition, start)
            self._done[partition] = max(start, self._done.get(partition, start))
            self._seek(partition, start)

    def _on_assign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Accept partitions, unless leaving: they are revoked at once, and ``memberid`` of a closing client hangs."""
        if self._leaving:
            return
        assigned = partitions_of(partitions)
        self._assigned |= assigned
        self._learn(assigned, BROKER_REQUEST_SECONDS)
        known = {partition: self._start.get(partition, OFFSET_STORED) for partition in sorted(assigned)}
        client.incremental_assign([TopicPartition(*partition, start) for partition, start in known.items()])
        self._member = client.memberid()
        self._waiting |= {partition for partition in assigned if not self._has_place(partition)}
        paused = assigned if self._held else assigned & self._waiting
        client.pause(_topic_partitions(paused))
        client.resume(_topic_partitions(assigned - paused))
        log.info("assigned partitions %s, now %s", partitions_text(assigned), partitions_text(self._assigned))

    def _learn(self, partitions: Iterable[Partition], seconds: float) -> None:
        """Find where partitions are read from, and count what was deleted behind their committed offsets."""
        for partition, committed in (self._committed(partitions, seconds) or {}).items():
            bounds = self._watermarks(partition, seconds, cached=False)
            if bounds is None:
                return
            first = bounds[1] if committed < 0 and self._from_end else bounds[0]
            self._skipped += max(0, bounds[0] - committed) if committed >= 0 else 0
            start = max(first, committed)
            self._start.setdefault(partition, start)
            self._read.setdefault(partition, start)
            self._done[partition] = start

    def _on_revoke(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self._unassign(client, partitions)
        log.info("revoked partitions %s, now %s", *map(partitions_text, (partitions_of(partitions), self._assigned)))

    def _on_lost(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self._member = None
        self._unassign(client, partitions)
        log.warning("lost partitions %s: the group has removed this worker", partitions_text(partitions_of(partitions)))

    def _unassign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Settle the commit in progress, then forget the partitions and their records."""
        self._before_revoke()
        gone = partitions_of(partitions)
        self._current.revoke(gone)
        self._batcher.drop(gone)
        for known in (self._assigned, self._waiting, self._resets):
            known.difference_update(gone)
        for table in (self._start, self._read, self._done, self._ends, self._errors):
            for partition in gone & table.keys():
                del table[partition]
        client.incremental_unassign(partitions)

    def _committed(
        self, partitions: Iterable[Partition], seconds: float = BROKER_REQUEST_SECONDS
    ) -> dict[Partition, int] | None:
        """Return the committed offsets, negative where there is none; None if the coordinator does not answer."""
        wanted = _topic_partitions(partitions)
        try:
            committed = self._client.committed(wanted, seconds) if wanted else []
        except KafkaException as failure:
            log.warning("requesting the committed offsets: %s", failure.args[0].str())
            return None
        if any(p.error for p in committed):
            return None
        return {Partition(p.topic, p.partition): p.offset for p in committed}

    def _read_from(self, offsets: Mapping[Partition, int]) -> None:
        self._batcher.drop(offsets)
        for partition, offset in offsets.items():
            self._read[partition] = offset
            self._seek(partition, offset)

    def _seek(self, partition: Partition, offset: int) -> None:
        """Read on from an offset. Raises SessionLostError if the client refuses, as a fenced one does."""
        for attempt in range(1, SEEK_ATTEMPTS + 1):
            try:
                self._client.seek(TopicPartition(*partition, offset))
            except KafkaException as failure:
                refusal = failure.args[0].str()
                time.sleep(READ_SECONDS * attempt)
            else:
                return
        raise SessionLostError(f"partition {partition} cannot be read again: {refusal}")

    def _watermarks(self, partition: Partition, seconds: float, *, cached: bool) -> tuple[int, int] | None:
        """Return the first and the next offset of a partition; None if no broker answers in time."""
        where = TopicPartition(*partition)
        if cached:
            known: tuple[int, int] | None = self._client.get_watermark_offsets(where, cached=True)
            if known is not None and known[1] >= 0:
                return known
        try:
            fresh: tuple[int, int] | None = self._client.get_watermark_offsets(where, timeout=seconds, cached=False)
        except KafkaException:
            return None
        return fresh


def _topic_partitions(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(*partition) for partition in sorted(partitions)]
