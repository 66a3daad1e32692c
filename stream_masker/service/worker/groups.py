"""The micro-windows of mechanisms that mask groups of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from confluent_kafka import Message

from stream_masker.pipeline.masker import GroupTooSmallError, RecordMasker, joined_columns
from stream_masker.pipeline.records import Result
from stream_masker.service.worker.source import Limits, bytes_of, to_inputs

MAX_GROWTH = 10
"""A group that is still too small is held up to this multiple of its number of records, or up to a batch's bytes."""


@dataclass(slots=True)
class _Window:
    """The open window of one partition. ``due``: when its delay ends; ``minimum``: messages that complete it."""

    messages: list[Message]
    due: float
    minimum: int


class MicroWindows:
    """Collects the records of each partition in a window, and masks the groups that are complete.

    Records in a window are not committed, so they are read again after a crash. ``minimum`` returns the smallest number
    of records that can be masked together.
    """

    def __init__(self, limits: Limits, minimum: Callable[[], int]) -> None:
        self._limits, self._minimum = limits, minimum
        self._windows: dict[int, _Window] = {}

    def drop(self, partitions: Iterable[int]) -> None:
        """Forget the records of partitions that are revoked or read again."""
        for partition in partitions:
            self._windows.pop(partition, None)

    def mask(
        self, masker: RecordMasker, topic: str, messages: Mapping[int, list[Message]], version: int, now: float
    ) -> dict[int, Result]:
        """Add messages to the windows of their partitions; return the results of the groups that are complete.

        ``messages`` and results: by partition. ``now``: seconds of a monotonic clock. A group that the mechanism
        refuses as too small stays in its window, until it has ten times the records of a group, or as many bytes as a
        group may have.
        """
        for partition, new in messages.items():
            window = self._windows.setdefault(partition, self._window([], now))
            window.messages.extend(new)
        masked = {p: [*self._mask_window(masker, topic, p, version, now)] for p in list(self._windows)}
        return {partition: _joined(results) for partition, results in masked.items() if results}

    def _window(self, messages: list[Message], now: float) -> _Window:
        return _Window(messages, now + self._limits.delay, self._minimum())

    def _mask_window(
        self, masker: RecordMasker, topic: str, partition: int, version: int, now: float
    ) -> Iterable[Result]:
        """Yield the results of the groups of a partition. The messages after a group start the next window.

        One that is too small is complete when it has grown by the records that it lacks, and by at least a tenth: each
        attempt to mask it has a cost.
        """
        window = self._windows[partition]
        while count := self._complete(window, now):
            group = window.messages[:count]
            hold = len(group) < MAX_GROWTH * self._limits.records and bytes_of(group) < self._limits.size
            inputs = to_inputs(group, masker)
            try:
                result = masker.mask(topic, partition, inputs, statistics_version=version, hold=hold)
            except GroupTooSmallError as error:
                window.due, window.minimum = now, count + max(1, error.lacking, count // MAX_GROWTH)
            else:
                window = self._windows[partition] = self._window(window.messages[count:], now)
                yield result
        if not window.messages:
            del self._windows[partition]

    def _complete(self, window: _Window, now: float) -> int:
        """Return the number of the first messages of a window that are a complete group; 0 if it waits for more."""
        limits, count = self._limits, len(window.messages)
        full = max(limits.records, window.minimum)
        if count >= full:
            return full
        if count >= MAX_GROWTH * limits.records or bytes_of(window.messages) >= limits.size:
            return count
        return count if now >= window.due and count >= window.minimum else 0


def _joined(parts: Sequence[Result]) -> Result:
    """Return the result of consecutive records that were masked separately."""
    if len(parts) == 1:
        return parts[0]
    return Result(
        **joined_columns(parts),
        rejected=dict(chain.from_iterable(part.rejected.items() for part in parts)),
        blocks=list(chain.from_iterable(part.blocks for part in parts)),
        tally=sum((part.tally for part in parts), Counter()),
    )
