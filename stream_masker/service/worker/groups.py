"""Messages as the record masker's input, and the micro-windows of mechanisms that mask groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
class Limits:
    """The most ``records`` and bytes (``size``) of a batch or a group, both at least 1, and the ``delay`` in seconds
    from its first record before which it ends only at one of them."""

    records: int
    size: int
    delay: float = 0.0


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
        refuses as too small stays in its window, until it is too large to be held.
        """
        for partition, new in messages.items():
            window = self._windows.setdefault(partition, self._window([], now))
            window.messages.extend(new)
        masked = {p: [*self._mask_window(masker, topic, p, version, now)] for p in list(self._windows)}
        return {partition: Result.joined(results) for partition, results in masked.items() if results}

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
