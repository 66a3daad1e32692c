"""A batch in the worker: its messages by partition, masking, and writing to a transaction.

No I/O: ``TransactionWriter`` is given a function that sends messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from operator import methodcaller
from typing import NamedTuple

from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ParameterError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.messages import block_key, encode_block, encode_rejection
from stream_masker.pipeline.reasons import Reason, RejectionCause, by_reason
from stream_masker.pipeline.records import Block, Inputs, Rejected, Result
from stream_masker.pipeline.runs import GroupTooSmallError
from stream_masker.pipeline.seal import TopicSeal
from stream_masker.service.kafka.messages import (
    KafkaMessage,
    OutgoingMessage,
    Partition,
    SendMessages,
    bytes_of,
    headers_of,
    outgoing_messages,
)
from stream_masker.service.worker.refusals import RefusedRecords

CALIBRATION_PARTITION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The limits of a batch: at most ``records`` (≥ 1) and ``size`` bytes (≥ 1); ``delay`` (≥ 0): the seconds from its
    first record until it may end with fewer."""

    records: int = 10_000
    size: int = 16_777_216
    delay: float = 0.0

    def __post_init__(self) -> None:
        if self.records < 1 or self.size < 1 or self.delay < 0:
            raise ParameterError("a batch needs limits of at least 1 record and 1 byte, and no negative delay")


class MessageBatch:
    """Messages by partition, in the order of their offsets. ``size``: their bytes with keys and headers.

    ``mean_size``: the expected bytes of a message while the batch is empty.
    """

    def __init__(self, limits: BatchLimits, *, mean_size: int = 10_000) -> None:
        self._limits = limits
        self._expected_size = mean_size
        self._messages: dict[Partition, list[KafkaMessage]] = {}
        self._ends: dict[Partition, list[int]] = {}
        self.records = 0
        self.size = 0

    @property
    def partitions(self) -> Mapping[Partition, Sequence[KafkaMessage]]:
        return self._messages

    @property
    def full(self) -> bool:
        return self.records >= self._limits.records or self.size >= self._limits.size

    @property
    def half_full(self) -> bool:
        return 2 * self.records >= self._limits.records or 2 * self.size >= self._limits.size

    @property
    def room(self) -> int:
        """How many more messages fit, by number and by bytes at the mean size; at least 1."""
        return max(1, min(self._limits.records - self.records, (self._limits.size - self.size) // self.mean_size))

    @property
    def mean_size(self) -> int:
        """The mean bytes of a message, at least 1; the expected ones while the batch is empty."""
        return max(1, self.size // self.records if self.records else self._expected_size)

    def add(self, messages: Sequence[KafkaMessage], *, partitions: Collection[Partition]) -> None:
        """Append the messages of these partitions; ignore those of others."""
        for partition, added in runs_by_partition(messages):
            if partition in partitions:
                self._messages.setdefault(partition, []).extend(added)
                self.size += bytes_of(added)
        self.records = sum(map(len, self._messages.values()))

    def add_group(self, messages: Sequence[KafkaMessage], *, partition: Partition) -> None:
        """Append messages of one partition as a group, which is masked separately from earlier messages."""
        self.add(messages, partitions=[partition])
        self._ends.setdefault(partition, []).append(len(self._messages[partition]))

    def groups(self, partition: Partition) -> Iterator[Sequence[KafkaMessage]]:
        """Yield the groups of a partition; one group of all its messages if none was added."""
        messages = self._messages[partition]
        ends = self._ends.get(partition, [len(messages)])
        return (messages[start:end] for start, end in pairwise([0, *ends]))

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Remove the messages of these partitions."""
        for partition in partitions:
            if partition in self._messages:
                self.remove_from(partition, 0)

    def remove_from(self, partition: Partition, start: int) -> list[KafkaMessage]:
        """Remove and return the messages of a partition from index ``start`` on."""
        removed = self._messages[partition][start:]
        del self._messages[partition][start:]
        self._ends[partition] = [end for end in self._ends.pop(partition, [start]) if end <= start]
        if not start:
            del self._messages[partition], self._ends[partition]
        self.records -= len(removed)
        self.size -= bytes_of(removed)
        return removed

    def next_offsets(self) -> dict[Partition, int]:
        """Return the offset after the last message, by partition."""
        return {partition: messages[-1].offset() + 1 for partition, messages in self._messages.items()}

    def first_offsets(self) -> dict[Partition, int]:
        """Return the offset of the first message, by partition."""
        return {partition: messages[0].offset() for partition, messages in self._messages.items()}


def earliest_offsets(batches: Iterable[MessageBatch]) -> dict[Partition, int]:
    """Return the first offset of each partition in any of the batches."""
    first: dict[Partition, int] = {}
    for batch in batches:
        for partition, offset in batch.first_offsets().items():
            first[partition] = min(offset, first.get(partition, offset))
    return first


def runs_by_partition(messages: Sequence[KafkaMessage]) -> Iterator[tuple[Partition, Sequence[KafkaMessage]]]:
    """Yield consecutive messages of one partition, with the partition."""
    start, partitions = 0, zip(map(_read_topic, messages), map(_read_partition, messages), strict=True)
    for (topic, number), run in groupby(partitions):
        end = start + len(list(run))
        yield Partition(topic, number), messages[start:end]
        start = end


_read_topic: Callable[[KafkaMessage], str] = methodcaller("topic")
_read_partition: Callable[[KafkaMessage], int] = methodcaller("partition")


def to_inputs(messages: Sequence[KafkaMessage], *, headers: bool) -> Inputs:
    """Convert messages to columns for the record masker; ``headers``: whether to read their headers."""
    columns = list(map(headers_of, messages)) if headers else ()
    return Inputs(
        offsets=[message.offset() for message in messages],
        values=[message.value() for message in messages],
        keys=[message.key() for message in messages],
        timestamps=[message.timestamp()[1] for message in messages],
        headers=columns,
    )


def never_hold(_: Sequence[KafkaMessage]) -> bool:
    """Hold no group that is too small."""
    return False


class GroupShortfall(NamedTuple):
    """A group that is too small: its first index among the partition's messages, its size, and the records it lacks."""

    start: int
    size: int
    lacking: int


@dataclass(slots=True)
class MaskedBatches:
    """A masked batch by partition: the result, and the first group that is too small.

    The messages of that group and those after it are in no result.
    """

    results: dict[Partition, Result] = field(default_factory=dict)
    shortfalls: dict[Partition, GroupShortfall] = field(default_factory=dict)


def mask_batch(
    masker_of: Callable[[str], RecordMasker],
    batch: MessageBatch,
    *,
    statistics_version: int,
    may_hold: Callable[[Sequence[KafkaMessage]], bool] = never_hold,
) -> MaskedBatches:
    """Mask a batch: all records of a topic at once, or group by group if the mechanism masks groups.

    ``masker_of`` returns the masker of a topic. ``may_hold`` tells whether a group that is too small may wait for more
    messages; if not, its records are rejected.
    """
    masked = MaskedBatches()
    topics: dict[str, list[Partition]] = {}
    for partition in batch.partitions:
        topics.setdefault(partition.topic, []).append(partition)
    for topic, partitions in topics.items():
        masker = masker_of(topic)
        if masker.needs_group:
            _mask_groups(masker, batch, partitions, masked, statistics_version, may_hold)
            continue
        messages = {partition.number: batch.partitions[partition] for partition in partitions}
        inputs = {number: to_inputs(m, headers=masker.reads_headers) for number, m in messages.items()}
        results = masker.mask_all(topic, inputs, statistics_version=statistics_version)
        masked.results.update({Partition(topic, number): result for number, result in results.items()})
    return masked


def _mask_groups(
    masker: RecordMasker,
    batch: MessageBatch,
    partitions: Iterable[Partition],
    masked: MaskedBatches,
    version: int,
    may_hold: Callable[[Sequence[KafkaMessage]], bool],
) -> None:
    for partition in partitions:
        results, start = [], 0
        for messages in batch.groups(partition):
            records, hold = to_inputs(messages, headers=masker.reads_headers), may_hold(messages)
            try:
                result = masker.mask(*partition, records, statistics_version=version, hold=hold)
            except GroupTooSmallError as error:
                masked.shortfalls[partition] = GroupShortfall(start, len(messages), error.lacking)
                break
            results.append(result)
            start += len(messages)
        if results:
            masked.results[partition] = Result.joined(results)


@dataclass(slots=True)
class TransactionCounts:
    """The numbers of records and blocks in a transaction. None of them depends on the masks of a record.

    ``causes``: the numbers of rejected records by reason and configured path. ``emptied``: the values that a treatment
    of ``fields`` could not treat and removed. ``suppressed``: the unknown codes that were removed, by attribute.
    """

    masked: int = 0
    tombstones: int = 0
    causes: Counter[RejectionCause] = field(default_factory=Counter)
    blocks: int = 0
    blocks_left_out: int = 0
    emptied: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)

    @property
    def records(self) -> int:
        return self.masked + self.tombstones + self.causes.total()

    @property
    def rejected(self) -> dict[str, int]:
        """The numbers of rejected records by reason."""
        return by_reason(self.causes)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopics:
    """The topics that a worker writes the records of one input topic to, and what it needs to encode their blocks.

    ``rejected_partitions``: partitions of the topic of rejections; a rejection goes to its record's partition modulo
    this number. ``seal``: of the calibration topic. ``configuration``: the hash of the configuration. ``secret_id``: of
    the masking secret. ``taxonomies``, ``numeric``, ``context``: as for ``encode_block``.
    """

    input: str
    output: str
    rejected: str
    calibration: str
    rejected_partitions: int
    seal: TopicSeal
    taxonomies: Mapping[str, Taxonomy]
    configuration: str
    secret_id: str | None = None
    numeric: Sequence[str] = ()
    context: str = ""


class TransactionWriter:
    """Sends the results of one batch and counts them in ``written``.

    ``outputs``: by input topic. ``refused``: the records that are rejected because an output has refused them.
    """

    def __init__(
        self,
        outputs: Callable[[str], OutputTopics],
        send: SendMessages,
        written: TransactionCounts,
        refused: RefusedRecords,
    ) -> None:
        self._outputs = outputs
        self._send = send
        self._written = written
        self._refused = refused

    def write(self, results: Mapping[Partition, Result]) -> None:
        """Send every outcome in order, and every block."""
        for partition, given in results.items():
            outputs = self._outputs(partition.topic)
            result = self._refused.without(partition, given)
            self._write_outcomes(outputs, partition, result)
            for block in result.blocks:
                self._write_block(outputs, block)

    def _write_outcomes(self, outputs: OutputTopics, partition: Partition, result: Result) -> None:
        number = partition.number
        masked = [index for index in range(len(result.offsets)) if index not in result.rejected]
        watch = self._refused.watch(partition, [result.offsets[index] for index in masked])
        too_large = [masked[k] for k in self._send(outputs.output, number, outgoing_messages(result), watch)]
        rejected = {**result.rejected, **{i: Rejected(result.offsets[i], Reason.TOO_LARGE) for i in too_large}}
        self._reject(outputs, number, [rejected[index] for index in sorted(rejected)])
        tombstones = sum(result.values[index] is None for index in masked if index not in rejected)
        self._written.tombstones += tombstones
        self._written.emptied += sum(result.emptied.values())
        self._written.suppressed.update(result.suppressed)
        self._written.masked += len(result.offsets) - len(rejected) - tombstones

    def _reject(self, outputs: OutputTopics, partition: int, rejected: Sequence[Rejected]) -> None:
        topic = outputs.input
        values = [encode_rejection(rejection, topic=topic, partition=partition) for rejection in rejected]
        keys = [f"{topic}:{partition}:{rejection.offset}".encode() for rejection in rejected]
        messages: list[OutgoingMessage] = [(value, key, 0, []) for value, key in zip(values, keys, strict=True)]
        self._send(outputs.rejected, partition % outputs.rejected_partitions, messages)
        self._written.causes.update((str(rejection.reason), rejection.field) for rejection in rejected)

    def _write_block(self, outputs: OutputTopics, counted: Block) -> None:
        block = replace(counted, secret_id=outputs.secret_id)
        names = {"configuration": outputs.configuration, "context": outputs.context}
        value, key = encode_block(block, outputs.taxonomies, numeric=outputs.numeric, **names), block_key(block)
        messages: list[OutgoingMessage] = [(outputs.seal.seal(key, value), key, 0, [])]
        left_out = len(self._send(outputs.calibration, CALIBRATION_PARTITION, messages))
        self._written.blocks += 1 - left_out
        self._written.blocks_left_out += left_out
