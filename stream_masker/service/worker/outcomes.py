"""What a batch becomes on the output topics: masked records, rejections, and blocks of counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, TypeAlias

from stream_masker.pipeline.messages import encode_rejection
from stream_masker.pipeline.reasons import Reason, RejectionCause
from stream_masker.pipeline.records import COLUMNS, Block, Header, Rejected, Result
from stream_masker.service.kafka.messages import Partition

CALIBRATION_PARTITION = 0

OutgoingMessage: TypeAlias = tuple[bytes | None, bytes | None, int, list[Header]]
"""A message: value, key, timestamp in milliseconds (0: now), headers."""

SendMessages: TypeAlias = Callable[[str, int, Iterable[OutgoingMessage]], list[int]]
"""Sends messages to a partition of a topic; returns the indices of those that are too large, which are not sent."""


@dataclass(slots=True)
class TransactionCounts:
    """The numbers of records in a transaction: of all, and of the masked ones, without tombstones. None of them depends
    on the masks of a record.

    ``causes``: the numbers of rejected records by reason and configured path. ``emptied``: the values that a treatment
    of ``fields`` could not treat and removed. ``suppressed``, ``generalized``: the unknown codes that were removed, or
    masked as the concept that they begin with, by attribute.
    """

    records: int = 0
    masked: int = 0
    causes: Counter[RejectionCause] = field(default_factory=Counter)
    blocks_left_out: int = 0
    emptied: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)
    generalized: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: TransactionCounts) -> TransactionCounts:
        return TransactionCounts(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where the outcomes of one input topic go.

    ``rejected_partitions``: partitions of the topic of rejections; a rejection goes to its record's partition modulo
    this number. ``encode_block``: returns the key and the sealed value of a block.
    """

    input: str
    output: str
    rejected: str
    calibration: str
    rejected_partitions: int
    encode_block: Callable[[Block], tuple[bytes, bytes]]

    def send(self, partition: int, result: Result, send: SendMessages) -> TransactionCounts:
        """Send the outcomes of a partition's records in order, and their blocks; return their numbers."""
        masked = [index for index in range(len(result.offsets)) if index not in result.rejected]
        too_large = [masked[k] for k in send(self.output, partition, _messages(result))]
        rejected = {**result.rejected, **{i: Rejected(result.offsets[i], Reason.TOO_LARGE) for i in too_large}}
        rejections = [self._rejection(partition, rejected[index]) for index in sorted(rejected)]
        send(self.rejected, partition % self.rejected_partitions, rejections)
        blocks: list[OutgoingMessage] = [(value, key, 0, []) for key, value in map(self.encode_block, result.blocks)]
        left_out = len(send(self.calibration, CALIBRATION_PARTITION, blocks))
        tombstones = sum(result.values[index] is None for index in masked if index not in rejected)
        return TransactionCounts(
            records=len(result.offsets),
            masked=len(result.offsets) - len(rejected) - tombstones,
            causes=Counter((str(rejection.reason), rejection.field) for rejection in rejected.values()),
            blocks_left_out=left_out,
            emptied=sum(result.emptied.values()),
            suppressed=Counter(result.suppressed),
            generalized=Counter(result.generalized),
        )

    def _rejection(self, partition: int, rejected: Rejected) -> OutgoingMessage:
        key = f"{self.input}:{partition}:{rejected.offset}".encode()
        return encode_rejection(rejected, topic=self.input, partition=partition), key, 0, []


def _messages(result: Result) -> Iterable[OutgoingMessage]:
    """Return a result's records as messages, without the rejected ones. A missing timestamp becomes 0 (now)."""
    times = result.timestamps
    if min(times, default=0) < 0:
        times = [max(0, time) for time in times]
    messages = zip(result.values, result.keys, times, result.headers, strict=True)
    rejected = result.rejected
    return compress(messages, (index not in rejected for index in range(len(times)))) if rejected else messages


def halves(results: Mapping[Partition, Result]) -> list[dict[Partition, Result]]:
    """Return the first and the second half of a batch's records; the blocks are with the last records."""
    middle = sum(len(result.offsets) for result in results.values()) // 2
    parts: list[dict[Partition, Result]] = [{}, {}]
    for partition, result in results.items():
        size = len(result.offsets)
        cut = min(max(middle, 0), size)
        middle -= size
        for part, start, end in ((parts[0], 0, cut), (parts[1], cut, size)):
            if start < end:
                part[partition] = _slice(result, start, end)
    return parts


def _slice(result: Result, start: int, end: int) -> Result:
    """Return the records ``start`` to ``end`` (exclusive) of a result; its last part has the blocks and counts."""
    changes: dict[str, Any] = {name: getattr(result, name)[start:end] for name in COLUMNS}
    changes["rejected"] = {index - start: one for index, one in result.rejected.items() if start <= index < end}
    if end < len(result.offsets):
        changes |= {"blocks": (), "emptied": {}, "suppressed": {}, "generalized": {}}
    return replace(result, **changes)


def reduced(results: Mapping[Partition, Result], reason: Reason) -> dict[Partition, Result] | None:
    """Return a refused batch of one record with less to write: without its blocks, else as a rejection; else None."""
    [(partition, result)] = results.items()
    if result.blocks:
        return {partition: replace(result, blocks=())}
    if result.rejected:
        return None
    return {partition: replace(result, rejected={0: Rejected(result.offsets[0], reason)})}
