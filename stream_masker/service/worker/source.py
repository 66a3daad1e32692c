"""The worker's input: its share of the partitions, read in batches, held back, and read again after a failure."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.service.worker.batch import GroupShortfall, KafkaMessage, MessageBatch
from stream_masker.service.worker.batcher import Batcher

log = logging.getLogger(__name__)

READ_SECONDS = 0.05
"""Seconds of one read within a batch: how soon a stop is noticed."""

IDLE_SECONDS = 0.2
"""Seconds of waiting for a batch's first record."""

READ_AHEAD_SECONDS = 0.001
"""Seconds of one read while something else is waited for: how late its end is noticed."""

READ_AHEAD_RECORDS = 500
"""Records of one such read, at most: while the client makes their messages, no other thread of Python runs."""

READ_AHEAD_LIMIT_SECONDS = 1.0
"""Seconds after which reading ahead ends, whatever is waited for: then it may be stuck."""

BROKER_REQUEST_SECONDS = 5.0
"""Seconds that a request to a broker may take."""

SHORT_REQUEST_SECONDS = 0.1
"""Seconds of a request that follows others which took too long."""

SEEK_ATTEMPTS = 5

MAX_RENEWALS = 12
"""So many clients in a row, the last shut out within ``RENEWAL_SECONDS`` of the first, are no accident: more than
there can be sessions in that time."""

RENEWAL_SECONDS = 60.0


class ConsumerClient(Protocol):
    """What is used of ``confluent_kafka.Consumer``."""

    def subscribe(self, topics: list[str], **callbacks: Callable[[Any, list[TopicPartition]], None]) -> None: ...
    def consume(self, num_messages: int, timeout: float) -> list[Any]: ...
    def incremental_assign(self, partitions: list[TopicPartition]) -> None: ...
    def incremental_unassign(self, partitions: list[TopicPartition]) -> None: ...
    def pause(self, partitions: list[TopicPartition]) -> None: ...
    def resume(self, partitions: list[TopicPartition]) -> None: ...
    def seek(self, partition: TopicPartition) -> None: ...
    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]: ...
    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float, cached: bool
    ) -> tuple[int, int] | None: ...
    def consumer_group_metadata(self) -> object: ...
    def memberid(self) -> str | None: ...
    def close(self) -> None: ...


def _nothing() -> None:
    """Settles nothing."""


TakeBack: TypeAlias = Callable[[int, Sequence[KafkaMessage], GroupShortfall, float], None]
"""Takes messages of a partition back, of which the first ones are too small a group, at a time."""


def _no_groups(partition: int, messages: Sequence[KafkaMessage], short: GroupShortfall, now: float) -> None:
    """Nothing is ever put back."""


class PartitionSource:
    """The partitions of ``topic`` that the group gives to ``client``, their records gathered by ``gathering``.

    Partitions change hands only within ``gather``, ``read_ahead``, ``idle``, ``serve``, ``rewind``, ``renew`` and
    ``close``.
    What was gathered of a partition given up is forgotten, and its next owner reads it again from the committed
    offset. ``turn`` is called while waiting and says whether to go on (False: stopping). ``regather``: takes back
    groups that are too small. ``connect``: makes the client's successor, should it be shut out for good.
    """

    def __init__(
        self,
        *,
        client: ConsumerClient,
        connect: Callable[[], ConsumerClient],
        topic: str,
        gathering: Batcher,
        turn: Callable[[], bool],
        regather: TakeBack = _no_groups,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._connect = connect
        self._topic = topic
        self._gathering = gathering
        self._turn = turn
        self._regather = regather
        self._clock = clock
        self._settle: Callable[[], None] = _nothing
        self._member: str | None = None
        self._held = True
        self._batch: MessageBatch | None = None
        self._positions: dict[int, int] = {}
        self._assigned: set[int] = set()
        self._leaving = False
        self._failure: str | None = None
        self._failures: deque[float] = deque(maxlen=MAX_RENEWALS)

    @property
    def assigned(self) -> frozenset[int]:
        return frozenset(self._assigned)

    def subscribe(self, settle: Callable[[], None] = _nothing) -> None:
        """Joins the group. ``settle`` is called before partitions are given up: it ends what is committing."""
        self._settle = settle
        self._client.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def renew(self) -> None:
        """Joins the group again, by another client, if this one is of no use any more; to be called each turn.

        Static members are shut out for good: for another one of the same name, and whenever their session is over,
        as when the group's coordinator restarts (librdkafka's issue 3437). Raises ServiceError when that happens again
        and again.
        """
        if self._failure is None:
            return
        self._note_failure(self._failure)
        self._forget(set(self._assigned))
        self.close()
        self._client, self._failure, self._member, self._leaving = self._connect(), None, None, False
        self.subscribe(self._settle)

    def hold(self) -> None:
        """Stops reading; the partitions, and those to come, stay assigned."""
        if not self._held:
            self._held = True
            self._client.pause(self._all())

    def resume(self) -> None:
        """Reads on after ``hold``."""
        if self._held:
            self._held = False
            self._client.resume(self._all())

    def idle(self, seconds: float) -> None:
        """Stays in the group while held: serves what the group wants of its members, and takes no record."""
        for message in self._client.consume(1, seconds):
            if message.error() is None:
                self._seek(TopicPartition(self._topic, message.partition(), message.offset()))
            else:
                self._take_event(message)

    def serve(self) -> None:
        """Stays in the group while something else takes long: as ``idle``, without waiting. ``resume`` reads on."""
        self.hold()
        self.idle(0)

    def gather(self) -> MessageBatch:
        """The next batch; empty when none is complete, or nothing came for a while."""
        gathering, until = self._gathering, self._clock() + IDLE_SECONDS
        while (room := gathering.room()) and self._turn():
            left = gathering.left(now := self._clock())
            if (until - now if left is None else left) <= 0:
                break
            self._take(self._client.consume(room, READ_SECONDS if left is None else min(left, READ_SECONDS)))
        self._batch = gathering.take(self._clock())
        return self._batch

    def read_ahead(self, done: Callable[[], bool]) -> None:
        """Reads what belongs to the next batch until that is complete, or something else is done. Not while held."""
        until = self._clock() + READ_AHEAD_LIMIT_SECONDS
        while not (self._held or done()) and (room := self._gathering.room()) and self._turn():
            if self._clock() >= until:
                break
            self._take(self._client.consume(min(room, READ_AHEAD_RECORDS), READ_AHEAD_SECONDS))

    def put_back(self, batch: MessageBatch, short: Mapping[int, GroupShortfall]) -> None:
        """Gathers again what is too small a group in the batch gathered last, and what came behind it.

        Not if a partition has been given up since: then nothing of the batch may be committed, and all is read again.
        """
        if self._batch is batch:
            for partition, few in short.items():
                self._regather(partition, batch.take_out(partition, few.start), few, self._clock())

    def group(self) -> object | None:
        """What fences the group's other members off (KIP-447), for the batch gathered last.

        None when that batch must not be committed: a partition of it has been given up since, or this is no longer
        the member that the partitions were assigned to. librdkafka renews the metadata in the background: after the
        group has given the member up, they would let through what they should fence.
        """
        metadata = self._client.consumer_group_metadata()
        same = self._member is not None and self._client.memberid() == self._member
        return metadata if same and self._batch is not None else None

    def offsets(self, batch: MessageBatch) -> list[TopicPartition]:
        """The offsets to commit with a batch."""
        return [TopicPartition(self._topic, partition, offset) for partition, offset in batch.next_offsets().items()]

    def advance(self, batch: MessageBatch) -> None:
        """Notes that a batch is committed."""
        for partition, offset in batch.next_offsets().items():
            self._positions[partition] = max(offset, self._positions.get(partition, offset))

    def rewind(self, batches: Iterable[MessageBatch]) -> None:
        """Reads batches again: from the committed offsets, or from their start where none is committed."""
        first = earliest_offsets(batches)
        self._gathering.drop(first)
        while first and self._failure is None and self._turn():
            mine = {partition: offset for partition, offset in first.items() if partition in self._assigned}
            committed = self._committed(mine)
            if committed is not None:
                return self._read_from(committed)
            self.serve()
        return None

    def lag(self) -> dict[int, int]:
        """Records not yet committed, of each assigned partition whose extent is known.

        Control records of transactional producers count until the partition's end is reached. Brokers that do not
        answer are waited for ``BROKER_REQUEST_SECONDS`` seconds in all, and not while stopping.
        """
        until = self._clock() + BROKER_REQUEST_SECONDS
        self._find_positions()
        extents = {
            partition: self._extent(partition, max(SHORT_REQUEST_SECONDS, until - self._clock()))
            for partition in self._assigned & self._positions.keys()
            if self._turn()
        }
        return {
            partition: max(0, extent[1] - max(extent[0], self._positions[partition]))
            for partition, extent in extents.items()
            if extent is not None
        }

    def close(self) -> None:
        """Leaves the group."""
        self._leaving = True
        self._client.close()

    def _all(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in sorted(self._assigned)]

    def _take(self, messages: list[Any]) -> None:
        records = [message for message in messages if message.error() is None]
        self._gathering.add(records, partitions=self._assigned, now=self._clock())
        if len(records) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._take_event(message)

    def _take_event(self, message: Any) -> None:
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            self._positions[message.partition()] = message.offset()
        elif error.code() == KafkaError._FATAL:
            self._failure = error.str()
        else:
            log.warning("reading %s: %s", self._topic, error.str())

    def _note_failure(self, text: str) -> None:
        log.warning("joining the group anew: %s", text)
        self._failures.append(self._clock())
        if len(self._failures) == MAX_RENEWALS and self._failures[-1] - self._failures[0] < RENEWAL_SECONDS:
            raise ServiceError(f"the consumer fails again and again: {text}")

    def _on_assign(self, client: ConsumerClient, partitions: list[TopicPartition]) -> None:
        """Takes partitions, unless leaving: then they go at once, and a client asked for its name never answers."""
        if self._leaving:
            return
        client.incremental_assign(partitions)
        self._member = client.memberid()
        self._assigned |= _numbers(partitions)
        (client.pause if self._held else client.resume)([TopicPartition(p.topic, p.partition) for p in partitions])
        log.info("assigned partitions %s, now %s", sorted(_numbers(partitions)), sorted(self._assigned))

    def _on_revoke(self, client: ConsumerClient, partitions: list[TopicPartition]) -> None:
        self._give_up(client, partitions)
        log.info("gave up partitions %s, now %s", sorted(_numbers(partitions)), sorted(self._assigned))

    def _on_lost(self, client: ConsumerClient, partitions: list[TopicPartition]) -> None:
        self._member = None
        self._give_up(client, partitions)
        log.warning("lost partitions %s: the group had given this worker up", sorted(_numbers(partitions)))

    def _give_up(self, client: ConsumerClient, partitions: list[TopicPartition]) -> None:
        self._forget(_numbers(partitions))
        client.incremental_unassign(partitions)

    def _forget(self, numbers: set[int]) -> None:
        self._settle()
        self._assigned -= numbers
        for number in numbers:
            self._positions.pop(number, None)
        self._gathering.drop(numbers)
        if self._batch is not None and numbers & self._batch.partitions.keys():
            self._batch = None

    def _committed(self, first: Mapping[int, int]) -> dict[int, int] | None:
        """The committed offset of each partition, or else the given one; None: the group's coordinator did not say."""
        wanted = [TopicPartition(self._topic, partition) for partition in first]
        try:
            found = self._client.committed(wanted, BROKER_REQUEST_SECONDS) if wanted else []
        except KafkaException as failure:
            log.warning("asking for the committed offsets: %s", failure.args[0].str())
            return None
        if any(p.error for p in found):
            return None
        return {p.partition: p.offset if p.offset >= 0 else first[p.partition] for p in found}

    def _read_from(self, offsets: Mapping[int, int]) -> None:
        for partition, offset in offsets.items():
            self._positions.pop(partition, None)
            self._seek(TopicPartition(self._topic, partition, offset))

    def _seek(self, to: TopicPartition) -> None:
        """Reads on from there. If the client refuses, which one does that has been shut out, another has to."""
        for attempt in range(1, SEEK_ATTEMPTS + 1):
            try:
                return self._client.seek(to)
            except KafkaException as failure:
                refusal = failure.args[0].str()
                time.sleep(READ_SECONDS * attempt)
        self._failure = f"partition {to.partition} of {self._topic} cannot be read again: {refusal}"
        return None

    def _find_positions(self) -> None:
        """Where nothing was committed since the assignment, the position is what was committed before, or nothing."""
        unknown = [TopicPartition(self._topic, p) for p in self._assigned - self._positions.keys()]
        try:
            found = self._client.committed(unknown, BROKER_REQUEST_SECONDS) if unknown else []
        except KafkaException:
            return
        self._positions.update({p.partition: max(0, p.offset) for p in found if p.error is None})

    def _extent(self, partition: int, seconds: float) -> tuple[int, int] | None:
        there = TopicPartition(self._topic, partition)
        cached = self._client.get_watermark_offsets(there, timeout=seconds, cached=True)
        try:
            fresh = self._held or cached is None or cached[1] < 0
            return self._client.get_watermark_offsets(there, timeout=seconds, cached=False) if fresh else cached
        except KafkaException:
            return None


def earliest_offsets(batches: Iterable[MessageBatch]) -> dict[int, int]:
    """The first offset of each partition in any of the batches."""
    first: dict[int, int] = {}
    for batch in batches:
        for partition, offset in batch.first_offsets().items():
            first[partition] = min(offset, first.get(partition, offset))
    return first


def _numbers(partitions: Iterable[TopicPartition]) -> set[int]:
    return {partition.partition for partition in partitions}
