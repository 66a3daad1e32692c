"""The partitions at whose committed offset several workers have ended.

A worker that runs out of memory on the records of a partition is killed without a word, and so is the next one. Each
worker therefore notes the committed offsets of its partitions before it reads them, and takes the notes back when it
gives the partitions up. Notes are written when partitions are assigned or revoked, never for a record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from stream_masker.service.kafka.failures import explained
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.observability.logs import RepeatFilter

NOTE_SECONDS = 2.0
"""The timeout of one request."""

NOTE_POLL_SECONDS = 0.02
"""The time after which the result of a commit is looked for again."""

CommitResult: TypeAlias = tuple[KafkaError | None, list[TopicPartition]]


class WorkerStart(NamedTuple):
    """The offset at which a worker begins to read. ended: how many workers began there before it and have ended."""

    offset: int
    ended: int


class StartNotes:
    """The notes in a consumer group without members. ``connect`` makes a consumer of the group with this callback."""

    def __init__(self, connect: Callable[[Callable[..., None]], Consumer]) -> None:
        self._connect = connect

    def take(self, committed: Mapping[Partition, int]) -> dict[Partition, WorkerStart]:
        """Note that a worker begins to read at these offsets; return those that have records. Raises KafkaException."""
        with self._client() as (client, results):
            unread = {p: offset for p, offset in committed.items() if offset < _end(client, p)}
            noted = _read(client, unread)
            starts = {p: WorkerStart(o, noted[p].ended if noted[p].offset == o else 0) for p, o in unread.items()}
            _write(client, results, {p: WorkerStart(offset, ended + 1) for p, (offset, ended) in starts.items()})
        return starts

    def give_back(self, starts: Mapping[Partition, WorkerStart]) -> None:
        """Replace the notes of a worker that has not ended. Raises KafkaException."""
        with self._client() as (client, results):
            _write(client, results, starts)

    @contextmanager
    def _client(self) -> Iterator[tuple[Consumer, list[CommitResult]]]:
        """Yield a client, and the list that it adds the results of commits to."""
        results: list[CommitResult] = []
        client = self._connect(lambda error, partitions: results.append((error, partitions)))
        try:
            yield client, results
        finally:
            client.close()


def _end(client: Consumer, partition: Partition) -> int:
    watermarks: Any = client.get_watermark_offsets(TopicPartition(*partition), timeout=NOTE_SECONDS, cached=False)
    return int(watermarks[1]) if watermarks else 0


def _read(client: Consumer, offsets: Mapping[Partition, int]) -> dict[Partition, WorkerStart]:
    committed = client.committed([TopicPartition(*partition) for partition in offsets], NOTE_SECONDS) if offsets else []
    _check(None, committed)
    return {Partition(p.topic, p.partition): WorkerStart(p.offset, _number(p.metadata)) for p in committed}


def _write(client: Consumer, results: list[CommitResult], starts: Mapping[Partition, WorkerStart]) -> None:
    """Commit the notes, and wait for the result: a commit that waits by itself has no time limit."""
    if starts:
        notes = [TopicPartition(*partition, offset, str(ended)) for partition, (offset, ended) in starts.items()]
        client.commit(offsets=notes, asynchronous=True)
        until = time.monotonic() + NOTE_SECONDS
        while not results and time.monotonic() < until:
            client.poll(NOTE_POLL_SECONDS)
        _check(*(results.pop() if results else (KafkaError(KafkaError._TIMED_OUT), [])))


def _check(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
    """Raise KafkaException if there is an error, also one of a single partition."""
    for problem in (error, *(partition.error for partition in partitions)):
        if problem is not None:
            raise KafkaException(problem)


def _number(metadata: str | None) -> int:
    return int(metadata) if metadata and metadata.isdecimal() else 0


log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

SUSPICIOUS_ENDS = 2
"""The number of workers that have ended at an offset from which on its records may be the cause."""


class EndedWorkers:
    """The starts of this worker, until it commits. Without ``notes`` it knows of no others."""

    def __init__(self, notes: StartNotes | None = None) -> None:
        self._notes = notes
        self._starts: dict[Partition, WorkerStart] = {}

    @property
    def suspicious(self) -> Mapping[Partition, WorkerStart]:
        """The starts before which ``SUSPICIOUS_ENDS`` workers or more have ended at the same offset."""
        return {partition: start for partition, start in self._starts.items() if start.ended >= SUSPICIOUS_ENDS}

    def take(self, committed: Mapping[Partition, int]) -> None:
        """Note that this worker begins to read partitions at their committed offsets."""
        if self._notes is None:
            return
        try:
            taken = self._notes.take(committed)
        except KafkaException as failure:
            log.warning("the starts of workers are not noted: %s", explained(failure.args[0]))
            return
        self._starts |= taken
        for partition in taken.keys() & self.suspicious.keys():
            log.warning("%s", ended_text(partition, taken[partition]))

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget the starts of partitions that this worker has committed or lost."""
        for partition in partitions if self._starts else ():
            self._starts.pop(partition, None)

    def give_up(self, partitions: Iterable[Partition]) -> None:
        """Take back the notes about partitions that this worker gives up before it has committed."""
        given = {partition: self._starts.pop(partition) for partition in partitions if partition in self._starts}
        if self._notes is None or not given:
            return
        try:
            self._notes.give_back(given)
        except KafkaException as failure:
            log.warning("the starts of workers are not noted: %s", explained(failure.args[0]))


def ended_text(partition: Partition, start: WorkerStart) -> str:
    """Return how many workers have ended at an offset, and what to do."""
    return (
        f"{start.ended} workers in a row have ended at offset {start.offset} of partition {partition.number} of "
        f"{partition.topic} without committing: if they were killed for their memory, follow the runbook "
        "'Workers are killed again and again'"
    )
