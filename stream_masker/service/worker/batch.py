"""A batch on its way through the worker: gathered by partition, masked, written. No I/O: the sending is passed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, groupby, pairwise
from operator import methodcaller
from typing import NamedTuple, Protocol

from stream_masker.core.batch import Tally
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ParameterError
from stream_masker.pipeline.groups import GroupTooSmallError
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Block, Header, Inputs, Rejected, Result
from stream_masker.pipeline.wire.messages import block_key, encode_block, encode_rejection
from stream_masker.service.kafka.transactional_producer import OutgoingMessage, SendMessages

CALIBRATION_PARTITION = 0


class KafkaMessage(Protocol):
    """What is used of ``confluent_kafka.Message``."""

    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> list[Header] | None: ...
    def set_value(self, value: bytes) -> None: ...
    def set_headers(self, headers: list[Header]) -> None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """When a batch is complete: at ``records`` (≥ 1), at ``size`` bytes of values (≥ 1), after ``delay`` seconds."""

    records: int = 10_000
    size: int = 16_777_216
    delay: float = 0.5

    def __post_init__(self) -> None:
        if self.records < 1 or self.size < 1 or self.delay <= 0:
            raise ParameterError("a batch holds at least 1 record and 1 byte, and waits longer than 0 s")


class MessageBatch:
    """Messages read and not yet masked, by partition, in order; ``mean``: bytes of a message to expect."""

    def __init__(self, limits: BatchLimits, *, mean: int = 10_000) -> None:
        self._limits = limits
        self._expected = mean
        self._messages: dict[int, list[KafkaMessage]] = {}
        self._ends: dict[int, list[int]] = {}
        self.records = 0
        self.size = 0

    @property
    def partitions(self) -> Mapping[int, Sequence[KafkaMessage]]:
        return self._messages

    @property
    def full(self) -> bool:
        return self.records >= self._limits.records or self.size >= self._limits.size

    @property
    def room(self) -> int:
        """How many more messages to ask for: what the bytes leave at the mean size; at least 1."""
        return max(1, min(self._limits.records - self.records, (self._limits.size - self.size) // self.mean))

    @property
    def mean(self) -> int:
        """Bytes of a message, at least 1: what was expected while there are none."""
        return max(1, self.size // self.records if self.records else self._expected)

    def add(self, messages: Iterable[KafkaMessage], *, partitions: Collection[int]) -> None:
        """Takes messages of these partitions, which follow the earlier ones of their partition; passes over others."""
        taken = self._messages
        for partition, run in groupby(messages, methodcaller("partition")):
            if partition in partitions:
                some = list(run)
                taken.setdefault(partition, []).extend(some)
                self.size += sum(map(len, some))
        self.records = sum(map(len, taken.values()))

    def add_group(self, messages: Sequence[KafkaMessage], *, partition: int) -> None:
        """Takes messages of one partition that are to be masked together, and apart from those before them."""
        self.add(messages, partitions=[partition])
        self._ends.setdefault(partition, []).append(len(self._messages[partition]))

    def groups(self, partition: int) -> Iterator[Sequence[KafkaMessage]]:
        """The messages of a partition by groups; all in one where there are no groups."""
        messages = self._messages[partition]
        ends = self._ends.get(partition, [len(messages)])
        return (messages[start:end] for start, end in pairwise([0, *ends]))

    def drop(self, partitions: Iterable[int]) -> None:
        """Forgets what came from these partitions: they are, or may be, somebody else's now."""
        for partition in partitions:
            if partition in self._messages:
                self.take_out(partition, 0)

    def take_out(self, partition: int, start: int) -> list[KafkaMessage]:
        """The messages of a partition from an index on, which are no longer of this batch."""
        taken = self._messages[partition][start:]
        del self._messages[partition][start:]
        self._ends[partition] = [end for end in self._ends.pop(partition, [start]) if end <= start]
        if not start:
            del self._messages[partition], self._ends[partition]
        self.records -= len(taken)
        self.size -= sum(map(len, taken))
        return taken

    def next_offsets(self) -> dict[int, int]:
        """The offset to go on from, of each partition."""
        return {partition: messages[-1].offset() + 1 for partition, messages in self._messages.items()}

    def first_offsets(self) -> dict[int, int]:
        """The offset that the batch starts with, of each partition."""
        return {partition: messages[0].offset() for partition, messages in self._messages.items()}


UNREADABLE = b"\xff"
"""What the value becomes of a message whose headers cannot be read: it is rejected as not UTF-8."""


def to_inputs(messages: Sequence[KafkaMessage], *, headers: bool) -> Inputs:
    """Messages as the record masker takes them; ``headers``: whether theirs are read at all."""
    named = list(map(headers_of, messages)) if headers else ()
    return Inputs(
        offsets=[message.offset() for message in messages],
        values=[message.value() for message in messages],
        keys=[message.key() for message in messages],
        timestamps=[message.timestamp()[1] for message in messages],
        headers=named,
    )


def headers_of(message: KafkaMessage) -> Sequence[Header]:
    """A message's headers; a message with a header's name that is not UTF-8 loses them, and its value.

    confluent-kafka gives an error for such headers the first time, and a list that crashes its reader from then on.
    ``methodcaller`` has the interpreter see the error at once, which the specialised call of a method does not.
    """
    try:
        return _read_headers(message) or ()
    except (SystemError, UnicodeDecodeError):
        message.set_headers([])
        if message.value() is not None:
            message.set_value(UNREADABLE)
        return ()


_read_headers: Callable[[KafkaMessage], list[Header] | None] = methodcaller("headers")


class Masker(Protocol):
    """What is used of ``pipeline.masker.RecordMasker``."""

    @property
    def reads_headers(self) -> bool: ...
    @property
    def needs_group(self) -> bool: ...
    def mask(self, topic: str, partition: int, records: Inputs, *, statistics_version: int, hold: bool) -> Result: ...
    def mask_all(self, topic: str, records: Mapping[int, Inputs], *, statistics_version: int) -> dict[int, Result]: ...


def never_hold(_: Sequence[KafkaMessage]) -> bool:
    """Holds nothing."""
    return False


class GroupShortfall(NamedTuple):
    """A group that is too small: where it starts among its partition's messages, how many it has, how many it lacks."""

    start: int
    size: int
    lacking: int


@dataclass(slots=True)
class MaskedBatches:
    """What came of a batch, by partition: the result, and the first group that is too small.

    That one's messages, and those behind them, are in no result.
    """

    results: dict[int, Result] = field(default_factory=dict)
    short: dict[int, GroupShortfall] = field(default_factory=dict)


def mask_batch(
    masker: Masker,
    topic: str,
    batch: MessageBatch,
    *,
    statistics_version: int,
    may_hold: Callable[[Sequence[KafkaMessage]], bool] = never_hold,
) -> MaskedBatches:
    """Masks a batch: all at once, or where the mechanism masks groups, group by group, each of one partition.

    ``may_hold``: whether messages that are too small a group may wait for more; if not, they are rejected.
    """
    if not masker.needs_group:
        inputs = {p: to_inputs(m, headers=masker.reads_headers) for p, m in batch.partitions.items()}
        return MaskedBatches(masker.mask_all(topic, inputs, statistics_version=statistics_version))
    done = MaskedBatches()
    for partition in batch.partitions:
        results, start = [], 0
        for messages in batch.groups(partition):
            records, hold = to_inputs(messages, headers=masker.reads_headers), may_hold(messages)
            try:
                result = masker.mask(topic, partition, records, statistics_version=statistics_version, hold=hold)
            except GroupTooSmallError as error:
                done.short[partition] = GroupShortfall(start, len(messages), error.lacking)
                break
            results.append(result)
            start += len(messages)
        if results:
            done.results[partition] = Result.joined(results)
    return done


@dataclass(slots=True)
class TransactionCounts:
    """What a transaction holds; ``tallies``: of each attribute."""

    masked: int = 0
    tombstones: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    blocks: int = 0
    blocks_left_out: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return self.masked + self.tombstones + self.rejected.total()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopics:
    """Where outcomes go. ``taxonomies``: by attribute, in their order; ``configuration``: its hash; ``numeric``: the
    numeric attributes' names.

    ``rejected_partitions``: of the topic of rejections; a rejection goes to its record's partition number, modulo it.
    """

    input: str
    output: str
    rejected: str
    calibration: str
    rejected_partitions: int
    taxonomies: Mapping[str, Taxonomy]
    configuration: str
    numeric: Sequence[str] = ()


class TransactionWriter:
    """Sends the outcomes of one batch, and counts them in ``written``."""

    def __init__(self, outputs: OutputTopics, send: SendMessages, written: TransactionCounts) -> None:
        self._to = outputs
        self._send = send
        self._written = written

    def write(self, results: Mapping[int, Result]) -> None:
        """Sends every outcome, in order, and every block."""
        for partition, result in results.items():
            self._write_outcomes(partition, result)
            for block in result.blocks:
                self._write_block(block)

    def _write_outcomes(self, partition: int, result: Result) -> None:
        masked = [index for index in range(len(result.offsets)) if index not in result.rejected]
        too_large = [masked[k] for k in self._send(self._to.output, partition, outgoing_messages(result))]
        rejected = {**result.rejected, **{i: Rejected(result.offsets[i], Reason.TOO_LARGE) for i in too_large}}
        self._reject(partition, [rejected[index] for index in sorted(rejected)])
        tombstones = sum(result.values[index] is None for index in masked if index not in rejected)
        self._written.tombstones += tombstones
        self._written.masked += len(result.offsets) - len(rejected) - tombstones

    def _reject(self, partition: int, rejected: Sequence[Rejected]) -> None:
        source = self._to.input
        values = [encode_rejection(one, topic=source, partition=partition) for one in rejected]
        keys = [f"{source}:{partition}:{one.offset}".encode() for one in rejected]
        messages: list[OutgoingMessage] = [(value, key, 0, []) for value, key in zip(values, keys, strict=True)]
        self._send(self._to.rejected, partition % self._to.rejected_partitions, messages)
        self._written.rejected.update(str(one.reason) for one in rejected)

    def _write_block(self, block: Block) -> None:
        to = self._to
        value = encode_block(block, to.taxonomies, configuration=to.configuration, numeric=to.numeric)
        left_out = len(self._send(to.calibration, CALIBRATION_PARTITION, [(value, block_key(block), 0, [])]))
        self._written.blocks += 1 - left_out
        self._written.blocks_left_out += left_out
        for attribute, tally in zip(self._to.taxonomies, block.tallies, strict=True):
            self._written.tallies[attribute] = self._written.tallies.get(attribute, Tally()) + tally


def outgoing_messages(result: Result) -> Iterable[OutgoingMessage]:
    """A result's records as messages, without those rejected; one without a time gets the present one."""
    times = result.timestamps
    if min(times, default=0) < 0:
        times = [max(0, time) for time in times]
    messages = zip(result.values, result.keys, times, result.headers, strict=True)
    rejected = result.rejected
    return compress(messages, (index not in rejected for index in range(len(times)))) if rejected else messages
