"""The worker's input topics; with a regular expression, they are looked for again while the worker runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import KafkaException

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.topics import TopicsSection
from stream_masker.service.kafka.failures import explained
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.observability.logs import RepeatFilter
from stream_masker.service.worker.batch import MessageBatch
from stream_masker.service.worker.topic_checks import (
    FoundTopics,
    PartitionCounts,
    check_input,
    check_names,
    input_names,
)


class TopicIds:
    """Requests the ids of input topics before records are masked that may be those of another topic of the same name.

    Noise by position depends on the id, because such a topic has the same positions. The id is requested for the first
    records of a partition after a rebalance, and for records below those that have been read.
    """

    def __init__(self, request: Callable[[Sequence[str]], bool]) -> None:
        """``request``: requests and sets the ids of topics; it returns False if the process stops before that."""
        self.request = request
        self._next: dict[Partition, int] = {}
        self._current: MessageBatch | None = None

    def in_doubt(self, batch: MessageBatch) -> list[str]:
        """Return the topics whose ids must be requested before a batch is masked."""
        self._current = batch
        first = batch.first_offsets().items()
        return sorted({p.topic for p, offset in first if offset < self._next.get(p, offset + 1)})

    def passed(self, batch: MessageBatch) -> None:
        """Note up to where a batch has been masked, unless there was a rebalance meanwhile."""
        if batch is self._current:
            self._next |= batch.next_offsets()

    def forget(self) -> None:
        """Request all ids again: partitions are being revoked, and may come back."""
        self._next.clear()
        self._current = None


log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

CLIENT_REFRESH_MS = 300_000
"""The default of librdkafka's clients, which learn of new partitions of an output after this time."""


class InputTopics:
    """The input topics that a worker reads. A new topic is read once it and the topics of its records pass the checks.

    ``partitions`` requests the number of partitions of every topic. ``admit`` is called before the records of a new
    topic are read. Both may raise KafkaException, ``admit`` also ServiceError. ``every``: seconds between two searches,
    and between two requests for the partitions of outputs.
    ``known_after``: seconds after which producers know a new partition.

    names: of the topics to read. refused: which ones are left out, and why; None if there are none.
    """

    def __init__(
        self,
        topics: TopicsSection,
        existing: FoundTopics,
        *,
        partitions: Callable[[], Mapping[str, int]],
        admit: Callable[[str], None],
        every: float,
        known_after: float = CLIENT_REFRESH_MS / 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topics = topics
        self._counts = dict(existing.inputs)
        self.names = [*existing.inputs]
        self._partitions = partitions
        self._admit = admit
        self._every = every
        self._clock = clock
        self._known_after = known_after
        self._grown: dict[Partition, float] = {}
        self._next = clock() + every
        self._outputs: Mapping[str, int] = {}
        self._next_outputs = clock()
        self.refused: str | None = None

    def counts(self, topic: str) -> PartitionCounts:
        """Return the numbers of partitions of an input topic and of the topics of its records.

        Those of a topic that is not read any more are known too: some of its records may still be in flight.
        """
        return self._counts[topic]

    def has_place(self, partition: Partition) -> bool:
        """Return whether the output has a partition of this number, and producers know it.

        The input may have got partitions since the start. Requests the numbers of partitions if it has, at intervals.
        """
        if partition.number < self._counts[partition.topic].output:
            return True
        self._request_outputs()
        outputs = self._outputs.get(self._topics.of(partition.topic).output, 0)
        if partition.number >= outputs:
            return False
        since = self._grown.setdefault(Partition(partition.topic, outputs), self._clock())
        if self._clock() - since < self._known_after:
            return False
        self._counts[partition.topic] = replace(self._counts[partition.topic], output=outputs)
        return True

    def _request_outputs(self) -> None:
        """Request the numbers of partitions if the time has come; without an answer, keep those known."""
        if self._clock() >= self._next_outputs:
            self._next_outputs = self._clock() + self._every
            with suppress(KafkaException):
                self._outputs = dict(self._partitions())

    def place_missing(self, waiting: Iterable[Partition]) -> str | None:
        """Return why partitions are not read because of their output; None if there are none."""
        missing: dict[str, list[int]] = {}
        for topic, number in sorted(waiting):
            missing.setdefault(topic, []).append(number)
        texts = (
            f"partitions {', '.join(map(str, numbers))} of {topic} wait: "
            f"{self._topics.of(topic).output} needs at least {max(numbers) + 1} partitions"
            for topic, numbers in missing.items()
        )
        return "; ".join(texts) or None

    @property
    def due(self) -> bool:
        """Whether to look for new topics; never if all are named."""
        return self._topics.expression is not None and self._clock() >= self._next

    def refresh(self) -> bool:
        """Look for topics; return whether those to read have changed."""
        self._next = self._clock() + self._every
        try:
            counts = self._partitions()
        except KafkaException as failure:
            log.warning("new topics cannot be looked for: %s", explained(failure.args[0]))
            return False
        before, problems = self.names, []
        names = input_names(counts, self._topics)
        self.names = [name for name in self.names if name in names]
        for name in names:
            if name not in self.names and (problem := self._add(name, counts)) is not None:
                problems.append(f"{name}: {problem}")
        self._report(problems)
        return self.names != before

    def _add(self, name: str, counts: Mapping[str, int]) -> str | None:
        """Add a topic if it passes the checks, otherwise return why it does not."""
        try:
            check_names(self._topics, [*self.names, name])
            checked = check_input(counts, self._topics, name)
            self._admit(name)
        except KafkaException as failure:
            return explained(failure.args[0])
        except ServiceError as error:
            return str(error)
        self._counts[name] = checked
        self.names.append(name)
        log.info("reading the new input topic %s", name)
        return None

    def _report(self, problems: list[str]) -> None:
        self.refused = f"input topics are not read: {'; '.join(problems)}" if problems else None
        if self.refused is not None:
            log.error("%s", self.refused)
