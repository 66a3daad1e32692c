"""The worker's input: the partitions that the group assigns to it, read in batches from the committed offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, groupby
from operator import methodcaller

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import Header, Inputs
from stream_masker.service.kafka.errors import explained
from stream_masker.service.worker.transactions import SessionLostError

log = logging.getLogger(__name__)

READ_SECONDS = 0.05
"""Timeout of one read within a batch, in seconds: a stop is noticed after at most this time."""

COMMITTING_READ_SECONDS = 0.002
"""The same while the batch before commits: the end of the commit is noticed after at most this time."""

IDLE_SECONDS = 0.2
"""Seconds to wait for a batch's first record."""

READ_RECORDS = 50
"""Messages of one read, at most: as many of the topic's greatest size take memory at once, whatever the timeout."""

REQUEST_SECONDS = 5.0
"""Timeout of a request to a broker, in seconds."""

UNREADABLE = b"\xff"
"""Replaces the value of a message whose headers cannot be read, so that it is rejected as not UTF-8."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most ``records`` and bytes (``size``) of a batch or a group, both at least 1, and the ``delay`` in seconds
    from its first record before which it ends only at one of them."""

    records: int
    size: int
    delay: float = 0.0


def to_inputs(messages: Sequence[Message], masker: RecordMasker) -> Inputs:
    """Convert messages that ``bytes_of`` has read to columns for the record masker, with headers if it needs them."""
    return Inputs(
        offsets=[message.offset() for message in messages],
        values=[message.value() for message in messages],
        keys=[message.key() for message in messages],
        timestamps=[message.timestamp()[1] for message in messages],
        headers=list(map(headers_of, messages)) if masker.reads_headers else (),
    )


def headers_of(message: Message) -> Sequence[Header]:
    """Return a message's headers. If a header name is not UTF-8, remove the headers and replace the value.

    confluent-kafka raises an error for such headers at the first call; later calls return a list that crashes its
    reader. With ``methodcaller`` the interpreter detects the error at once; with a specialised method call it does not.
    """
    try:
        return _read_headers(message) or ()
    except (SystemError, UnicodeDecodeError):
        message.set_headers([])
        if message.value() is not None:
            message.set_value(UNREADABLE)
        return ()


_read_headers: Callable[[Message], list[Header] | None] = methodcaller("headers")


def bytes_of(messages: Sequence[Message]) -> int:
    """Return the bytes of the keys, values and headers of messages: each can be as large as the topic allows.

    It marks those whose headers cannot be read (``headers_of``).
    """
    keys = filter(None, map(methodcaller("key"), messages))
    headers = chain.from_iterable(map(headers_of, messages))
    contents = sum(len(name) + len(content or b"") for name, content in headers)
    return sum(map(len, messages)) + sum(map(len, keys)) + contents


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
    before they are revoked or lost. ``is_lost`` returns whether the client has lost all brokers (``connect_consumer``).
    ``has_joined``: whether the consumer is in the group.
    """

    def __init__(
        self,
        client: Consumer,
        topic: str,
        limits: Limits,
        *,
        running: Callable[[], bool],
        revoke: Callable[[set[int]], None],
        is_lost: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self.topic, self._limits = client, topic, limits
        self._running, self._clock, self._revoke, self._is_lost = running, clock, revoke, is_lost
        self.has_joined = self._leaving = False
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

        The first call joins the group. ``committing`` returns whether the batch before may still be committed. A batch
        ends by the load: when no more records wait, after its delay, and when the batch before is committed. A batch
        that ended before that commit would wait for it, and records that arrive meanwhile for another commit. While
        records wait, a batch grows to its limits, so that a backlog costs few transactions. Raises SessionLostError if
        the client has failed for good.
        """
        if not self.has_joined:
            self.has_joined = True
            self._client.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        limits, count, size, until = self._limits, 0, 0, self._clock() + IDLE_SECONDS
        while count < limits.records and size < limits.size and self._failure is None and self._running():
            # The first read asks for one record: it would wait for all that it asks for.
            wanted = min(limits.records - count, READ_RECORDS) if count else 1
            waits = count > 0 and committing()
            seconds = COMMITTING_READ_SECONDS if waits else min(max(0.0, until - self._clock()), READ_SECONDS)
            messages = self._client.consume(wanted, seconds)
            added, grown = self._add(messages)
            if added and not count:
                until = self._clock() + limits.delay
            count, size = count + added, size + grown
            if len(messages) < wanted and self._clock() >= until and not waits:
                break
        if self._failure is not None or self._is_lost():
            raise SessionLostError(self._failure or "the input's client has lost the brokers")
        batch, self._batch = self._batch, {}
        return batch

    def poll(self) -> None:
        """Serve the group while a commit takes long. A record that comes is the first one of the next batch."""
        self._add(self._client.consume(1, 0.0))

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
        self._batch = {}
        for partition, reading in self._readings.items():
            if reading.done != reading.read:
                reading.read = reading.done
                try:
                    self._client.seek(TopicPartition(self.topic, partition, reading.done))
                except KafkaException as failure:  # as a client that is fenced
                    raise SessionLostError(f"partition {partition}: {explained(failure.args[0])}") from None

    def take_skipped(self) -> int:
        """Return and forget the number of offsets that were deleted before they were read."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def lag(self) -> int:
        """Return the number of records that are not committed yet, of the partitions in which a record has been read.

        It counts to the ends of the last responses. A request would wait behind the fetch in progress.
        """
        lag = 0
        for partition, reading in self._readings.items():
            done = reading.done if reading.done != reading.read else max(reading.done, reading.end)
            with suppress(KafkaException):
                _, end = self._client.get_watermark_offsets(TopicPartition(self.topic, partition), cached=True)
                lag += max(0, end - done) if done >= 0 else 0
        return lag

    def close(self) -> None:
        """Leave the group."""
        self._leaving = True
        self._client.close()

    def _add(self, messages: list[Message]) -> tuple[int, int]:
        """Add the records of assigned partitions to the batch, and handle the other events; return the number of the
        records and their bytes."""
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
        return len(added), bytes_of(added)

    def _handle(self, message: Message) -> None:
        """Handle an event of the client. After an error of no partition, librdkafka may never read some of them again:
        it does not repeat a request for committed offsets that the coordinator has refused."""
        error, reading = message.error(), self._readings.get(message.partition(), _Reading())
        if error.code() == KafkaError._PARTITION_EOF:
            reading.end, reading.error = message.offset(), None
        elif message.topic() is None or error.code() in {KafkaError._FATAL, KafkaError._AUTO_OFFSET_RESET}:
            self._failure = f"the input cannot be read on: {explained(error)}"
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
        log.info("assigned partitions %s, now %s", sorted(assigned), sorted(self._readings))

    def _starts(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """Return partitions with the offsets to read them from: the client's own if no broker tells them in time."""
        starts = {partition: int(OFFSET_STORED) for partition in sorted(partitions)}
        try:
            for one in self._client.committed([TopicPartition(self.topic, p) for p in starts], REQUEST_SECONDS):
                if one.error is None:
                    starts[one.partition] = self._start(one)
        except KafkaException as failure:
            log.warning("requesting the committed offsets: %s", failure.args[0].str())
        return [TopicPartition(self.topic, *place) for place in starts.items()]

    def _start(self, committed: TopicPartition) -> int:
        """Return where a partition is read from: the committed offset if it is in the topic, otherwise its beginning.

        What retention has deleted behind the committed offset is counted, if a broker tells the bounds in time.
        """
        place, offset = TopicPartition(self.topic, committed.partition), committed.offset
        try:
            first, end = self._client.get_watermark_offsets(place, REQUEST_SECONDS)
        except KafkaException:
            if offset < 0:
                return int(OFFSET_STORED)
            first = end = offset
        start: int = offset if first <= offset <= end else first
        if offset >= 0:
            self._skipped += max(0, first - offset)
        self._readings[committed.partition] = _Reading(start, start)
        return start

    def _on_revoke(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Let the commit in progress be settled, then forget partitions that are revoked or lost, and their records."""
        gone = {one.partition for one in partitions}
        self._revoke(gone)
        for partition in gone:
            self._readings.pop(partition, None)
            self._batch.pop(partition, None)
        client.incremental_unassign(partitions)
        log.info("gave back partitions %s, now %s", sorted(gone), sorted(self._readings))
