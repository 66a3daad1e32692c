"""Notes of the offsets at which workers begin to read, in a consumer group of their own.

They are not in the workers' group, where a request that arrives late could replace an offset that a worker has
committed since.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from stream_masker.service.kafka.partitions import Partition

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
    found: Any = client.get_watermark_offsets(TopicPartition(*partition), timeout=NOTE_SECONDS, cached=False)
    return int(found[1]) if found else 0


def _read(client: Consumer, offsets: Mapping[Partition, int]) -> dict[Partition, WorkerStart]:
    found = client.committed([TopicPartition(*partition) for partition in offsets], NOTE_SECONDS) if offsets else []
    _check(None, found)
    return {Partition(p.topic, p.partition): WorkerStart(p.offset, _number(p.metadata)) for p in found}


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
    for found in (error, *(one.error for one in partitions)):
        if found is not None:
            raise KafkaException(found)


def _number(metadata: str | None) -> int:
    return int(metadata) if metadata and metadata.isdecimal() else 0
