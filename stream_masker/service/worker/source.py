"""The worker's input: the partitions that the group assigns to it, read in batches from the committed offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, TopicPartition

from stream_masker.service.kafka.failures import explained
from stream_masker.service.kafka.messages import Partition, bytes_of, partitions_of, partitions_text, runs_by_partition
from stream_masker.service.observability.logs import RepeatFilter
from stream_masker.service.worker.groups import Batch, BatchLimits
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

OVERLAPPED_RECORDS = 2_000
"""A batch of this many records does not wait for the commit before: masking them takes about as long as a commit."""

FILLING_SECONDS = 0.5
"""Seconds from its first record that a batch waits at most for the commit before, and for more records if the batch
before was at least half full."""

BROKER_REQUEST_SECONDS = 5.0
"""Timeout of a request to a broker, in seconds."""

SHORT_REQUEST_SECONDS = 0.2
"""Timeout of a request that only a metric needs, in seconds."""

SEEK_ATTEMPTS = 5

LASTING_SECONDS = 5.0
"""An error of a partition that lasts this long does not pass by itself. The client repeats it every second."""

REPEATED_SECONDS = 10.0
"""An error that has not been repeated for this long is over."""


@dataclass(frozen=True, slots=True)
class ReadError:
    """Why a partition cannot be read on: the offset, librdkafka's text, and its first and last time in seconds."""

    offset: int
    text: str
    since: float
    latest: float


@dataclass(slots=True)
class _Reading:
    """How far an assigned partition is read. Offsets are None while they are not known.

    ``start``: where it is read from if no offset is committed. ``read``: the next offset to read. ``done``: the next
    one to commit. ``end``: ``read`` and the partition's end when its end was last reached; between them there are only
    markers of transactions. ``gone``: whether the next offset is not in the topic.
    """

    start: int | None = None
    read: int | None = None
    done: int | None = None
    end: tuple[int, int] | None = None
    gone: bool = False
    error: ReadError | None = None


class Source:
    """The partitions of one consumer. Rebalances happen only within ``read``, ``poll``, ``roll_back`` and ``close``.

    ``running`` records a heartbeat and returns False when the process stops. ``has_place`` tells whether the output has
    a partition for the records of one; others are not read. ``before_revoke`` is called before partitions are revoked
    or lost, and ``forget`` with the partitions whose records are not to be committed: they have gone, or are read
    again. ``from_end``: whether a partition without a committed offset is read from its end.
    """

    def __init__(
        self,
        client: Consumer,
        topic: str,
        limits: BatchLimits,
        *,
        running: Callable[[], bool],
        has_place: Callable[[Partition], bool],
        before_revoke: Callable[[], None],
        forget: Callable[[Iterable[Partition]], None],
        from_end: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._topic, self._limits = client, topic, limits
        self._running, self._has_place = running, has_place
        self._before_revoke, self._forget, self._from_end, self._clock = before_revoke, forget, from_end, clock
        self._member: str | None = None
        self._joined = self._held = self._leaving = self._filling = False
        self._failure: str | None = None
        self._readings: dict[Partition, _Reading] = {}
        self._waiting: set[Partition] = set()
        self._batch = Batch()
        self._skipped = 0

    @property
    def assigned(self) -> frozenset[Partition]:
        return frozenset(self._readings)

    @property
    def waiting(self) -> frozenset[Partition]:
        """The partitions whose records have no place in the output."""
        return frozenset(self._waiting)

    def join(self) -> None:
        """Join the group; later calls do nothing."""
        if not self._joined:
            self._joined = True
            on = {"on_assign": self._on_assign, "on_revoke": self._on_revoke, "on_lost": self._on_lost}
            self._client.subscribe([self._topic], **on)

    def read(self, committing: Callable[[], bool]) -> Batch:
        """Return the next batch; an empty one if no record arrives for a while.

        ``committing`` returns whether the batch before is not committed yet. A batch ends by the load: when no more
        records wait and the batch before is committed. A batch that ended before that commit would wait for it, and
        records that arrive meanwhile for another commit. While records wait, a batch grows to its limits, so that a
        backlog costs few transactions. Raises SessionLostError if the client has failed for good.
        """
        self._resume()
        self._reset_all()
        batch = self._batch = Batch()
        count, size, begun, first, drained = 0, 0, self._clock(), 0.0, False
        while (room := self._room(count, size)) and self._failure is None and self._running():
            busy, now = committing(), self._clock()
            waits = self._filling or (busy and count < OVERLAPPED_RECORDS)
            full = first + max(self._limits.delay, FILLING_SECONDS if waits else 0.0)
            remaining = (full if count else begun + IDLE_SECONDS) - now
            if drained and remaining <= 0:
                break
            wanted = min(room, READ_RECORDS)
            longest = COMMITTING_READ_SECONDS if busy and count else READ_SECONDS
            messages = self._client.consume(wanted, min(max(0.0, remaining), longest))
            drained = len(messages) < wanted
            added = self._add(messages)
            first = first if count else self._clock()
            count, size = count + len(added), size + bytes_of(added)
        self._check()
        self._filling = 2 * count >= self._limits.records or 2 * size >= self._limits.size
        self._batch = Batch()
        return batch

    def poll(self, seconds: float = 0.0) -> None:
        """Serve the group without reading: all partitions are paused until the next ``read``."""
        if not self._held:
            self._held = True
            self._client.pause(_topic_partitions(self._readings))
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
        for partition in offsets.keys() & self._readings.keys():
            reading = self._readings[partition]
            read, end = reading.end or (-1, -1)
            reading.done = end if read == offsets[partition] else offsets[partition]

    def give_back(self, batch: Batch) -> None:
        """Read the records of a batch again, and all after them."""
        self._read_from(batch.first_offsets())

    def roll_back(self) -> None:
        """Read every partition again from its committed offset, or from its start where none is committed."""
        while self._running():
            offsets = self._committed(self._readings)
            if offsets is not None:
                starts = {p: self._readings[p].start for p in offsets.keys() & self._readings.keys()}
                from_start = {p: max(offsets[p], offsets[p] if s is None else s) for p, s in starts.items()}
                self._read_from({p: offset for p, offset in from_start.items() if offset >= 0})
                return
            self.poll(READ_SECONDS)

    def unreadable(self) -> dict[Partition, ReadError]:
        """Return the partitions that cannot be read on."""
        now = self._clock()
        errors = {partition: reading.error for partition, reading in self._readings.items() if reading.error}
        lasting = {p: e for p, e in errors.items() if e.latest - e.since >= LASTING_SECONDS}
        return {p: e for p, e in lasting.items() if now - e.latest < REPEATED_SECONDS}

    def take_skipped(self) -> int:
        """Return and forget the number of offsets that were deleted before they were read."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def lag(self) -> dict[Partition, int]:
        """Return the number of records that are not committed yet, by partition; unknown ones are left out."""
        self._learn((p for p, reading in self._readings.items() if reading.done is None), SHORT_REQUEST_SECONDS)
        lag = {}
        for partition, reading in sorted(self._readings.items(), key=lambda item: item[0]):
            bounds = self._watermarks(partition, SHORT_REQUEST_SECONDS, cached=not self._held)
            if bounds is None:
                break
            if reading.done is not None:
                lag[partition] = max(0, bounds[1] - max(bounds[0], reading.done))
        return lag

    def close(self) -> None:
        """Leave the group; a static member stays."""
        self._leaving = True
        self._client.close()

    def _room(self, count: int, size: int) -> int:
        """Return the messages to read next. The first read asks for one: it would wait for all that it asks for."""
        limits = self._limits
        if count >= limits.records or size >= limits.size:
            return 0
        return max(1, min(limits.records - count, (limits.size - size) * count // max(1, size))) if count else 1

    def _check(self) -> None:
        if self._failure is not None:
            raise SessionLostError(self._failure)

    def _resume(self) -> None:
        if self._held:
            self._held = False
            self._client.resume(_topic_partitions(self._readings.keys() - self._waiting))

    def _add(self, messages: list[Any]) -> list[Any]:
        """Add the records of the partitions that are read to the batch, and return them; handle the other events."""
        added: list[Any] = []
        for partition, run in runs_by_partition([message for message in messages if message.error() is None]):
            reading = self._readings.get(partition)
            if reading is not None and partition not in self._waiting:
                self._batch.groups.setdefault(partition, [[]])[0].extend(run)
                added += run
                reading.read, reading.error = run[-1].offset() + 1, None
                reading.start = run[0].offset() if reading.start is None else reading.start
        for message in messages:
            if message.error() is not None:
                self._handle(message)
        return added

    def _handle(self, message: Any) -> None:
        """Handle an event of the client."""
        error, partition = message.error(), Partition(message.topic(), message.partition())
        reading = self._readings.get(partition, _Reading())
        if error.code() == KafkaError._PARTITION_EOF:
            reading.error = None
            if reading.read is not None:
                reading.end = (reading.read, message.offset())
                reading.done = message.offset() if reading.done == reading.read else reading.done
        elif error.code() == KafkaError._FATAL:
            self._failure = error.str()
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            reading.gone = True
        else:
            now, earlier = self._clock(), reading.error
            since = earlier.since if earlier and earlier.offset == message.offset() else now
            reading.error = ReadError(message.offset(), explained(error), since, now)
            log.warning("reading %s: %s", partition, explained(error))

    def _reset_all(self) -> None:
        """Read partitions on whose next offset is not in the topic: retention has deleted it, or it never was.

        What was deleted is counted. A request that fails is repeated later.
        """
        for partition, reading in self._readings.items():
            bounds = self._watermarks(partition, BROKER_REQUEST_SECONDS, cached=False) if reading.gone else None
            if bounds is None:
                continue
            start = bounds[1] if reading.read is None and self._from_end else bounds[0]
            self._skipped += 0 if reading.read is None else max(0, start - reading.read)
            log.warning("partition %s is read on from offset %d: the next one is not in the topic", partition, start)
            reading.gone, reading.read, reading.done = False, start, max(start, reading.done or start)
            reading.start = start if reading.start is None else reading.start
            self._seek(partition, start)

    def _on_assign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Accept partitions, unless leaving: they are revoked at once, and ``memberid`` of a closing client hangs."""
        if self._leaving:
            return
        assigned = partitions_of(partitions)
        self._readings |= {partition: _Reading() for partition in assigned}
        self._learn(assigned, BROKER_REQUEST_SECONDS)
        starts = {p: self._readings[p].start for p in sorted(assigned)}
        known = [TopicPartition(*p, OFFSET_STORED if start is None else start) for p, start in starts.items()]
        client.incremental_assign(known)
        self._member = client.memberid()
        self._waiting |= {partition for partition in assigned if not self._has_place(partition)}
        paused = assigned if self._held else assigned & self._waiting
        client.pause(_topic_partitions(paused))
        client.resume(_topic_partitions(assigned - paused))
        log.info("assigned partitions %s, now %s", partitions_text(assigned), partitions_text(self._readings))

    def _learn(self, partitions: Iterable[Partition], seconds: float) -> None:
        """Find where partitions are read from, and count what was deleted behind their committed offsets."""
        for partition, committed in (self._committed(partitions, seconds) or {}).items():
            reading, bounds = self._readings[partition], self._watermarks(partition, seconds, cached=False)
            if bounds is None:
                return
            first = bounds[1] if committed < 0 and self._from_end else bounds[0]
            self._skipped += max(0, bounds[0] - committed) if committed >= 0 else 0
            reading.done = max(first, committed)
            reading.start = reading.done if reading.start is None else reading.start
            reading.read = reading.done if reading.read is None else reading.read

    def _on_revoke(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self._unassign(client, partitions)
        log.info("revoked partitions %s, now %s", *map(partitions_text, (partitions_of(partitions), self._readings)))

    def _on_lost(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self._member = None
        self._unassign(client, partitions)
        log.warning("lost partitions %s: the group has removed this worker", partitions_text(partitions_of(partitions)))

    def _unassign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Settle the commit in progress, then forget the partitions and their records."""
        self._before_revoke()
        gone = partitions_of(partitions)
        self._forget(gone)
        self._waiting -= gone
        for partition in gone:
            self._readings.pop(partition, None)
            self._batch.groups.pop(partition, None)
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
        return (
            None if any(p.error for p in committed) else {Partition(p.topic, p.partition): p.offset for p in committed}
        )

    def _read_from(self, offsets: Mapping[Partition, int]) -> None:
        self._forget(offsets)
        for partition, offset in offsets.items():
            self._readings[partition].read = offset
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
        known: tuple[int, int] | None = self._client.get_watermark_offsets(where, cached=True) if cached else None
        if known is not None and known[1] >= 0:
            return known
        try:
            fresh: tuple[int, int] | None = self._client.get_watermark_offsets(where, timeout=seconds, cached=False)
        except KafkaException:
            return None
        return fresh


def _topic_partitions(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(*partition) for partition in sorted(partitions)]
