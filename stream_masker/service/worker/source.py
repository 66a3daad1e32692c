"""The worker's input: the partitions that the group assigns to it, read in batches from the committed offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import methodcaller

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_masker.service.kafka.errors import explained
from stream_masker.service.worker.groups import Limits, bytes_of
from stream_masker.service.worker.transactions import SessionLostError

log = logging.getLogger(__name__)

READ_SECONDS = 0.05
"""Timeout of one read within a batch, in seconds: a stop is noticed after at most this time."""

COMMITTING_READ_SECONDS = 0.002
"""The same while the batch before commits: the end of the commit is noticed after at most this time."""

OVERLAPPED_RECORDS = 2_000
"""A batch of this many records does not wait for the commit before: masking them takes about as long as a commit."""

FILLING_SECONDS = 0.5
"""Seconds from its first record that a batch waits at most for the commit before, which may never end."""

IDLE_SECONDS = 0.2
"""Seconds to wait for a batch's first record."""

READ_RECORDS = 50
"""Messages of one read, at most: as many of the topic's greatest size take memory at once, whatever the timeout."""

REQUEST_SECONDS = 5.0
"""Timeout of a request to a broker, in seconds."""

SHORT_REQUEST_SECONDS = 0.2
"""Timeout of a request that only a metric needs, in seconds."""

SEEK_ATTEMPTS = 5


@dataclass(slots=True)
class _Reading:
    """How far an assigned partition is read; offsets are -1 while they are not known.

    ``read``: the next offset to read. ``done``: the next one to commit. ``end``: the partition's end when it was last
    reached, which is behind the last record where markers of transactions follow. ``error``: where and why it cannot be
    read; None as soon as it is read on.
    """

    read: int = -1
    done: int = -1
    end: int = -1
    error: str | None = None


class Source:
    """The partitions of one consumer. Rebalances happen only within ``read``, ``poll`` and ``close``.

    ``running`` records a heartbeat and returns False when the process stops. ``revoke`` is called with partitions
    before they are revoked or lost.
    """

    def __init__(
        self,
        client: Consumer,
        topic: str,
        limits: Limits,
        *,
        running: Callable[[], bool],
        revoke: Callable[[set[int]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self.topic, self._limits = client, topic, limits
        self._running, self._clock, self._revoke = running, clock, revoke
        self._has_joined = self._held = self._leaving = False
        self._member: str | None = None
        self._failure: str | None = None
        self._readings: dict[int, _Reading] = {}
        self._batch: dict[int, list[Message]] = {}
        self._skipped = 0

    @property
    def assigned(self) -> set[int]:
        return set(self._readings)

    @property
    def unreadable(self) -> dict[int, str]:
        """Why partitions cannot be read on."""
        return {partition: reading.error for partition, reading in self._readings.items() if reading.error}

    def read(self, committing: Callable[[], bool]) -> dict[int, list[Message]]:
        """Return the messages of the next batch by partition; none if no record arrives for a while.

        The first call joins the group. ``committing`` returns whether the batch before is not committed yet. A batch
        ends by the load: when no more records wait, after its delay, and when the batch before is committed. A batch
        that ended before that commit would wait for it, and records that arrive meanwhile for another commit. While
        records wait, a batch grows to its limits, so that a backlog costs few transactions. Raises SessionLostError if
        the client has failed for good.
        """
        self._resume()
        batch = self._batch = {}
        limits, count, size, until, filled = self._limits, 0, 0, self._clock() + IDLE_SECONDS, 0.0
        while count < limits.records and size < limits.size and self._failure is None and self._running():
            wanted = _room(limits, count, size)
            waits = 0 < count < OVERLAPPED_RECORDS and self._clock() < filled and committing()
            seconds = COMMITTING_READ_SECONDS if waits else min(max(0.0, until - self._clock()), READ_SECONDS)
            messages = self._client.consume(wanted, seconds)
            added = self._add(messages)
            if added and not count:
                until, filled = self._clock() + limits.delay, self._clock() + FILLING_SECONDS
            count, size = count + len(added), size + bytes_of(added)
            if len(messages) < wanted and self._clock() >= until and not waits:
                break
        self._check()
        self._batch = {}
        return batch

    def _resume(self) -> None:
        if not self._has_joined:
            self._has_joined = True
            on = {"on_assign": self._on_assign, "on_revoke": self._on_revoke, "on_lost": self._on_lost}
            self._client.subscribe([self.topic], **on)
        if self._held:
            self._held = False
            self._client.resume(self._partitions(self.assigned))

    def poll(self, seconds: float = 0.0) -> None:
        """Serve the group without reading: all partitions are paused until the next ``read``."""
        if not self._held:
            self._held = True
            self._client.pause(self._partitions(self._readings))
        for message in self._client.consume(1, seconds):
            if message.error() is None:
                self._seek(message.partition(), message.offset())
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

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Note offsets that are committed."""
        for partition in offsets.keys() & self._readings.keys():
            self._readings[partition].done = offsets[partition]

    def roll_back(self) -> None:
        """Read every partition again from the offset that was committed last, or from where it was read first."""
        for partition, reading in self._readings.items():
            if reading.done != reading.read:
                reading.read = reading.done
                self._seek(partition, reading.done)

    def take_skipped(self) -> int:
        """Return and forget the number of offsets that were deleted before they were read."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def lag(self) -> dict[int, int]:
        """Return the number of records that are not committed yet, by partition; unknown ones are left out."""
        lag: dict[int, int] = {}
        for partition, reading in sorted(self._readings.items()):
            bounds = self._bounds(partition, SHORT_REQUEST_SECONDS, cached=not self._held)
            if bounds is None:
                break
            done = reading.done if reading.done != reading.read else max(reading.done, reading.end)
            if done >= 0 <= bounds[1]:
                lag[partition] = max(0, bounds[1] - max(bounds[0], done))
        return lag

    def close(self) -> None:
        """Leave the group."""
        self._leaving = True
        self._client.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise SessionLostError(self._failure)

    def _add(self, messages: list[Message]) -> list[Message]:
        """Add the records of assigned partitions to the batch, and return them; handle the other events."""
        added: list[Message] = []
        records = [message for message in messages if message.error() is None]
        for partition, run in groupby(records, methodcaller("partition")):
            reading, new = self._readings.get(partition), list(run)
            if reading is not None:
                self._batch.setdefault(partition, []).extend(new)
                added += new
                reading.done = new[0].offset() if reading.done < 0 else reading.done
                reading.read, reading.error = new[-1].offset() + 1, None
        for message in messages:
            if message.error() is not None:
                self._handle(message)
        return added

    def _handle(self, message: Message) -> None:
        """Handle an event of the client."""
        error, reading = message.error(), self._readings.get(message.partition(), _Reading())
        if error.code() == KafkaError._PARTITION_EOF:
            reading.end, reading.error = message.offset(), None
        elif error.code() == KafkaError._FATAL:
            self._failure = error.str()
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._failure = f"the next offset of partition {message.partition()} is not in the topic"
        else:
            reading.error = f"at offset {message.offset()}: {explained(error)}"
            log.warning("reading partition %d: %s", message.partition(), explained(error))

    def _on_assign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Accept partitions, unless leaving: they are revoked at once, and ``memberid`` of a closing client hangs."""
        if self._leaving:
            return
        assigned = {one.partition for one in partitions}
        self._readings |= {partition: _Reading() for partition in assigned}
        client.incremental_assign(self._starts(assigned))
        self._member = client.memberid()
        (client.pause if self._held else client.resume)(self._partitions(assigned))
        log.info("assigned partitions %s, now %s", _text(assigned), _text(self._readings))

    def _starts(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """Return partitions with the offsets to read them from: the client's own if no broker tells them in time."""
        wanted = self._partitions(partitions)
        try:
            found = self._client.committed(wanted, REQUEST_SECONDS)
        except KafkaException as failure:
            log.warning("requesting the committed offsets: %s", failure.args[0].str())
            found = []
        known = {one.partition: self._start(one) for one in found if one.error is None}
        return [TopicPartition(self.topic, one.partition, known.get(one.partition, OFFSET_STORED)) for one in wanted]

    def _start(self, committed: TopicPartition) -> int:
        """Return where a partition is read from: the committed offset if it is in the topic, otherwise its beginning.

        What retention has deleted behind the committed offset is counted.
        """
        bounds, offset = self._bounds(committed.partition, REQUEST_SECONDS), committed.offset
        if bounds is None:
            return int(OFFSET_STORED)
        start = offset if bounds[0] <= offset <= bounds[1] else bounds[0]
        if offset >= 0:
            self._skipped += max(0, bounds[0] - offset)
        self._readings[committed.partition] = _Reading(start, start)
        return start

    def _on_revoke(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self._unassign(client, partitions)
        log.info("revoked partitions %s, now %s", _text(p.partition for p in partitions), _text(self._readings))

    def _on_lost(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self._member = None
        self._unassign(client, partitions)
        log.warning("lost partitions %s: the group has removed this worker", _text(p.partition for p in partitions))

    def _unassign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Let the commit in progress be settled, then forget the partitions and their records."""
        gone = {one.partition for one in partitions}
        self._revoke(gone)
        for partition in gone:
            self._readings.pop(partition, None)
            self._batch.pop(partition, None)
        client.incremental_unassign(partitions)

    def _seek(self, partition: int, offset: int) -> None:
        """Read on from an offset. Raises SessionLostError if the client refuses, as a fenced one does."""
        for attempt in range(1, SEEK_ATTEMPTS + 1):
            try:
                self._client.seek(TopicPartition(self.topic, partition, offset))
            except KafkaException as failure:
                refusal = failure.args[0].str()
                time.sleep(READ_SECONDS * attempt)
            else:
                return
        raise SessionLostError(f"partition {partition} cannot be read again: {refusal}")

    def _bounds(self, partition: int, seconds: float, *, cached: bool = False) -> tuple[int, int] | None:
        """Return the first and the next offset of a partition; None if no broker answers in time.

        ``cached``: whether those of the last response suffice, negative if there is none: a request waits behind the
        fetch in progress.
        """
        try:
            bounds: tuple[int, int] | None = self._client.get_watermark_offsets(
                TopicPartition(self.topic, partition), timeout=seconds, cached=cached
            )
        except KafkaException:
            return None
        return bounds

    def _partitions(self, partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(self.topic, partition) for partition in sorted(partitions)]


def _room(limits: Limits, count: int, size: int) -> int:
    """Return the messages to read next. The first read asks for one: it would wait for all that it asks for."""
    if not count:
        return 1
    fitting = (limits.size - size) * count // max(1, size)
    return max(1, min(limits.records - count, fitting, READ_RECORDS))


def _text(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "none"
