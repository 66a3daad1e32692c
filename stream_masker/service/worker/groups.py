"""Batches of messages, the micro-windows of mechanisms that mask groups, and how both are masked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import methodcaller

from confluent_kafka import Message

from stream_masker.pipeline.masker import GroupTooSmallError, RecordMasker
from stream_masker.pipeline.records import Header, Inputs, Result

MAX_GROWTH = 10
"""A group that is still too small is held up to this multiple of its number of records, or up to a batch's bytes."""

UNREADABLE = b"\xff"
"""Replaces the value of a message whose headers cannot be read, so that it is rejected as not UTF-8."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most ``records`` and bytes (``size``) of a batch, and the least seconds from its first record (``delay``)."""

    records: int
    size: int
    delay: float = 0.0


@dataclass(slots=True)
class Batch:
    """Groups of messages by partition, in the order of their offsets; one group each unless the mechanism masks groups.

    ``revoked``: a partition of the batch has been revoked, so it must not be committed.
    """

    groups: dict[int, list[list[Message]]] = field(default_factory=dict)
    revoked: bool = False

    def first_offsets(self) -> dict[int, int]:
        """Return the offset of the first message, by partition."""
        return {partition: groups[0][0].offset() for partition, groups in self.groups.items()}

    def next_offsets(self) -> dict[int, int]:
        """Return the offset after the last message, by partition."""
        return {partition: groups[-1][-1].offset() + 1 for partition, groups in self.groups.items()}

    def revoke(self, partitions: Iterable[int]) -> None:
        """Remove the messages of revoked partitions."""
        for partition in partitions:
            self.revoked |= self.groups.pop(partition, None) is not None


def mask_batch(masker: RecordMasker, topic: str, batch: Batch, version: int) -> dict[int, Result]:
    """Mask the records of all partitions at once; ``version``: of the statistics."""
    inputs = {partition: to_inputs(groups[0], masker) for partition, groups in batch.groups.items()}
    return masker.mask_all(topic, inputs, statistics_version=version)


def to_inputs(messages: Sequence[Message], masker: RecordMasker) -> Inputs:
    """Convert messages to columns for the record masker; their headers only if it reads them."""
    return Inputs(
        offsets=[message.offset() for message in messages],
        values=[message.value() for message in messages],
        keys=[message.key() for message in messages],
        timestamps=[message.timestamp()[1] for message in messages],
        headers=list(map(headers_of, messages)) if masker.reads_headers else (),
    )


def headers_of(message: Message) -> Sequence[Header]:
    """Return a message's headers. If a header name is not UTF-8, remove the headers and replace the value.

    confluent-kafka raises an error for such headers at the first call; later calls return a list that crashes its
    reader. With ``methodcaller`` the interpreter detects the error at once; with a specialised method call it does not.
    """
    try:
        return _read_headers(message) or ()
    except (SystemError, UnicodeDecodeError):
        message.set_headers([])
        if message.value() is not None:
            message.set_value(UNREADABLE)
        return ()


_read_headers: Callable[[Message], list[Header] | None] = methodcaller("headers")


def bytes_of(messages: Sequence[Message]) -> int:
    """Return the bytes of the keys, values and headers of messages: each can be as large as the topic allows."""
    keys = filter(None, map(_read_key, messages))
    headers = chain.from_iterable(map(headers_of, messages))
    contents = sum(len(name) + len(content or b"") for name, content in headers)
    return sum(map(len, messages)) + sum(map(len, keys)) + contents


_read_key: Callable[[Message], bytes | None] = methodcaller("key")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The limits of a group: ``records`` (≥ 1), ``size`` in bytes (≥ 1), ``delay`` in seconds (> 0)."""

    records: int
    size: int
    delay: float

    def may_hold(self, group: Sequence[Message]) -> bool:
        """Return whether a group that is too small may wait for more messages."""
        return len(group) < MAX_GROWTH * self.records and bytes_of(group) < self.size


@dataclass(slots=True)
class _Window:
    """The open window of one partition. ``due``: when its delay ends; ``minimum``: messages that complete it."""

    due: float
    minimum: int
    messages: list[Message] = field(default_factory=list)
    size: int = 0

    def add(self, messages: Sequence[Message]) -> None:
        self.messages.extend(messages)
        self.size += bytes_of(messages)


class MicroWindows:
    """Collects the records of each partition in a window, and releases the groups that are complete.

    Records in a window are not committed, so they are read again after a crash. ``minimum`` returns the smallest number
    of records that can be masked together. ``now``: seconds of a monotonic clock.
    """

    def __init__(self, limits: GroupLimits, minimum: Callable[[], int]) -> None:
        self._limits, self._minimum = limits, minimum
        self._windows: dict[int, _Window] = {}

    def add(self, batch: Batch, now: float) -> None:
        """Add the messages of a batch to the windows of their partitions."""
        for partition, groups in batch.groups.items():
            for messages in groups:
                self._window(partition, now).add(messages)

    def drop(self, partitions: Iterable[int]) -> None:
        """Forget the windows of partitions that are revoked or read again."""
        for partition in partitions:
            self._windows.pop(partition, None)

    def take(self, now: float) -> Batch:
        """Return the groups that are complete. Messages after a full group start the next window."""
        batch = Batch()
        for partition in list(self._windows):
            while (window := self._windows.get(partition)) and self._is_complete(window, now):
                batch.groups.setdefault(partition, []).append(self._release(partition, window, now))
        return batch

    def mask(self, masker: RecordMasker, topic: str, batch: Batch, version: int, now: float) -> dict[int, Result]:
        """Mask the groups of a batch. One that is too small returns to its window, with the groups after it."""
        results: dict[int, Result] = {}
        for partition, groups in [*batch.groups.items()]:
            masked: list[Result] = []
            for group in groups:
                inputs, hold = to_inputs(group, masker), self._limits.may_hold(group)
                try:
                    masked.append(masker.mask(topic, partition, inputs, statistics_version=version, hold=hold))
                except GroupTooSmallError as error:
                    self._put_back(partition, groups[len(masked) :], error.lacking, now)
                    break
            if masked:
                results[partition], batch.groups[partition] = Result.joined(masked), groups[: len(masked)]
            else:
                del batch.groups[partition]
        return results

    def _put_back(self, partition: int, groups: Sequence[list[Message]], lacking: int, now: float) -> None:
        """Return groups to their window. It is complete when the first one has grown by the records that it lacks, and
        by at least a tenth: each attempt to mask it has a cost."""
        later, size = self._windows.pop(partition, None), len(groups[0])
        window = self._windows[partition] = _Window(now, size + max(1, lacking, size // MAX_GROWTH))
        for messages in [*groups, *([later.messages] if later else [])]:
            window.add(messages)

    def _window(self, partition: int, now: float) -> _Window:
        return self._windows.setdefault(partition, _Window(now + self._limits.delay, self._minimum()))

    def _is_complete(self, window: _Window, now: float) -> bool:
        """Return whether a window is full, or its delay is over and it need not wait for more records."""
        limits, count = self._limits, len(window.messages)
        if count >= MAX_GROWTH * limits.records or window.size >= limits.size:
            return True
        if count >= max(limits.records, window.minimum):
            return True
        return now >= window.due and count >= window.minimum

    def _release(self, partition: int, window: _Window, now: float) -> list[Message]:
        del self._windows[partition]
        count = max(self._limits.records, window.minimum) if window.size < self._limits.size else len(window.messages)
        if window.messages[count:]:
            self._window(partition, now).add(window.messages[count:])
        return window.messages[:count]
