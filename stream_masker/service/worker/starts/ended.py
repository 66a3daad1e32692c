"""The partitions at whose committed offset several workers have ended.

A worker that runs out of memory on the records of a partition is killed without a word, and so is the next one. Each
worker therefore notes the committed offsets of its partitions before it reads them, and takes the notes back when it
gives the partitions up. Notes are written when partitions are assigned or revoked, never for a record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from confluent_kafka import KafkaException

from stream_masker.service.kafka.failures import explained
from stream_masker.service.kafka.partitions import Partition
from stream_masker.service.observability.repeats import RepeatFilter
from stream_masker.service.worker.starts.notes import WorkerStart

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

SUSPICIOUS_ENDS = 2
"""The number of workers that have ended at an offset from which on its records may be the cause."""


class Notes(Protocol):
    """The methods of ``StartNotes``."""

    def take(self, committed: Mapping[Partition, int]) -> dict[Partition, WorkerStart]: ...
    def give_back(self, starts: Mapping[Partition, WorkerStart]) -> None: ...


class EndedWorkers:
    """The starts of this worker, until it commits. Without ``notes`` it knows of no others."""

    def __init__(self, notes: Notes | None = None) -> None:
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
