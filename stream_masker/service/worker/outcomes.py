"""What a batch becomes on the output topics: masked records, rejections, and blocks of counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TypeAlias

from stream_masker.core.ontology import Taxonomy
from stream_masker.pipeline.messages import block_key, encode_block, encode_rejection
from stream_masker.pipeline.reasons import Reason, RejectionCause, by_reason
from stream_masker.pipeline.records import Block, Header, Rejected, Result
from stream_masker.pipeline.seal import TopicSeal
from stream_masker.service.kafka.messages import Partition

CALIBRATION_PARTITION = 0

OutgoingMessage: TypeAlias = tuple[bytes | None, bytes | None, int, list[Header]]
"""A message: value, key, timestamp in milliseconds (0: now), headers."""

SendMessages: TypeAlias = Callable[[str, int, Iterable[OutgoingMessage]], list[int]]
"""Sends messages to a partition of a topic; returns the indices of those that are too large, which are not sent."""


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
    this number. ``seal``: of the calibration topic. ``secret_id``: of the masking secret. ``configuration``: its hash.
    """

    input: str
    output: str
    rejected: str
    calibration: str
    rejected_partitions: int
    seal: TopicSeal
    taxonomies: Mapping[str, Taxonomy]
    secret_id: str
    configuration: str
    numeric: Sequence[str] = ()
    context: str = ""


def send_outcomes(
    results: Mapping[Partition, Result], outputs_of: Callable[[str], OutputTopics], send: SendMessages
) -> TransactionCounts:
    """Send every outcome in order, and every block; return their numbers. ``outputs_of``: by input topic."""
    counts = TransactionCounts()
    for partition, result in results.items():
        outputs = outputs_of(partition.topic)
        _send_records(outputs, partition.number, result, counts, send)
        for block in result.blocks:
            _send_block(outputs, block, counts, send)
    return counts


def _send_records(
    outputs: OutputTopics, number: int, result: Result, counts: TransactionCounts, send: SendMessages
) -> None:
    masked = [index for index in range(len(result.offsets)) if index not in result.rejected]
    too_large = [masked[k] for k in send(outputs.output, number, outgoing_messages(result))]
    rejected = {**result.rejected, **{i: Rejected(result.offsets[i], Reason.TOO_LARGE) for i in too_large}}
    _send_rejections(outputs, number, [rejected[index] for index in sorted(rejected)], send)
    tombstones = sum(result.values[index] is None for index in masked if index not in rejected)
    counts.tombstones += tombstones
    counts.masked += len(result.offsets) - len(rejected) - tombstones
    counts.causes.update((str(rejection.reason), rejection.field) for rejection in rejected.values())
    counts.emptied += sum(result.emptied.values())
    counts.suppressed.update(result.suppressed)


def _send_rejections(outputs: OutputTopics, partition: int, rejected: Sequence[Rejected], send: SendMessages) -> None:
    topic = outputs.input
    values = [encode_rejection(rejection, topic=topic, partition=partition) for rejection in rejected]
    keys = [f"{topic}:{partition}:{rejection.offset}".encode() for rejection in rejected]
    messages: list[OutgoingMessage] = [(value, key, 0, []) for value, key in zip(values, keys, strict=True)]
    send(outputs.rejected, partition % outputs.rejected_partitions, messages)


def _send_block(outputs: OutputTopics, counted: Block, counts: TransactionCounts, send: SendMessages) -> None:
    block, names = replace(counted, secret_id=outputs.secret_id), (outputs.configuration, outputs.context)
    value = encode_block(block, outputs.taxonomies, configuration=names[0], numeric=outputs.numeric, context=names[1])
    key = block_key(block)
    too_large = send(outputs.calibration, CALIBRATION_PARTITION, [(outputs.seal.seal(key, value), key, 0, [])])
    counts.blocks += 1 - len(too_large)
    counts.blocks_left_out += len(too_large)


def outgoing_messages(result: Result) -> Iterable[OutgoingMessage]:
    """Return a result's records as messages, without the rejected ones. A missing timestamp becomes 0 (now)."""
    times = result.timestamps
    if min(times, default=0) < 0:
        times = [max(0, time) for time in times]
    messages = zip(result.values, result.keys, times, result.headers, strict=True)
    rejected = result.rejected
    return compress(messages, (index not in rejected for index in range(len(times)))) if rejected else messages


def outgoing_message(result: Result, index: int) -> OutgoingMessage:
    """Return one record of a result as a message."""
    return result.values[index], result.keys[index], max(0, result.timestamps[index]), result.headers[index]
