"""The worker's input: the assigned partitions, read in batches, paused, and read again after a failure."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.failures import explained
from stream_masker.service.kafka.messages import Partition, partitions_of, partitions_text
from stream_masker.service.kafka.unread_records import ReadError, SkippedOffsets, UnreadablePartitions
from stream_masker.service.worker.batch import GroupShortfall, MessageBatch, earliest_offsets
from stream_masker.service.worker.batcher import Batcher, PutBack, no_groups
from stream_masker.service.worker.starts import EndedWorkers, StartNotes

log = logging.getLogger(__name__)

READ_SECONDS = 0.05
"""Timeout of one read within a batch, in seconds: a stop is noticed after at most this time."""

COMMITTING_READ_SECONDS = 0.002
"""The same while the batch before commits: the end of the commit is noticed after at most this time."""

IDLE_SECONDS = 0.2
"""Seconds to wait for a batch's first record."""

READ_AHEAD_SECONDS = 0.001
"""Timeout of one read while a background task runs, in seconds: the task's end is noticed after at most this time."""

READ_RECORDS = 50
"""Messages of one read, at most: as many of the topic's greatest size take memory at once, whatever the timeout."""

READ_AHEAD_LIMIT_SECONDS = 1.0
"""Seconds after which reading ahead ends: the background task may be stuck."""

BROKER_REQUEST_SECONDS = 5.0
"""Timeout of a request to a broker, in seconds."""

SHORT_REQUEST_SECONDS = 0.1
"""Timeout of a request after earlier requests have used up the shared time limit, in seconds."""

SEEK_ATTEMPTS = 5
MAX_RENEWALS, RENEWAL_SECONDS = 12, 60.0
"""This many new clients within so many seconds are an error: more than sessions can expire in that time."""


class PartitionSource:
    """The partitions of ``topics`` that are assigned to ``client``; ``batcher`` collects their records into batches.

    Rebalances happen only within ``gather``, ``read_ahead``, ``idle``, ``poll``, ``rewind``, ``renew`` and ``close``.
    The gathered records of a revoked partition are dropped; its next owner reads them again from the committed offset.

    ``connect`` makes a new client after the old one was fenced. ``beat`` is called in every loop; it returns False when
    the process stops. ``put_back`` returns groups that are too small to the batcher. ``has_place`` returns whether the
    output has a partition for the records of one; others are not read. ``skips_retained``: see ``SkippedOffsets``.
    """

    def __init__(
        self,
        *,
        client: Consumer,
        connect: Callable[[], Consumer],
        topics: Sequence[str],
        batcher: Batcher,
        beat: Callable[[], bool],
        put_back: PutBack = no_groups,
        has_place: Callable[[Partition], bool] = lambda _: True,
        notes: StartNotes | None = None,
        skips_retained: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._connect = connect
        self._topics = [*topics]
        self._subscribed = False
        self._batcher = batcher
        self._beat = beat
        self._put_back = put_back
        self._has_place = has_place
        self._waiting: set[Partition] = set()
        self._clock = clock
        self._before_revoke: Callable[[], None] = lambda: None
        self._member: str | None = None
        self._held = True
        self._batch: MessageBatch | None = None
        self._progress: dict[Partition, int] = {}
        self._assigned: set[Partition] = set()
        self._leaving = False
        self._failure: str | None = None
        self._failures: deque[float] = deque(maxlen=MAX_RENEWALS)
        self._unreadable = UnreadablePartitions(clock)
        self.skipped = SkippedOffsets(self._low, skips_retained=skips_retained)
        self.ended = EndedWorkers(notes)

    @property
    def assigned(self) -> frozenset[Partition]:
        return frozenset(self._assigned)

    def subscribe(self, before_revoke: Callable[[], None] = lambda: None) -> None:
        """Join the group. ``before_revoke`` is called before partitions are revoked or lost."""
        self._before_revoke = before_revoke
        self._subscribed = True
        self.follow(self._topics)

    def follow(self, topics: Sequence[str]) -> None:
        """Read these topics from now on, or from ``subscribe`` on. Without topics, the group is joined later."""
        self._topics = [*topics]
        if self._subscribed and topics:
            self._client.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )

    def renew(self) -> None:
        """Rejoin the group with a new client if the old one has failed. Call it once per turn.

        A static member is fenced for good by another member with its name, and when its session expires, for example
        while the group coordinator restarts (librdkafka issue 3437). Raises ServiceError if clients fail repeatedly.
        """
        if self._failure is None:
            return
        log.warning("rejoining the group with a new client: %s", self._failure)
        self._failures.append(self._clock())
        if len(self._failures) == MAX_RENEWALS and self._failures[-1] - self._failures[0] < RENEWAL_SECONDS:
            raise ServiceError(f"the consumer fails repeatedly: {self._failure}")
        self._release(set(self._assigned))
        self.close()
        self._client, self._failure, self._member, self._leaving = self._connect(), None, None, False
        self.subscribe(self._before_revoke)

    def hold(self) -> None:
        """Pause all partitions, including those assigned later. They stay assigned."""
        if not self._held:
            self._held = True
            self._client.pause(self._all())

    def resume(self) -> None:
        """Resume reading after ``hold``."""
        if self._held:
            self._held = False
            self._client.resume(self._all(but=self._waiting))

    def without_place(self) -> frozenset[Partition]:
        """Return the partitions whose records have no place in the output. Read those that have one now."""
        placed = {partition for partition in self._waiting if self._has_place(partition)}
        self._waiting -= placed
        if placed and not self._held:
            self._client.resume([TopicPartition(*partition) for partition in sorted(placed)])
        return frozenset(self._waiting)

    def idle(self, seconds: float) -> None:
        """Poll the group while held, for at most ``seconds``. A record that is delivered nevertheless is read again."""
        for message in self._client.consume(1, seconds):
            if message.error() is None:
                self._seek(TopicPartition(message.topic(), message.partition(), message.offset()))
            else:
                self._handle_event(message)

    def poll(self) -> None:
        """Poll the group once while a background task runs; hold all partitions until ``resume``."""
        self.hold()
        self.idle(0)

    def gather(self, committing: Callable[[], bool] = lambda: False) -> MessageBatch:
        """Return the next batch; an empty one if none is complete, or if no record arrives for a while.

        ``committing`` returns whether the batch before is not committed yet.
        """
        batcher, until, drained = self._batcher, self._clock() + IDLE_SECONDS, False
        while (room := batcher.room()) and self._beat():
            busy, now = committing(), self._clock()
            left = batcher.time_left(now, committing=busy)
            remaining = until - now if left is None else left
            if drained and remaining <= 0:
                break
            longest = COMMITTING_READ_SECONDS if busy and left is not None else READ_SECONDS
            wanted = min(room, READ_RECORDS)
            messages = self._client.consume(wanted, min(max(0.0, remaining), longest))
            drained = len(messages) < wanted
            self._add(messages)
        self._batch = batcher.take(self._clock())
        self.skipped.gather(self._batch.next_offsets())
        return self._batch

    def read_ahead(self, done: Callable[[], bool]) -> None:
        """Read records of the next batch until it is complete or ``done()``. Does nothing while held."""
        until = self._clock() + READ_AHEAD_LIMIT_SECONDS
        while not (self._held or done()) and (room := self._batcher.room()) and self._beat():
            if self._clock() >= until:
                break
            self._add(self._client.consume(min(room, READ_RECORDS), READ_AHEAD_SECONDS))

    def put_back(self, batch: MessageBatch, shortfalls: Mapping[Partition, GroupShortfall]) -> None:
        """Return groups of the last gathered batch that are too small to the batcher, with the messages after them.

        Does nothing if a partition of the batch has been revoked since: the batch cannot be committed and is read
        again.
        """
        if self._batch is batch:
            for partition, shortfall in shortfalls.items():
                messages = batch.remove_from(partition, shortfall.start)
                self._put_back(partition, messages, shortfall, self._clock())

    def commit_metadata(self) -> object | None:
        """Return the group metadata that fences a commit of the last gathered batch (KIP-447).

        None if that batch must not be committed: a partition of it has been revoked since, or this client is no longer
        the member that the partitions were assigned to. librdkafka renews the metadata in the background: once the
        member has been removed, they no longer fence its commits.
        """
        metadata = self._client.consumer_group_metadata()
        same = self._member is not None and self._client.memberid() == self._member
        return metadata if same and self._batch is not None else None

    def advance(self, batch: MessageBatch) -> None:
        """Record that a batch is committed."""
        for partition, messages in batch.partitions.items():
            self.skipped.commit(partition, messages)
        self.ended.forget(batch.partitions)
        for partition, offset in batch.next_offsets().items():
            self._progress[partition] = max(offset, self._progress.get(partition, offset))

    def rewind(self, batches: Iterable[MessageBatch]) -> None:
        """Read batches again: from the committed offsets, or from their first offsets where none is committed."""
        first = earliest_offsets(batches)
        self._batcher.drop(first)
        while first and self._failure is None and self._beat():
            assigned = {partition: offset for partition, offset in first.items() if partition in self._assigned}
            committed = self._committed(assigned)
            if committed is not None:
                return self._read_from(committed)
            self.poll()
        return None

    def unreadable(self) -> Mapping[Partition, ReadError]:
        """Return the partitions that cannot be read on. Pass the records that a person has skipped."""
        errors = self._unreadable.lasting
        committed = self._committed({partition: error.offset for partition, error in errors.items()}) or {}
        skipped = {p: offset for p, offset in committed.items() if offset > errors[p].offset}
        for partition, offset in skipped.items():
            log.warning("skipping partition %s from offset %d to %d", partition, errors[partition].offset, offset)
            self.skipped.pass_to(partition, errors[partition].offset, offset)
        self._read_from(skipped)
        self._unreadable.forget(skipped)
        return {partition: error for partition, error in errors.items() if partition not in skipped}

    def lag(self) -> dict[Partition, int]:
        """Return the number of records not yet committed, by assigned partition; partitions of unknown lag are absent.

        Control records of transactional producers count until the end of the partition is reached. All requests
        together take about ``BROKER_REQUEST_SECONDS`` at most; none is made when stopping.
        """
        until = self._clock() + BROKER_REQUEST_SECONDS
        self._find_progress()
        watermarks = {
            partition: self._watermarks(partition, max(SHORT_REQUEST_SECONDS, until - self._clock()))
            for partition in self._assigned & self._progress.keys()
            if self._beat()
        }
        return {
            partition: max(0, bounds[1] - max(bounds[0], self._progress[partition]))
            for partition, bounds in watermarks.items()
            if bounds is not None
        }

    def close(self) -> None:
        """Leave the group."""
        self._leaving = True
        self._client.close()

    def _all(self, but: Collection[Partition] = ()) -> list[TopicPartition]:
        return [TopicPartition(*partition) for partition in sorted(self._assigned.difference(but))]

    def _add(self, messages: list[Any]) -> None:
        records = [message for message in messages if message.error() is None]
        self._batcher.add(records, partitions=self._assigned - self._waiting, now=self._clock())
        if self._unreadable.lasting:
            self._unreadable.forget({Partition(record.topic(), record.partition()) for record in records})
        if len(records) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._handle_event(message)

    def _handle_event(self, message: Any) -> None:
        error, partition = message.error(), Partition(message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            self.skipped.reach_end(partition, message.offset(), self._batcher.end(partition))
            self._unreadable.forget([partition])
            self._progress[partition] = message.offset()
        elif error.code() == KafkaError._FATAL:
            self._failure = error.str()
        else:
            if partition in self._assigned:
                self._unreadable.fail(partition, message.offset(), explained(error))
            log.warning("reading %s: %s", ", ".join(self._topics), explained(error))

    def _low(self, partition: Partition) -> int | None:
        """Return the first retained offset of a partition; None if no broker answers in time."""
        return (self._watermarks(partition, SHORT_REQUEST_SECONDS) or (None, 0))[0]

    def _on_assign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Accept partitions, unless leaving: they are revoked at once, and ``memberid`` of a closing client hangs."""
        if self._leaving:
            return
        assigned = partitions_of(partitions)
        self._assigned |= assigned
        self._find_progress()
        self.ended.take({partition: self._progress[partition] for partition in assigned & self._progress.keys()})
        client.incremental_assign(partitions)
        self._member = client.memberid()
        self._waiting |= {partition for partition in assigned if not self._has_place(partition)}
        for partition in sorted(assigned):
            paused = self._held or partition in self._waiting
            (client.pause if paused else client.resume)([TopicPartition(*partition)])
        log.info("assigned partitions %s, now %s", partitions_text(assigned), partitions_text(self._assigned))

    def _on_revoke(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self._unassign(client, partitions)
        log.info("revoked partitions %s, now %s", *map(partitions_text, (partitions_of(partitions), self._assigned)))

    def _on_lost(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self._member = None
        self._unassign(client, partitions)
        log.warning("lost partitions %s: the group has removed this worker", partitions_text(partitions_of(partitions)))

    def _unassign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        self._release(partitions_of(partitions))
        client.incremental_unassign(partitions)

    def _release(self, partitions: set[Partition]) -> None:
        """Settle the commit in progress, then forget the partitions and their gathered records."""
        self._before_revoke()
        (self.ended.give_up if self._member else self.ended.forget)(partitions)
        self._assigned -= partitions
        self._progress = {partition: end for partition, end in self._progress.items() if partition not in partitions}
        self._unreadable.forget(partitions)
        self._waiting -= partitions
        self.skipped.forget(partitions)
        self._batcher.drop(partitions)
        if self._batch is not None and partitions & self._batch.partitions.keys():
            self._batch = None

    def _committed(self, first: Mapping[Partition, int]) -> dict[Partition, int] | None:
        """Return each partition's committed offset, or its given one; None if the coordinator does not answer."""
        try:
            wanted = [TopicPartition(*partition) for partition in first]
            committed = self._client.committed(wanted, BROKER_REQUEST_SECONDS) if wanted else []
        except KafkaException as failure:
            log.warning("requesting the committed offsets: %s", failure.args[0].str())
            return None
        if any(p.error for p in committed):
            return None
        offsets = {Partition(p.topic, p.partition): p.offset for p in committed}
        return {partition: offset if offset >= 0 else first[partition] for partition, offset in offsets.items()}

    def _read_from(self, offsets: Mapping[Partition, int]) -> None:
        for partition, offset in offsets.items():
            self._progress.pop(partition, None)
            self.skipped.start(partition, offset)
            self._seek(TopicPartition(*partition, offset))

    def _seek(self, to: TopicPartition) -> None:
        """Continue to read from an offset. A client that refuses, as a fenced one does, is replaced."""
        for attempt in range(1, SEEK_ATTEMPTS + 1):
            try:
                self._client.seek(to)
                break
            except KafkaException as failure:
                refusal = failure.args[0].str()
                time.sleep(READ_SECONDS * attempt)
        else:
            self._failure = f"partition {to.partition} of {to.topic} cannot be read again: {refusal}"

    def _find_progress(self) -> None:
        """Request the committed offsets of partitions with none since their assignment; 0 where none is committed."""
        unknown = [TopicPartition(*partition) for partition in self._assigned - self._progress.keys()]
        try:
            committed = self._client.committed(unknown, BROKER_REQUEST_SECONDS) if unknown else []
        except KafkaException:
            return
        for p in committed:
            if p.error is None:
                self.skipped.start(Partition(p.topic, p.partition), p.offset)
                self._progress[Partition(p.topic, p.partition)] = max(0, p.offset)

    def _watermarks(self, partition: Partition, seconds: float) -> tuple[int, int] | None:
        """Return the first and the next offset of a partition; None if the brokers do not answer in time."""
        where = TopicPartition(*partition)
        cached: tuple[int, int] | None = self._client.get_watermark_offsets(where, timeout=seconds, cached=True)
        if not self._held and cached is not None and cached[1] >= 0:
            return cached
        try:
            fresh: tuple[int, int] | None = self._client.get_watermark_offsets(where, timeout=seconds, cached=False)
        except KafkaException:
            return None
        return fresh
